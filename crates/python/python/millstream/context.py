"""Contexts as those of multiprocessing, whose pipes, queues and pools use millstream's pipes."""

from __future__ import annotations

from multiprocessing import context as standard
from multiprocessing import get_start_method, queues
from typing import Any

from .connection import GIVEN, Connection, Pipe, dump, load


class _OverOurPipe:
    """A queue of multiprocessing, with another pipe in it."""

    def __init__(self, maxsize: int = 0, *, ctx: Any) -> None:
        super().__init__(maxsize, ctx=ctx)  # type: ignore[call-arg]
        self._reader.close()  # type: ignore[has-type]
        self._writer.close()  # type: ignore[has-type]
        self._reader, self._writer = Pipe(duplex=False)
        self._reset()  # type: ignore[attr-defined]


class Queue(_OverOurPipe, queues.Queue):  # type: ignore[type-arg]
    """multiprocessing.Queue over millstream's pipe."""


class JoinableQueue(_OverOurPipe, queues.JoinableQueue):  # type: ignore[type-arg]
    """multiprocessing.JoinableQueue over millstream's pipe."""


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


class _Pipes:
    """What a context makes of millstream's pipes; a Pool takes its queues from here."""

    def Pipe(
        self, duplex: bool = True, *, capacity: int | None = None, trust: bool = False
    ) -> tuple[Connection, Connection]:
        """Returns two connection objects connected by a pipe"""
        return Pipe(duplex, capacity=capacity, trust=trust)

    def Queue(self, maxsize: int = 0) -> Queue:
        """Returns a queue object"""
        return Queue(maxsize, ctx=self)

    def JoinableQueue(self, maxsize: int = 0) -> JoinableQueue:
        """Returns a queue object"""
        return JoinableQueue(maxsize, ctx=self)

    def SimpleQueue(self) -> SimpleQueue:
        """Returns a queue object"""
        return SimpleQueue(ctx=self)

    def get_context(self, method: str | None = None) -> Any:
        """The same context, or that of another start method"""
        return self if method is None else get_context(method)


def _started(popen: Any) -> Any:
    """The child has inherited its copies of ends: ours are closed."""
    for given in popen.__dict__.pop(GIVEN, ()):
        given()
    return popen


class ForkServerProcess(standard.ForkServerProcess):
    """A process that the start method forkserver starts."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _started(standard.ForkServerProcess._Popen(process_obj))


class SpawnProcess(standard.SpawnProcess):
    """A process that the start method spawn starts."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _started(standard.SpawnProcess._Popen(process_obj))


class ForkContext(_Pipes, standard.ForkContext):  # type: ignore[misc]
    """The start method fork."""


class ForkServerContext(_Pipes, standard.ForkServerContext):  # type: ignore[misc]
    """The start method forkserver."""

    Process = ForkServerProcess


class SpawnContext(_Pipes, standard.SpawnContext):  # type: ignore[misc]
    """The start method spawn."""

    Process = SpawnProcess


_CONTEXTS = {"fork": ForkContext(), "forkserver": ForkServerContext(), "spawn": SpawnContext()}


def get_context(method: str | None = None) -> Any:
    """A context as multiprocessing.get_context() returns it, over millstream's pipes.

    `method` is 'fork', 'forkserver' or 'spawn'; without it multiprocessing's start method.
    """
    chosen = get_start_method() if method is None else method
    try:
        return _CONTEXTS[chosen]
    except KeyError:
        raise ValueError(f"cannot find context for {chosen!r}") from None
