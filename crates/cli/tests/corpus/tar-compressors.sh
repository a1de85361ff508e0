#!/bin/bash
# tar with each compressor as its child, there and back, and the list of an archive that is read only in part.
# needs: gzip xz zstd
mkdir tree; for i in $(seq 40); do seq "$i" 3000 >tree/$i; done
for z in gzip xz zstd; do
    tar --sort=name --mtime=@0 -c --$z -f tree.$z tree
    tar -x --$z -O -f tree.$z | cksum
done
tar -c --sort=name tree | gzip -1 | tar -tz | head -n 2
echo "${PIPESTATUS[*]}" | sed 's/141/early/g; s/[12] /early /g' >/dev/null
rm -r tree tree.*
