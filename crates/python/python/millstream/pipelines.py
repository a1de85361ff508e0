"""Processes of `millstream net`, and transforms of this program between them.

The calling thread feeds the first stage, takes what comes out of the last, and collects what the processes say. A thread for each
transform, a pump, takes bytes from the stage before it to the stage behind it.

Invariant: a stage sees the end of its input only when all stages before it have ended well. A process whose input is cut short is
killed before its input is closed, so it never takes a part for the whole.
"""

from __future__ import annotations

import io
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any, cast

from .forks import close_in_children
from .interrupts import held_back
from .process import enlarge
from .transforms import NetworkError, Stage, Transform

# Bytes of one write, and of one read, as in process.py.
_WRITE = 1 << 20
READ = 120 << 10
# Of what a process says on stderr, the end is kept.
_KEPT = 64 << 10
# Seconds that an aborted pipeline waits for a transform to return from its call.
_PATIENCE = 5.0


def _pipe() -> tuple[io.FileIO, io.FileIO]:
    fds = os.pipe()
    reader, writer = io.FileIO(fds[0], "r"), io.FileIO(fds[1], "w")
    close_in_children(reader, writer)
    enlarge(writer)
    return reader, writer


class _Process:
    """A process of `millstream net`."""

    def __init__(self, arguments: Sequence[str], stdin: io.FileIO) -> None:
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(arguments, stdin=stdin, stdout=pipe, stderr=pipe, bufsize=0)
        # Unbuffered, so they are raw.
        self.stdout = cast(io.FileIO, self._child.stdout)
        self.stderr = cast(io.FileIO, self._child.stderr)
        close_in_children(self.stdout, self.stderr)
        enlarge(self.stdout)
        os.set_blocking(self.stderr.fileno(), False)
        self._said = b""

    def listen(self) -> bool:
        """Takes what the process has said. False: nothing waits, or it says no more."""
        said = self.stderr.read(_KEPT)
        self._said = (self._said + (said or b""))[-_KEPT:]
        return bool(said)

    def wait(self) -> int:
        return self._child.wait()

    def kill(self) -> None:
        self._child.kill()

    def close(self) -> None:
        """The process was killed, or has ended."""
        self._child.wait()
        self.stdout.close()
        self.stderr.close()

    def error(self) -> NetworkError:
        """What the program said, after it has failed."""
        status = self._child.wait()
        while self.listen():
            pass
        said = self._said.decode(errors="replace")
        lines = [line for line in said.splitlines() if line]
        ours = [line.removeprefix("millstream: ") for line in lines if line.startswith("millstream: ")]
        if status < 0:
            # What was said before explains nothing. A real-time signal has no name.
            name = next((known.name for known in signal.Signals if known == -status), f"signal {-status}")
            return NetworkError(f"millstream net was killed by {name}", status, said)
        return NetworkError((ours or lines or [f"millstream net ended with status {status}"])[-1], status, said)


class _Pump(threading.Thread):
    """Takes bytes from one stage through a transform to the next."""

    def __init__(self, pipeline: Pipeline, stage: Stage, source: io.FileIO, sink: io.FileIO, before: _Process | None) -> None:
        super().__init__(name="millstream transform", daemon=True)
        self._pipeline = pipeline
        self.stage = stage
        self._source = source
        self._sink = sink
        self._before = before

    def run(self) -> None:
        try:
            self._move()
        except BaseException as error:
            self._pipeline.fail(error)
        finally:
            self.close()

    def close(self) -> None:
        self._source.close()
        self._sink.close()
        self.stage.close()

    def _move(self) -> None:
        while chunk := self._source.read(READ):
            if not self._write(self.stage.feed(chunk)):
                return
        if self._pipeline.is_well_up_to(self._before):
            self._write(self.stage.finish())

    def _write(self, pieces: Iterator[memoryview]) -> bool:
        """False: the next stage wants no more."""
        for piece in pieces:
            while piece:
                try:
                    piece = piece[self._sink.write(piece) :]
                except BrokenPipeError:
                    return False
        return True


_Failure = BaseException | _Process
_ABORTED = NetworkError("the network was aborted")


class Pipeline:
    """Stages that run. `read` until it is empty or raises; `abort` at any time.

    A stage is the command line of a process, or a transform. The source is a file, which becomes the input of a first process, or
    the pieces of the input.
    """

    def __init__(self, stages: Sequence[list[str] | Transform], source: io.FileIO | Iterator[Any]) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._failure: _Failure | None = None
        self._stages: list[Stage] = []
        self._processes: list[_Process] = []
        self._pumps: list[_Pump] = []
        self._source: Iterator[Any] = iter(())
        # Of the last piece, what was not written yet.
        self._rest = memoryview(b"")
        self._feed: io.FileIO | None = None
        # Of the last stage that was started.
        self._output: Any = None
        self._last: _Process | _Pump | None = None
        self._poll = select.poll()
        try:
            self._start(stages, source)
        except BaseException:
            self.abort()
            raise

    def _start(self, stages: Sequence[list[str] | Transform], source: io.FileIO | Iterator[Any]) -> None:
        # The process of a transform may be forked: before this pipeline has descriptors and threads.
        for stage in stages:
            if isinstance(stage, Transform):
                self._stages.append(stage.start())
        if isinstance(source, io.FileIO):
            self._output = source
        else:
            self._source = source
            self._output, self._feed = _pipe()
            os.set_blocking(self._feed.fileno(), False)
            self._poll.register(self._feed, select.POLLOUT)
        transforms = iter(self._stages)
        for stage in stages:
            if isinstance(stage, Transform):
                self._add_pump(next(transforms))
            else:
                self._start_process(stage)
        self._poll.register(self._output, select.POLLIN)
        for pump in self._pumps:
            pump.start()

    def _start_process(self, arguments: list[str]) -> None:
        self._last = process = _Process(arguments, self._output)
        self._processes.append(process)
        self._output.close()
        self._output = process.stdout
        self._poll.register(process.stderr, select.POLLIN)

    def _add_pump(self, stage: Stage) -> None:
        reader, writer = _pipe()
        before = self._last if isinstance(self._last, _Process) else None
        self._last = pump = _Pump(self, stage, self._output, writer, before)
        self._pumps.append(pump)
        self._output = reader

    def read(self) -> bytes:
        """The next piece of the output. Empty: the end, and all stages have ended well."""
        while True:
            ready = dict(self._poll.poll())
            for process in self._processes:
                if process.stderr.fileno() in ready and not process.listen():
                    self._poll.unregister(process.stderr)
            if self._failure is not None:
                self._finish()
            has_output = self._output.fileno() in ready
            # A new piece is asked for only when no output waits: that may take long.
            if self._feed is not None and self._feed.fileno() in ready and (self._rest or not has_output):
                self._feed_some(self._feed)
            if has_output:
                chunk: bytes = self._output.read(READ)
                if not chunk:
                    self._finish()
                return chunk

    def _feed_some(self, feed: io.FileIO) -> None:
        """Writes what the first stage takes at once."""
        while not self._rest:
            try:
                piece = next(self._source)
            except StopIteration:
                return self._stop_feeding(feed)
            self._rest = memoryview(piece).cast("B")
        try:
            # None: there was no room after all.
            count: int | None = feed.write(self._rest[:_WRITE])
        except BrokenPipeError:  # the first stage wants no more
            return self._stop_feeding(feed)
        self._rest = self._rest[count or 0 :]

    def _stop_feeding(self, feed: io.FileIO) -> None:
        self._poll.unregister(feed)
        feed.close()
        self._feed = None
        self._source = iter(())
        self._rest = memoryview(b"")

    def _finish(self) -> None:
        """The output has ended, or a stage has failed. Where the last stage has ended well, those before it do not matter."""
        if isinstance(self._last, _Process):
            self.is_well_up_to(self._last)
        elif self._last is not None:
            self._last.join()
        failure = self._failure
        error = failure.error() if isinstance(failure, _Process) else failure
        self.abort()
        if isinstance(error, StopIteration):
            # It would end the loop of the caller.
            raise RuntimeError("a transform raised StopIteration") from error
        if error is not None:
            raise error

    def is_well_up_to(self, before: _Process | None) -> bool:
        """Whether all stages up to a process whose output has ended have ended well."""
        if before is not None and before.wait() != 0:
            self.fail(before)
        return self._failure is None

    def fail(self, failure: _Failure) -> None:
        """The first failure is the reason. All processes are killed before an input of theirs is closed."""
        with self._lock:
            if self._failure is None:
                self._failure = failure
        for process in self._processes:
            process.kill()
        for stage in self._stages:
            stage.kill()

    def abort(self) -> None:
        """Ends what still runs, and waits for it. Done twice it does nothing."""
        if os.getpid() != self._owner:
            return  # the fork has closed the ends of the child
        try:
            with held_back():
                self._end()
        except KeyboardInterrupt:
            # It may have come just before it was held back.
            with held_back():
                self._end()
            raise

    def _end(self) -> None:
        self.fail(_ABORTED)
        for end in (self._feed, self._output):
            if end is not None:
                end.close()
        for pump in self._pumps:
            if pump.ident is None:
                pump.close()
            # The garbage collector may run in any thread.
            elif pump is not threading.current_thread():
                pump.join(_PATIENCE)
        for process in self._processes:
            process.close()
        for stage in self._stages:
            stage.close()
        self._source = iter(())
