#!/bin/bash
# Coprocesses: a filter that answers line by line, and one with a name that is waited for.
coproc BC { while read -r x y; do echo $((x * y)); done; exit 6; }
pid=$BC_PID
for i in 2 3 4; do echo "$i $i" >&"${BC[1]}"; read -r answer <&"${BC[0]}"; echo "$answer"; done
exec {BC[1]}>&-; wait $pid; echo "$?"
coproc sort -rn; pid=$!
seq 100 >&"${COPROC[1]}"; exec {out}<&"${COPROC[0]}"-; exec {COPROC[1]}>&-; head -n 2 <&$out; cat <&$out | wc -l; wait $pid
