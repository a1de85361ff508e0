#!/bin/bash
# set -o pipefail, set -e, traps on errors and at the end, negated pipelines.
# status: 5
set -o pipefail
false | true; echo "$?"; true | false | (exit 7) | true; echo "$?"
yes | head -n 1; echo "$?"; ! false | false; echo "$?"
x=$(false | cat) || echo "assignment $?"
trap 'echo "error $?"' ERR; (exit 3) | cat; trap - ERR
set -e; trap 'echo "at the end $?"' EXIT
if false | cat; then echo never; fi
{ seq 100000; exit 5; } | tail -n 1
echo never
