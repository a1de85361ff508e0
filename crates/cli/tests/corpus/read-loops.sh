#!/bin/bash
# while read loops at each place of a pipeline, with variables that stay or do not.
# random kills
n=0; seq 1 3000 | while read -r x; do n=$((n + x)); done; echo "$n"
shopt -s lastpipe; seq 1 3000 | while read -r x; do n=$((n + x)); done; echo "$n"; shopt -u lastpipe
while read -r x; do echo "$x"; done < <(seq 1 2000) | tail -n 1
seq 1 5 | while read -r x; do echo "$x" | cat; done | paste -sd+
seq 1 4 | while read -r a; do read -r b; echo "$a-$b"; done
printf 'a:b:c\nno newline' | while IFS=: read -r x y || [ -n "$x" ]; do echo "[$x][$y]"; done
seq 10 | while read -r x; do [ "$x" = 3 ] && break; done; echo "${PIPESTATUS[*]}"
