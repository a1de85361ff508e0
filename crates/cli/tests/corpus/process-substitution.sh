#!/bin/bash
# Process substitutions read and written, nested, as arguments and as redirections.
diff <(seq 1 1000) <(seq 1 1001); echo "$?"
cat <(echo a; cat <(echo b; cat <(echo c)))
seq 100000 | tee >(wc -l >lines) >(tail -n 1 >last) | tail -n 1
while [ ! -s lines ] || [ ! -s last ]; do sleep 0.01; done; cat lines last
while read -r a b <&3 && read -r c <&4; do echo "$a$c"; done 3< <(seq 3) 4< <(seq 4 6)
exec 5> >(tr a-z A-Z >upper); pid=$!; echo shout >&5; exec 5>&-; wait $pid; cat upper
