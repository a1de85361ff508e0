#!/bin/bash
# Fifty megabytes through cat, dd and head, by blocks of many sizes.
# random kills
head -c 50000000 /dev/zero | cat | cat | wc -c
seq 1 1500000 | dd bs=4k status=none | dd bs=128k iflag=fullblock status=none | cksum
head -c 3000001 /dev/zero | dd bs=1000 iflag=fullblock 2>&1 >/dev/null | head -n 2
head -c 100000 /dev/zero | dd bs=7 status=none | dd bs=100 iflag=fullblock conv=sync status=none | wc -c
