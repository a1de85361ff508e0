#!/bin/bash
# The writer is killed in the middle of its writes: order stays, and both stages behind it end as usual.
{ echo $BASHPID >victim; exec seq 1 1000000000; } | cat | awk '$1 != NR && !broken { broken = 1; last = $1; at = NR }
    END { print (!broken || at == NR && index(NR, last) == 1) ? "in order" : "broken at " at ": " last }'
echo "${PIPESTATUS[*]}"; rm victim
