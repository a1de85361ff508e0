"""Rows of pools and of children: large results of a Pool, large outputs and inputs of subprocess."""

from __future__ import annotations

import multiprocessing
import subprocess
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from .. import process
from ..context import get_context
from .timing import Row, Sample, cpu_seconds

_ARRAY_BYTES = 16 << 20


def rows(quick: bool) -> Iterator[Row]:
    """All of them."""
    size = (10 if quick else 100) * 1_000_000
    head = ["head", "-c", str(size), "/dev/zero"]
    data = bytes(size)
    yield Row(
        f"run(capture_output), {size // 1_000_000} MB",
        size,
        lambda: _captured(process, head, size),
        {"subprocess": lambda: _captured(subprocess, head, size)},
    )
    yield Row(
        f"communicate(input), {size // 1_000_000} MB",
        size,
        lambda: _through_cat(process, data),
        {"subprocess": lambda: _through_cat(subprocess, data)},
    )


def _captured(module: Any, command: list[str], size: int) -> Sample:
    before, begin = cpu_seconds(), perf_counter()
    output = module.run(command, capture_output=True, check=True).stdout
    sample = Sample(perf_counter() - begin, cpu_seconds() - before)
    _check_length(len(output), size)
    return sample


def _through_cat(module: Any, data: bytes) -> Sample:
    before, begin = cpu_seconds(), perf_counter()
    with module.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        output, _ = child.communicate(data)
    sample = Sample(perf_counter() - begin, cpu_seconds() - before)
    _check_length(len(output), len(data))
    return sample


def _check_length(length: int, wanted: int) -> None:
    if length != wanted:
        raise RuntimeError(f"{length} bytes came of {wanted}")


def pool_row(quick: bool, numpy: Any) -> Row:
    """Pool.map over large arrays, each of which goes to a worker and comes back."""
    arrays = [numpy.full(_ARRAY_BYTES // 8, float(number)) for number in range(2 if quick else 8)]
    return Row(
        f"Pool.map, {len(arrays)} arrays of 16 MiB",
        2 * len(arrays) * _ARRAY_BYTES,
        lambda: _map(get_context("fork"), arrays),
        {"multiprocessing": lambda: _map(multiprocessing.get_context("fork"), arrays)},
    )


def _map(context: Any, arrays: list[Any]) -> Sample:
    before = cpu_seconds()
    with context.Pool(2) as pool:
        pool.map(_negative, [0, 0], chunksize=1)
        begin = perf_counter()
        results = pool.map(_negative, arrays, chunksize=1)
        taken = perf_counter() - begin
        pool.close()
        pool.join()
    if any(result[-1] != -array[-1] for result, array in zip(results, arrays)):
        raise RuntimeError("an array came back with wrong numbers")
    return Sample(taken, cpu_seconds() - before)


def _negative(value: Any) -> Any:
    return -value
