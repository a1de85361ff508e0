#!/bin/bash
# Readers that leave early, with much more behind them, and what the shell says of each stage.
# random kills
seq 1 10000000 | head -n 1; echo "${PIPESTATUS[*]}"
seq 1 10000000 | sed -n '1{p;q}'; echo "${PIPESTATUS[*]}"
seq 1 10000000 | grep -m1 5; echo "${PIPESTATUS[*]}"
seq 1 10000000 | grep -q 777; echo "${PIPESTATUS[*]}"
cat /dev/zero | cat | cat | head -c 5 | wc -c; echo "${PIPESTATUS[*]}"
perl -e '$i++ while print "x" x 100, "\n"; print STDERR "$!\n"; exit 3' 2>/dev/null | head -n 2; echo "${PIPESTATUS[*]}"
python3 -c 'while True: print("x" * 100)' 2>&1 | head -n 1; echo "${PIPESTATUS[*]}"
