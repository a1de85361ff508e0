#!/bin/bash
# Compressed and decompressed on the way, as backups are, and left early by head.
# needs: gzip
set -o pipefail
seq 1 100000 | gzip -1 | gzip -dc | gzip -9 -n | gzip -dc | cksum
seq 1 900000 | gzip -1 >big.gz
gzip -dc big.gz | head -n 2; echo "${PIPESTATUS[*]}"
zcat big.gz | wc -c
head -c 1000 big.gz | gzip -dc 2>errors | wc -l; echo "${PIPESTATUS[*]}"; cat errors >&2
rm big.gz errors
