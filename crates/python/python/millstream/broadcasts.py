"""One writer, and readers that each see every byte."""

from __future__ import annotations

import errno
import io
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from ._native import BroadcastEnd


class Lost(OSError):
    """A reader of a lossy broadcast was too slow: `bytes` of the stream it never had. It reads on with a later write."""

    def __init__(self, count: int) -> None:
        super().__init__(errno.ENOBUFS, f"this reader was too slow and has lost {count} bytes")
        self.bytes = count

    def __reduce__(self) -> tuple[type[Lost], tuple[int]]:
        return Lost, (self.bytes,)


class _BroadcastEnd(io.RawIOBase):
    """What both ends have."""

    _end: BroadcastEnd

    def __init__(self, end: BroadcastEnd) -> None:
        super().__init__()
        self._end = end

    @property
    def capacity(self) -> int:
        """Bytes that the slowest reader can be behind."""
        return self._end.capacity

    @property
    def lossy(self) -> bool:
        """Whether a slow reader loses bytes, instead of holding up the writer."""
        return self._end.lossy

    def set_blocking(self, blocking: bool) -> None:
        """Whether reading and writing sleep. If not they return None."""
        self._end.set_blocking(blocking)

    def statistics(self) -> dict[str, int]:
        """What this end has done so far: bytes, transfers, sleeps and others."""
        return self._end.statistics()

    def close(self) -> None:
        """Closes this end. Readers see the end of the stream when the writer is closed; a closed reader frees its place."""
        if not self.closed:
            try:
                self._end.close()
            finally:
                super().close()

    def readinto(self, buffer: Any) -> int | None:
        raise io.UnsupportedOperation("not readable")

    def write(self, buffer: Any) -> int | None:
        raise io.UnsupportedOperation("not writable")

    def isatty(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


class BroadcastReader(_BroadcastEnd):
    """A reading end of a broadcast. Wrap it in io.BufferedReader or io.TextIOWrapper for lines."""

    _end: _native.BroadcastReader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Reads what waits, or sleeps until something does. 0: the end. None: it is non-blocking, and nothing waits.

        Lost: it was too slow for a lossy broadcast.
        """
        count = self._end.readinto(buffer)
        if count is not None and count < 0:
            raise Lost(-count)
        return count

    def fileno(self) -> int:
        """A descriptor to be watched by select and its relatives: ready when this end is, or once in vain."""
        return self._end.fileno()

    @property
    def waiting(self) -> int:
        """Bytes that wait to be read."""
        return self._end.waiting

    def detach(self) -> int:
        """Gives this end away as a descriptor, for a program that attaches it while the writer lives. This object is closed."""
        fd = self._end.detach()
        super().close()
        return fd

    @classmethod
    def attach(cls, fd: int) -> BroadcastReader:
        """The reader that a descriptor from `detach` stands for. The descriptor belongs to it from then on."""
        return cls(_native.BroadcastReader.attach(fd))


class BroadcastWriter(_BroadcastEnd):
    """The writing end of a broadcast. Threads that share it need a lock."""

    _end: _native.BroadcastWriter

    def writable(self) -> bool:
        return True

    def write(self, buffer: Any) -> int | None:
        """Writes all of the buffer, once for all readers. None: it is non-blocking, and the slowest reader left no room."""
        return self._end.write(buffer)

    @property
    def readers(self) -> int:
        """Readers that are left."""
        return self._end.readers

    def add_reader(self) -> BroadcastReader:
        """One more reader, which sees what is written from now on. There can be 64."""
        return BroadcastReader(self._end.add_reader())


def broadcast(
    readers: int, *, capacity: int | None = None, lossy: bool = False
) -> tuple[BroadcastWriter, list[BroadcastReader]]:
    """One writer and so many readers (1 to 64) that each see every byte, through shared memory and with one copy for all.

    The slowest reader decides how fast the writer is. With `lossy` the writer never waits, and a reader that is behind by more
    than the capacity gets Lost, which says by how much. The ends are inherited by fork and closed on exec. A reader that is closed
    or killed frees its place; without readers the writer gets BrokenPipeError.
    """
    writer, ends = _native.broadcast(readers, capacity, lossy)
    return BroadcastWriter(writer), [BroadcastReader(end) for end in ends]
