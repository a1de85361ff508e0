#!/bin/bash
# xz over a pipe, several streams one after the other, and one that is cut off.
# needs: xz
(seq 1 30000 | xz -1; seq 5 | xz -1) | xz -dc | tail -n 6
seq 1 50000 | xz -1 >whole; head -c 5000 whole | xz -dc 2>&1 >/dev/null | cat; echo "${PIPESTATUS[*]}"; rm whole
