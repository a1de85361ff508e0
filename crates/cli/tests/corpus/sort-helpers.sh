#!/bin/bash
# sort that is short of memory and starts a compressor for its temporary files, and sort that merges pipes.
# needs: gzip
seq 1 30000 | sort -R --random-source=/dev/zero | sort -n -S 100K --compress-program=gzip --parallel=2 | cksum
sort -m -n <(seq 1 2 9999) <(seq 2 2 9999) | cksum
seq 5 1 | sort -c 2>&1; seq 5 -1 1 | sort -c; echo "$?"
