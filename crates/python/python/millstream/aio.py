"""Pipes in asyncio: the streams that asyncio itself has, over our ends.

The end is watched through its readiness descriptor, and made non-blocking, also for other processes that have inherited it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from .broadcasts import BroadcastReader
from .streams import Reader, Writer

_READ_AT_ONCE = 256 << 10


class _ReadTransport(asyncio.ReadTransport):
    """Feeds a protocol with what waits, as long as it wants more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Reader | BroadcastReader, protocol: asyncio.Protocol) -> None:
        super().__init__({"pipe": end})
        self._loop = loop
        self._end = end
        self._fd = end.fileno()
        self._protocol = protocol
        self._closing = False
        self._paused = True
        self._buffer = bytearray(_READ_AT_ONCE)
        end.set_blocking(False)
        loop.call_soon(protocol.connection_made, self)
        loop.call_soon(self.resume_reading)

    def _ready(self) -> None:
        try:
            count = self._end.readinto(self._buffer)
        except OSError as error:
            return self._lose(error)
        if count is None:
            return
        if count > 0:
            self._protocol.data_received(bytes(memoryview(self._buffer)[:count]))
        elif not self._closing:
            self._protocol.eof_received()
            self.close()

    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    def pause_reading(self) -> None:
        if self.is_reading():
            self._paused = True
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if self._paused and not self._closing:
            self._paused = False
            self._loop.add_reader(self._fd, self._ready)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self.pause_reading()
            self._closing = True
            # First out of the loop: another process may have inherited the descriptor.
            self._end.close()
            self._loop.call_soon(self._protocol.connection_lost, error)


class _WriteTransport(asyncio.WriteTransport):
    """Writes what fits at once, and the rest when there is room."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Writer, protocol: asyncio.Protocol) -> None:
        super().__init__({"pipe": end})
        self._loop = loop
        self._end = end
        self._fd = end.fileno()
        self._protocol = protocol
        self._closing = False
        self._lost = False
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._paused = False
        self._high = self._low = 0
        self.set_write_buffer_limits()
        end.set_blocking(False)
        loop.call_soon(protocol.connection_made, self)

    def write(self, data: Any) -> None:
        if self._lost or self._closing:
            return
        rest = memoryview(data).cast("B")
        if not self._waiting:
            rest = self._write_some(rest)
        if rest and not self._lost:
            if not self._waiting:
                self._loop.add_writer(self._fd, self._ready)
            # What the program changes meanwhile was sent before.
            self._waiting.append(memoryview(bytes(rest)))
            self._waiting_bytes += len(rest)
            if self._waiting_bytes > self._high and not self._paused:
                self._paused = True
                self._protocol.pause_writing()

    def _write_some(self, data: memoryview) -> memoryview:
        """Returns what does not fit."""
        try:
            while data and (count := self._end.write(data)) is not None:
                data = data[count:]
        except OSError as error:
            self._lose(error)
        return data

    def _ready(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            rest = self._write_some(first)
            if self._lost:
                return
            self._waiting_bytes -= len(first) - len(rest)
            if rest:
                self._waiting[0] = rest
                break
            self._waiting.popleft()
        if self._paused and self._waiting_bytes <= self._low:
            self._paused = False
            self._protocol.resume_writing()
        if not self._waiting:
            self._loop.remove_writer(self._fd)
            if self._closing:
                self._lose(None)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Closes the end when everything is written."""
        if not self._closing:
            self._closing = True
            if not self._waiting:
                self._lose(None)

    def abort(self) -> None:
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._closing = self._lost = True
            if self._waiting:
                self._loop.remove_writer(self._fd)
                self._waiting.clear()
            try:
                self._end.close()
            except OSError as late:
                error = error or late
            self._loop.call_soon(self._protocol.connection_lost, error)

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = 64 << 10 if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._low, self._high = low, high


async def open_reader(reader: Reader | BroadcastReader, limit: int = 64 << 10) -> asyncio.StreamReader:
    """The read end of a pipe, or of a broadcast, as asyncio's stream: `await stream.readline()` and its relatives.

    A call that is cancelled loses no byte: what was read waits in the stream. The end belongs to the stream, which closes it at
    the end.
    """
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader(limit, loop)
    _ReadTransport(loop, reader, asyncio.StreamReaderProtocol(stream, loop=loop))
    await asyncio.sleep(0)  # it is connected by then
    return stream


async def open_writer(writer: Writer) -> asyncio.StreamWriter:
    """The write end of a pipe as asyncio's stream: `stream.write(data)`, `await stream.drain()`, `stream.close()`."""
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(stream, loop=loop)
    transport = _WriteTransport(loop, writer, protocol)
    await asyncio.sleep(0)
    return asyncio.StreamWriter(transport, protocol, None, loop)
