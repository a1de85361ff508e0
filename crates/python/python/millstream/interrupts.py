"""Ctrl-C while processes are started and ended.

Python raises KeyboardInterrupt between any two steps: also between a fork and the line that notes the child.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def held_back() -> Iterator[None]:
    """Ctrl-C takes effect at the end of the block; the second one at once."""
    before: Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came = 0

    def note(number: int, frame: Any) -> None:
        nonlocal came
        came += 1
        if came > 1:
            before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came == 1:
            signal.raise_signal(signal.SIGINT)
