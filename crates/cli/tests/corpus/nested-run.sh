#!/bin/bash
# millstream run inside millstream run, and next to programs that are not, on the same pipe.
# random kills
"$MILLSTREAM" run -c 'seq 1 100000 | tail -n 1'
seq 1 100000 | "$MILLSTREAM" run -- sh -c 'cat | cat' | tail -n 1
"$MILLSTREAM" run -- sh -c "yes | '$MILLSTREAM' run -- head -n 2; exit 3"; echo "$?"
"$MILLSTREAM" run --stats --stats-file stats -- sh -c 'seq 9 | cat; kill -TERM $$'; echo "$?"
[ -s stats ] && rm stats
"$MILLSTREAM" run -- "$MILLSTREAM" run -- "$MILLSTREAM" run --pipe-size 4K -c 'seq 1 50000 | wc -l'
seq 1 100000 | env -u LD_PRELOAD -u MILLSTREAM_RUN cat | "$MILLSTREAM" run -- cat | wc -l
