#!/bin/bash
# tmux: a server, a shell in a window that runs a pipeline, its output piped out and captured.
# needs: tmux
# In a directory of its own, so that nothing is left when it is run by hand.
mkdir work && cd work || exit
trap 'cd .. && rm -rf work' EXIT
export TMUX_TMPDIR=$PWD TERM=xterm
tmux -L mill -f /dev/null new-session -d -x 80 -y 24 'PS1="$ " ENV= sh'
mkfifo done; exec 9<>done
until tmux -L mill capture-pane -p | grep -q '^\$'; do sleep 0.01; done
tmux -L mill pipe-pane -o 'cat >log'
tmux -L mill send-keys 'seq 1 50000 | grep -c 7 | tee count; echo x >done' Enter
read -r -u 9 x; cat count
until tmux -L mill capture-pane -p | grep -q '^17195'; do sleep 0.01; done; echo seen
tmux -L mill run-shell 'seq 3 | tail -n 1' | head -n 1
tmux -L mill kill-server; exec 9>&-; while [ -S tmux-"$(id -u)"/mill ] && tmux -L mill ls 2>/dev/null; do sleep 0.01; done
