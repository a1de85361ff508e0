"""`millstream net` as a function: over files, bytes and iterators, with functions of Python as stages."""

from __future__ import annotations

import io
import os
import shlex
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from .interrupts import held_back
from .pipelines import READ, Pipeline
from .program import program
from .transforms import Transform

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes | None: ...


class _Writable(Protocol):
    def write(self, data: bytes, /) -> Any: ...


_Stage = str | Transform | Callable[[bytes], Any]
_Network = str | os.PathLike[str] | Sequence[_Stage]
_Output = str | os.PathLike[str] | _Writable
if TYPE_CHECKING:
    _Input = Buffer | str | os.PathLike[str] | _Readable | Iterable[Buffer] | None


class Chunks:
    """The output of a network, piece by piece. Closed, or forgotten, it ends the network and all its processes."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline: Pipeline | None = pipeline
        self._abort = weakref.finalize(self, pipeline.abort)

    def __iter__(self) -> Chunks:
        return self

    def __next__(self) -> bytes:
        if self._pipeline is None:
            raise StopIteration
        try:
            chunk = self._pipeline.read()
        except BaseException:  # also a KeyboardInterrupt
            self.close()
            raise
        if not chunk:
            self.close()
            raise StopIteration
        return chunk

    def close(self) -> None:
        """Ends the network."""
        self._pipeline = None
        self._abort()

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, exc_type: object, exc_value: object, exc_tb: object) -> None:
        self.close()


@overload
def net(
    network: _Network,
    *,
    input: _Input = None,
    output: None = None,
    stream: Literal[False] = False,
    threads: int | None = None,
    memory: int | str | None = None,
) -> bytes: ...
@overload
def net(
    network: _Network,
    *,
    input: _Input = None,
    output: None = None,
    stream: Literal[True],
    threads: int | None = None,
    memory: int | str | None = None,
) -> Chunks: ...
@overload
def net(
    network: _Network,
    *,
    input: _Input = None,
    output: _Output,
    stream: Literal[False] = False,
    threads: int | None = None,
    memory: int | str | None = None,
) -> None: ...
def net(
    network: _Network,
    *,
    input: _Input = None,
    output: _Output | None = None,
    stream: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
) -> bytes | Chunks | None:
    """Runs a network of transforms: returns its output, or an iterator of it with `stream`.

    `network` is a line of `millstream net`, a list of lines and functions (see `transform`), or as a `pathlib.Path` a file of TOML.
    `input` is bytes, the path of a file, a file object, or an iterable of bytes, which is asked in the calling thread. `output`
    is a path, whose file appears whole or not at all, or a file object. `threads` and `memory` are the options of the program.

    Raises NetworkError with the message of the program, and what the input or a function raises. Nothing of the network is left
    then, nor when an iterator is dropped.
    """
    if stream and output is not None:
        raise ValueError("stream=True returns the output (leave output out)")
    stages = _stages_of(network)
    sink: _Writable | None = None
    if isinstance(output, (str, os.PathLike)):
        stages += _written_to(output, behind=stages[-1])
    elif output is not None:
        if not callable(getattr(output, "write", None)):
            raise TypeError(f"output is {type(output).__name__} (give a path or a file object)")
        sink = output
    commands = _commands_of(stages, _options_of(threads, memory))
    source = _source_of(input, is_for_process=isinstance(commands[0], list))
    with held_back():
        chunks = Chunks(Pipeline(commands, source))
    if stream:
        return chunks
    with chunks:
        if output is None:
            return b"".join(chunks)
        for chunk in chunks:
            _write_all(sink, chunk)
    return None


def _stages_of(network: Any) -> list[Any]:
    """Lines, transforms, and paths of files of TOML."""
    if isinstance(network, (str, os.PathLike)):
        return [network]
    if not isinstance(network, Sequence) or isinstance(network, (bytes, bytearray, memoryview)):
        raise TypeError(f"network is {type(network).__name__} (give a line, a list of stages, or a path)")
    if not network:
        raise ValueError("the network has no stages")
    return [_stage_of(stage) for stage in network]


def _stage_of(stage: Any) -> str | Transform:
    if isinstance(stage, (str, Transform)):
        return stage
    if not callable(stage):
        raise TypeError(f"stage is {type(stage).__name__} (give a line or a function)")
    return Transform(stage, None, False)


def _written_to(output: str | os.PathLike[str], behind: Any) -> list[Any]:
    """Stages that write a file: the program replaces it when all is done, and not before."""
    path = os.fspath(output)
    if not isinstance(path, str):
        raise TypeError("output is a path of bytes (give text, as os.fsdecode does)")
    # '-' is the standard output.
    line = f"write {shlex.quote(os.path.join('.', path) if path.startswith('-') else path)}"
    # Between two processes there is always a pump, which sees whether the first has ended well.
    return [Transform(_identity, None, False), line] if isinstance(behind, os.PathLike) else [line]


def _identity(chunk: bytes) -> bytes:
    return chunk


def _options_of(threads: int | None, memory: int | str | None) -> list[str]:
    options = []
    if threads is not None:
        options.append(f"--threads={threads}")
    if memory is not None:
        options.append(f"--memory={memory}")
    return options


def _commands_of(stages: list[Any], options: list[str]) -> list[list[str] | Transform]:
    """Lines that follow each other become one process."""
    commands: list[list[str] | Transform] = []
    lines: list[str] = []
    for stage in [*stages, None]:
        if isinstance(stage, str):
            lines.append(stage)
            continue
        if lines:
            commands.append([program(), "net", *options, "--", " | ".join(lines)])
            lines = []
        if isinstance(stage, Transform):
            commands.append(stage)
        elif stage is not None:
            commands.append([program(), "net", "run", *options, "--", os.fspath(stage)])
    return commands


def _source_of(input: Any, is_for_process: bool) -> io.FileIO | Iterator[Any]:
    if input is None:
        return iter(())
    if isinstance(input, (str, os.PathLike)):
        file = io.FileIO(os.fspath(input), "r")
        return file if is_for_process else _chunks_of(file)
    read = getattr(input, "read1", None) or getattr(input, "read", None)
    if callable(read):
        return iter(lambda: _read(read), b"")
    try:
        return iter((memoryview(input),))
    except TypeError:
        pass
    if not isinstance(input, Iterable):
        raise TypeError(f"input is {type(input).__name__} (give bytes, a path, a file object, or an iterable of bytes)")
    return iter(input)


def _read(read: Callable[[int], Any]) -> Any:
    chunk = read(READ)
    if chunk is None:
        raise BlockingIOError("input is non-blocking (give a file object that waits)")
    if isinstance(chunk, str):
        raise TypeError("input gives text (open it in binary mode)")
    return chunk


def _chunks_of(file: io.FileIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(READ):
            yield chunk


def _write_all(sink: Any, chunk: bytes) -> None:
    """Raw files may write less than they are asked to, and say how much."""
    rest = memoryview(chunk)
    while rest:
        count = sink.write(rest)
        if count is None:
            raise BlockingIOError("output is non-blocking (give a file object that waits)")
        rest = rest[count:]
