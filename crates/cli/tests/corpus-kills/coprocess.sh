#!/bin/bash
# A coprocess is killed while it is being asked: the shell's write fails or its read ends, and nothing hangs.
trap '' PIPE
coproc { echo $BASHPID >victim; exec cat; }; pid=$COPROC_PID; exec 5>&"${COPROC[1]}" 6<&"${COPROC[0]}"
while echo ask >&5 && read -r answer <&6; do [ "$answer" = ask ] || echo "wrong: $answer"; done 2>/dev/null
wait $pid; echo "$?"; rm victim
