#!/bin/bash
# Descriptors moved about: only errors into a pipe, both swapped, a status through a third one.
(echo out; echo err >&2) 3>&1 1>&2 2>&3 3>&- | sed 's/^/pipe: /'
{ { echo out; echo err >&2; } 2>&1 >&3 3>&- | sed 's/^/err: /'; } 3>&1
exec 4>&1; status=$( { { false; echo $? >&3; } | cat >&4; } 3>&1 ); echo "status $status"; exec 4>&-
{ seq 5 >&7; } 7>&1 | cat | paste -sd,
echo x 9>&1 8>&9 7>&8 | cat; ls /proc/self/fd | wc -l | cat
