#!/bin/bash
# Stages that are stopped and continued while bytes wait for them.
cat <(seq 1 500000) >out & pid=$!
for i in 1 2 3 4 5; do kill -STOP $pid 2>/dev/null; sleep 0.01; kill -CONT $pid 2>/dev/null; done
wait $pid; cksum <out; rm out
mkfifo p; (exec 3>p; for i in 1 2 3; do kill -STOP $BASHPID; seq $i $((i * 30000)); done >&3) & pid=$!
wc -l <p >count & for ((;;)); do kill -CONT $pid 2>/dev/null || break; sleep 0.005; done; wait; cat count
