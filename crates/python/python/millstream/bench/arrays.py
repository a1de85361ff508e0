"""Rows of arrays from one process to another, by us and by all others that are installed.

Each receiver has the array as one of numpy in the end and reads a number of each page, so that one that copies nothing gains
only what a program would gain. Each rival is used as its own documentation has it; what it cannot do is said at its class.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Protocol

from ..connection import Pipe
from ..context import get_context
from .timing import Measure, Row, Sample, timed

_PAGE = 4096


class Way(Protocol):
    """A way for arrays from the parent to a child. It is made before the fork, and closed by the parent."""

    def sender(self) -> Callable[[Any], None]: ...
    def receiver(self) -> Callable[[Callable[[Any], None]], None]:
        """Receives an array and calls a function with it, which does not keep it."""
        ...

    def close_receiver(self) -> None:
        """At the end of the child, which leaves nothing behind."""
        ...

    def close(self) -> None: ...


# A way for arrays of so many bytes.
MakeWay = Callable[[int], Way]


class Closed:
    """What the end of the child closes by itself."""

    def close_receiver(self) -> None:
        pass


class _Connection(Closed):
    """A pair of connections, and recv() with a copy."""

    def __init__(self, make: Callable[..., tuple[Any, Any]], **options: Any) -> None:
        self._receiver, self._sender = make(duplex=False, **options)

    def sender(self) -> Callable[[Any], None]:
        send: Callable[[Any], None] = self._sender.send
        return send

    def receiver(self) -> Callable[[Callable[[Any], None]], None]:
        return lambda use: use(self._receiver.recv())

    def close(self) -> None:
        self._receiver.close()
        self._sender.close()


class _Borrowed(_Connection):
    """Our connection, and arrays that lie in its arena, which has room for two."""

    def __init__(self, size: int) -> None:
        super().__init__(Pipe, trust=True, arena=2 * size)

    def receiver(self) -> Callable[[Callable[[Any], None]], None]:
        def receive(use: Callable[[Any], None]) -> None:
            with self._receiver.recv(borrow=True) as message:
                use(message.value)

        return receive


class _Queue(Closed):
    """A queue with put() and get()."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def sender(self) -> Callable[[Any], None]:
        put: Callable[[Any], None] = self._queue.put
        return put

    def receiver(self) -> Callable[[Callable[[Any], None]], None]:
        return lambda use: use(self._queue.get())

    def close(self) -> None:
        self._queue.close()
        self._queue.join_thread()


class _SharedMemory(Closed):
    """Two pieces of shared memory in turns, into which the sender copies, and connections that say which is full and which is free.

    The receiver works in the memory itself. Memory of a process that is killed here would stay.
    """

    _PIECES = 2

    def __init__(self, size: int, numpy: Any) -> None:
        self._numpy = numpy
        self._pieces = [SharedMemory(create=True, size=size) for _ in range(self._PIECES)]
        self._full, self._fill = multiprocessing.Pipe(duplex=False)
        self._free, self._give_back = multiprocessing.Pipe(duplex=False)

    def sender(self) -> Callable[[Any], None]:
        number = 0

        def send(array: Any) -> None:
            nonlocal number
            if number >= self._PIECES:
                self._free.recv_bytes()
            at = number % self._PIECES
            self._numpy.ndarray(array.shape, array.dtype, self._pieces[at].buf)[:] = array
            self._fill.send((at, array.shape, array.dtype))
            number += 1

        return send

    def receiver(self) -> Callable[[Callable[[Any], None]], None]:
        def receive(use: Callable[[Any], None]) -> None:
            at, shape, dtype = self._full.recv()
            use(self._numpy.ndarray(shape, dtype, self._pieces[at].buf))
            self._give_back.send_bytes(b"")

        return receive

    def close(self) -> None:
        for piece in self._pieces:
            piece.close()
            piece.unlink()
        for end in (self._full, self._fill, self._free, self._give_back):
            end.close()


def rows(quick: bool, numpy: Any, others: dict[str, MakeWay]) -> Iterator[Row]:
    """All sizes. `others` are the libraries that are installed."""
    sizes = {"1 MiB": (1 << 20, 20 if quick else 200)}
    if not quick:
        sizes |= {"16 MiB": (16 << 20, 16), "64 MiB": (64 << 20, 4), "1 GiB": (1 << 30, 2)}
    fork = multiprocessing.get_context("fork")
    ways: dict[str, MakeWay] = {
        "multiprocessing": lambda size: _Connection(multiprocessing.Pipe),
        "multiprocessing.Queue": lambda size: _Queue(fork.Queue()),
        "shared_memory + Pipe": lambda size: _SharedMemory(size, numpy),
        **others,
        "our Queue": lambda size: _Queue(get_context("fork").Queue()),
        "our recv(borrow=True)": _Borrowed,
    }
    for name, (size, count) in sizes.items():

        def by(make: MakeWay, size: int = size, count: int = count) -> Measure:
            return lambda: _pass(make(size), numpy.arange(size // 8, dtype="f8"), count)

        rivals = {other: by(make) for other, make in ways.items()}
        yield Row(f"numpy {name}", count * size, by(lambda size: _Connection(Pipe)), rivals)


def _pass(way: Way, array: Any, count: int) -> Sample:
    wanted = float(array[:: _PAGE // 8].sum())

    def check(received: Any) -> None:
        if received.nbytes != array.nbytes or float(received[:: _PAGE // 8].sum()) != wanted:
            raise RuntimeError("an array arrived with wrong numbers")

    def prepare() -> Callable[[], None]:
        receive = way.receiver()

        def work() -> None:
            for _ in range(count):
                receive(check)
            way.close_receiver()

        return work

    send = way.sender()

    def work() -> None:
        for _ in range(count):
            send(array)

    try:
        return timed([prepare], work)
    finally:
        way.close()
