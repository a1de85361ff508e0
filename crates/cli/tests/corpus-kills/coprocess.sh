#!/bin/bash
# A coprocess is killed while it is being asked: the shell's write fails or its read ends, and nothing hangs.
# normalise stderr: s/ *[0-9]+ (Killed|Broken pipe|Done) / N \1 /; s/line [0-9]+/line N/
trap '' PIPE
coproc { echo $BASHPID >victim; exec cat; }; pid=$COPROC_PID; exec 5>&"${COPROC[1]}" 6<&"${COPROC[0]}"
while echo ask >&5 && read -r answer <&6; do [ "$answer" = ask ] || echo "wrong: $answer"; done 2>/dev/null
wait $pid; echo "$?"; rm victim
