#!/bin/bash
# A writer without end, and a reader that leaves: it dies of SIGPIPE.
# random kills
yes | head -n 1; echo "${PIPESTATUS[*]}"
yes | head -c 3000000 | tail -c 3; echo "${PIPESTATUS[*]}"
cat /dev/zero | dd bs=64k count=20 iflag=fullblock status=none | wc -c; echo "${PIPESTATUS[*]}"
yes | tr y n | sed 5q | cat; echo "${PIPESTATUS[*]}"
