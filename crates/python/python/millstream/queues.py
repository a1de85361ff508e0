"""Queues as those of multiprocessing, over millstream's pipes.

What multiprocessing does in a thread of each queue that puts, the feeder, is done in put() itself while the pipe has room: the object is
pickled and sent at once. What finds no room, or another process that is sending, goes to the feeder, and everything behind it until
that is sent. The feeder sends what waits many messages at a time. Large buffers of an object are not copied into its pickle.

put() and get() have in one function each what a small message takes: calls of Python functions cost more than all else of it.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from multiprocessing import queues, util
from pickle import dumps, loads
from queue import Empty, Full
from typing import Any, NamedTuple

from .connection import PLAIN, Connection, Pipe, dump, load

# Messages that the feeder sends in one call.
_BATCH = 64
# What multiprocessing puts behind the last object.
_END: Any = queues._sentinel  # type: ignore[attr-defined]


class _Item(NamedTuple):
    obj: Any
    message: Any
    beside: list[memoryview] | None


class _Unsent(deque[Any]):
    """What the feeder has not sent yet: items, and at last _END."""

    __slots__ = ("_is_sending",)

    def __init__(self) -> None:
        super().__init__()
        self._is_sending = False

    def next_batch(self) -> list[_Item]:
        """What the feeder sends next: several small items, one with buffers beside it, or none."""
        self._is_sending = True  # before anything is taken from here
        batch: list[_Item] = []
        while self and self[0] is not _END and len(batch) < _BATCH and (not batch or self[0].beside is None):
            batch.append(self.popleft())
            if batch[-1].beside is not None:
                break
        self._is_sending = bool(batch)
        return batch

    def is_all_sent(self) -> bool:
        # In this order: the feeder says that it is sending before it takes anything from here.
        return not self and not self._is_sending


def _feed(
    unsent: _Unsent,
    not_empty: threading.Condition,
    send: Callable[[list[_Item]], None],
    close: Callable[[], None],
    fail: Callable[[Exception, _Item], None],
    ignores_broken_pipe: bool,
) -> None:
    """The feeder. It knows nothing of its queue, which may be forgotten."""
    while True:
        with not_empty:
            while not unsent:
                not_empty.wait()
        while batch := unsent.next_batch():
            try:
                send(batch)
            except Exception as error:
                if ignores_broken_pipe and isinstance(error, BrokenPipeError) or util.is_exiting():
                    return
                for item in batch:
                    fail(error, item)
        if unsent and unsent[0] is _END:
            return close()


class _OverOurPipe:
    """A queue of multiprocessing, with another pipe in it."""

    _reader: Connection
    _writer: Connection
    _receive: Callable[[], Any]
    _send_if_room: Callable[[Any], bool]
    _buffer: _Unsent
    _closed: bool
    _close: Any
    _ignore_epipe: bool
    _joincancelled: bool
    _jointhread: Any
    _notempty: Any
    _on_queue_feeder_error: Any
    _rlock: Any
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
        # Those of multiprocessing are there first.
        if isinstance(self._reader, Connection):
            self._receive = self._reader._to_read().receive
            self._send_if_room = self._writer._to_write().send_if_room

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        if not self._sem.acquire(block, timeout):
            raise Full
        unsent = self._buffer
        # In this order, as in is_all_sent().
        if type(obj) not in PLAIN or unsent or unsent._is_sending or not self._wlock.acquire(False):
            return self._put(obj)
        try:
            is_sent = self._send_if_room(dumps(obj, 5))
        except (OSError, MemoryError):  # nothing has been sent, which _put() tells
            is_sent = False
        finally:
            self._wlock.release()
        if is_sent:
            self._has_sent = True
        else:
            self._put(obj)

    def _take_place(self, block: bool, timeout: float | None) -> None:
        self._check_open()
        if not self._sem.acquire(block, timeout):
            raise Full

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")

    def _put(self, obj: Any) -> None:
        try:
            message, beside = dump(obj)
        except BaseException as error:
            self._sem.release()
            if not isinstance(error, Exception):
                raise
            return self._on_queue_feeder_error(error, obj)  # type: ignore[no-any-return]
        if self._buffer.is_all_sent() and self._send_at_once(message, beside):
            return
        with self._notempty:
            if self._thread is None:
                self._start_thread()
            self._buffer.append(_Item(obj, message, beside))
            self._notempty.notify()

    def _send_at_once(self, message: Any, beside: list[memoryview] | None) -> bool:
        """Not if another process is sending, which may have found the pipe full, nor if there is no room."""
        if not self._wlock.acquire(False):
            return False
        try:
            is_sent = self._writer.send_dumped_if_room(message, beside)
        except OSError:  # nothing has been sent: the feeder tells
            return False
        finally:
            self._wlock.release()
        self._has_sent = self._has_sent or is_sent
        return is_sent

    def _start_thread(self) -> None:
        writer, reader, turn, sem, tell = self._writer, self._reader, self._wlock, self._sem, self._on_queue_feeder_error

        def send(batch: list[_Item]) -> None:
            with turn:
                if batch[0].beside is None:
                    writer.send_many_bytes([item.message for item in batch])
                else:
                    writer.send_dumped((batch[0].message, batch[0].beside))

        def close() -> None:
            reader.close()
            writer.close()

        def fail(error: Exception, item: _Item) -> None:
            sem.release()
            tell(error, item.obj)

        arguments = (self._buffer, self._notempty, send, close, fail, self._ignore_epipe)
        self._thread = threading.Thread(target=_feed, args=arguments, name="QueueFeederThread", daemon=True)
        self._thread.start()
        standard: Any = queues.Queue
        if not self._joincancelled:
            self._jointhread = util.Finalize(
                self._thread, standard._finalize_join, [weakref.ref(self._thread)], exitpriority=-5
            )
        self._close = util.Finalize(self, standard._finalize_close, [self._buffer, self._notempty], exitpriority=10)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        if block and timeout is None:
            # Not as a with statement, which calls a function of Python at each end.
            self._rlock.acquire()
            try:
                message, beside = self._receive()
            finally:
                self._rlock.release()
        else:
            message, beside = self._recv_in_time(timeout if block else 0.0)
        self._sem.release()
        return loads(message) if beside is None else load(message, beside)

    def _recv_in_time(self, timeout: float | None) -> Any:
        assert timeout is not None
        deadline = time.monotonic() + timeout
        if not self._rlock.acquire(timeout > 0, timeout):
            raise Empty
        try:
            if not self._reader.poll(max(0.0, deadline - time.monotonic())):
                raise Empty
            return self._reader.recv_dumped()
        finally:
            self._rlock.release()

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
