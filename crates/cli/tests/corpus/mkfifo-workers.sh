#!/bin/bash
# A queue of work in a FIFO, three workers that take lines from it under a lock, results in another FIFO.
# needs: flock
mkfifo work results; exec 3<>work
for i in 1 2 3; do
    (exec 4>results 8>>lock
    while flock 8; read -r x; flock -u 8; [ "$x" != end ]; do echo "$((x * x))" >&4; done <work) &
done
(sort -n <results | cksum >sum) &
(seq 1 60; echo end; echo end; echo end) >&3
wait; cat sum; stat -c %F work results; rm lock
