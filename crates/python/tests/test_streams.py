"""Pipes as file objects."""

import errno
import io
import os
import select
import signal
import subprocess
import threading

import millstream
import pytest


def test_bytes_come_out_as_they_went_in():
    reader, writer = millstream.pipe()
    with reader, writer:
        assert writer.write(b"grain") == 5
        buffer = bytearray(10)
        assert reader.readinto(buffer) == 5
        assert buffer[:5] == b"grain"
        writer.write(memoryview(b"chaff"))
        writer.close()
        assert reader.read() == b"chaff"
        assert reader.read(1) == b""


def test_streams_are_wrapped_as_files_are():
    reader, writer = millstream.pipe()
    text = io.TextIOWrapper(io.BufferedWriter(writer), "utf-8", write_through=True)
    lines = io.TextIOWrapper(io.BufferedReader(reader), "utf-8")
    thread = threading.Thread(target=lambda: [text.write(f"Zeile {n} ö\n") for n in range(10_000)] and text.close())
    thread.start()
    assert list(lines) == [f"Zeile {n} ö\n" for n in range(10_000)]
    thread.join()
    lines.close()


def test_what_a_stream_is_and_is_not():
    reader, writer = millstream.pipe(capacity=5000)
    assert reader.readable() and not reader.writable() and not reader.seekable() and not reader.isatty()
    assert writer.writable() and not writer.readable()
    assert isinstance(reader, io.RawIOBase)
    assert reader.capacity == writer.capacity == 8192
    writer.capacity = 20_000
    assert reader.capacity == 32_768
    with pytest.raises(io.UnsupportedOperation):
        reader.write(b"x")
    with pytest.raises(io.UnsupportedOperation):
        writer.read(1)
    with pytest.raises(OSError):
        reader.seek(0)
    writer.write(b"1234")
    assert reader.waiting == writer.waiting == 4
    assert writer.statistics()["bytes"] == 4
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.readinto(bytearray(1))
    with pytest.raises(BrokenPipeError):
        writer.write(b"x")
    writer.close()
    writer.close()


def test_wrong_buffers_are_refused():
    reader, writer = millstream.pipe()
    with reader, writer:
        with pytest.raises(BufferError):
            reader.readinto(b"read-only")
        with pytest.raises(TypeError):
            writer.write("text")
        with pytest.raises(BufferError):
            writer.write(memoryview(b"0123456789")[::2])
        assert writer.write(b"") == 0
        assert reader.waiting == 0


@pytest.mark.parametrize("capacity", [1 << 40, -1])
def test_impossible_capacity_is_refused(capacity):
    with pytest.raises((OSError, OverflowError), match=f"capacity of {capacity} bytes is above the limit|negative"):
        millstream.pipe(capacity)


def test_non_blocking_ends_return_none():
    reader, writer = millstream.pipe(capacity=4096)
    with reader, writer:
        reader.set_blocking(False)
        writer.set_blocking(False)
        assert reader.readinto(bytearray(1)) is None
        assert reader.read(1) is None
        assert writer.write(bytes(4096)) == 4096
        assert writer.write(b"x") is None


def test_descriptor_is_ready_when_the_end_is():
    reader, writer = millstream.pipe(capacity=4096)
    with reader, writer:
        assert select.select([reader], [writer], [], 0) == ([], [writer], [])
        writer.write(bytes(4096))
        assert select.select([reader], [writer], [], 0) == ([reader], [], [])
        reader.read(4096)
        assert select.select([reader], [writer], [], 0) == ([], [writer], [])


def test_end_goes_to_a_program_that_does_not_know_millstream():
    reader, writer = millstream.pipe()
    writer.write(b"one\ntwo\n")
    fd = reader.detach()
    assert reader.closed
    counter = subprocess.Popen(["wc", "-l"], stdin=fd, stdout=subprocess.PIPE)
    os.close(fd)
    writer.write(b"three\n")
    writer.close()
    assert counter.communicate()[0].strip() == b"3"


def test_any_pipe_is_attached():
    read_fd, write_fd = os.pipe()
    with millstream.Reader.attach(read_fd) as reader, millstream.Writer.attach(write_fd) as writer:
        writer.write(b"grain")
        assert reader.read(5) == b"grain"
    with open("/dev/null", "rb") as file, pytest.raises(OSError, match="no pipe"):
        millstream.Reader.attach(os.dup(file.fileno()))
    with pytest.raises(ValueError):
        millstream.Reader.attach(-1)


def test_child_of_a_fork_writes():
    reader, writer = millstream.pipe()
    child = os.fork()
    if child == 0:
        reader.close()
        data = bytes(range(256)) * 8192
        os._exit(writer.write(data) != len(data))
    writer.close()
    assert reader.read() == bytes(range(256)) * 8192
    assert os.waitpid(child, 0)[1] == 0
    reader.close()


def test_signal_ends_a_blocked_read():
    class Rung(Exception):
        pass

    def ring(number, frame):
        raise Rung

    before = signal.signal(signal.SIGALRM, ring)
    try:
        reader, writer = millstream.pipe()
        with reader, writer:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Rung):
                reader.read(1)
            # A handler that returns lets it go on.
            signal.signal(signal.SIGALRM, lambda number, frame: writer.write(b"x"))
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            assert reader.read(1) == b"x"
    finally:
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_while_one_waits():
    reader, writer = millstream.pipe()
    with reader, writer:
        thread = threading.Thread(target=reader.read, args=(1,))
        thread.start()
        # If it kept Python's lock this would never be reached.
        writer.write(b"x")
        thread.join()


def test_fifo_is_opened_by_two(tmp_path):
    path = tmp_path / "fifo"
    with pytest.raises(FileNotFoundError):
        millstream.open_fifo(path, "r")
    os.mkfifo(path)
    with pytest.raises(ValueError, match="invalid mode"):
        millstream.open_fifo(path, "a")
    with pytest.raises(OSError) as unread:
        millstream.open_fifo(str(path), "w", blocking=False)
    assert unread.value.errno == errno.ENXIO
    thread = threading.Thread(target=lambda: subprocess.run(["sh", "-c", f"echo grain >{path}"], check=True))
    thread.start()
    with millstream.open_fifo(path, "r") as reader:
        assert reader.read() == b"grain\n"
    thread.join()
    reading = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
    with millstream.open_fifo(path, "w") as writer:
        writer.write(b"flour")
    assert reading.communicate()[0] == b"flour"
    with pytest.raises(OSError, match="no FIFO"):
        millstream.open_fifo(tmp_path, "r")
