#!/bin/bash
# Pipelines under limits: few descriptors, no file may grow, little address space.
(ulimit -n 10; seq 1 50000 | sort -n | tail -n 1)
(ulimit -f 0; seq 1 200000 | cat | wc -l)
(ulimit -v 400000; seq 1 100000 | cat | sed 's/1/x/' | cksum)
(ulimit -l 0; seq 1 100000 | tail -n 1); (ulimit -s 256; seq 1 100000 | tail -n 1)
(ulimit -n 3; python3 -c 'print(1)' 2>/dev/null; echo "$?") | cat
(ulimit -t 20; seq 1 100000 | sort | cksum)
