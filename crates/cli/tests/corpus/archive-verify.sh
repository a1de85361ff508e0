#!/bin/bash
# A backup as administrators write it: tar, digest on the way, compressed, split, put together again and compared.
# needs: zstd
set -o pipefail; mkdir data; for i in $(seq 20); do seq $i 5000 >data/$i; done
tar --sort=name --mtime=@0 --owner=0 --group=0 -cf - data | tee >(sha256sum >sum) | zstd -q -3 | split -b 20K - backup.; echo "$?"
while [ ! -s sum ]; do sleep 0.01; done
cat backup.* | zstd -q -dc | sha256sum | cmp - sum && echo verified; cat backup.* | zstd -q -dc | tar -df - && echo no difference
rm -r data backup.* sum
