"""Rows of messages: bytes through connections, small objects through queues, and connections that wait."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..connection import Pipe
from ..context import get_context
from .timing import Measure, Row, Sample, timed

_SIZES = {"64 B": 64, "4 KiB": 4 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "64 MiB": 64 << 20}
_IDLE_CONNECTIONS = 100


def rows(quick: bool) -> Iterator[Row]:
    """All of them."""
    total = (32 if quick else 256) << 20
    for duplex in (False, True):
        for name, size in _SIZES.items():
            if not quick or size <= 1 << 20:
                count = max(2, min(5_000 if quick else 20_000, total // size))
                yield _pair(f"send_bytes {name}, Pipe({'' if duplex else 'False'})", count * size, _send, size, count, duplex)
    count = 500 if quick else 3000
    yield _pair("64 B there and back", 128 * count, _ping, count, 0.0)
    count = 50 if quick else 300
    yield _pair("64 B there and back, asleep", 128 * count, _ping, count, 0.001)


def _pair(name: str, size: int, work: Callable[..., Sample], *arguments: Any) -> Row:
    return Row(
        name,
        size,
        lambda: work(Pipe, *arguments),
        {"multiprocessing": lambda: work(multiprocessing.Pipe, *arguments)},
    )


def _send(make: Callable[[bool], tuple[Any, Any]], size: int, count: int, duplex: bool) -> Sample:
    receiver, sender = make(duplex)
    message = bytes(size)

    def receive() -> None:
        for _ in range(count):
            receiver.recv_bytes()

    def send() -> None:
        for _ in range(count):
            sender.send_bytes(message)

    with receiver, sender:
        return timed([lambda: receive], send)


def _ping(make: Callable[[bool], tuple[Any, Any]], count: int, pause: float) -> Sample:
    """With a pause before each message both processes sleep when it comes; the pauses are not counted."""
    there, here = make(True)
    paused = 0.0

    def answer() -> None:
        for _ in range(count):
            there.send_bytes(there.recv_bytes())

    def ask() -> None:
        nonlocal paused
        for _ in range(count):
            if pause:
                begin = time.perf_counter()
                time.sleep(pause)
                paused += time.perf_counter() - begin
            here.send_bytes(bytes(64))
            here.recv_bytes()

    with there, here:
        sample = timed([lambda: answer], ask)
    return Sample(sample.seconds - paused, sample.cpu_seconds)


def queue_rows(quick: bool, others: dict[str, Callable[[], Any]]) -> Iterator[Row]:
    """Messages of 64 bytes through queues; `others` makes the queues that are compared beside those of multiprocessing."""
    count = 2_000 if quick else 50_000
    makers: dict[str, Callable[[], Any]] = {"multiprocessing": multiprocessing.get_context("fork").Queue, **others}
    for producers, consumers in ((1, 1), (10, 1), (1, 10)):

        def through(make: Callable[[], Any], producers: int = producers, consumers: int = consumers) -> Measure:
            return lambda: _queue(make(), producers, consumers, count)

        rivals = {name: through(make) for name, make in makers.items()}
        yield Row(f"Queue {producers}:{consumers}, 64 B", count * 64, through(get_context("fork").Queue), rivals)


def _queue(queue: Any, producers: int, consumers: int, count: int) -> Sample:
    message = b"x" * 64

    def put(share: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(share):
                queue.put(message)
            queue.close()
            queue.join_thread()

        return work

    def get_all() -> None:
        for _ in range(count):
            queue.get()

    def get_until_none() -> None:
        while queue.get() is not None:
            pass

    def put_all() -> None:
        for _ in range(count):
            queue.put(message)
        for _ in range(consumers):
            queue.put(None)

    if producers > 1:
        sample = timed([lambda: put(count // producers)] * producers, get_all)
    else:
        sample = timed([lambda: get_until_none] * consumers, put_all)
    queue.close()
    queue.join_thread()
    return sample


def idle_row(quick: bool) -> Row:
    """CPU seconds of threads that each wait for a message."""
    seconds = 0.3 if quick else 2.0
    return Row(
        f"{_IDLE_CONNECTIONS} connections waiting",
        0,
        lambda: _idle(Pipe, seconds),
        {"multiprocessing": lambda: _idle(multiprocessing.Pipe, seconds)},
    )


def _idle(make: Callable[[bool], tuple[Any, Any]], seconds: float) -> Sample:
    pairs = [make(False) for _ in range(_IDLE_CONNECTIONS)]

    def receive(receiver: Any) -> None:
        try:
            receiver.recv_bytes()
        except EOFError:
            pass

    threads = [threading.Thread(target=receive, args=(receiver,)) for receiver, _ in pairs]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    used, begin = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    sample = Sample(time.perf_counter() - begin, time.process_time() - used)
    for _, sender in pairs:
        sender.close()
    for thread in threads:
        thread.join()
    for receiver, _ in pairs:
        receiver.close()
    return sample
