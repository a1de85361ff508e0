#!/bin/bash
# Programs started with an empty environment, su-like changes, and variables that must not be touched.
# needs: setpriv
env -i /bin/sh -c 'seq 1 100000 | tail -n 1 | cat'
env -i sh -c 'env | grep -v ^PWD= | grep -v ^_= | sort' | cat; seq 1 50000 | env -i cat | tail -n 1
LD_LIBRARY_PATH=/nonexistent sh -c 'seq 3 | cat'
seq 1 100000 | setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'cat | tail -n 1'; echo "${PIPESTATUS[*]}"
ulimit -n 12; seq 3 | cat | cat; x=$(seq 4 | tail -n 1); echo "$x"
