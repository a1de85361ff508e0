#!/bin/bash
# Writers whose reader is gone before they begin: EPIPE for those that ignore the signal, with the words of each program.
# random kills
mkfifo gone; exec 3<>gone 4>gone; exec 3>&-
trap '' PIPE
echo shell >&4; echo "$?"
/bin/echo coreutils >&4; echo "$?"
cat /etc/hostname >&4; echo "$?"
tee >&4 <<<x; echo "$?"
python3 -c 'import os
try: os.write(4, b"x")
except BrokenPipeError as error: print(error)'
seq 100000 >&4; echo "$?"
dd if=/dev/zero bs=1k count=1 status=none >&4; echo "$?"
trap - PIPE
(echo shell >&4); echo "$?"
sh -c 'seq 10 >&4'; echo "$?"
cat /etc/hostname >&4; echo "$?"
