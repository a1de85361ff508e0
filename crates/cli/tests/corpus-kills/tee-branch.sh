#!/bin/bash
# One of the readers of a tee is killed: tee -p goes on with the others.
mkfifo p; { exec <p >/dev/null; echo $BASHPID >victim; exec cat; } & pid=$!
{ seq 1 400000; while kill -0 $pid 2>/dev/null; do sleep 0.005; done; } | tee --output-error=warn-nopipe p >out; echo "${PIPESTATUS[*]}"
seq 1 400000 | cksum; cksum <out
wait $pid; echo "$?"; rm p out victim
