#!/bin/bash
# A job of make is killed: make says so, gives back its token, and does the others.
# needs: make
# normalise stderr: s/\[[^]]*\]/[rule]/g
# normalise stdout: s/\[[^]]*\]/[rule]/g
printf 'all: a b c d\na b d:\n\t@seq 1000 | tail -n 1 >$@\nc:\n\t@echo $$$$ >victim; exec yes >/dev/null\n' >Makefile
make -s -k -j2 2>errors; echo "$?"; cat a b d; grep -c Killed errors; rm a b d errors victim Makefile
