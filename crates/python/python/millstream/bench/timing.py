"""What a sample is, and how rows are measured: samples of all contenders in turns, and medians of their pairs."""

from __future__ import annotations

import multiprocessing
import os
import resource
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple


class Sample(NamedTuple):
    """Seconds of the work, and CPU seconds of all of its processes."""

    seconds: float
    cpu_seconds: float


Measure = Callable[[], Sample]
# What a child does first; it returns the timed work.
Prepare = Callable[[], Callable[[], None]]


@dataclass(frozen=True)
class Row:
    """Some work, as we do it and as others do it."""

    name: str
    # Bytes that pass; 0 for a row of CPU seconds.
    size: int
    ours: Measure
    rivals: dict[str, Measure]


def cpu_seconds() -> float:
    """Of this process, and of the children that it has waited for."""
    usages = (resource.getrusage(scope) for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(children: Sequence[Prepare], work: Callable[[], None]) -> Sample:
    """The time from when all children are ready until they and the work of this process are done."""
    reports, report = os.pipe()
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=_run, args=(prepare, report), daemon=True) for prepare in children]
    before = cpu_seconds()
    try:
        for process in processes:
            process.start()
        os.close(report)
        _await(reports, len(processes))
        begin = perf_counter()
        work()
        _await(reports, len(processes))
        taken = perf_counter() - begin
        for process in processes:
            process.join()
    finally:
        os.close(reports)
        for process in processes:
            if process.exitcode is None:
                process.kill()
                process.join()
    return Sample(taken, cpu_seconds() - before)


def _run(prepare: Prepare, report: int) -> None:
    work = prepare()
    os.write(report, b".")
    work()
    os.write(report, b".")


def _await(reports: int, count: int) -> None:
    while count:
        came = len(os.read(reports, count))
        if came == 0:
            raise RuntimeError("a process of the benchmark has failed (its error is above)")
        count -= came


def measure(rows: Sequence[Row], pairs: int, cpus: int) -> list[dict[str, Any]]:
    """A dictionary for each row and rival."""
    measured: list[dict[str, Any]] = []
    for row in rows:
        contenders = {"": row.ours, **row.rivals}
        taken: dict[str, list[Sample]] = {name: [] for name in contenders}
        for turn in range(pairs + 1):
            names = list(contenders) if turn % 2 else list(reversed(contenders))
            for name in names:
                sample = contenders[name]()
                if turn:  # the first warms up
                    taken[name].append(sample)
        ours = taken.pop("")
        measured += [_compared(row, cpus, name, theirs, ours) for name, theirs in taken.items()]
    return measured


def _compared(row: Row, cpus: int, rival: str, theirs: list[Sample], ours: list[Sample]) -> dict[str, Any]:
    ratios = [their.seconds / our.seconds for their, our in zip(theirs, ours)]
    compared = {"row": row.name, "cpus": cpus, "bytes": row.size, "rival": rival, "pairs": len(ratios)}
    for name, samples in (("rival", theirs), ("millstream", ours)):
        compared[f"{name}_seconds"] = statistics.median(sample.seconds for sample in samples)
        compared[f"{name}_cpu_seconds"] = statistics.median(sample.cpu_seconds for sample in samples)
    return {**compared, "ratio": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}
