"""Large buffers of messages in memory beside the pipe: Pipe(arena=)."""

import os
import pickle
import random
import signal
import threading

import millstream
import numpy
import pytest
from millstream import _native
from processes import interrupt_when

MEBIBYTE = 1 << 20


@pytest.fixture
def ends():
    receiver, sender = millstream.Pipe(duplex=False, trust=True, arena=4 * MEBIBYTE)
    yield receiver, sender
    receiver.close()
    sender.close()


def used(sender):
    return sender._sent_in.used


def test_arrays_larger_than_the_pipe_are_received_in_place(ends):
    receiver, sender = ends
    sent = [numpy.arange(100_000.0), numpy.arange(150_001, dtype="i4"), b"grain"]
    sender.send(sent)
    with receiver.recv(borrow=True) as message:
        assert message.is_in_place and message.value[2] == b"grain"
        for got, array in zip(message.value[:2], sent):
            assert (got == array).all() and not got.flags.writeable and got.ctypes.data % 64 == 0
        assert used(sender) >= 1_400_000
        del got
    assert used(sender) == 0


@pytest.mark.parametrize("make", [numpy.zeros, numpy.empty], ids=["zeros", "empty"])
def test_arrays_of_every_kind_arrive_as_they_were_sent(ends, make):
    receiver, sender = ends
    for shape, dtype, order in [((300, 200), "f8", "C"), ((300, 200), "f8", "F"), ((40_000,), ">i4", "C"), ((3, 5, 7000), "c8", "C")]:
        for _ in range(2):  # the second time its pickle is known
            sent = make(shape, dtype, order)
            sender.send(sent)
            got = receiver.recv()
            assert got.dtype == sent.dtype and got.shape == sent.shape and got.flags.fnc == sent.flags.fnc
            assert got.tobytes() == sent.tobytes() and got.flags.writeable
    structure = numpy.zeros(10_000, [("a", "i4"), ("b", "f8")])
    times = numpy.arange(10_000).astype("M8[s]")
    parts = numpy.zeros((500, 500))[::2, ::2]
    for sent in (structure, times, parts, numpy.zeros((0, 3)), numpy.array(["one", None], object)):
        sender.send(sent)
        got = receiver.recv()
        assert got.dtype == sent.dtype and got.shape == sent.shape and (got == sent).all()
    assert used(sender) == 0


def test_array_type_with_metadata_keeps_it():
    marked = numpy.dtype("f8", metadata={"unit": "m"})
    receiver, sender = millstream.Pipe(duplex=False)
    for dtype, metadata in ((numpy.dtype("f8"), None), (marked, {"unit": "m"}), (numpy.dtype("f8"), None)):
        sent = numpy.zeros(5000, dtype)
        sender.send(sent)
        assert receiver.recv().dtype.metadata == pickle.loads(pickle.dumps(sent, 5)).dtype.metadata == metadata
    receiver.close()
    sender.close()


def test_reducer_of_the_program_is_asked_for_arrays():
    from multiprocessing.reduction import ForkingPickler

    receiver, sender = millstream.Pipe(duplex=False)
    sent = numpy.zeros(5000)
    sender.send(sent)
    assert type(receiver.recv()) is numpy.ndarray
    ForkingPickler.register(numpy.ndarray, lambda array: (len, (b"grain",)))
    try:
        sender.send(sent)
        assert receiver.recv() == 5
    finally:
        del ForkingPickler._extra_reducers[numpy.ndarray]
    receiver.close()
    sender.close()


def test_message_in_an_arena_is_received_by_every_way(ends):
    receiver, sender = ends
    sent = numpy.arange(100_000.0)
    sender.send(sent)
    assert (pickle.loads(receiver.recv_bytes()) == sent).all()
    sender.send(sent)
    target = bytearray(MEBIBYTE)
    count = receiver.recv_bytes_into(target)
    assert (pickle.loads(target[:count]) == sent).all()
    sender.send(sent)
    with pytest.raises(OSError, match="bad message length"):
        receiver.recv_bytes(1000)


def test_messages_are_kept_while_others_are_received(ends):
    receiver, sender = ends
    kept = []
    for number in range(3):
        sender.send(numpy.full(100_000, float(number)))
        kept.append(receiver.recv(borrow=True))
    assert [message.value[-1] for message in kept] == [0, 1, 2]
    array = kept[1].value
    with pytest.raises(BufferError, match="view of these bytes"):
        kept[1].release()
    kept[0].release()
    kept[2].release()
    receiver.close()
    assert array[-1] == 1
    del array
    kept[1].release()
    assert used(sender) == 0


def test_forgotten_message_frees_its_place(ends):
    receiver, sender = ends
    for _ in range(20):
        sender.send(numpy.ones(200_000))
        assert receiver.recv(borrow=True).value.sum() == 200_000
    assert used(sender) == 0


def test_sender_without_room_waits_and_then_uses_the_pipe(ends):
    receiver, sender = ends
    sent = numpy.ones(400_000)
    sender.send(sent)
    held = receiver.recv(borrow=True)
    # Room is made while the sender waits for it.
    thread = threading.Thread(target=sender.send, args=(sent,))
    thread.start()
    held.release()
    with receiver.recv(borrow=True) as message:
        thread.join()
        assert (message.value == sent).all()
    # And here none is: the message comes by the pipe.
    sender.send(sent)
    held = receiver.recv(borrow=True)
    thread = threading.Thread(target=sender.send, args=(2 * sent,))
    thread.start()
    with receiver.recv(borrow=True) as message:
        thread.join()
        assert not message.is_in_place and (message.value == 2 * sent).all()
    assert (held.value == sent).all()
    held.release()


def test_message_larger_than_the_arena_uses_the_pipe(ends):
    receiver, sender = ends
    thread = threading.Thread(target=sender.send, args=(numpy.ones(MEBIBYTE),))
    thread.start()
    with receiver.recv(borrow=True) as message:
        thread.join()
        assert not message.is_in_place and message.value.sum() == MEBIBYTE
    assert used(sender) == 0


def test_both_directions_have_an_arena_of_their_own():
    here, there = millstream.Pipe(trust=True, arena=MEBIBYTE)
    here.send(numpy.full(100_000, 1.0))
    there.send(numpy.full(100_000, 2.0))
    with here.recv(borrow=True) as mine, there.recv(borrow=True) as yours:
        assert mine.is_in_place and yours.is_in_place and (mine.value[0], yours.value[0]) == (2, 1)
    here.close()
    there.close()


def double(connection):
    with connection.recv(borrow=True) as message:
        assert message.is_in_place
        connection.send(2 * message.value)
    connection.close()


def test_child_of_every_start_method_has_the_arena(context):
    here, there = context.Pipe(trust=True, arena=2 * MEBIBYTE)
    child = context.Process(target=double, args=(there,))
    child.start()
    there.close()
    sent = numpy.arange(100_000.0)
    here.send(sent)
    with here.recv(borrow=True) as message:
        assert message.is_in_place and (message.value == 2 * sent).all()
    child.join()
    assert child.exitcode == 0
    here.close()


def test_killed_receiver_ends_the_sender_that_waits_for_room():
    receiver, sender = millstream.Pipe(duplex=False, trust=True, arena=MEBIBYTE)
    child = os.fork()
    if child == 0:
        sender.close()
        held = receiver.recv(borrow=True)
        assert held.value[0] == 1
        os.kill(os.getpid(), signal.SIGKILL)
    receiver.close()
    with pytest.raises(BrokenPipeError):
        while True:
            sender.send(numpy.ones(100_000))
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    sender.close()


def test_blocks_of_a_killed_receiver_are_lost_and_the_pipe_goes_on():
    receiver, sender = millstream.Pipe(duplex=False, trust=True, arena=MEBIBYTE)
    child = os.fork()
    if child == 0:
        held = receiver.recv(borrow=True)
        assert held.value[0] == 1
        os.kill(os.getpid(), signal.SIGKILL)
    sender.send(numpy.ones(100_000))
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    thread = threading.Thread(target=sender.send, args=(numpy.full(100_000, 2.0),))
    thread.start()
    assert (receiver.recv() == 2).all()
    thread.join()
    assert used(sender) > 0
    receiver.close()
    sender.close()


def test_sender_killed_anywhere_is_the_end_of_the_stream():
    dice = random.Random(7)
    for _ in range(30):
        receiver, sender = millstream.Pipe(duplex=False, trust=True, arena=MEBIBYTE)
        child = os.fork()
        if child == 0:
            receiver.close()
            number = 0
            while True:
                sender.send(numpy.full(50_000, number))
                number += 1
        sender.close()
        last = dice.randrange(20)
        number = 0
        try:
            while True:
                with receiver.recv(borrow=True) as message:
                    assert (message.value == number).all()
                if number == last:
                    os.kill(child, signal.SIGKILL)
                number += 1
        except EOFError:
            pass
        except OSError as error:  # killed in the middle of a message
            assert "end of file during message" in str(error)
        assert number > last and os.waitpid(child, 0)[1] == signal.SIGKILL
        receiver.close()


def test_messages_without_number_need_no_more_memory(ends):
    receiver, sender = ends
    sent = numpy.ones(40_000)

    def exchange(count):
        for _ in range(count):
            sender.send(sent)
            with receiver.recv(borrow=True) as message:
                assert message.value[-1] == 1
            sender.send(sent)
            receiver.recv()

    exchange(200)
    before = resident()
    exchange(3000)
    assert resident() - before < 2 << 20 and used(sender) == 0


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_threads_share_an_arena():
    pairs = [millstream.Pipe(duplex=False) for _ in range(4)]
    arena = _native.Arena(4 * MEBIBYTE)
    failed = []

    def pass_arrays(number):
        receiver, sender = pairs[number]
        receiver._received_in = sender._sent_in = arena
        for turn in range(100):
            sender.send(numpy.full(20_000 + 5000 * number, 100.0 * number + turn))
            with receiver.recv(borrow=True) as message:
                if not (message.value == 100.0 * number + turn).all():
                    failed.append(number)

    threads = [threading.Thread(target=pass_arrays, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and arena.used == 0
    for pair in pairs:
        for end in pair:
            end.close()


def test_bad_arenas_are_refused():
    with pytest.raises(ValueError, match="arena=4096 needs trust=True"):
        millstream.Pipe(arena=4096)
    for size in (0, (1 << 63) - 1):
        with pytest.raises(ValueError, match=f"arena of {size} bytes is out of range"):
            millstream.Pipe(trust=True, arena=size)
    with pytest.raises(ValueError, match="not negative"):
        _native.Arena.attach(-1)
    fd = os.memfd_create("grain")
    os.truncate(fd, 100)
    with pytest.raises(ValueError, match="no arena"):
        _native.Arena.attach(fd)


@pytest.mark.parametrize(("offset", "size"), [(1, 40_000), (0, 1 << 40), (1 << 20, 40_000), (1 << 63, 40_000), (0, 0)])
def test_message_that_points_outside_of_the_arena_is_refused(offset, size):
    receiver, sender = millstream.Pipe(duplex=False, trust=True, arena=MEBIBYTE)
    words = ((3 << 62) | 1, offset, 1, size)
    sender._writer.write(b"".join(word.to_bytes(8, "little") for word in words) + b"x")
    with pytest.raises(OSError, match="outside of the arena"):
        receiver.recv()
    receiver.close()
    sender.close()


def test_message_in_an_arena_that_the_receiver_lacks_is_refused():
    receiver, sender = millstream.Pipe(duplex=False)
    words = ((3 << 62) | 1, 0, 1, 40_000)
    sender._writer.write(b"".join(word.to_bytes(8, "little") for word in words) + b"x")
    with pytest.raises(OSError, match="arena that this end does not have"):
        receiver.recv()
    receiver.close()
    sender.close()


def test_ctrl_c_ends_the_wait_for_room(ends):
    receiver, sender = ends
    sent = numpy.ones(400_000)
    sender.send(sent)
    held = receiver.recv(borrow=True)

    is_sending = threading.Event()
    thread = interrupt_when(is_sending.is_set)
    with pytest.raises(KeyboardInterrupt):
        is_sending.set()
        while True:
            sender.send(sent)
    thread.join()
    held.release()
