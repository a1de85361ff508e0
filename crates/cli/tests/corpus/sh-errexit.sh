#!/bin/sh
# A strict script of dash: set -eu, functions in pipelines, command substitutions in each other.
set -eu
numbers() { seq "$1" "$2"; }
twice() { while read -r x; do echo $((x * 2)); done; }
numbers 1 2000 | twice | tail -n 1
x=$(numbers 1 $(numbers 5 9 | tail -n 1) | twice | paste -sd, -); echo "$x"
numbers 1 100 | { read -r a; read -r b; echo "$a $b"; cat >/dev/null; }
echo "$(echo "$(echo "$(numbers 7 7)")")" | cat; (set +e; false | true; echo $?; true | false; echo $?)
