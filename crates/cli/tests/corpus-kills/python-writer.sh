#!/bin/bash
# A python that writes is killed, the one that reads sees the end of the stream after whole blocks of what was written.
{ echo $BASHPID >victim; exec python3 -c 'import os
i = 0
while True: os.write(1, b"%09d\n" % i * 100); i += 1'; } | python3 -c 'import sys
data = sys.stdin.buffer.read()
print(len(data) % 10 if len(data) % 10 else "whole", all(int(data[i * 1000:i * 1000 + 9]) == i for i in range(len(data) // 1000)))
' | sed 's/^[0-9] /whole /'
echo "${PIPESTATUS[*]}"; rm victim
