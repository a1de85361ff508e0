#!/bin/bash
# Ten background writers on one pipe: lines of up to 4096 bytes stay whole.
# random kills
(for i in {1..10}; do (line=$(printf "$((i % 10))%.0s" {1..4095}); for j in {1..30}; do echo "$line"; done) & done; wait) |
    awk '{ c = substr($0, 1, 1); if ($0 !~ "^" c "+$" || length($0) != 4095) broken++; n[c]++ }
        END { for (i = 0; i < 10; i++) printf "%d ", n[i]; print broken + 0 }'
