"""A process whose memory cgroup is full when it writes: `python full_memory.py FOLDER`, with the folder of a cgroup of version 1.

The kernel is told to refuse memory and to kill no process. A page fault would then wait for ever, so all that this process needs is made
and locked beforehand, and ballast makes room again after each error.
"""

import array
import ctypes
import mmap
import os
import sys

import millstream
from millstream import _native

# What the kernel holds ready for each CPU, some 256 KiB, comes to it.
ROOM = 64 << 10
BALLAST = 4 << 20
CAPACITY = 1 << 20
data, target = bytes(1_000_000), bytearray(1_000_000)
numbers = array.array("b", data)


def fill_up(folder):
    """Leaves room for a part of what is written. Returns the ballast."""
    ballast = mmap.mmap(-1, BALLAST, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, BALLAST, mmap.PAGESIZE):
        ballast[page] = 1
    with open(f"{folder}/memory.usage_in_bytes", encoding="ascii") as usage:
        limit = int(usage.read()) + ROOM
    set_limit(folder, limit)
    return ballast


def set_limit(folder, limit):
    with open(f"{folder}/memory.limit_in_bytes", "w", encoding="ascii") as file:
        file.write(str(limit))


def refused(folder, call):
    """The number of the error that a call gets when there is no memory."""
    ballast = fill_up(folder)
    try:
        call()
        number = 0
    except OSError as error:
        number = error.errno
    ballast.close()
    set_limit(folder, -1)
    return number


def send_in_arena(reader, writer):
    """What finds no memory in the arena goes through the pipe, and finds none there."""
    connection = millstream.Connection(None, writer._end.dup(), sent_in=_native.Arena(1 << 20))
    return lambda: connection.send(numbers)


def main():
    folder = sys.argv[1]
    for name, value in (("cgroup.procs", os.getpid()), ("memory.oom_control", 1)):
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.write(str(value))
    ways = {
        "write": lambda reader, writer: lambda: writer.write(data),
        "reserve": lambda reader, writer: lambda: writer.reserve(len(data)),
        "send_bytes": lambda reader, writer: lambda: millstream.Connection(None, writer._end.dup()).send_bytes(data),
        "arena": send_in_arena,
    }
    locked = False
    for name, way in ways.items():
        # Once with memory, so that no step is the first.
        reader, writer = millstream.pipe(CAPACITY, trust=True)
        way(reader, writer)()
        try:
            raise OSError(0, "warm")
        except OSError:
            pass
        reader.close()
        pipe = millstream.pipe(CAPACITY, trust=True)
        if not locked and ctypes.CDLL(None, use_errno=True).mlockall(1) != 0:
            raise OSError(ctypes.get_errno(), "mlockall")
        locked = True
        number = refused(folder, way(*pipe))
        # There is memory again: the pipe goes on.
        reader, writer = pipe
        waited = reader.waiting
        if waited:
            assert reader.readinto(target) == waited
        assert writer.write(data) == len(data) and reader.read(len(data)) == data
        print(name, number, flush=True)


if __name__ == "__main__":
    main()
