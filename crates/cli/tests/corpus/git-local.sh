#!/bin/bash
# git starts itself over pipes: clone and fetch by upload-pack, archive, fast-export and fast-import, batches, a pager.
# needs: git
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z' GIT_PAGER='sed s/^/page:/'
git -c init.defaultBranch=main init -q one && cd one
for i in 1 2 3; do seq 1 $((i * 4000)) >file; git add file; git commit -q -m "number $i"; done
git log --format=%H | cksum
git -p log --format=%s | cat
git archive HEAD | tar -tv | awk '{ print $3, $6 }'
git rev-list --objects HEAD | cut -d' ' -f1 | git cat-file --batch-check | sort | cksum
git fast-export HEAD | (git init -q --bare ../two; git --git-dir=../two fast-import --quiet); git --git-dir=../two log --format=%s refs/heads/main | head -n 1
git clone -q "file://$PWD" ../three 2>&1; cmp file ../three/file && git -C ../three log --oneline | wc -l
git bundle create - HEAD 2>/dev/null | git index-pack --stdin 2>/dev/null | wc -l
git diff HEAD~1 --stat | cat
git log -p | head -n 1
cd ..; rm -rf one two three
