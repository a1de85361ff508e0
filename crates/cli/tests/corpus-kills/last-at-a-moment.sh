#!/bin/bash
# A reader that is killed: the endless writer before it dies of SIGPIPE.
# normalise stderr: s/ *[0-9]+ (Killed|Broken pipe|Done) / N \1 /
yes | { echo $BASHPID >victim; exec cat >/dev/null; }
echo "${PIPESTATUS[*]}"; rm victim
