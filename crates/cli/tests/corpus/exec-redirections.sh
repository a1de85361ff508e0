#!/bin/bash
# exec that moves a shell's own input and output to pipes, and back again.
exec 3>&1; exec > >(sed 's/^/logged: /' >&3); pid=$!
echo one; seq 2 3; /bin/echo four; exec >&3 3>&-; wait $pid; echo direct
exec 4< <(seq 1 100000); read -r a <&4; read -r b <&4; echo "$a $b"; exec 4<&-
exec 5<&0 0< <(echo from a pipe); read -r x; echo "$x"; exec 0<&5 5<&-
{ echo out; echo err >&2; } > >(sed 's/^/o:/' >o) 2> >(sed 's/^/e:/' >e)
while [ ! -s o ] || [ ! -s e ]; do sleep 0.01; done; cat o e; rm o e
