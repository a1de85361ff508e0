"""Contexts as those of multiprocessing, whose pipes, queues and pools use millstream's pipes."""

from __future__ import annotations

from multiprocessing import context as standard
from multiprocessing import get_start_method
from typing import Any

from .connection import GIVEN, Connection, Pipe
from .queues import JoinableQueue, Queue, SimpleQueue


class _Pipes:
    """What a context makes of millstream's pipes; a Pool takes its queues from here."""

    def Pipe(
        self, duplex: bool = True, *, capacity: int | None = None, trust: bool = False, arena: int | None = None
    ) -> tuple[Connection, Connection]:
        """Returns two connection objects connected by a pipe"""
        return Pipe(duplex, capacity=capacity, trust=trust, arena=arena)

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
