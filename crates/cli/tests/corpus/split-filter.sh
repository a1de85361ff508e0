#!/bin/bash
# split starts a command for each part and feeds it through a pipe.
# random kills
seq 1 10000 | split -l 3000 --filter='tail -n 1 | sed "s/$/ in $FILE/"' - part-
seq 1 1000 | split -n r/3 -u --filter='cksum' - 2>&1 | sort
seq 1 100000 | split -b 100K --filter='head -c 5 >/dev/null; exit 0' - && echo survived
seq 1 9 | csplit -s - 4 7 && cat xx00 xx02; rm xx0?
