#!/bin/bash
# A pipeline inside a terminal of its own, as script(1) makes one, and setsid.
# needs: script setsid
script -qec 'seq 3 | cat; test -t 1 && echo on a terminal; exit 4' /dev/null </dev/null | tr -d '\r'; echo "${PIPESTATUS[*]}"
setsid -w sh -c 'seq 1 1000 | tail -n 1; exit 3'; echo "$?"
nohup sh -c 'seq 2 | cat' 2>/dev/null </dev/null | cat
