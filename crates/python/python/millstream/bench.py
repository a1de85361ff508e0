"""How fast messages pass between two processes: `python -m millstream.bench`.

Each row is measured in pairs, multiprocessing and millstream in turns, with both processes on two CPUs and on one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from .connection import Pipe

SIZES = {"64 B": 64, "4 KiB": 4 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "64 MiB": 64 << 20}


def _receive(end: Any, count: int, done: Any) -> None:
    for _ in range(count):
        end.recv_bytes()
    done.send_bytes(b"")


def _answer(end: Any, count: int, back: Any) -> None:
    for _ in range(count):
        back.send_bytes(end.recv_bytes())


def _receive_objects(end: Any, count: int, done: Any) -> None:
    for _ in range(count):
        end.recv()
    done.send_bytes(b"")


def _timed(make: Callable[..., Any], child: Callable[..., None], send: Callable[[Any, Any], None], count: int) -> Any:
    """Seconds, and CPU seconds of both processes, for `count` messages to a child."""
    receiver, sender = make(duplex=False)
    answers, back = make(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(receiver, count, back))
    process.start()
    before, begin = _cpu_seconds(), time.perf_counter()
    send(sender, answers)
    taken = time.perf_counter() - begin
    process.join()
    used = _cpu_seconds() - before
    for end in (receiver, sender, answers, back):
        end.close()
    return taken, used


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _rows(quick: bool) -> Iterator[tuple[str, Callable[..., Any], int]]:
    """Name, how it is timed, and bytes that pass."""
    total = (32 if quick else 256) << 20
    for name, size in SIZES.items():
        if quick and size > 1 << 20:
            continue
        count = max(2, min(20_000 if not quick else 5000, total // size))
        message = bytes(size)

        def send(sender: Any, answers: Any, count: int = count, message: bytes = message) -> None:
            for _ in range(count):
                sender.send_bytes(message)
            answers.recv_bytes()

        yield f"send_bytes {name}", lambda make, c=count, s=send: _timed(make, _receive, s, c), count * size
    count = 500 if quick else 3000

    def ping(sender: Any, answers: Any) -> None:
        for _ in range(count):
            sender.send_bytes(b"x" * 64)
            answers.recv_bytes()

    yield "64 B there and back", lambda make: _timed(make, _answer, ping, count), 128 * count
    try:
        import numpy
    except ImportError:
        return
    for name, size, count in (("1 MiB", 1 << 20, 20 if quick else 200), ("64 MiB", 64 << 20, 4)):
        if quick and size > 1 << 20:
            continue
        value = numpy.arange(size // 8, dtype="f8")

        def send_array(sender: Any, answers: Any, count: int = count, value: Any = value) -> None:
            for _ in range(count):
                sender.send(value)
            answers.recv_bytes()

        yield f"numpy {name}", lambda make, c=count, s=send_array: _timed(make, _receive_objects, s, c), count * size


def measure(pairs: int, quick: bool) -> list[dict[str, Any]]:
    """One dictionary for each row and placement."""
    cpus = sorted(os.sched_getaffinity(0))
    placements = [cpus[:2], cpus[:1]] if len(cpus) > 1 else [cpus]
    measured = []
    try:
        for placement in placements:
            os.sched_setaffinity(0, placement)
            for name, timed, size in _rows(quick):
                taken: dict[str, list[Any]] = {"multiprocessing": [], "millstream": []}
                for turn in range(pairs + 1):
                    for key, make in (("multiprocessing", multiprocessing.Pipe), ("millstream", Pipe)):
                        sample = timed(make)
                        if turn:  # the first warms up
                            taken[key].append(sample)
                row: dict[str, Any] = {"row": name, "cpus": len(placement), "bytes": size}
                for key, samples in taken.items():
                    row[f"{key}_seconds"] = statistics.median(sample[0] for sample in samples)
                    row[f"{key}_cpu_seconds"] = statistics.median(sample[1] for sample in samples)
                ratios = zip(taken["multiprocessing"], taken["millstream"])
                row["ratio"] = statistics.median(theirs[0] / ours[0] for theirs, ours in ratios)
                measured.append(row)
    finally:
        os.sched_setaffinity(0, cpus)
    return measured


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m millstream.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=7, help="interleaved pairs for each row [default: 7]")
    parser.add_argument("--quick", action="store_true", help="fewer messages, and none of 64 MiB")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE instead; - is the standard output")
    arguments = parser.parse_args()
    if arguments.pairs < 1:
        parser.error("argument --pairs: at least 1 is needed")
    measured = measure(arguments.pairs, arguments.quick)
    if arguments.json == "-":
        print(json.dumps(measured, indent=1))
        return 0
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(measured, file, indent=1)
        return 0
    print(f"{'':<22}{'CPUs':>5}{'multiprocessing':>18}{'millstream':>14}{'ratio':>8}{'CPU s/GB':>16}")
    for row in measured:
        theirs, ours = (row[f"{key}_seconds"] for key in ("multiprocessing", "millstream"))
        speeds = (f"{row['bytes'] / seconds / 1e6:.0f} MB/s" for seconds in (theirs, ours))
        used = (row[f"{key}_cpu_seconds"] / row["bytes"] * 1e9 for key in ("multiprocessing", "millstream"))
        left, right = speeds
        print(
            f"{row['row']:<22}{row['cpus']:>5}{left:>18}{right:>14}{row['ratio']:>7.1f}x{' / '.join(f'{u:.2f}' for u in used):>16}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
