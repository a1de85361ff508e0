"""What multiprocessing.connection.Connection promises, asked of it and of ours."""

import array
import multiprocessing
import os
import pickle
import select
import selectors
import signal
import threading
import time
from multiprocessing.connection import wait

import millstream
import pytest


def test_message_arrives_as_it_was_sent(pipe):
    receiver, sender = pipe(duplex=False)
    for message in [b"", b"x", b"grain" * 100, os.urandom(50_000)]:
        sender.send_bytes(message)
        assert receiver.recv_bytes() == message
    for value in [None, 7, "text", [1, {"a": (2,)}], b"bytes", bytearray(b"array")]:
        sender.send(value)
        assert receiver.recv() == value
    receiver.close()
    sender.close()


def test_both_ends_of_a_duplex_pipe_send(pipe):
    here, there = pipe()
    here.send("there")
    there.send("here")
    assert (here.recv(), there.recv()) == ("here", "there")
    assert here.readable and here.writable and there.readable and there.writable
    here.close()
    there.close()


def test_long_message_waits_for_its_receiver(pipe):
    receiver, sender = pipe(duplex=False)
    message = os.urandom(8 << 20)
    thread = threading.Thread(target=sender.send_bytes, args=(message,))
    thread.start()
    assert receiver.recv_bytes() == message
    thread.join()
    receiver.close()
    sender.close()


def test_part_of_a_buffer_is_sent(pipe):
    receiver, sender = pipe(duplex=False)
    sender.send_bytes(b"0123456789", 2)
    assert receiver.recv_bytes() == b"23456789"
    sender.send_bytes(b"0123456789", 2, 3)
    assert receiver.recv_bytes() == b"234"
    sender.send_bytes(memoryview(b"0123456789")[5:], 1)
    assert receiver.recv_bytes() == b"6789"
    numbers = array.array("i", range(5))
    sender.send_bytes(numbers)
    assert receiver.recv_bytes() == numbers.tobytes()
    receiver.close()
    sender.close()


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (-1, None, "offset is negative"),
        (11, None, "buffer length < offset"),
        (0, -1, "size is negative"),
        (4, 7, "buffer length < offset + size"),
    ],
)
def test_wrong_part_is_refused(pipe, offset, size, message):
    receiver, sender = pipe(duplex=False)
    with pytest.raises(ValueError, match=message.replace("+", "\\+")):
        sender.send_bytes(b"0123456789", offset, size)
    assert not receiver.poll()
    receiver.close()
    sender.close()


def test_message_is_received_into_a_buffer(pipe):
    receiver, sender = pipe(duplex=False)
    buffer = bytearray(10)
    sender.send_bytes(b"grain")
    assert receiver.recv_bytes_into(buffer) == 5
    assert buffer == b"grain\0\0\0\0\0"
    sender.send_bytes(b"corn")
    assert receiver.recv_bytes_into(buffer, 6) == 4
    assert buffer == b"grain\0corn"
    numbers = array.array("i", [0] * 4)
    sender.send_bytes(array.array("i", [1, 2]))
    assert receiver.recv_bytes_into(numbers, numbers.itemsize) == 2 * numbers.itemsize
    assert numbers.tolist() == [0, 1, 2, 0]
    sender.send_bytes(b"too long for it")
    with pytest.raises(multiprocessing.BufferTooShort) as short:
        receiver.recv_bytes_into(buffer)
    assert short.value.args == (b"too long for it",)
    sender.send_bytes(b"grain")
    with pytest.raises(TypeError):
        receiver.recv_bytes_into(b"read-only")
    with pytest.raises(ValueError, match="offset too large"):
        receiver.recv_bytes_into(buffer, 11)
    with pytest.raises(ValueError, match="negative offset"):
        receiver.recv_bytes_into(buffer, -1)
    receiver.close()
    sender.close()


def test_end_of_the_other_side_is_an_error(pipe):
    receiver, sender = pipe(duplex=False)
    sender.send_bytes(b"last")
    sender.close()
    assert receiver.poll()
    assert receiver.recv_bytes() == b"last"
    assert receiver.poll()
    for receive in (receiver.recv, receiver.recv_bytes, lambda: receiver.recv_bytes_into(bytearray(1))):
        with pytest.raises(EOFError):
            receive()
    receiver.close()
    receiver, sender = pipe(duplex=False)
    receiver.close()
    with pytest.raises(BrokenPipeError):
        sender.send(1)
    sender.close()


def test_closed_end_and_wrong_direction_are_errors(pipe):
    receiver, sender = pipe(duplex=False)
    assert receiver.readable and not receiver.writable
    assert sender.writable and not sender.readable
    with pytest.raises(OSError, match="connection is read-only"):
        receiver.send(1)
    with pytest.raises(OSError, match="connection is write-only"):
        sender.recv()
    with pytest.raises(OSError, match="connection is write-only"):
        sender.poll()
    with pytest.raises(ValueError, match="negative maxlength"):
        receiver.recv_bytes(-1)
    assert not receiver.closed
    receiver.close()
    receiver.close()
    assert receiver.closed
    for use in (receiver.recv, receiver.fileno, receiver.poll):
        with pytest.raises(OSError, match="handle is closed"):
            use()
    with sender as same:
        assert same is sender
    assert sender.closed


def test_message_above_the_allowed_length_ends_the_connection(pipe):
    receiver, sender = pipe(duplex=False)
    sender.send_bytes(b"12345")
    assert receiver.recv_bytes(5) == b"12345"
    sender.send_bytes(b"123456")
    with pytest.raises(OSError, match="bad message length"):
        receiver.recv_bytes(5)
    assert receiver.closed
    sender.close()
    here, there = pipe()
    there.send_bytes(b"123456")
    with pytest.raises(OSError, match="bad message length"):
        here.recv_bytes(5)
    assert not here.readable and not here.closed
    here.send(1)
    assert there.recv() == 1
    here.close()
    there.close()


def test_poll_waits_as_long_as_it_is_told(pipe):
    receiver, sender = pipe(duplex=False)
    assert receiver.poll() is False
    assert receiver.poll(0.01) is False
    timer = threading.Timer(0.05, sender.send, (1,))
    timer.start()
    assert receiver.poll(60) is True
    assert receiver.poll(None) is True
    assert receiver.recv() == 1
    assert receiver.poll(0) is False
    timer.join()
    receiver.close()
    sender.close()


def test_connections_are_waited_for_beside_other_objects(pipe):
    receiver, sender = pipe(duplex=False)
    reader, writer = os.pipe()
    assert wait([receiver, reader], 0) == []
    sender.send(1)
    assert wait([receiver, reader], 60) == [receiver]
    os.write(writer, b"x")
    assert set(wait([receiver, reader], 60)) == {receiver, reader}
    assert receiver.recv() == 1
    assert wait([receiver, reader], 60) == [reader]
    with selectors.DefaultSelector() as selector:
        selector.register(receiver, selectors.EVENT_READ)
        assert selector.select(0) == []
        sender.send(2)
        assert [key.fileobj for key, _ in selector.select(60)] == [receiver]
        selector.unregister(receiver)
    assert select.select([receiver], [sender], [], 60) == ([receiver], [sender], [])
    for fd in (reader, writer):
        os.close(fd)
    receiver.close()
    sender.close()


def test_object_that_cannot_be_pickled_sends_nothing(pipe):
    receiver, sender = pipe(duplex=False)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        sender.send(lambda: None)
    assert not receiver.poll()
    sender.send(1)
    assert receiver.recv() == 1
    receiver.close()
    sender.close()


def echo(connection):
    """A child: sends back what it receives."""
    while (message := connection.recv()) is not None:
        connection.send(message)
    connection.close()


def test_connection_goes_to_a_child(context):
    here, there = context.Pipe()
    child = context.Process(target=echo, args=(there,))
    child.start()
    there.close()
    for message in ["grain", list(range(1000)), os.urandom(3 << 20), bytearray(5 << 20)]:
        here.send(message)
        assert here.recv() == message
    here.send(None)
    child.join(60)
    assert child.exitcode == 0
    with pytest.raises(EOFError):
        here.recv()
    here.close()


def pass_on(connection):
    """A child: receives a connection and uses it."""
    with connection.recv() as received:
        received.send("from the child")
    connection.close()


def test_connection_is_sent_over_a_connection(context):
    here, there = context.Pipe()
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=pass_on, args=(there,))
    child.start()
    here.send(sender)
    assert receiver.recv() == "from the child"
    sender.close()
    child.join(60)
    assert child.exitcode == 0
    for end in (here, there, receiver):
        end.close()


class Picture:
    """What gives its bytes to protocol 5, as the arrays of numpy, arrow and torch do."""

    def __init__(self, pixels):
        self.pixels = pixels

    def __reduce_ex__(self, protocol):
        return Picture, (pickle.PickleBuffer(self.pixels),)

    def __eq__(self, other):
        return bytes(self.pixels) == bytes(other.pixels)


def test_large_buffers_travel_beside_the_pickle():
    receiver, sender = millstream.Pipe(duplex=False)
    value = {"large": Picture(os.urandom(200_000)), "small": Picture(b"pixels"), "text": "x" * 50_000}
    thread = threading.Thread(target=sender.send, args=(value,))
    thread.start()
    message, beside = receiver._reader.receive()
    thread.join()
    assert len(message) < 60_000
    assert [len(buffer) for buffer in beside] == [200_000]
    assert pickle.loads(message, buffers=beside) == value
    sender.send(value)
    assert pickle.loads(receiver.recv_bytes()) == value
    sender.send(value)
    buffer = bytearray(400_000)
    length = receiver.recv_bytes_into(buffer)
    assert pickle.loads(buffer[:length]) == value
    receiver.close()
    sender.close()


class Loud:
    """What must not be unpickled unless it is received as an object."""

    def __init__(self, pixels):
        raise AssertionError("unpickled")

    @classmethod
    def quiet(cls, pixels):
        loud = cls.__new__(cls)
        loud.pixels = pixels
        return loud

    def __reduce_ex__(self, protocol):
        return Loud, (pickle.PickleBuffer(self.pixels),)


@pytest.mark.parametrize("pixels", [bytes(100_000), bytearray(100_000)])
def test_receiving_bytes_unpickles_nothing(pixels):
    receiver, sender = millstream.Pipe(duplex=False)
    sender.send([1, Loud.quiet(pixels)])
    message = receiver.recv_bytes()
    assert len(message) > 100_000
    with pytest.raises(AssertionError, match="unpickled"):
        pickle.loads(message)
    sender.send(Picture(pixels))
    assert bytes(pickle.loads(receiver.recv_bytes()).pixels) == bytes(pixels)
    sender.send(Picture(pixels))
    with pytest.raises(OSError, match="bad message length"):
        receiver.recv_bytes(1000)
    receiver.close()
    sender.close()


def test_signal_ends_a_send_that_has_begun(pipe):
    receiver, sender = pipe(duplex=False)

    def ring(number, frame):
        raise InterruptedError("rung")

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(InterruptedError, match="rung"):
            sender.send_bytes(bytes(10 << 20))
    finally:
        signal.signal(signal.SIGALRM, before)
    receiver.close()
    sender.close()


def test_child_of_a_fork_closes_what_a_thread_of_its_parent_uses(pipe):
    receiver, sender = pipe(duplex=False)
    thread = threading.Thread(target=sender.send_bytes, args=(bytes(2 << 20),))
    thread.start()
    while not asleep(thread):
        time.sleep(0.001)
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        receiver.close()
        sender.close()
        os.write(tell, b"x")
        time.sleep(600)
    assert os.read(told, 1) == b"x"
    assert len(receiver.recv_bytes()) == 2 << 20
    thread.join()
    sender.close()
    with pytest.raises(EOFError):
        receiver.recv()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    receiver.close()
    os.close(told)
    os.close(tell)


def test_started_children_leave_no_descriptor(context):
    here, there = context.Pipe()
    counts = []
    for _ in range(4):
        child = context.Process(target=echo, args=(there,))
        child.start()
        here.send(None)
        child.join(60)
        child.close()
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[1:] == counts[:1] * 3, counts
    here.close()
    there.close()


def test_received_buffer_can_be_changed():
    receiver, sender = millstream.Pipe(duplex=False)
    sender.send(bytearray(100_000))
    received = receiver.recv()
    received[0] = 1
    assert received[:2] == b"\1\0"
    sender.send(Picture(bytearray(100_000)))
    received = receiver.recv()
    received.pixels[0] = 1
    assert received.pixels[:2] == b"\1\0"
    numbers = array.array("d", range(50_000))
    sender.send(numbers)
    message, beside = receiver._reader.receive()
    assert len(message) < 1000 and [len(buffer) for buffer in beside] == [400_000]
    assert pickle.loads(message, buffers=beside) == numbers
    receiver.close()
    sender.close()


def test_arrays_of_numpy_arrive_whole():
    numpy = pytest.importorskip("numpy")
    receiver, sender = millstream.Pipe(duplex=False)
    whole = numpy.arange(300_000, dtype="f8").reshape(100, 3000)
    values = [whole, whole.T, whole[::2, ::3], whole[:0], numpy.asfortranarray(whole), whole.astype("i2")]
    for value in values:
        thread = threading.Thread(target=sender.send, args=(value,))
        thread.start()
        received = receiver.recv()
        thread.join()
        assert received.dtype == value.dtype and numpy.array_equal(received, value)
        received += 1  # its own memory
    for size in (10, 50_000):
        value = numpy.frombuffer(bytes(8 * size))
        assert not value.flags.writeable
        sender.send(value)
        received = receiver.recv()
        received += 1
    receiver.close()
    sender.close()


def test_threads_receive_each_message_once(pipe):
    receiver, sender = pipe(duplex=False)
    lock, received = threading.Lock(), []

    def receive():
        while True:
            with lock:
                message = receiver.recv()
            if message is None:
                return
            received.append(message)

    threads = [threading.Thread(target=receive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(2000):
        sender.send(number)
    for _ in threads:
        sender.send(None)
    for thread in threads:
        thread.join()
    assert sorted(received) == list(range(2000))
    receiver.close()
    sender.close()


def test_closing_in_one_thread_while_another_waits_loses_no_message():
    receiver, sender = millstream.Pipe(duplex=False)
    received = []
    thread = threading.Thread(target=lambda: received.append(receiver.recv()))
    thread.start()
    while not asleep(thread):
        time.sleep(0.001)
    receiver.close()
    sender.send("last")
    thread.join()
    assert received == ["last"]
    sender.close()


def asleep(thread):
    """Whether a thread waits in the kernel."""
    with open(f"/proc/self/task/{thread.native_id}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "S"
