#!/bin/bash
# Forty stages in one line.
# random kills
line="seq 1 50000"; for i in {1..39}; do line+=" | cat"; done
eval "$line | cksum"; eval "yes | $line | true"; echo "$?"
eval "echo deep $(printf '| (cat %.0s' {1..15}) $(printf ')%.0s' {1..15})"
