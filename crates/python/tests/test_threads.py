"""Threads that use the same objects at once: what each promises holds without Python's lock too."""

import os
import sys
import sysconfig
import threading
import time

import millstream
import numpy
import pytest

ROUNDS = 300


def at_once(*functions):
    """Calls each in a thread, all begun together. Returns what each has returned or raised."""
    start = threading.Barrier(len(functions))
    outcomes = [None] * len(functions)

    def call(place, function):
        start.wait()
        try:
            outcomes[place] = function()
        except Exception as error:
            outcomes[place] = error

    threads = [threading.Thread(target=call, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_package_leaves_the_lock_of_python_as_it_was_built():
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert has_lock == (not sysconfig.get_config_var("Py_GIL_DISABLED"))


def test_threads_take_each_record_of_one_reader_once():
    reader, writer = millstream.pipe(capacity=4096)
    count = 5_000

    def write(first):
        for number in range(first, count, 2):
            assert writer.write(number.to_bytes(8, "little")) == 8

    def read():
        taken = []
        while piece := reader.read(8):
            assert len(piece) == 8
            taken.append(int.from_bytes(piece, "little"))
        return taken

    def write_all():
        assert at_once(lambda: write(0), lambda: write(1)) == [None, None]
        writer.close()

    *taken, written = at_once(read, read, read, write_all)
    assert written is None
    assert sorted(number for numbers in taken for number in numbers) == list(range(count))
    reader.close()


def test_close_beside_a_blocked_read_keeps_its_byte():
    for _ in range(ROUNDS):
        reader, writer = millstream.pipe()
        reading, closed, written = at_once(lambda: reader.read(1), reader.close, lambda: writer.write(b"x"))
        assert closed is None and reader.closed
        # The reader was closed first, or its call was: then it had the byte, if there was an end to write it to.
        if isinstance(reading, ValueError):
            assert "closed" in str(reading) and (written == 1 or isinstance(written, BrokenPipeError))
        else:
            assert (reading, written) == (b"x", 1)
        writer.close()


def test_close_beside_calls_of_any_kind_ends_or_refuses_them():
    for _ in range(ROUNDS):
        receiver, sender = millstream.Pipe(duplex=False)
        outcomes = at_once(
            lambda: sender.send_bytes(b"grain"), sender.close, sender.close, receiver.fileno, receiver.close, receiver.poll
        )
        assert outcomes[1] is outcomes[2] is outcomes[4] is None
        assert all(isinstance(outcomes[place], (type(None), int, bool, ValueError, OSError)) for place in (0, 3, 5)), outcomes
        assert receiver.closed and sender.closed


@pytest.mark.parametrize("trust", [True, False], ids=["trusted", "copied"])
def test_view_is_made_or_bytes_are_given_back_but_never_both(trust):
    reader, writer = millstream.pipe(capacity=4096, trust=trust)
    for number in range(ROUNDS):
        sent = b"%05d" % number
        writer.write(sent)
        piece = reader._end.borrow(5)
        view, finished = at_once(lambda: memoryview(piece), lambda: piece.finish(5))
        if isinstance(view, BufferError):
            assert "given back" in str(view) and finished is None
        else:
            # The view came first, and holds the bytes; if both went well it would see what is written later.
            assert isinstance(finished, BufferError), finished
            assert bytes(view) == sent
            view.release()
            piece.finish(5)
        assert reader.waiting == 0
    reader.close()
    writer.close()


def test_view_is_released_in_another_thread():
    reader, writer = millstream.pipe(capacity=4096, trust=True)
    for _ in range(ROUNDS):
        writer.write(b"grain")
        piece = reader._end.borrow(5)
        view = memoryview(piece)

        def finish():
            refused = 0
            while True:
                try:
                    piece.finish(5)
                    return refused
                except BufferError:
                    refused += 1
                    time.sleep(0)  # with Python's lock the other thread runs now

        released, refused = at_once(view.release, finish)
        assert released is None and refused >= 0
        assert reader.waiting == 0
    reader.close()
    writer.close()


def test_bytes_are_given_back_once_by_many_threads():
    reader, writer = millstream.pipe(capacity=1 << 16, trust=True)
    for number in range(1, ROUNDS + 1):
        piece = writer._end.reserve(5)
        assert at_once(*[lambda: piece.finish(5)] * 4) == [None] * 4
        assert reader.waiting == 5 * number
    reader.close()
    writer.close()


def test_message_is_released_by_many_threads_once():
    receiver, sender = millstream.Pipe(duplex=False, trust=True)
    for number in range(ROUNDS // 3):
        sender.send(numpy.arange(10_000.0))
        sender.send(number)
        message = receiver.recv(borrow=True)
        assert message.is_in_place
        assert at_once(*[message.release] * 3) == [None] * 3
        assert receiver.recv() == number
    receiver.close()
    sender.close()


def test_end_is_taken_by_one_of_many_threads():
    for _ in range(ROUNDS // 3):
        reader, writer = millstream.pipe()
        outcomes = at_once(*[reader._end.detach] * 3)
        taken = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert len(taken) == 1, outcomes
        assert all(isinstance(other, (int, ValueError, BufferError)) for other in outcomes)
        writer.write(b"x")
        assert os.read(taken[0], 5) == b"x"
        os.close(taken[0])
        writer.close()


def test_forks_beside_busy_threads_leave_the_child_a_pipe_to_close():
    reader, writer = millstream.pipe(capacity=4096)
    piece_reader, piece_writer = millstream.pipe(capacity=4096, trust=True)
    piece_writer.write(b"grain")
    piece = piece_reader._end.borrow(5)
    done = threading.Event()

    def use():
        while not done.is_set():
            assert reader.waiting == writer.waiting == 0
            memoryview(piece).release()
        return "used"

    def fork():
        try:
            for _ in range(100):
                child = os.fork()
                if child == 0:
                    # Each of these would wait for ever at a lock that a thread of the parent had.
                    memoryview(piece).release()
                    reader.fileno()
                    reader.close()
                    writer.close()
                    os._exit(0 if reader.closed and writer.closed else 1)
                assert os.waitpid(child, 0)[1] == 0
            return "forked"
        finally:
            done.set()

    assert at_once(use, use, fork) == ["used", "used", "forked"]
    piece.finish(5)
    for end in (reader, writer, piece_reader, piece_writer):
        end.close()


def test_broadcast_is_written_by_one_thread_at_a_time():
    writer, (reader,) = millstream.broadcast(readers=1, capacity=1 << 16)
    wrote = 0
    for _ in range(ROUNDS):
        outcomes = at_once(*[lambda: writer.write(b"grain")] * 3)
        assert all(outcome == 5 or isinstance(outcome, BufferError) for outcome in outcomes), outcomes
        wrote += outcomes.count(5)
        assert reader.waiting == 5 * outcomes.count(5) > 0
        assert reader.read(100) == b"grain" * outcomes.count(5)
    assert wrote >= ROUNDS
    reader.close()
    writer.close()
