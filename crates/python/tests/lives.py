"""Lives of pipes whose one side is killed: `python lives.py SEED LIVES`, a small process from which a fork is cheap.

In each life a child sends or receives for ever, and is killed when this process has got or given a number of messages that dice tell.
The child runs ahead, or is about to sleep, or sleeps, so it is killed anywhere. What fails says which life it was.
"""

import os
import random
import signal
import sys

import millstream


def message_of(number):
    """A message that its number tells, of some bytes or many."""
    return number.to_bytes(8, "little") * (1 + number * 2654435761 % 3000)


MESSAGES = [message_of(number) for number in range(200)]


def expected(number):
    return MESSAGES[number % len(MESSAGES)]


def send_forever(connection):
    number = 0
    while True:
        connection.send_bytes(expected(number))
        number += 1


def receive_forever(connection):
    number = 0
    while True:
        assert connection.recv_bytes() == expected(number)
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


def live(child, end, exchange, last):
    """Messages that were exchanged with a child that is killed at the last one: all are whole and in order."""
    number = 0
    try:
        while True:
            if number == last:
                os.kill(child, signal.SIGKILL)
            exchange(number)
            number += 1
    except (EOFError, BrokenPipeError) as error:
        # Of a stream that is read and of one that is written to.
        assert isinstance(error, EOFError if end.readable else BrokenPipeError), error
    except OSError as error:
        # The sender was killed in the middle of a message.
        assert str(error) == "got end of file during message", error
    assert number >= last, number
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    end.close()
    return number


def live_with_killed_sender(last):
    receiver, sender = millstream.Pipe(duplex=False)

    def receive(number):
        assert receiver.recv_bytes() == expected(number)

    return live(fork(send_forever, sender, receiver), receiver, receive, last)


def live_with_killed_receiver(last):
    receiver, sender = millstream.Pipe(duplex=False)
    child = fork(receive_forever, receiver, sender)
    return live(child, sender, lambda number: sender.send_bytes(expected(number)), last)


def descriptors_and_mappings():
    """What could be left of a pipe: descriptors, and mappings of its memory."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        mappings = sum("memfd:" in line or "/dev/shm" in line for line in maps)
    return len(os.listdir("/proc/self/fd")), mappings


def main():
    seed, lives = int(sys.argv[1]), int(sys.argv[2])
    dice = random.Random(seed)
    kinds = [live_with_killed_sender, live_with_killed_receiver]
    kinds[0](0)  # what is opened once, at the first pipe
    before = descriptors_and_mappings()
    total = 0
    for life in range(lives):
        kind, last = kinds[life % 2], dice.randrange(len(MESSAGES))
        try:
            total += kind(last)
        except BaseException as error:
            raise SystemExit(f"life {life} of seed {seed}, {kind.__name__}({last}): {error!r}") from error
    after = descriptors_and_mappings()
    assert after == before, (before, after)
    print(lives, total)


if __name__ == "__main__":
    main()
