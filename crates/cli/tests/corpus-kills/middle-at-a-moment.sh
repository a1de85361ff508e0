#!/bin/bash
# The stage between two others is killed: what went through is a piece of the original from its beginning.
seq 1 1000000000 | { echo $BASHPID >victim; exec cat; } | awk '$1 != NR && !broken { broken = 1; last = $1; at = NR }
    END { print (!broken || at == NR && index(NR, last) == 1) ? "in order" : "broken at " at ": " last }'
echo "${PIPESTATUS[*]}"; rm victim
