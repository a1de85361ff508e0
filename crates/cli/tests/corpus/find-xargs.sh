#!/bin/bash
# find -print0 into xargs -0, with names that have spaces and newlines.
# random kills
mkdir -p 'a b/c' d; touch 'a b/x y' $'d/new\nline' d/plain; seq 100 >'a b/c/numbers'
find . -type f -print0 | sort -z | xargs -0 -n1 wc -c
find . -type f -print0 | tr '\0' '\n' | wc -l
find . -name '*s' -exec cat {} + | tail -n 1
