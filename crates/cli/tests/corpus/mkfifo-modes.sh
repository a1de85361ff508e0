#!/bin/bash
# FIFOs in a file system: modes, names, removal while they are open, and a writer that finds no reader.
umask 027; mkfifo a; mkfifo -m 600 b; stat -c '%a %F %n' a b
exec 3<>a; echo stays >&3; rm a; read -r x <&3; echo "$x"
python3 -c 'import os
try: os.open("b", os.O_WRONLY | os.O_NONBLOCK)
except OSError as error: print(error)
r = os.open("b", os.O_RDONLY | os.O_NONBLOCK); print(os.read(r, 1)); w = os.open("b", os.O_WRONLY | os.O_NONBLOCK)
os.write(w, b"x"); print(os.read(r, 9)); os.close(w); print(os.read(r, 9))'
mv b c; (echo renamed >c) & cat c; wait
ln c d; (echo linked >c) & cat d; wait; ln -s c e; (echo by link >e) & cat c; wait
