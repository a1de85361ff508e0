"""Pipes in anyio, over asyncio or trio: `ReceiveStream` and `SendStream`, over our ends.

The end is watched through its readiness descriptor, and made non-blocking, also for other processes that have inherited it. A call
waits before it reads or writes and never afterwards, so one that is cancelled has lost no byte.
"""

from __future__ import annotations

from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from .broadcasts import BroadcastReader
from .streams import Reader, Writer


class _Stream(anyio.abc.AsyncResource):
    """What both streams have. The end belongs to the stream, which closes it."""

    def __init__(self, end: Reader | BroadcastReader | Writer, doing: str) -> None:
        self._closable = end
        self._fd = end.fileno()
        self._one_task = anyio.ResourceGuard(doing)
        end.set_blocking(False)

    def _check_open(self) -> None:
        if self._closable.closed:
            raise anyio.ClosedResourceError("this stream is closed")

    async def aclose(self) -> None:
        """Closes the end. A task that waits for it gets ClosedResourceError."""
        if not self._closable.closed:
            anyio.notify_closing(self._fd)
            self._closable.close()
        await anyio.lowlevel.checkpoint()


class ReceiveStream(_Stream, anyio.abc.ByteReceiveStream):
    """The read end of a pipe, or of a broadcast."""

    def __init__(self, reader: Reader | BroadcastReader) -> None:
        super().__init__(reader, "reading from")
        self._end = reader

    async def receive(self, max_bytes: int = 64 << 10) -> bytes:
        """What waits, up to `max_bytes`. EndOfStream at the end of the stream."""
        if max_bytes < 1:
            raise ValueError(f"max_bytes is {max_bytes} (at least 1 is needed)")
        with self._one_task:
            await anyio.lowlevel.checkpoint()
            while (data := self._read(max_bytes)) is None:
                await anyio.wait_readable(self._fd)
            if not data:
                raise anyio.EndOfStream
            return data

    def _read(self, size: int) -> bytes | None:
        self._check_open()
        return self._end.read(size)


class SendStream(_Stream, anyio.abc.ByteSendStream):
    """The write end of a pipe."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer, "writing to")
        self._end = writer
        self.bytes_sent = 0
        """Bytes that have gone into the pipe, also by a call that was cancelled."""

    async def send(self, item: Any) -> None:
        """Sends all of the data. Cancelled, it has sent a part, which `bytes_sent` tells."""
        with self._one_task:
            await anyio.lowlevel.checkpoint()
            self._check_open()
            rest = memoryview(item).cast("B")
            while rest:
                count = self._write(rest)
                if count is None:
                    await anyio.wait_writable(self._fd)
                else:
                    self.bytes_sent += count
                    rest = rest[count:]

    def _write(self, data: memoryview) -> int | None:
        self._check_open()
        try:
            return self._end.write(data)
        except BrokenPipeError as error:
            raise anyio.BrokenResourceError("the pipe has no reader any more") from error
