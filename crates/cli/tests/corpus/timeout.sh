#!/bin/bash
# timeout and pipelines that never end.
(timeout 0.1 cat /dev/zero; echo "$?" >&2) | wc -c | sed 's/[0-9]\+/some/'
timeout 0.1 sh -c 'yes | cat >/dev/null'; echo "$?"
timeout -s KILL 0.1 sleep 100 | cat; echo "${PIPESTATUS[*]}"
sleep 0.05 | timeout 20 cat; echo "${PIPESTATUS[*]}"
