#!/bin/bash
# Very many very small writes and reads.
# random kills
for ((i = 0; i < 20000; i++)); do echo $i; done | cksum
for ((i = 0; i < 3000; i++)); do echo $i; done | while read -r x; do echo "$x"; done | tail -n 1
perl -e '$| = 1; print chr(65 + $_ % 26) for 1 .. 50000' | dd bs=1 count=20000 status=none | cksum
python3 -u -c 'for i in range(5000): print(i)' | python3 -u -c 'import sys
print(sum(int(line) for line in sys.stdin))'
