"""The program `millstream`, which the wheel brings."""

from __future__ import annotations

import functools
import os
import shutil
from importlib import metadata


@functools.cache
def program() -> str:
    """The program of this package; where it was installed without one, that of the PATH."""
    for path in (_from_wheel(), _beside_package(), shutil.which("millstream")):
        if path is not None and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError("no program 'millstream' (install the wheel of millstream)")


def _from_wheel() -> str | None:
    """Where the installer says that it is."""
    try:
        files = metadata.distribution("millstream").files or []
    except metadata.PackageNotFoundError:
        return None
    found = (str(file.locate()) for file in files if file.parts[-2:] == ("bin", "millstream"))
    return next(found, None)


def _beside_package() -> str:
    """Where `pip install --target` puts it."""
    return os.path.join(os.path.dirname(os.path.dirname(__file__)), "bin", "millstream")
