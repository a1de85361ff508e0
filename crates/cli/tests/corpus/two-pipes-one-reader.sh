#!/bin/bash
# Readers that take turns between two pipes, and a copy of a copy of a descriptor.
exec 3< <(seq 1 2 9999) 4< <(seq 2 2 10000)
while read -r a <&3 && read -r b <&4; do sum=$((sum + a * b)); done; echo "$sum"
exec 5< <(seq 6) 6<&5 7<&6; read -r a <&5; read -r b <&6; read -r c <&7; echo "$a$b$c"; exec 5<&- 6<&-; cat <&7
{ read -r x; read -r y <&8; echo "$x $y"; } < <(echo in) 8< <(echo eight)
