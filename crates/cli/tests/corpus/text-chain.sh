#!/bin/bash
# A dozen small filters in one line, each reading in its own way.
# random kills
seq 1 30000 | rev | tac | nl -ba | expand | unexpand -a | fold -w 20 | fmt -w 40 | tr -d ' ' | base64 | base64 -d |
    od -An -tx1 | tr -d ' \n' | cksum
echo "${PIPESTATUS[*]}"
