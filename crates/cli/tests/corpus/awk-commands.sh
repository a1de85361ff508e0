#!/bin/bash
# awk writes to commands, reads from commands, and closes them.
# random kills
awk 'BEGIN {
    for (i = 50; i > 0; i--) print i % 7, i | "sort -n | tail -n 3"
    close("sort -n | tail -n 3")
    while (("seq 1 20000" | getline line) > 0) sum += line
    print sum, close("seq 1 20000")
    "date -u -d @0 +%Y" | getline year; print year
    print "to stderr" | "cat >&2"; close("cat >&2")
    print system("exit 3")
}'
seq 1 100000 | awk '{ count[$1 % 10]++ } END { for (i = 0; i < 10; i++) print i, count[i] }'
yes awk | awk 'NR == 5 { exit 4 } { print NR }'; echo "${PIPESTATUS[*]}"
