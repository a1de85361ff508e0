#!/bin/bash
# sqlite3 fed by a pipe, with results into a pipe of its own, and imports from a command.
# needs: sqlite3
seq 1 5000 | awk '{ print $1 "," $1 * $1 }' | sqlite3 -csv data.db 'create table t(a integer, b integer)' '.import /dev/stdin t' 'select count(*), sum(b) from t'
(echo 'begin;'; seq 1 2000 | sed 's/.*/insert into t values(&, -&);/'; echo 'commit; select sum(b) from t where b < 0;') | sqlite3 data.db
sqlite3 data.db ".import '|seq 3' u --csv" 2>/dev/null
printf '.once |tr 0-9 a-j\nselect max(a) from t;\n' | sqlite3 data.db
sqlite3 data.db 'select a from t where b > 0 order by a' | tail -n 1
echo 'no sql;' | sqlite3 data.db; echo "${PIPESTATUS[*]}"
rm data.db
