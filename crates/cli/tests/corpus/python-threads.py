#!/usr/bin/python3
# Threads of one process on the two ends of pipes, select.poll on many of them, and a signal that wakes through a pipe.
import os, select, signal, threading
ends = [os.pipe() for _ in range(50)]
def write(w, n):
    for _ in range(20): os.write(w, bytes([n]) * 3000)
    os.close(w)
threads = [threading.Thread(target=write, args=(w, n)) for n, (_, w) in enumerate(ends)]
for thread in threads: thread.start()
poll, got = select.poll(), {r: 0 for r, _ in ends}
for r, _ in ends: poll.register(r, select.POLLIN)
while got.keys() - {r for r in got if got[r] < 0}:
    open_ones = [r for r in got if got[r] >= 0]
    if not open_ones: break
    for fd, events in poll.poll():
        data = os.read(fd, 65536)
        got[fd] += len(data)
        if not data:
            poll.unregister(fd); print(got[fd], end=' '); got[fd] = -1
print(); [thread.join() for thread in threads]
r, w = os.pipe(); os.set_blocking(w, False); os.set_blocking(r, False)
signal.set_wakeup_fd(w); signal.signal(signal.SIGUSR1, lambda *_: None)
os.kill(os.getpid(), signal.SIGUSR1)
select.select([r], [], []); print(os.read(r, 10) == bytes([signal.SIGUSR1]))
