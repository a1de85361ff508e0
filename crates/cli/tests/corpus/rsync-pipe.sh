#!/bin/bash
# rsync over a local pipe: the other side is started by a stand-in for ssh.
# needs: rsync
printf '#!/bin/sh\nshift\nexec "$@"\n' >shell; chmod +x shell
mkdir -p from/deep to; seq 1 100000 >from/numbers; head -c 2000000 /dev/zero >from/deep/zeros; ln -s numbers from/link
rsync -a --no-times -e ./shell from/ host:"$PWD"/to/ && diff -r from to && echo same
seq 2 100000 >from/numbers; echo new >from/deep/new
rsync -a --no-times --checksum --delete --out-format='%o %n' -e ./shell from/ host:"$PWD"/to/ | sort; diff -r from to && echo same
rsync -a -e ./shell host:/nonexistent/path to/ 2>/dev/null; echo "$?"
rm -r shell from to
