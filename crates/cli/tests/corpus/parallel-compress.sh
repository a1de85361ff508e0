#!/bin/bash
# Several compressors at once into one file by a FIFO each, put together in order: a hand-made pigz.
# needs: gzip
seq 1 200000 >all; split -n l/4 -d all part
for i in 0 1 2 3; do mkfifo z$i; gzip -nc part0$i >z$i & done
cat z0 z1 z2 z3 | tee all.gz | gzip -dc | cmp - all && echo same; wait; gzip -dc all.gz | cksum; rm all* part* z?
