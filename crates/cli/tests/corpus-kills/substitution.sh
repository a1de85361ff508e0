#!/bin/bash
# A command whose output is substituted is killed: the shell goes on with what there was.
x=$({ echo $BASHPID >victim; exec yes; } | cat); echo "$?"; printf %s "$x" | tr -d 'y\n' | wc -c
x=$(head -c "$BYTES" /dev/zero | tr '\0' z; kill -KILL $BASHPID); echo "$?"; echo "$((${#x} == BYTES))"; rm victim
