#!/bin/bash
# A writer that is killed after so many bytes: the reader gets exactly these, then the end.
{ head -c "$BYTES" /dev/zero; kill -KILL $BASHPID; } | wc -c | sed "s/^$BYTES\$/all of them/"
echo "${PIPESTATUS[*]}"
