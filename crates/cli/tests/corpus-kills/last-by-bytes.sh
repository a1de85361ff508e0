#!/bin/bash
# A reader that kills itself after so many bytes.
# normalise stderr: s/ *[0-9]+ (Killed|Broken pipe|Done) / N \1 /
yes | { head -c "$BYTES" >/dev/null; kill -KILL $BASHPID; }
echo "${PIPESTATUS[*]}"
