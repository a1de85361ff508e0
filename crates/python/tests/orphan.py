"""A parent that dies before its child has sent anything: `python orphan.py METHOD DESCRIPTOR`."""

import os
import signal
import sys
import time

import millstream


def send_numbers(connection, parent):
    while is_alive(parent):
        time.sleep(0.001)
    for number in range(1000):
        connection.send(number)


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    method, descriptor = sys.argv[1], int(sys.argv[2])
    sender = millstream.Connection(None, millstream._native.Writer.attach(descriptor))
    millstream.get_context(method).Process(target=send_numbers, args=(sender, os.getpid())).start()
    os.kill(os.getpid(), signal.SIGKILL)
