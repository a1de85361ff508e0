#!/bin/bash
# One of two readers of a pipe is killed: the other gets the rest, nothing twice, and the writer goes on.
mkfifo p; exec 3<>p 4<p 5>p 3<&-; (exec 4<&-; head -c 4000000 /dev/zero | tr '\0' x >&5; echo "writer $?" >w) & writer=$!
{ echo $BASHPID >victim; exec cat <&4 >/dev/null; } 5>&- & first=$!
wait $first; echo "first $?"
exec 5>&-; cat <&4 | tr -d x | wc -c; wait $writer; cat w; rm p w victim
