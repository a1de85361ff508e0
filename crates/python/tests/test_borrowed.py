"""Objects that are received without copying their buffers: recv(borrow=True)."""

import gc
import os
import pickle
import random
import signal
import threading

import millstream
import numpy
import pytest


@pytest.fixture(params=[True, False], ids=["trusted", "copied"])
def ends(request):
    receiver, sender = millstream.Pipe(duplex=False, trust=request.param)
    yield receiver, sender
    receiver.close()
    sender.close()


def test_buffers_lie_in_the_pipe_until_the_block_ends(ends):
    receiver, sender = ends
    sent = {"numbers": numpy.arange(10_000.0), "more": numpy.arange(5_000), "text": "grain"}
    sender.send(sent)
    with receiver.recv(borrow=True) as message:
        assert message.is_in_place and message.value["text"] == "grain"
        assert (message.value["numbers"] == sent["numbers"]).all() and (message.value["more"] == sent["more"]).all()
        assert not message.value["numbers"].flags.writeable and message.value["numbers"].flags.aligned
        with pytest.raises(ValueError, match="read-only"):
            message.value["numbers"][0] = 1
    with pytest.raises(ValueError, match="given back"):
        message.value
    message.release()
    sender.send(7)
    assert receiver.recv() == 7


def test_object_without_large_buffers_is_borrowed_too(ends):
    receiver, sender = ends
    for sent in (None, [1, "two"], numpy.arange(3), pickle.PickleBuffer(b"grain")):
        sender.send(sent)
        with receiver.recv(borrow=True) as message:
            assert not message.is_in_place and bytes(pickle.dumps(message.value))
    assert not receiver.poll()


def test_live_view_of_message_is_a_buffer_error(ends):
    receiver, sender = ends
    sent = numpy.arange(10_000.0)
    sender.send(sent)
    with pytest.raises(BufferError, match="view of these bytes"), receiver.recv(borrow=True) as message:
        array = message.value[10:]
    assert (array == sent[10:]).all()
    with pytest.raises(BufferError):
        receiver.recv()
    del array
    message.release()
    sender.send(7)
    assert receiver.recv() == 7


def test_connection_receives_nothing_else_meanwhile():
    here, there = millstream.Pipe(trust=True)
    there.send(numpy.zeros(10_000))
    there.send(7)
    with here.recv(borrow=True):
        for use in (here.recv, here.poll, here.fileno, lambda: here.recv(borrow=True)):
            with pytest.raises(BufferError, match="borrowed"):
                use()
        here.send(8)
        assert there.recv() == 8
    assert here.recv() == 7
    here.close()
    there.close()


def test_message_that_does_not_fit_is_copied(ends):
    receiver, sender = ends
    sent = numpy.arange(200_000.0)
    thread = threading.Thread(target=sender.send, args=(sent,))
    thread.start()
    with receiver.recv(borrow=True) as message:
        thread.join()
        assert not message.is_in_place and (message.value == sent).all()
        kept = message.value
    kept[0] = 1
    with pytest.raises(OSError, match="write-only"):
        sender.recv(borrow=True)


def test_buffers_at_the_end_of_the_ring_are_whole():
    receiver, sender = millstream.Pipe(duplex=False, trust=True)
    dice = random.Random(7)
    wrapped = 0
    for _ in range(200):
        sent = [numpy.frombuffer(dice.randbytes(dice.randrange(32 << 10, 100_000)), "u1") for _ in range(3)]
        sent = [array.copy() for array in sent]
        sender.send(sent)
        with receiver.recv(borrow=True) as message:
            assert message.is_in_place
            assert all((got == array).all() for got, array in zip(message.value, sent, strict=True))
            wrapped += any(array.flags.writeable for array in message.value)
            sender.send("next")
        assert receiver.recv() == "next"
    # Those that the end of the ring would cut are copies.
    assert wrapped > 0
    receiver.close()
    sender.close()


def test_forgotten_message_is_taken(ends):
    receiver, sender = ends
    sent = numpy.arange(10_000.0)
    for number in range(5):
        sender.send(sent)
        sender.send(number)
        array = receiver.recv(borrow=True).value
        assert (array == sent).all()
        # The array keeps its bytes, and the connection waits for it.
        with pytest.raises(BufferError):
            receiver.recv()
        del array
        assert receiver.recv() == number


class Broken:
    def __reduce_ex__(self, protocol):
        return int, (pickle.PickleBuffer(b"x" * 50_000),)


def test_object_that_cannot_be_made_is_taken(ends):
    receiver, sender = ends
    sender.send(Broken())
    sender.send(7)
    with pytest.raises(ValueError):
        receiver.recv(borrow=True)
    assert receiver.recv() == 7
    sender.send(numpy.zeros(10_000))
    sender.send(8)
    with pytest.raises(ZeroDivisionError), receiver.recv(borrow=True):
        raise ZeroDivisionError
    assert receiver.recv() == 8


def test_exception_of_block_is_not_hidden_by_live_views(ends):
    receiver, sender = ends
    sender.send(numpy.zeros(10_000))
    sender.send(8)

    def use():
        with receiver.recv(borrow=True) as message:
            array = message.value
            raise ZeroDivisionError(array[0])

    with pytest.raises(ZeroDivisionError) as raised:
        use()
    # Its traceback keeps the array.
    with pytest.raises(BufferError):
        receiver.recv()
    raised.value.__traceback__ = None
    del raised
    gc.collect()
    assert receiver.recv() == 8


def test_close_gives_the_message_back(ends):
    receiver, sender = ends
    sender.send(numpy.zeros(10_000))
    message = receiver.recv(borrow=True)
    array = message.value
    with pytest.raises(BufferError):
        receiver.close()
    assert not receiver.closed and array.sum() == 0
    del array
    receiver.close()
    with pytest.raises(ValueError, match="given back"):
        message.value
    with pytest.raises(OSError, match="handle is closed"):
        receiver.recv(borrow=True)


def test_dead_sender_ends_borrowed_messages():
    receiver, sender = millstream.Pipe(duplex=False, trust=True)
    child = os.fork()
    if child == 0:
        receiver.close()
        for number in range(50):
            sender.send(numpy.full(20_000, number))
        sender._writer.send(b"x", [bytes(40_000)])
        # A message of which the rest is missing.
        end = sender._writer
        end.write(((1 << 63) | 1).to_bytes(8, "little") + (1).to_bytes(8, "little") + (99).to_bytes(8, "little") + b"Nxx")
        os.kill(os.getpid(), signal.SIGKILL)
    sender.close()
    for number in range(50):
        with receiver.recv(borrow=True) as message:
            assert (message.value == number).all()
    with pytest.raises(pickle.UnpicklingError):
        receiver.recv(borrow=True)
    with pytest.raises(OSError, match="end of file during message"):
        receiver.recv(borrow=True)
    with pytest.raises(EOFError):
        receiver.recv(borrow=True)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    receiver.close()
