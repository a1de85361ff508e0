#!/bin/bash
# stdbuf has a preload of its own, which stays before ours.
# random kills
stdbuf -oL seq 3 | cat; stdbuf -o0 -i0 tr a b <<<aaa | cat
seq 1 20000 | stdbuf -oL grep 7 | tail -n 1
stdbuf -i0 head -n 1 < <(seq 3); seq 5 | (stdbuf -i0 head -n 2 >/dev/null; cat)
stdbuf -oL sh -c 'echo $LD_PRELOAD' | tr ': ' '\n\n' | grep -c stdbuf
