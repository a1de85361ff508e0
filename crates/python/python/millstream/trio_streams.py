"""Pipes in trio: `ReceiveStream` and `SendStream`, over our ends.

The end is watched through its readiness descriptor, and made non-blocking, also for other processes that have inherited it. A call
waits before it reads or writes and never afterwards, so one that is cancelled has lost no byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio

from .broadcasts import BroadcastReader
from .streams import Reader, Writer

_READ_AT_ONCE = 64 << 10


class _Stream(trio.abc.AsyncResource):
    """What both streams have. The end belongs to the stream, which closes it."""

    def __init__(self, end: Reader | BroadcastReader | Writer) -> None:
        self._closable = end
        self._fd = end.fileno()
        self._busy = False
        end.set_blocking(False)

    @contextmanager
    def _one_task(self, doing: str) -> Iterator[None]:
        if self._closable.closed:
            raise trio.ClosedResourceError("this stream is closed")
        if self._busy:
            raise trio.BusyResourceError(f"another task is {doing} this stream")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    async def aclose(self) -> None:
        """Closes the end. A task that waits for it gets ClosedResourceError."""
        if not self._closable.closed:
            trio.lowlevel.notify_closing(self._fd)
            self._closable.close()
        await trio.lowlevel.checkpoint()


class ReceiveStream(_Stream, trio.abc.ReceiveStream):
    """The read end of a pipe, or of a broadcast."""

    def __init__(self, reader: Reader | BroadcastReader) -> None:
        super().__init__(reader)
        self._end = reader

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """What waits, up to `max_bytes`; b"" at the end of the stream."""
        size = _READ_AT_ONCE if max_bytes is None else max_bytes
        if size < 1:
            raise ValueError(f"max_bytes is {max_bytes} (at least 1 is needed)")
        with self._one_task("reading from"):
            await trio.lowlevel.checkpoint()
            while (data := self._read(size)) is None:
                await trio.lowlevel.wait_readable(self._fd)
            return data

    def _read(self, size: int) -> bytes | None:
        if self._end.closed:
            raise trio.ClosedResourceError("this stream was closed by another task")
        return self._end.read(size)


class SendStream(_Stream, trio.abc.SendStream):
    """The write end of a pipe."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._end = writer
        self.bytes_sent = 0
        """Bytes that have gone into the pipe, also by a call that was cancelled."""

    async def send_all(self, data: Any) -> None:
        """Sends all of the data. Cancelled, it has sent a part, which `bytes_sent` tells."""
        with self._one_task("writing to"):
            await trio.lowlevel.checkpoint()
            rest = memoryview(data).cast("B")
            while rest:
                count = self._write(rest)
                if count is None:
                    await trio.lowlevel.wait_writable(self._fd)
                else:
                    self.bytes_sent += count
                    rest = rest[count:]

    async def wait_send_all_might_not_block(self) -> None:
        """Waits until there is room in the pipe, or no reader any more."""
        with self._one_task("waiting for"):
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.wait_writable(self._fd)

    def _write(self, data: memoryview) -> int | None:
        if self._end.closed:
            raise trio.ClosedResourceError("this stream was closed by another task")
        try:
            return self._end.write(data)
        except BrokenPipeError as error:
            raise trio.BrokenResourceError("the pipe has no reader any more") from error
