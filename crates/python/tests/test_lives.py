"""Processes that are killed, and messages without number: nothing is lost, nothing is left."""

import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import time

import lives
import millstream
import pytest

# Both in 'make check-python LIVES=10000'.
LIVES = int(os.environ.get("MILLSTREAM_LIVES", "1000"))
SEED = int(os.environ.get("MILLSTREAM_SEED", "7"))


def test_killed_side_ends_the_stream_after_whole_messages_or_breaks_the_pipe():
    shared = set(os.listdir("/dev/shm"))
    command = [sys.executable, pathlib.Path(__file__).with_name("lives.py")]
    pipe = subprocess.PIPE
    # A process for each of two CPUs.
    processes = [
        subprocess.Popen([*command, str(SEED + number), str(LIVES // 2)], stdout=pipe, stderr=pipe, text=True)
        for number in range(2)
    ]
    for number, process in enumerate(processes):
        said, complaint = process.communicate()
        assert process.returncode == 0, f"MILLSTREAM_SEED={SEED + number}: {complaint}"
        lived, total = map(int, said.split())
        assert lived == LIVES // 2 and total > lived
    assert not [name for name in set(os.listdir("/dev/shm")) - shared if "millstream" in name]


def test_million_messages_need_no_more_memory_and_leave_no_reference():
    receiver, sender = millstream.Pipe(duplex=False)
    message, value, target = b"grain" * 20, [1, "two"], bytearray(100)

    def exchange(count):
        for _ in range(count):
            for _ in range(9):
                sender.send_bytes(message)
                receiver.recv_bytes_into(target)
            sender.send(value)
            receiver.recv()

    def references():
        return [sys.getrefcount(held) for held in (message, value, target, receiver, sender, None, EOFError)]

    exchange(2000)
    before, counts = resident(), references()
    exchange(100_000)
    sender.send(bytearray(100_000))
    receiver.recv()
    assert resident() - before < 4 << 20
    for had, has in zip(counts, references()):
        assert abs(has - had) < 1000, (counts, references())
    receiver.close()
    sender.close()


def test_errors_without_number_need_no_more_memory():
    receiver, sender = millstream.Pipe(duplex=False)
    reader, writer = millstream.pipe(trust=True)
    target = bytearray(3)

    def fail(count):
        for _ in range(count):
            sender.send_bytes(b"grain")
            with pytest.raises(millstream.connection.BufferTooShort):
                receiver.recv_bytes_into(target)
            with pytest.raises(BufferError):
                reader.readinto(b"read-only")
            writer.write(b"x")
            with reader.borrow(1) as view, pytest.raises(BufferError):
                reader.waiting
            del view
            with pytest.raises(ValueError):
                millstream.Reader.attach(-1)

    fail(500)
    before = resident()
    fail(5_000)
    assert resident() - before < 2 << 20
    for end in (receiver, sender, reader, writer):
        end.close()


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def test_pipes_without_number_leave_no_descriptor():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2000):
        receiver, sender = millstream.Pipe(duplex=False)
        sender.send(1)
        receiver.recv()
    del receiver, sender
    assert len(os.listdir("/proc/self/fd")) == before


def test_too_many_open_files_is_an_error_and_leaves_nothing():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/proc/self/fd"))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, limits[1]))
        try:
            millstream.Pipe()
        except OSError as error:
            assert error.errno == 24, error
        else:
            raise AssertionError("a pipe without descriptors")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len(os.listdir("/proc/self/fd")) == before


def test_idle_connections_use_no_cpu():
    receiver, sender = millstream.Pipe(duplex=False)
    child = lives.fork(lives.receive_forever, receiver, sender)
    time.sleep(0.3)

    def cpu():
        with open(f"/proc/{child}/stat") as stat:
            return sum(int(ticks) for ticks in stat.read().rsplit(")", 1)[1].split()[11:13])

    before = cpu()
    time.sleep(0.5)
    assert cpu() - before <= 1
    sender.close()
    assert os.waitpid(child, 0)[1] == 0


def test_child_outlives_its_parent(context):
    receiver, sender = millstream.Pipe(duplex=False)
    descriptor = sender._writer.detach()
    script = pathlib.Path(__file__).with_name("orphan.py")
    command = [sys.executable, script, context.get_start_method(), str(descriptor)]
    parent = subprocess.run(command, pass_fds=[descriptor], capture_output=True, text=True)
    os.close(descriptor)
    assert parent.returncode == -signal.SIGKILL, parent.stderr
    assert [receiver.recv() for _ in range(1000)] == list(range(1000))
    with pytest.raises(EOFError):
        receiver.recv()
    receiver.close()


def test_child_of_a_thread_sends_and_ends():
    receiver, sender = millstream.Pipe(duplex=False)
    statuses = []

    def fork_and_wait():
        child = lives.fork(lambda connection: [connection.send(number) for number in range(1000)] and os._exit(7), sender, receiver)
        statuses.append(os.waitpid(child, 0)[1])

    thread = threading.Thread(target=fork_and_wait)
    thread.start()
    received = []
    with pytest.raises(EOFError):
        while True:
            received.append(receiver.recv())
    thread.join()
    assert received == list(range(1000)) and os.waitstatus_to_exitcode(statuses[0]) == 7
    receiver.close()
