"""Pipes as file objects: raw, unbuffered streams of bytes."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from . import _native, arrays

if TYPE_CHECKING:
    from ._native import End


class InPlace:
    """Bytes of a pipe, or room in it: `with` gives a memoryview of it.

    Leaving the block takes the bytes, or writes them; by an exception it gives them back. While an object made of the view lives,
    as an array of numpy, that is a BufferError.
    """

    def __init__(self, piece: _native.InPlace) -> None:
        self._native_piece = piece
        self._view: memoryview | None = None

    def __len__(self) -> int:
        return len(self._native_piece)

    def __enter__(self) -> memoryview:
        piece: Any = self._native_piece  # types know of buffers in native code only from Python 3.12 on
        self._view = memoryview(piece)
        return self._view

    def __exit__(self, exc_type: object, exc_value: object, exc_tb: object) -> None:
        self.finish(len(self._native_piece) if exc_type is None else 0)

    def finish(self, count: int) -> None:
        """Takes or writes the first `count` bytes only, and gives the rest back. The view is released."""
        if self._view is not None:
            self._view.release()
        self._native_piece.finish(count)


class _Stream(io.RawIOBase):
    """What both ends have. `fileno()` is to be watched by select and its relatives, never to be read or written."""

    _end: End

    def __init__(self, end: End) -> None:
        super().__init__()
        self._end = end

    def fileno(self) -> int:
        """A descriptor that is ready when this end is."""
        return self._end.fileno()

    @property
    def capacity(self) -> int:
        """Bytes that the pipe holds when full; can be set, 4096 and up."""
        return self._end.capacity

    @capacity.setter
    def capacity(self, size: int) -> None:
        self._end.set_capacity(size)

    @property
    def waiting(self) -> int:
        """Bytes that wait to be read."""
        return self._end.waiting

    def set_blocking(self, blocking: bool) -> None:
        """Whether reading an empty pipe and writing a full one sleeps. If not they return None."""
        self._end.set_blocking(blocking)

    def statistics(self) -> dict[str, int]:
        """What this end has done so far: bytes, transfers, sleeps and others."""
        return self._end.statistics()

    def detach(self) -> int:
        """Gives the end away as a plain descriptor of a kernel pipe, for any program. This object is closed."""
        fd = self._end.detach()
        super().close()
        return fd

    def close(self) -> None:
        """Closes this end. A reader sees the end of the stream when all writers are closed."""
        if self.closed:
            return
        try:
            self._end.close()
        except BufferError:  # the program works on its bytes: it stays open
            raise
        except BaseException:
            super().close()
            raise
        super().close()

    def readinto(self, buffer: Any) -> int | None:
        raise io.UnsupportedOperation("not readable")

    def write(self, buffer: Any) -> int | None:
        raise io.UnsupportedOperation("not writable")

    def isatty(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


class Reader(_Stream):
    """The read end of a pipe. Wrap it in io.BufferedReader or io.TextIOWrapper for lines."""

    _end: _native.Reader

    def __init__(self, end: _native.Reader) -> None:
        super().__init__(end)
        self._arrays = arrays.ArrayReader(end)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Reads what waits, or sleeps until something does. 0: the end. None: it is non-blocking, and nothing waits."""
        return self._end.readinto(buffer)

    def borrow(self, size: int) -> InPlace:
        """Up to `size` bytes that wait, to be looked at where they are; sleeps until there are some.

        `with reader.borrow(n) as view`. Fewer than wait may be shown, because a ring ends somewhere; an empty view is the end of
        the stream. Without `trust` the bytes were read ahead, up to 1 MiB.
        """
        return InPlace(self._end.borrow(size))

    def read_array(self, *, out: Any = None, numpy: bool = False, max_bytes: int = arrays.MAX_BYTES) -> Any:
        """The next array that `write_array` has written: a memoryview, or an array of numpy.

        With `out` its elements are read into that buffer, which is of the array's format and shape, or of bytes. EOFError: the
        end of the stream, also inside an array, which the message says. ValueError: what came is no array, or does not fit
        `out` or `max_bytes`; in these two cases the next call gets it.
        """
        return self._arrays.read(out, numpy, max_bytes)

    @classmethod
    def attach(cls, fd: int) -> Reader:
        """The end of any pipe or FIFO that a descriptor is open for. The descriptor belongs to it from then on."""
        return cls(_native.Reader.attach(fd))


class Writer(_Stream):
    """The write end of a pipe."""

    _end: _native.Writer

    def writable(self) -> bool:
        return True

    def write(self, buffer: Any) -> int | None:
        """Writes all of the buffer. None: it is non-blocking, and the pipe is full."""
        return self._end.write(buffer)

    def reserve(self, size: int) -> InPlace:
        """Room for up to `size` bytes, to be filled where it is; sleeps as a write of so many would.

        `with writer.reserve(n) as view`. There may be less room, because a ring ends somewhere. Without `trust` it is memory of
        this process, which is written when the block ends.
        """
        return InPlace(self._end.reserve(size))

    def write_array(self, array: Any) -> None:
        """Writes anything with the buffer protocol, with its format and shape, for `Reader.read_array`.

        An array that is contiguous is not copied first. Several writers of one pipe need a lock: an array is several writes.
        """
        arrays.write(self._end, array)

    @classmethod
    def attach(cls, fd: int) -> Writer:
        """The end of any pipe or FIFO that a descriptor is open for. The descriptor belongs to it from then on."""
        return cls(_native.Writer.attach(fd))


def pipe(capacity: int | None = None, *, trust: bool = False) -> tuple[Reader, Writer]:
    """A new pipe as two file objects: as os.pipe(), through shared memory.

    The ends are inherited by fork and closed on exec. `capacity` is rounded up to a power of two of at least 4096.

    With `trust` Reader.borrow and Writer.reserve lead to the pipe's own memory. It is a promise: all processes at the pipe are of
    this program, and write to no memory that they have borrowed.
    """
    reader, writer = _native.pipe(capacity, trust)
    return Reader(reader), Writer(writer)


def open_fifo(path: str | os.PathLike[str], mode: str, *, blocking: bool = True) -> Reader | Writer:
    """The end of a FIFO that os.mkfifo() has made: mode 'r' or 'w', as open(path, mode, buffering=0).

    Waits until another process has the other end open. If not `blocking` it does not wait, a FIFO that nothing reads cannot be
    opened for writing (ENXIO), and the end is non-blocking. Any program may have the other end.
    """
    if mode in ("r", "rb"):
        return Reader(_native.fifo_reader(path, blocking))
    if mode in ("w", "wb"):
        return Writer(_native.fifo_writer(path, blocking))
    raise ValueError(f"invalid mode: {mode!r} (use 'r' or 'w')")
