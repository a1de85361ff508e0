#!/bin/bash
# The shell that reads or writes by itself is killed: what it had from the pipe is gone, and its neighbours end.
yes | bash -c 'echo $$ >victim; while read -r x; do :; done'; echo "${PIPESTATUS[*]}"
bash -c 'for ((i = 0; ; i++)); do [ $i = '$((BYTES % 20000))' ] && kill -KILL $$; echo $i; done' | awk '$1 != NR - 1 { bad++ } END { print NR, bad + 0 }'
echo "${PIPESTATUS[*]}"; rm victim
