#!/bin/sh
# Two FIFOs between a client and a server that open, answer and close again, several times.
mkfifo ask answer
(while read -r x <ask && [ "$x" != end ]; do echo "you said $x" >answer; done) &
for x in one two three four five; do echo $x >ask; cat <answer; done
echo end >ask; wait; rm ask answer
mkfifo p; seq 1 50000 >p & wc -l <p; wait $!; echo "$?"
cat p & echo late >p; wait
