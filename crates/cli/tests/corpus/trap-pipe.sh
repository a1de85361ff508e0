#!/bin/bash
# What a script does about SIGPIPE: trap it, ignore it, and what its children inherit.
(trap 'echo caught >&2; exit 9' PIPE; while :; do echo x; done) | head -n 1; echo "${PIPESTATUS[*]}"
(trap '' PIPE; while echo y; do :; done 2>errors; echo "ended" >&2) | head -n 1; echo "${PIPESTATUS[*]}"
tail -n 1 errors | sed 's/.*write/write/'
(trap '' PIPE; yes; echo "yes ended with $?" >&2) 2>&1 >/dev/full | grep -o 'ended.*'
(trap '' PIPE; seq 1 1000000; echo "$?" >&2) 2>&1 1> >(head -n 1 >/dev/null) | tail -n 1
rm errors
