#!/bin/bash
# Here-documents and here-strings, which bash keeps in a pipe where they fit and in a file where they do not.
cat <<END | tr a-z A-Z
here $(echo inside) and
END
cat <<<"$(seq 1 10000)" | tail -n 1
x=$(head -c 200000 /dev/zero | tr '\0' y); wc -c <<<"$x"
while read -r line; do echo "got $line"; done <<'END'
$not expanded
END
cat <<A 3<<B - /dev/fd/3
first
A
second
B
wc -c <<<"${x:0:65535}"; wc -c <<<"${x:0:65536}"; wc -c <<<"${x:0:4096}"
