#!/bin/sh
# A report on a log: grep, cut, sort and awk with several passes over the same pipe's output.
# random kills
awk 'BEGIN { for (i = 0; i < 40000; i++) printf "host%d - - [%d] \"GET /p%d HTTP/1.1\" %d %d\n", i % 17, i, i % 101, i % 13 ? 200 : 500, i % 9973 }' >log
grep ' 500 ' log | cut -d' ' -f1 | sort | uniq -c | sort -k1,1rn -k2 | head -n 3
awk '{ s[$6] += $7 } END { for (p in s) print s[p], p }' log | sort -rn | head -n 3
cat log | grep -v host1 | sed 's/"//g' | awk '{ print $NF }' | sort -n | uniq | wc -l
