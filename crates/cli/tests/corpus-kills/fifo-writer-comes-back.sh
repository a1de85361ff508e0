#!/bin/bash
# A writer of a FIFO is killed and another takes its place, twice; the reader sees one end of the stream for each.
mkfifo p
for i in 1 2; do
    { exec >p; echo $BASHPID >victim; exec yes $i; } & pid=$!
    tr -d "$i\n" <p | wc -c; wait $pid; echo "$?"
    [ $i = 1 ] && rm victim && { (until [ -s victim ]; do sleep 0.01; done; kill -KILL $(cat victim)) & }
done
wait; rm p victim
