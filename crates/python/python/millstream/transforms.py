"""Functions of Python as stages of a network."""

from __future__ import annotations

import functools
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Protocol, overload

from .connection import Connection
from .context import get_context
from .forks import close_in_children


class NetworkError(Exception):
    """A network failed. The message is that of the program.

    `status` is its exit status, negative for a signal; `stderr` the end of all that it said.
    """

    def __init__(self, message: str, status: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.stderr = stderr


class Stage(Protocol):
    """A transform in one run of a network."""

    def feed(self, chunk: bytes) -> Iterator[memoryview]: ...
    def finish(self) -> Iterator[memoryview]: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


class Transform:
    """A function from chunks of bytes to bytes, as a stage of `millstream.net`."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any], flush: Callable[[], Any] | None, process: bool) -> None:
        if not callable(function):
            raise TypeError(f"a transform is a function or a class, not {type(function).__name__}")
        if isinstance(function, type) and flush is not None:
            raise TypeError("a class has a method flush (leave flush= out)")
        functools.update_wrapper(self, function, updated=())
        self._flush = flush
        self._is_process = process

    def __call__(self, *args: Any) -> Any:
        return self.__wrapped__(*args)

    def __repr__(self) -> str:
        return f"<transform {self.name}>"

    def __reduce__(self) -> Any:
        """By name, if this object has the place of its function, which then cannot be found. Otherwise with its function."""
        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        for part in getattr(self, "__qualname__", "").split("."):
            found = getattr(found, part, None)
        return self.__qualname__ if found is self else (Transform, (self.__wrapped__, self._flush, self._is_process))

    @property
    def name(self) -> str:
        return getattr(self, "__qualname__", None) or repr(self.__wrapped__)

    def start(self) -> Stage:
        """For one run: a class gets a new object, `process=True` a new process."""
        return _InProcess(self) if self._is_process else self.start_here()

    def start_here(self) -> Stage:
        if isinstance(self.__wrapped__, type):
            made = self.__wrapped__()
            return _Here(self.name, made, getattr(made, "flush", None))
        return _Here(self.name, self.__wrapped__, self._flush)


@overload
def transform(function: Callable[..., Any], /) -> Transform: ...
@overload
def transform(
    *, flush: Callable[[], Any] | None = None, process: bool = False
) -> Callable[[Callable[..., Any]], Transform]: ...
def transform(
    function: Callable[..., Any] | None = None, /, *, flush: Callable[[], Any] | None = None, process: bool = False
) -> Any:
    """Makes a function a stage of `millstream.net`.

    It gets a chunk of the stream, as `bytes` of any length, and returns bytes or an iterator of them. A class is made an object
    for each run, which is called with the chunks; it may have a method `flush`. `flush` is called after the last chunk, and
    returns as the function does, or None. With `process` the function runs in a process of its own, which `get_context()` starts.
    """
    if function is not None:
        return Transform(function, flush, process)
    return lambda function: Transform(function, flush, process)


class _Here:
    """A transform in this process."""

    def __init__(self, name: str, function: Callable[[bytes], Any], flush: Callable[[], Any] | None) -> None:
        self._name = name
        self._function = function
        self._flush = flush

    def feed(self, chunk: bytes) -> Iterator[memoryview]:
        return self._pieces(self._function(chunk))

    def finish(self) -> Iterator[memoryview]:
        last = None if self._flush is None else self._flush()
        return iter(()) if last is None else self._pieces(last)

    def kill(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _pieces(self, result: Any) -> Iterator[memoryview]:
        if _is_bytes(result):
            yield memoryview(result).cast("B")
            return
        if isinstance(result, str) or not hasattr(result, "__iter__"):
            raise self._wrong(result)
        for piece in result:
            if not _is_bytes(piece):
                raise self._wrong(piece)
            yield memoryview(piece).cast("B")

    def _wrong(self, value: Any) -> TypeError:
        kind = "None" if value is None else type(value).__name__
        return TypeError(f"transform {self._name!r} returned {kind} (return bytes, or an iterator of bytes)")


def _is_bytes(value: Any) -> bool:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return True
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True


class _InProcess:
    """A transform in a process of its own.

    It gets a message for each chunk, an empty one for the end, and answers each with its pieces, an empty message, and None or the
    exception.
    """

    def __init__(self, transform: Transform) -> None:
        context = get_context()
        self._name = transform.name
        # Of kill and close, which two threads call.
        self._lock = threading.Lock()
        self._is_closed = False
        self._connection, there = context.Pipe()
        close_in_children(self._connection)
        try:
            self._process = context.Process(target=_work, args=(transform, there), daemon=True)
            self._process.start()
        except BaseException:
            self._connection.close()
            raise
        finally:
            there.close()

    def feed(self, chunk: bytes) -> Iterator[memoryview]:
        try:
            self._connection.send_bytes(chunk)
            while piece := self._connection.recv_bytes():
                yield memoryview(piece)
            error = self._connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        if error is not None:
            raise error

    def finish(self) -> Iterator[memoryview]:
        return self.feed(b"")

    def kill(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._process.kill()

    def close(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._connection.close()
                self._process.kill()
                self._process.join()
                self._process.close()

    def _died(self) -> NetworkError:
        self._process.join()
        status = self._process.exitcode
        return NetworkError(f"transform {self._name!r}: its process ended with status {status}", status)


def _work(transform: Transform, connection: Connection) -> None:
    """The process of a transform."""
    # Ctrl-C is for the program that started it, which kills this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        stage: Stage | None = None
        while True:
            chunk = connection.recv_bytes()
            error = None
            try:
                stage = stage or transform.start_here()
                for piece in stage.feed(chunk) if chunk else stage.finish():
                    if piece:
                        connection.send_bytes(piece)
            except Exception as raised:
                error = _to_be_sent(raised)
            connection.send_bytes(b"")
            connection.send(error)
    except (EOFError, OSError):
        # The run has ended.
        pass


def _to_be_sent(error: Exception) -> Exception:
    """The exception as another process can have it: with its traceback as a note."""
    text = "".join(traceback.format_exception(error))
    try:
        sent = pickle.loads(pickle.dumps(error))
    except Exception:
        sent = None
    if type(sent) is not type(error):
        sent = RuntimeError(f"{type(error).__name__}: {error}")
    sent.add_note(f"In the process of the transform:\n{text.rstrip()}")
    return sent  # type: ignore[no-any-return]
