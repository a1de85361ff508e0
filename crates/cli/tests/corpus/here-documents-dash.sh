#!/bin/sh
# Here-documents of dash: a pipe, and a process that fills it where they are long.
cat <<END | tr a-z A-Z
short
END
x=$(seq 1 30000)
wc -l <<END
$x
END
head -n 1 <<END
$x
END
read -r first <<END
$x
END
echo "$first"
