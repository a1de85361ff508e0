#!/bin/bash
# Programs with standard descriptors closed, whose pipes then get the numbers 0, 1 and 2.
cat <&- 2>&1; echo "$?"
(exec <&-; echo x | cat; seq 3 | sort -r)
(exec <&- 2>&-; x=$(seq 100000 | tail -n 1); echo "$x")
(exec >&-; seq 3 | cat >&2)
python3 -c 'import os; print(os.pipe())' <&- | cat
perl -e 'pipe(my $r, my $w); print fileno($r), fileno($w), "\n"' <&- 2>&-
sh -c 'echo from sh | cat' <&-
