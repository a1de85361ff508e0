#!/bin/bash
# A tree copied by two tars with a pipe between them, then compared.
mkdir -p from/sub to; seq 1 200000 >from/numbers; head -c 300000 /dev/zero >from/sub/zeros
ln -s numbers from/link; mkfifo from/fifo; chmod 640 from/numbers
tar -C from -cf - . | tar -C to -xpf -
echo "${PIPESTATUS[*]}"
diff -r from/sub to/sub && cmp from/numbers to/numbers && stat -c '%a %F %n' to/* to/sub/*
tar -C from -cf - . | tar -tf - | sort
rm -r from to
