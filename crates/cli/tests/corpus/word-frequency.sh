#!/bin/sh
# The pipeline of Unix textbooks: words of a text by how often they occur.
# random kills
seq 1 60000 | sed 's/1/one /g; s/2/two /g; s/7/seven /g' >text
tr -cs 'a-z' '\n' <text | sort | uniq -c | sort -rn | head -n 5
tr ' ' '\n' <text | grep -v '^$' | sort -u | wc -l
