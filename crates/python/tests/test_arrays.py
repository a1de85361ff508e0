"""Arrays in a stream."""

import array
import os
import struct
import subprocess
import sys
import threading

import millstream
import numpy
import pytest


@pytest.fixture
def ends():
    reader, writer = millstream.pipe(capacity=1 << 16)
    yield reader, writer
    reader.close()
    writer.close()


def header(magic=b"MSAr", version=1, order=b"C", dimensions=1, zero=0, text=b"d", itemsize=8, shape=(2,)):
    fixed = struct.pack("<4sBcBBII", magic, version, order, dimensions, zero, len(text), itemsize)
    return fixed + struct.pack(f"<{len(shape)}Q", *shape) + text


ARRAYS = {
    "bytes": b"grain",
    "empty": b"",
    "array": array.array("d", [1.5, 2.5]),
    "integers": numpy.arange(24).reshape(2, 3, 4),
    "scalar": numpy.array(7.25),
    "nothing": numpy.empty((3, 0, 2), "f4"),
    "fortran": numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
    "strided": numpy.arange(100, dtype="i2").reshape(10, 10)[::3, ::-2],
    "swapped": numpy.arange(5, dtype=">u4"),
    "complex": numpy.array([1 + 2j, 3j]),
    "text": numpy.array(["grain", "flour"]),
    "fixed": numpy.array([b"grain", b"corn"]),
    "structure": numpy.array([(1, 2.5, b"x")], [("Object", "i4"), ("P", "f8"), ("c", "S3")]),
    "booleans": numpy.array([[True], [False]]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_array_arrives_with_type_and_shape(ends, name):
    reader, writer = ends
    sent = numpy.asarray(ARRAYS[name]) if name not in ("bytes", "empty") else numpy.frombuffer(ARRAYS[name], "u1")
    for _ in range(2):
        writer.write_array(ARRAYS[name])
    view = reader.read_array()
    assert isinstance(view, memoryview) and not view.readonly
    assert (view.shape, view.itemsize) == (sent.shape, sent.itemsize)
    assert view.tobytes() == sent.tobytes()
    received = reader.read_array(numpy=True)
    assert isinstance(received, numpy.ndarray) and received.dtype == sent.dtype
    numpy.testing.assert_array_equal(received, sent)
    assert received.flags.f_contiguous == (sent.flags.f_contiguous or name == "fortran")
    assert reader.waiting == 0


def test_array_larger_than_pipe_arrives(ends):
    reader, writer = ends
    sent = numpy.random.default_rng(7).random((700, 500))
    thread = threading.Thread(target=writer.write_array, args=(sent,))
    thread.start()
    received = reader.read_array(numpy=True)
    thread.join()
    assert (received == sent).all() and received.flags.writeable
    received[0, 0] = 1


def test_array_fills_buffer_of_caller(ends):
    reader, writer = ends
    sent = numpy.arange(6).reshape(2, 3)
    target = numpy.zeros((2, 3), "q")
    memory = bytearray(50)
    for out in (target, memory):
        writer.write_array(sent)
        received = reader.read_array(out=out, numpy=True)
        assert (received == sent).all() and numpy.shares_memory(received, numpy.frombuffer(out, "u1"))
    assert (target == sent).all() and memory[48:] == b"\0\0"
    numbers = array.array("q", [0] * 6)
    writer.write_array(sent.reshape(6))
    assert reader.read_array(out=numbers).tolist() == numbers.tolist() == list(range(6))
    fortran = numpy.zeros((2, 3), order="F")
    writer.write_array(numpy.asfortranarray(sent, "f8"))
    reader.read_array(out=fortran)
    assert (fortran == sent).all()


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (bytearray(15), "out has 15 bytes, and the array 16"),
        (numpy.zeros(3), "format and shape"),
        (numpy.zeros(2, "f4"), "format and shape"),
        (numpy.zeros(2, "q"), "format and shape"),
        (numpy.zeros(4)[::2], "not contiguous"),
    ],
    ids=["short", "shape", "size", "kind", "strided"],
)
def test_unfit_buffer_leaves_array_for_next_call(ends, out, error):
    reader, writer = ends
    writer.write_array(array.array("d", [1.5, 2.5]))
    with pytest.raises(ValueError, match=error):
        reader.read_array(out=out)
    with pytest.raises(ValueError, match="array of 16 bytes is above max_bytes=15"):
        reader.read_array(max_bytes=15)
    with pytest.raises(BufferError, match="read-only"):
        reader.read_array(out=bytes(16))
    with pytest.raises(TypeError):
        reader.read_array(out=7)
    assert reader.read_array().tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (header(magic=b"GET "), "no array begins with b'GET '"),
        (header(version=2), "version 2"),
        (header(order=b"X"), "bad header"),
        (header(zero=1), "bad header"),
        (header(dimensions=65), "bad header"),
        (header(text=b"d" * 1025), "bad header"),
        (header(text=b"O"), "cannot travel"),
        (header(text=b"P"), "cannot travel"),
        (header(text=b"T{O:a:}"), "cannot travel"),
        (header(text=b"T{&d:a:}"), "cannot travel"),
        (header(text=b"Zi"), "cannot travel"),
        (header(text=b""), "cannot travel"),
        (header(text=b"d\0"), "cannot travel"),
        (header(text=b"\xe9"), "cannot travel"),
        (header(text=b"d", itemsize=4), "elements of 8 bytes, not 4"),
        (header(text=b"9999999999999s", itemsize=8), "elements of 999999999999 bytes, not 8"),
        (header(text=b"0s", itemsize=0), "elements of 0 bytes"),
        (header(shape=(1 << 62,)), "too large for any memory"),
        (header(dimensions=2, shape=(0, (1 << 64) - 1)), "too large for any memory"),
        (header(shape=(1 << 28,)), "above max_bytes=1073741824"),
    ],
)
def test_bad_frame_is_value_error(ends, frame, error):
    reader, writer = ends
    writer.write(frame)
    with pytest.raises(ValueError, match=error):
        reader.read_array(numpy=True)


@pytest.mark.parametrize("text", [b"T{l:a:l:b:}", b"T{", b"T{T{T{}}}}", b"T{(99999999)d:a:}", b"T{s:a:}"])
def test_structure_of_other_size_is_value_error(ends, text):
    reader, writer = ends
    writer.write(header(text=text, shape=(1,)) + bytes(8))
    with pytest.raises(ValueError, match="format"):
        reader.read_array(numpy=True)


def test_stream_that_ends_is_eof_error(ends):
    reader, writer = ends
    writer.write_array(b"grain")
    writer.close()
    assert reader.read_array().tobytes() == b"grain"
    with pytest.raises(EOFError, match="end of the stream"):
        reader.read_array()


@pytest.mark.parametrize(
    ("size", "missing"),
    [(1, "header of an array: 15 of 16"), (16, "header of an array: 9 of 9"), (25, "an array: 16 of 16"), (40, "an array: 1 of 16")],
)
def test_truncated_array_says_how_much_is_missing(ends, size, missing):
    reader, writer = ends
    writer.write((header() + bytes(16))[:size])
    writer.close()
    with pytest.raises(EOFError, match=f"inside (the )?{missing} bytes are missing"):
        reader.read_array()


@pytest.mark.parametrize("value", [numpy.array([None]), numpy.zeros(2, "V0"), 7])
def test_value_without_plain_elements_is_refused(ends, value):
    reader, writer = ends
    with pytest.raises((ValueError, TypeError)):
        writer.write_array(value)
    assert reader.waiting == 0


def test_non_blocking_ends_raise_before_array_begins(ends):
    reader, writer = ends
    reader.set_blocking(False)
    writer.set_blocking(False)
    with pytest.raises(BlockingIOError):
        reader.read_array()
    sent = os.urandom(300_000)
    thread = threading.Thread(target=writer.write_array, args=(sent,))
    thread.start()
    while not reader.waiting:
        pass
    assert reader.read_array().tobytes() == sent
    thread.join()
    while writer.write(b"x" * 4096):
        pass
    with pytest.raises(BlockingIOError):
        writer.write_array(b"x" * 60_000)


def test_package_reads_arrays_without_numpy():
    script = """
import sys
sys.modules["numpy"] = None
import millstream
reader, writer = millstream.pipe()
writer.write_array(memoryview(b"12345678").cast("i"))
try:
    reader.read_array(numpy=True)
except ImportError as error:
    print(error)
print(len(reader.read_array()))
"""
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown == "read_array(numpy=True) needs numpy (install numpy, or leave numpy out)\n2\n"
