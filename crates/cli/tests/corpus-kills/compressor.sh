#!/bin/bash
# The compressor in the middle of a backup is killed: the writer dies of SIGPIPE, the archive is damaged, and everybody knows.
# needs: gzip
set -o pipefail
cat /dev/urandom | { echo $BASHPID >victim; exec gzip -1; } | { gzip -dc 2>&1 >/dev/null || true; } | grep -c 'unexpected end'
echo "${PIPESTATUS[*]}"; rm victim
