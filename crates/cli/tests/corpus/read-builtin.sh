#!/bin/bash
# The read builtin on pipes: by characters, with time limits, with nothing there, mapfile with a callback.
printf 'abcdef' | (read -r -n 2 x; echo "$x"; read -r -N 3 x; echo "$x"; read -r x; echo "$x $?")
mkfifo p; exec 3<>p
read -r -t 0 -u 3; echo "$?"; read -r -t 0.02 -u 3 x; echo "$(($? > 128))"
echo line >&3; read -r -t 0 -u 3; echo "$?"; read -r -t 5 -u 3 x; echo "$x"
printf part >&3; read -r -t 1 -u 3 x; echo "$(($? > 128)) $x"
mapfile -t -c 1000 -C 'echo at' lines < <(seq 1 3000 | sed 's/$/x/'); echo "${#lines[@]} ${lines[2999]}"
printf 'a\0b\0' | while IFS= read -r -d '' x; do echo "<$x>"; done
IFS= read -r -d '' all < <(seq 3); echo "$? ${#all}"
