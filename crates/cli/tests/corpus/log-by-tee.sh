#!/bin/bash
# exec > >(tee log) 2>&1: what a script prints goes to a file as well, as installers and build scripts do it.
exec 3>&1; exec > >(tee log >&3) 2>&1; pid=$!
echo start; ls /nonexistent; seq 1 30000 | tail -n 2; (echo subshell; false) || echo failed
exec >&3 2>&1; wait $pid; wc -l <log
