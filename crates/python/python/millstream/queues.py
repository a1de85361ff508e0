"""Queues as those of multiprocessing, over millstream's pipes.

What multiprocessing does in a thread of each queue that puts, the feeder, is done in put() itself while the pipe has room: the object is
pickled and sent at once. Only what finds no room, or cannot be pickled, goes to the feeder, and everything behind it until that is sent.
"""

from __future__ import annotations

import pickle
from collections import deque
from multiprocessing import queues, reduction
from queue import Full
from typing import Any

from .connection import PLAIN, Connection, Pipe, dump, load

# Seconds that put() waits for another process to have sent what it is sending: it may have found the pipe full.
_TURN = 0.0005


class _Unsent(deque[Any]):
    """What the feeder has not sent yet.

    Before it takes an object it has one in hand; when it has sent that it comes again, and finds the next one or none.
    """

    in_hand = False

    def popleft(self) -> Any:
        self.in_hand = True
        try:
            return super().popleft()
        except IndexError:
            self.in_hand = False
            raise

    def is_all_sent(self) -> bool:
        # In this order: an object is in hand before it is taken from here.
        return not self and not self.in_hand


class _OverOurPipe:
    """A queue of multiprocessing, with another pipe in it."""

    _reader: Connection
    _writer: Connection
    _buffer: _Unsent
    _closed: bool
    _notempty: Any
    _sem: Any
    _thread: Any
    _wlock: Any

    def __init__(self, maxsize: int = 0, *, ctx: Any) -> None:
        super().__init__(maxsize, ctx=ctx)  # type: ignore[call-arg]
        self._reader.close()
        self._writer.close()
        self._reader, self._writer = Pipe(duplex=False)
        self._reset()

    def _reset(self, *args: Any, **kwargs: Any) -> None:
        super()._reset(*args, **kwargs)  # type: ignore[misc]
        self._buffer = _Unsent()
        self._has_sent = False

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        self._take_place(block, timeout)
        self._put(obj)

    def _take_place(self, block: bool, timeout: float | None) -> None:
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        if not self._sem.acquire(block, timeout):
            raise Full

    def _put(self, obj: Any) -> None:
        if self._buffer.is_all_sent() and self._send_at_once(obj):
            return
        with self._notempty:
            if self._thread is None:
                self._start_thread()  # type: ignore[attr-defined]
            self._buffer.append(obj)
            self._notempty.notify()

    def _send_at_once(self, obj: Any) -> bool:
        """False: there is no room, or the object cannot be pickled, which the feeder tells as ever."""
        try:
            message = pickle.dumps(obj) if type(obj) in PLAIN else reduction.ForkingPickler.dumps(obj)
        except Exception:
            return False
        if not self._wlock.acquire(True, _TURN):
            return False
        try:
            is_sent = self._writer.send_bytes_if_room(message)
            self._has_sent |= is_sent
            return is_sent
        except OSError:  # nothing has been sent
            return False
        finally:
            self._wlock.release()

    def close(self) -> None:
        super().close()  # type: ignore[misc]
        # What the feeder does at its end, if there was one.
        if self._has_sent and self._thread is None:
            self._reader.close()
            self._writer.close()


class Queue(_OverOurPipe, queues.Queue):  # type: ignore[type-arg]
    """multiprocessing.Queue over millstream's pipe."""


class JoinableQueue(_OverOurPipe, queues.JoinableQueue):  # type: ignore[type-arg]
    """multiprocessing.JoinableQueue over millstream's pipe."""

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        self._take_place(block, timeout)
        # Before the object is there, as its task may be done at once.
        with self._cond:  # type: ignore[attr-defined]
            self._unfinished_tasks.release()  # type: ignore[attr-defined]
            self._put(obj)


class SimpleQueue(queues.SimpleQueue):  # type: ignore[type-arg]
    """multiprocessing.SimpleQueue over millstream's pipe. Large buffers of an object are not copied into its pickle."""

    _reader: Connection
    _writer: Connection
    _rlock: Any
    _wlock: Any

    def __init__(self, *, ctx: Any) -> None:
        super().__init__(ctx=ctx)
        self._reader.close()
        self._writer.close()
        self._reader, self._writer = Pipe(duplex=False)
        self._poll = self._reader.poll

    def get(self) -> Any:
        with self._rlock:
            received = self._reader.recv_dumped()
        return load(*received)

    def put(self, obj: Any) -> None:
        dumped = dump(obj)
        with self._wlock:
            self._writer.send_dumped(dumped)
