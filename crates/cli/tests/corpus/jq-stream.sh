#!/bin/bash
# jq over a stream of documents, in the middle of a pipeline, and with an error in the middle.
# needs: jq
# random kills
seq 1 20000 | jq -c '{n: ., odd: (. % 2 == 1)}' | grep true | jq -s 'map(.n) | add'
printf '{"a":1}\n{"a":\n' | jq -c .a; echo "${PIPESTATUS[*]}"
seq 3 | jq -s -c --argjson x '[9]' '. + $x' | tee /dev/stderr | jq length
yes '{}' | jq -c 'input' | head -n 1
