#!/bin/bash
# A reader that is killed: the endless writer before it dies of SIGPIPE.
yes | { echo $BASHPID >victim; exec cat >/dev/null; }
echo "${PIPESTATUS[*]}"; rm victim
