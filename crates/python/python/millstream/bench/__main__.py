"""The command `python -m millstream.bench`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from . import arrays, messages, programs, timing
from .others import Others


def _rows(quick: bool) -> Iterator[timing.Row]:
    numpy: Any = None
    try:
        import numpy
    except ImportError:
        _leave_out("arrays and Pool", "numpy")
    others = Others(numpy)
    for package in others.missing:
        _leave_out("rivals", package)
    yield from messages.rows(quick)
    yield from messages.queue_rows(quick, others.queues)
    if numpy is not None:
        yield from arrays.rows(quick, numpy, others.ways)
        yield programs.pool_row(quick, numpy)
    yield from programs.rows(quick)
    yield messages.idle_row(quick)


def _leave_out(what: str, package: str) -> None:
    print(f"bench: {what} left out, as {package} is not installed", file=sys.stderr)


def _measure(arguments: argparse.Namespace, rows: list[timing.Row]) -> list[dict[str, Any]]:
    cpus = sorted(os.sched_getaffinity(0))
    placements = [cpus[:2], cpus[:1]] if len(cpus) > 1 else [cpus]
    measured = []
    try:
        for placement in placements:
            os.sched_setaffinity(0, placement)
            measured += timing.measure(rows, arguments.pairs, len(placement))
    finally:
        os.sched_setaffinity(0, cpus)
    return measured


def _show(measured: list[dict[str, Any]]) -> None:
    print(f"{'':<30}{'CPUs':>5}  {'rival':<22}{'its speed':>12}{'ours':>12}{'ratio':>8}{'CPU s/GB':>18}")
    for row in measured:
        theirs, ours = (_speed(row, name) for name in ("rival", "millstream"))
        used = " / ".join(_cpu(row, name) for name in ("rival", "millstream"))
        ratio = f"{row['ratio']:.2f}x" if row["bytes"] else ""
        print(f"{row['row']:<30}{row['cpus']:>5}  {row['rival']:<22}{theirs:>12}{ours:>12}{ratio:>8}{used:>18}")


def _speed(row: dict[str, Any], name: str) -> str:
    return f"{row['bytes'] / row[f'{name}_seconds'] / 1e6:.0f} MB/s" if row["bytes"] else ""


def _cpu(row: dict[str, Any], name: str) -> str:
    used = row[f"{name}_cpu_seconds"]
    if row["bytes"]:
        return f"{used / row['bytes'] * 1e9:.2f}"
    return f"{used / row[f'{name}_seconds']:.2%}"


def main() -> int:
    """The command."""
    description = "How fast messages pass between processes: rivals and millstream in turns, on two CPUs and on one."
    parser = argparse.ArgumentParser(prog="python -m millstream.bench", description=description)
    parser.add_argument("--pairs", type=int, default=7, help="samples of each contender, in turns [default: 7]")
    parser.add_argument("--quick", action="store_true", help="fewer messages, and none above 1 MiB")
    parser.add_argument("--rows", metavar="TEXT", default="", help="only rows whose name contains TEXT")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE instead; - is the standard output")
    arguments = parser.parse_args()
    if arguments.pairs < 1:
        parser.error(f"argument --pairs: at least 1 is needed, not {arguments.pairs}")
    rows = [row for row in _rows(arguments.quick) if arguments.rows in row.name]
    if not rows:
        parser.error(f"argument --rows: no row has {arguments.rows!r} in its name")
    measured = _measure(arguments, rows)
    if arguments.json == "-":
        print(json.dumps(measured, indent=1))
    elif arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(measured, file, indent=1)
    else:
        _show(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
