#!/bin/bash
# xargs -P starts several at once on one pipe for their output: lines stay whole.
# random kills
seq 1 80 | xargs -P 4 -n 5 sh -c 'for i; do echo "line of $i"; done' sh | sort -k3n | cksum
seq 1 20 | xargs -P 3 -I{} sh -c 'exit $(({} % 2))'; echo "status $?"
seq 3 | xargs -n1 -a <(seq 7 9) echo got
