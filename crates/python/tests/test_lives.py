"""Processes that are killed, and messages without number: nothing is lost, nothing is left."""

import os
import random
import resource
import signal
import time

import millstream

# 10 000 by default in 'make check-python LIVES=10000'.
LIVES = int(os.environ.get("MILLSTREAM_LIVES", "300"))


def message_of(number):
    """A message that its number tells, of some bytes or many."""
    return number.to_bytes(8, "little") * (1 + number * 2654435761 % 3000)


def send_forever(connection):
    number = 0
    while True:
        connection.send_bytes(message_of(number))
        number += 1


def receive_forever(connection):
    number = 0
    while True:
        assert connection.recv_bytes() == message_of(number)
        number += 1


def fork(function, connection, other):
    """A child that has one end only."""
    child = os.fork()
    if child == 0:
        try:
            other.close()
            function(connection)
        except (BrokenPipeError, EOFError):
            os._exit(0)
        finally:
            os._exit(1)
    connection.close()
    return child


def test_killed_sender_ends_the_stream_after_whole_messages():
    dice = random.Random(7)
    total = 0
    for _ in range(LIVES):
        receiver, sender = millstream.Pipe(duplex=False)
        child = fork(send_forever, sender, receiver)
        last = dice.randrange(200)
        number = 0
        try:
            while True:
                if number == last:
                    os.kill(child, signal.SIGKILL)
                assert receiver.recv_bytes() == message_of(number)
                number += 1
        except EOFError:
            pass
        except OSError as error:
            # The sender was killed in the middle of a message.
            assert str(error) == "got end of file during message"
        assert number >= last
        total += number
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        receiver.close()
    assert total > LIVES


def test_killed_receiver_breaks_the_pipe():
    dice = random.Random(8)
    for _ in range(LIVES):
        receiver, sender = millstream.Pipe(duplex=False)
        child = fork(receive_forever, receiver, sender)
        last = dice.randrange(200)
        number = 0
        try:
            while True:
                if number == last:
                    os.kill(child, signal.SIGKILL)
                sender.send_bytes(message_of(number))
                number += 1
        except BrokenPipeError:
            pass
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        sender.close()


def test_messages_without_number_need_no_more_memory():
    receiver, sender = millstream.Pipe(duplex=False)

    def exchange(count):
        for _ in range(count):
            sender.send([1, "two"])
            receiver.recv()
            sender.send_bytes(b"grain")
            receiver.recv_bytes()

    exchange(2000)
    before = resident()
    exchange(50_000)
    sender.send(bytearray(100_000))
    receiver.recv()
    assert resident() - before < 4 << 20
    receiver.close()
    sender.close()


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
    child = fork(receive_forever, receiver, sender)
    time.sleep(0.3)

    def cpu():
        with open(f"/proc/{child}/stat") as stat:
            return sum(int(ticks) for ticks in stat.read().rsplit(")", 1)[1].split()[11:13])

    before = cpu()
    time.sleep(0.5)
    assert cpu() - before <= 1
    sender.close()
    assert os.waitpid(child, 0)[1] == 0
