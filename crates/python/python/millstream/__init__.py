"""Pipes between processes at memory speed.

A drop-in for multiprocessing::

    import millstream
    mp = millstream.get_context()          # instead of multiprocessing.get_context()
    here, there = mp.Pipe()
    queue = mp.Queue()
    with mp.Pool() as pool: ...

And pipes as streams of bytes::

    reader, writer = millstream.pipe()     # as os.pipe(), with file objects
    stream = await millstream.open_reader(reader)   # for asyncio
"""

from importlib.metadata import PackageNotFoundError, version

from .aio import open_reader, open_writer
from .connection import Connection, Pipe
from .context import get_context
from .process import Popen, run
from .streams import Reader, Writer, open_fifo, pipe

try:
    __version__ = version("millstream")
except PackageNotFoundError:  # used from its source
    __version__ = "unknown"

__all__ = [
    "Connection",
    "Pipe",
    "Popen",
    "Reader",
    "Writer",
    "get_context",
    "open_fifo",
    "open_reader",
    "open_writer",
    "pipe",
    "run",
]
