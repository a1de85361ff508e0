#!/bin/bash
# zstd with threads of its own, reading and writing pipes.
# needs: zstd
# random kills
seq 1 400000 | zstd -q -3 -T2 | zstd -q -dc | md5sum
head -c 4000000 /dev/zero | zstd -q -c --long=24 | zstd -q -dc --long=24 | wc -c
echo no archive | zstd -q -dc; echo "${PIPESTATUS[*]}"
