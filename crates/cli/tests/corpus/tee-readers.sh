#!/bin/bash
# tee with several readers, one of which leaves early, and tee -p.
seq 1 300000 | tee >(md5sum >m) >(wc -c >c) >(tail -n 1 >t) | cksum
while [ ! -s m ] || [ ! -s c ] || [ ! -s t ]; do sleep 0.01; done; cat m c t; rm m c t
mkfifo one; (head -n 1 <one >h) & seq 1 300000 | tee --output-error=exit-nopipe one | tail -n 1; wait; cat h; rm h one
seq 3 | tee /dev/stderr | tee a b | cat - a b; rm a b
