#!/bin/bash
# Stages that die of signals, and what the shell says.
for s in TERM KILL HUP INT ABRT SEGV USR1; do sh -c "kill -$s \$\$" | cat; echo "$s ${PIPESTATUS[*]}"; done
sh -c 'kill -9 $$' | seq 3; seq 1000000 | sh -c 'read x; kill -9 $$'; echo "${PIPESTATUS[*]}"
trap 'echo got USR1' USR1; (sleep 0.02; kill -USR1 $$) & while ! wait -n; do :; done; sleep 0.01 | cat
(trap 'echo from the subshell; exit 5' TERM; kill -TERM $BASHPID; sleep 10) | cat; echo "${PIPESTATUS[*]}"
x=$(kill -TERM $BASHPID); echo "$?"
