#!/bin/bash
# Several programs one after the other, or at once, on the same end of a pipe: none takes more than it uses.
seq 5 | (read -r x; echo "first $x"; read -r x; echo "second $x"; cat)
seq 5 | { sed -u 1q; echo --; cat; }
(echo one; seq 3; echo two >&2; /bin/echo three) 2>&1 | cat
mkfifo p; exec 3<>p 4<p; seq 1 2000 >&3; exec 3>&-; (head -n 1; cat | tail -n 1) <&4
head -c 100000 /dev/zero | (dd bs=1000 count=3 iflag=fullblock status=none | wc -c; wc -c)
head -c 300000 /dev/zero | (head -c 100000 | wc -c; cat | wc -c)
seq 1 20000 | (cat & cat & cat & wait) | tr '\n' x | fold -b -w 1 | sort | uniq -c | cksum
seq 1 9 | (read -r a; (read -r b; echo "$a $b"); cat; cat)
