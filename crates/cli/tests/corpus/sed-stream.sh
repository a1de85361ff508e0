#!/bin/bash
# sed that quits early, unbuffered sed that leaves the rest of a pipe to others, sed that writes files and runs commands.
seq 1 100000 | sed -n '50000p;50000q'
seq 1 10 | (sed -u 3q; echo rest; cat)
seq 1 20 | sed -n -e '/[05]$/w fives' -e '$='
echo 'seq 3' | sed 's/.*/&/e'
seq 2 | sed 'r /dev/stdin' <(echo x) - | cat
