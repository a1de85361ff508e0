#!/bin/bash
# A reader that kills itself after so many bytes.
yes | { head -c "$BYTES" >/dev/null; kill -KILL $BASHPID; }
echo "${PIPESTATUS[*]}"
