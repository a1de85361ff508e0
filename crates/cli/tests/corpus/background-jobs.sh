#!/bin/bash
# Background jobs with pipelines, wait for one, for any and for all, and their statuses.
(seq 1 100000 | tail -n 1 >a; exit 3) & one=$!
(seq 5 | cat >b; exit 4) & two=$!
wait $one; echo "$?"; wait $two; echo "$?"; cat a b
for i in 1 2 3; do (seq $((i * 10000)) | wc -l >c$i) & done; wait; cat c1 c2 c3
sleep 0 | (exit 6) & wait $!; echo "$?"
(exit 7) & wait $!; echo "$?"
yes >/dev/null & kill $!; wait $! 2>/dev/null; echo "$?"
rm a b c?
