#!/bin/bash
# ssh to an sshd of our own, connected by pipes: commands, input and output, statuses, a tar through it.
# needs: ssh sshd ssh-keygen
# normalise stderr: s/^Warning: Permanently added .*//
mkdir -p -m 755 /run/sshd; mkdir -m 700 keys
ssh-keygen -q -t ed25519 -N '' -f keys/host; ssh-keygen -q -t ed25519 -N '' -f keys/user
cat >keys/sshd <<END
HostKey $PWD/keys/host
AuthorizedKeysFile $PWD/keys/user.pub
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
LogLevel QUIET
END
cat >keys/ssh <<END
Host *
ProxyCommand /usr/sbin/sshd -i -f $PWD/keys/sshd
IdentityFile $PWD/keys/user
UserKnownHostsFile $PWD/keys/known
StrictHostKeyChecking no
LogLevel ERROR
END
remote() { ssh -F keys/ssh host "$@"; }
remote 'echo far away; exit 4' </dev/null; echo "$?"
seq 1 200000 | remote 'cat | wc -l; cat /dev/null; echo error >&2'
remote 'seq 1 100000' </dev/null | tail -n 1
mkdir tree; seq 1000 >tree/a; tar -cf - tree | remote "tar -tf -"
remote 'yes' </dev/null 2>/dev/null | head -n 1
rm -r keys tree
