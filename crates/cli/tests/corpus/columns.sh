#!/bin/bash
# cut, paste, join, comm and nl over process substitutions, which are pipes under /dev/fd.
# random kills
paste -d, <(seq 1 2000) <(seq 2001 4000) | cut -d, -f2 | tail -n 3
join <(seq -w 1 500 | sed 's/$/ left/') <(seq -w 250 750 | sed 's/$/ right/') | md5sum
comm -12 <(seq 1 3000 | sort) <(seq 1500 4500 | sort) | wc -l
nl <(seq 5) | expand | cut -c1-8
