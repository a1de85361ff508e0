#!/bin/bash
# A jobserver over a FIFO of our own, that several makes and a shell take tokens from and give them back.
# needs: make
mkfifo tokens; exec 9<>tokens; printf ++++ >&9
printf 'all: %s\n' "$(echo j{1..8})" >Makefile
printf 'j%%: ; @seq $* | tail -n 1 >$@\n' >>Makefile
export MAKEFLAGS=' -j --jobserver-auth=9,9'
for i in 1 2; do mkdir $i; make -s -C $i -f ../Makefile 2>errors-$i & done
read -r -N 1 -u 9 token && echo "the shell has $token" && printf %s "$token" >&9
wait; cat 1/j* 2/j* | sort -n | uniq -c
read -r -N 4 -u 9 tokens; echo "$tokens"; read -r -t 0 -u 9 || echo 'no more tokens'
cat errors-*; rm -r errors-* 1 2 Makefile
