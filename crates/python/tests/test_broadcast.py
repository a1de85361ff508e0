"""One writer, and readers that each see every byte."""

import asyncio
import errno
import io
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time

import millstream
import pytest


def stream(length):
    """Bytes of which no two places look alike."""
    return b"".join(number.to_bytes(8, "big") for number in range(length // 8))


@pytest.mark.parametrize("count", range(1, 9))
def test_every_reader_in_threads_gets_every_byte(count):
    data = stream(1_000_000)
    writer, readers = millstream.broadcast(count, capacity=65_536)
    got = [b""] * count

    def read(index):
        got[index] = readers[index].readall()

    threads = [threading.Thread(target=read, args=(index,)) for index in range(count)]
    [thread.start() for thread in threads]
    assert writer.write(data) == len(data)
    writer.close()
    [thread.join() for thread in threads]
    assert got == [data] * count
    [reader.close() for reader in readers]


def test_every_reader_in_forked_processes_gets_every_byte():
    data = stream(2_000_000)
    writer, readers = millstream.broadcast(4)
    children = []
    for index, reader in enumerate(readers):
        child = os.fork()
        if child == 0:
            writer.close()
            [other.close() for other in readers if other is not reader]
            os._exit(0 if reader.readall() == data else 1)
        children.append(child)
    [reader.close() for reader in readers]
    writer.write(data)
    writer.close()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4


def test_reader_travels_to_another_program():
    writer, readers = millstream.broadcast(2, capacity=4096)
    fd = readers[0].detach()
    assert readers[0].closed
    code = (
        "import sys, millstream\n"
        "with millstream.BroadcastReader.attach(int(sys.argv[1])) as reader:\n"
        "    sys.stdout.buffer.write(reader.readall())"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(fd)], pass_fds=[fd], stdout=subprocess.PIPE)
    os.close(fd)
    data = stream(100_000)
    own = []
    thread = threading.Thread(target=lambda: own.append(readers[1].readall()))
    thread.start()
    writer.write(data)
    writer.close()
    assert child.communicate()[0] == data
    thread.join()
    assert own == [data]
    readers[1].close()


def test_what_is_no_reader_is_refused():
    for end in os.pipe():
        with pytest.raises(OSError) as caught:
            millstream.BroadcastReader.attach(end)
        assert caught.value.errno in (errno.EINVAL, errno.EBADF)
    with pytest.raises(ValueError, match="not negative"):
        millstream.BroadcastReader.attach(-1)


def test_streams_are_wrapped_as_files_are():
    writer, [reader] = millstream.broadcast(1, capacity=4096)
    lines = io.TextIOWrapper(io.BufferedReader(reader), "utf-8")
    text = io.TextIOWrapper(io.BufferedWriter(writer), "utf-8")
    thread = threading.Thread(target=lambda: [text.write(f"Zeile {n} ö\n") for n in range(5000)] and text.close())
    thread.start()
    assert list(lines) == [f"Zeile {n} ö\n" for n in range(5000)]
    thread.join()
    lines.close()


def test_slowest_reader_decides():
    writer, readers = millstream.broadcast(2, capacity=4096)
    with writer, readers[0], readers[1]:
        assert not writer.lossy and writer.capacity == readers[0].capacity == 4096
        writer.set_blocking(False)
        assert writer.write(bytes(4096)) == 4096
        assert readers[0].read(4096) == bytes(4096)
        assert writer.write(b"x") is None
        assert readers[1].waiting == 4096
        assert readers[1].read(100) == bytes(100)
        assert writer.write(b"x" * 5000) == 100
        readers[0].set_blocking(False)
        assert readers[0].read(1000) == b"x" * 100
        assert readers[0].read(1) is None
        assert writer.statistics()["bytes"] == 4196


def test_lossy_reader_is_told_how_much_it_lost():
    writer, readers = millstream.broadcast(2, capacity=4096, lossy=True)
    with writer, readers[0], readers[1]:
        assert writer.lossy and readers[0].lossy
        for _ in range(10):
            assert writer.write(bytes(2000)) == 2000
            assert len(readers[0].read(5000)) == 2000
        with pytest.raises(millstream.Lost) as caught:
            readers[1].read(1)
        assert caught.value.bytes == 20_000
        assert caught.value.errno == errno.ENOBUFS
        assert pickle.loads(pickle.dumps(caught.value)).bytes == 20_000
        writer.write(b"and on")
        assert readers[1].read(100) == b"and on"


def test_closed_reader_frees_its_place_and_none_is_a_broken_pipe():
    writer, readers = millstream.broadcast(2, capacity=4096)
    readers[0].close()
    thread = threading.Thread(target=lambda: (time.sleep(0.05), readers[1].close()))
    thread.start()
    with pytest.raises(BrokenPipeError):
        while True:
            writer.write(bytes(3000))
    thread.join()
    assert writer.readers == 0
    late = writer.add_reader()
    writer.write(b"late")
    assert writer.readers == 1 and late.read(10) == b"late"
    writer.close()
    assert late.read(1) == b""
    late.close()


def test_killed_processes_free_their_places_in_many_lives():
    data = stream(300_000)
    for life in range(50):
        writer, [victim, reader] = millstream.broadcast(2, capacity=8192)
        child = os.fork()
        if child == 0:
            writer.close()
            reader.close()
            while victim.read(700):
                pass
            time.sleep(60)
        victim.close()
        got = []
        thread = threading.Thread(target=lambda: got.append(reader.readall()))
        thread.start()
        killer = threading.Timer(life * 0.0001, os.kill, (child, signal.SIGKILL))
        killer.start()
        writer.write(data)
        writer.close()
        thread.join()
        killer.join()
        os.waitpid(child, 0)
        assert got == [data]
        reader.close()


def test_killed_writer_is_the_end_of_the_stream():
    writer, readers = millstream.broadcast(3, capacity=8192)
    child = os.fork()
    if child == 0:
        [reader.close() for reader in readers]
        writer.write(stream(4096))
        os.kill(os.getpid(), signal.SIGKILL)
    writer.close()
    assert [reader.readall() for reader in readers] == [stream(4096)] * 3
    os.waitpid(child, 0)
    [reader.close() for reader in readers]


def test_signal_handler_that_raises_ends_a_blocked_call():
    class Alarm(Exception):
        pass

    def handler(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    writer, [reader] = millstream.broadcast(1, capacity=4096)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            reader.read(1)
        writer.write(bytes(4096))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            writer.write(b"x")
        assert len(reader.read(5000)) == 4096
    finally:
        signal.signal(signal.SIGALRM, before)
        writer.close()
        reader.close()


def test_select_says_when_there_is_something_to_read():
    writer, readers = millstream.broadcast(2)
    with writer, readers[0], readers[1]:
        readers[0].set_blocking(False)
        assert select.select([readers[0]], [], [], 0) == ([], [], [])
        for _ in range(100):
            writer.write(b"grain")
            assert select.select([readers[0]], [], [], 10)[0] == [readers[0]]
            assert readers[0].read(2) == b"gr"
            assert select.select([readers[0]], [], [], 10)[0] == [readers[0]]
            assert readers[0].read(10) == b"ain"
            assert readers[0].read(10) is None
            assert select.select([readers[0]], [], [], 0)[0] == []


def test_reader_is_a_stream_of_asyncio():
    async def main():
        writer, readers = millstream.broadcast(3, capacity=4096)
        streams = [await millstream.open_reader(reader) for reader in readers]
        data = stream(200_000)
        writing = asyncio.get_running_loop().run_in_executor(None, lambda: (writer.write(data), writer.close()))
        assert await asyncio.gather(*(one.read() for one in streams)) == [data] * 3
        await writing

    asyncio.run(main())


@pytest.mark.parametrize("readers", [0, 65])
def test_impossible_number_of_readers_is_refused(readers):
    with pytest.raises(ValueError, match=f"{readers} readers.* ask for 1 to 64"):
        millstream.broadcast(readers)


def test_what_ends_are_and_are_not():
    writer, [reader] = millstream.broadcast(1)
    assert reader.readable() and not reader.writable() and not reader.seekable() and not reader.isatty()
    assert writer.writable() and not writer.readable() and isinstance(writer, io.RawIOBase)
    with pytest.raises(io.UnsupportedOperation):
        reader.write(b"x")
    with pytest.raises(io.UnsupportedOperation):
        writer.read(1)
    with pytest.raises(BufferError):
        reader.readinto(b"read-only")
    reader.close()
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.readinto(bytearray(1))
    writer.close()


def test_second_thread_in_a_write_is_told_so():
    writer, [reader] = millstream.broadcast(1, capacity=4096)
    thread = threading.Thread(target=lambda: writer.write(bytes(10_000)))
    thread.start()
    while reader.waiting < 4096:
        time.sleep(0.001)
    with pytest.raises(BufferError, match="lock"):
        writer.write(b"x")
    got = 0
    while got < 10_000:
        got += len(reader.read(5000))
    thread.join()
    writer.close()
    reader.close()
