"""Bytes that are borrowed and room that is reserved."""

import os

import millstream
import pytest


@pytest.fixture(params=[True, False], ids=["trusted", "copied"])
def ends(request):
    reader, writer = millstream.pipe(capacity=8192, trust=request.param)
    yield reader, writer
    reader.close()
    writer.close()


def test_borrowed_bytes_are_taken_at_the_end_of_the_block(ends):
    reader, writer = ends
    writer.write(b"grain, chaff")
    with reader.borrow(5) as view:
        assert isinstance(view, memoryview) and view.readonly
        assert bytes(view) == b"grain"
    with pytest.raises(ZeroDivisionError), reader.borrow(100) as view:
        assert bytes(view) == b", chaff"
        raise ZeroDivisionError
    piece = reader.borrow(100)
    assert len(piece) == 7
    piece.finish(2)
    piece.finish(2)
    assert reader.waiting == 5
    assert reader.read(100) == b"chaff"
    writer.close()
    with reader.borrow(10) as view:
        assert len(view) == 0


def test_reserved_room_is_written_at_the_end_of_the_block(ends):
    reader, writer = ends
    with writer.reserve(5) as view:
        assert len(view) == 5 and not view.readonly
        view[:] = b"grain"
        assert reader.waiting == 0
    with pytest.raises(ZeroDivisionError), writer.reserve(5) as view:
        view[:] = b"chaff"
        raise ZeroDivisionError
    piece = writer.reserve(100)
    with piece as view:
        view[:3] = b"---"
        piece.finish(2)
    assert reader.read(100) == b"grain--"
    reader.close()
    with pytest.raises(BrokenPipeError):
        writer.reserve(1)


def test_end_is_not_used_while_its_bytes_are_borrowed(ends):
    reader, writer = ends
    writer.write(b"grain")
    with reader.borrow(5):
        for use in (reader.close, reader.fileno, lambda: reader.read(1), lambda: reader.borrow(1), lambda: reader.waiting):
            with pytest.raises(BufferError, match="borrowed"):
                use()
    with writer.reserve(5), pytest.raises(BufferError, match="reserved"):
        writer.write(b"x")
    writer.write(b"x")


def test_live_view_is_a_buffer_error(ends):
    reader, writer = ends
    writer.write(b"grain")
    piece = reader.borrow(5)
    with pytest.raises(BufferError), piece as view:
        other = memoryview(view)
    assert bytes(other) == b"grain"
    other.release()
    view.release()
    piece.finish(5)
    with pytest.raises(BufferError, match="given back"):
        memoryview(piece._native_piece)
    with pytest.raises(ValueError, match="6 bytes of 5"):
        writer.write(b"grain")
        reader.borrow(5).finish(6)
    assert reader.read(5) == b"grain"


def test_forgotten_piece_gives_the_end_back(ends):
    reader, writer = ends
    writer.write(b"grain")
    reader.borrow(3)
    # Without trust three bytes were read ahead.
    assert reader.read(3) + reader.read(2) == b"grain"
    writer.reserve(3)
    writer.write(b"chaff")
    assert reader.read(10) == b"chaff"


def test_arrays_are_made_and_read_in_place():
    numpy = pytest.importorskip("numpy")
    reader, writer = millstream.pipe(capacity=1 << 20, trust=True)
    child = os.fork()
    if child == 0:
        reader.close()
        done = 0
        while done < 1_000_000:
            with writer.reserve(8 * min(10_000, 1_000_000 - done)) as view:
                numbers = numpy.frombuffer(view, "u8")
                numbers[:] = numpy.arange(done, done + len(numbers))
                done += len(numbers)
                del numbers
        os._exit(0)
    writer.close()
    total = count = 0
    while True:
        with reader.borrow(1 << 19) as view:
            if not view:
                break
            numbers = numpy.frombuffer(view, "u8")
            assert numbers[0] == count
            total += int(numbers.sum())
            count += len(numbers)
            del numbers
    assert count == 1_000_000 and total == 1_000_000 * 999_999 // 2
    assert os.waitpid(child, 0)[1] == 0
    reader.close()
