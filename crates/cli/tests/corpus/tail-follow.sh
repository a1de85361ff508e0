#!/bin/bash
# tail that follows a file while another program writes it, and ends with it.
touch log; (for i in {1..20}; do echo "line $i"; sleep 0.005; done >>log) & pid=$!
tail -n +1 -s 0.02 -f --pid=$pid log | grep -c line; wait
seq 1 100000 | tail -n +99999; seq 1 100000 | tail -c 7; seq 3 | tail -n +1 | head -n -1; rm log
(seq 3; sleep 0.05; seq 4 5) | tail -f 2>/dev/null | head -n 5
