#!/usr/bin/python3
# A producer and a consumer in python by subprocess.PIPE, in lines, in blocks and with pickles.
# random kills
import pickle, subprocess as s, sys
lines = s.Popen([sys.executable, '-c', 'for i in range(50000): print(i)'], stdout=s.PIPE)
print(sum(int(line) for line in lines.stdout), lines.wait())
consumer = s.Popen([sys.executable, '-c', 'import sys, hashlib; print(hashlib.sha1(sys.stdin.buffer.read()).hexdigest())'], stdin=s.PIPE, stdout=s.PIPE)
for i in range(300): consumer.stdin.write(bytes([i % 256]) * 10007)
print(consumer.communicate()[0].decode().strip(), consumer.returncode)
echo = s.Popen([sys.executable, '-c', 'import pickle, sys\nwhile (x := pickle.load(sys.stdin.buffer)) is not None: pickle.dump(x[::-1], sys.stdout.buffer); sys.stdout.flush()'], stdin=s.PIPE, stdout=s.PIPE)
for i in range(200):
    pickle.dump(list(range(i)), echo.stdin); echo.stdin.flush()
    assert pickle.load(echo.stdout) == list(range(i))[::-1]
pickle.dump(None, echo.stdin); echo.stdin.close(); print(echo.wait())
