"""Pipes as file objects: raw, unbuffered streams of bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from ._native import End


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
        if not self.closed:
            try:
                super().close()
            finally:
                self._end.close()

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

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Reads what waits, or sleeps until something does. 0: the end. None: it is non-blocking, and nothing waits."""
        return self._end.readinto(buffer)

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

    @classmethod
    def attach(cls, fd: int) -> Writer:
        """The end of any pipe or FIFO that a descriptor is open for. The descriptor belongs to it from then on."""
        return cls(_native.Writer.attach(fd))


def pipe(capacity: int | None = None) -> tuple[Reader, Writer]:
    """A new pipe as two file objects: as os.pipe(), through shared memory.

    The ends are inherited by fork and closed on exec. `capacity` is rounded up to a power of two of at least 4096.
    """
    reader, writer = _native.pipe(capacity)
    return Reader(reader), Writer(writer)
