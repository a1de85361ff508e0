"""subprocess with large pipes: `run`, `Popen`.

Everything is as in the standard module, which does the work. The pipes of a child are made larger, and `communicate` moves
more with each call; with a timeout, or for text, it is the standard one.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
from typing import IO, Any

from . import _native

# Larger pipes gain nothing on one CPU, and lose on two, where their bytes leave the cache between writer and reader.
_PIPE_BYTES = 256 << 10
# Bytes of one write.
_WRITE = 1 << 20


def enlarge(stream: IO[Any] | None) -> None:
    """Makes a pipe as large as it is of use, and as the user may have."""
    if stream is not None:
        size = _PIPE_BYTES
        while size > 64 << 10:
            try:
                fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, size)
                return
            except OSError:  # more than this user may have, or no pipe
                size //= 2


class Popen(subprocess.Popen[Any]):
    """subprocess.Popen, with larger pipes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A size that the program has chosen stays.
        if kwargs.get("pipesize", -1) <= 0:
            for stream in (self.stdin, self.stdout, self.stderr):
                enlarge(stream)

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        streams = [stream for stream in (self.stdin, self.stdout, self.stderr) if stream is not None]
        is_plain = timeout is None and not getattr(self, "text_mode", False) and not getattr(self, "_communication_started", False)
        # With one stream there is nothing to wait for beside it.
        if not is_plain or len(streams) < 2 and input is None:
            return super().communicate(input, timeout)
        try:
            outputs = _exchange(self.stdin, input, [self.stdout, self.stderr])
        finally:
            for stream in streams:
                _close(stream)
        self.wait()
        return outputs[0], outputs[1]


def _exchange(sink: IO[Any] | None, data: Any, sources: list[IO[Any] | None]) -> list[bytes | None]:
    """Writes the data and reads all sources to their ends, whichever is ready."""
    outputs = {source.fileno(): _native.Gathered() for source in sources if source is not None}
    poll = select.poll()
    for fd in outputs:
        poll.register(fd, select.POLLIN)
    open_ends = len(outputs)
    rest = memoryview(b"" if data is None else data).cast("B")
    if sink is not None:
        if rest:
            os.set_blocking(sink.fileno(), False)
            poll.register(sink.fileno(), select.POLLOUT)
            open_ends += 1
        else:
            _close(sink)
            sink = None
    sink_fd = -1 if sink is None else sink.fileno()
    while open_ends:
        for fd, _ in poll.poll():
            if fd == sink_fd:
                try:
                    rest = rest[os.write(fd, rest[:_WRITE]) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:  # the child wants no more
                    rest = rest[:0]
                if not rest:
                    poll.unregister(fd)
                    open_ends -= 1
                    _close(sink)
            elif outputs[fd].read(fd) == 0:
                poll.unregister(fd)
                open_ends -= 1
    return [None if source is None else outputs[source.fileno()].finish() for source in sources]


def _close(stream: IO[Any] | None) -> None:
    if stream is not None:
        try:
            stream.close()
        except BrokenPipeError:  # of what was buffered: the child wants no more
            pass


def run(
    *args: Any,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **kwargs: Any,
) -> subprocess.CompletedProcess[Any]:
    """subprocess.run, with larger pipes."""
    if input is not None:
        if kwargs.get("stdin") is not None:
            raise ValueError("stdin and input arguments may not both be used.")
        kwargs["stdin"] = subprocess.PIPE
    if capture_output:
        if kwargs.get("stdout") is not None or kwargs.get("stderr") is not None:
            raise ValueError("stdout and stderr arguments may not be used with capture_output.")
        kwargs["stdout"] = kwargs["stderr"] = subprocess.PIPE
    with Popen(*args, **kwargs) as process:
        try:
            stdout, stderr = process.communicate(input, timeout=timeout)
        except:  # also a KeyboardInterrupt: no child stays behind
            process.kill()
            process.wait()
            raise
        status = process.poll()
    completed = subprocess.CompletedProcess(process.args, 0 if status is None else status, stdout, stderr)
    if check:
        completed.check_returncode()
    return completed
