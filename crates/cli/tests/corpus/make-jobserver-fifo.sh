#!/bin/bash
# A jobserver over a FIFO of our own, that several makes and a shell take tokens from and give them back.
# The shell has a description of its own: make takes the blocking away from that of fd 9.
# needs: make
mkfifo tokens; exec 9<>tokens 8<>tokens; printf ++++ >&8
printf 'all: %s\n' "$(echo j{1..8})" >Makefile
printf 'j%%: ; @seq $* | tail -n 1 >$@\n' >>Makefile
export MAKEFLAGS=' -j --jobserver-auth=9,9'
for i in 1 2; do mkdir $i; make -s -C $i -f ../Makefile 2>errors-$i & done
read -r -N 1 -u 8 token && echo "the shell has $token" && printf %s "$token" >&8
wait; cat 1/j* 2/j* | sort -n | uniq -c
read -r -N 4 -u 8 tokens; echo "$tokens"; read -r -t 0 -u 8 || echo 'no more tokens'
cat errors-*; rm -r errors-* 1 2 Makefile
