"""What a forked child must not hold.

While a child has the write end of a pipe, its reader does not see the end of the stream.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

_ends: weakref.WeakSet[Any] = weakref.WeakSet()


def close_in_children(*ends: Any) -> None:
    """A child that the program forks closes its copies of these."""
    _ends.update(ends)


def _close() -> None:
    for end in list(_ends):
        end.close()


os.register_at_fork(after_in_child=_close)
