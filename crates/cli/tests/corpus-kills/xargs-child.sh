#!/bin/bash
# A child of xargs -P is killed: xargs stops with 125, and the pipes behind it end.
seq 1 4 | xargs -P 2 -n 1 sh -c 'if [ $1 = 2 ]; then echo $$ >victim; exec yes; fi; seq 10' sh 2>/dev/null | sort -u | grep -c 5
echo "${PIPESTATUS[*]}" | cut -d' ' -f2; rm victim
