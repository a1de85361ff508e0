#!/bin/bash
# Ends of pipes opened again by name: /dev/stdin, /dev/fd/N, /proc/self/fd/N, /dev/stdout.
seq 1 20000 | cat /dev/stdin | tail -n 1; seq 3 | sort -r /proc/self/fd/0
echo x | tee /dev/stdout | cat; seq 4 | (cat </dev/fd/0)
seq 1 1000 | awk 'END { print NR > "/dev/stdout" }' | cat; echo y | (exec 3</dev/stdin; cat <&3)
true | (exec 4>/proc/self/fd/0 5<&0; echo through the same pipe >&4; read -r x <&5; echo "$x")
seq 1 100000 | tail -n 1 /dev/stdin; echo a | paste - /dev/stdin; wc -l /dev/fd/3 3< <(seq 7) | sed 's/ .*//'
