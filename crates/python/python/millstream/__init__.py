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

And one writer with several readers that each see everything::

    writer, readers = millstream.broadcast(readers=3)

And networks of transforms::

    millstream.net(["gunzip", function, "zstd -3"], input="a.gz", output="b.zst")
"""

from importlib.metadata import PackageNotFoundError, version

from .aio import open_reader, open_writer
from .broadcasts import BroadcastReader, BroadcastWriter, Lost, broadcast
from .connection import Connection, Pipe
from .context import get_context
from .networks import net
from .process import Popen, run
from .streams import Reader, Writer, open_fifo, pipe
from .transforms import NetworkError, transform

try:
    __version__ = version("millstream")
except PackageNotFoundError:  # used from its source
    __version__ = "unknown"

__all__ = [
    "BroadcastReader",
    "BroadcastWriter",
    "Connection",
    "Lost",
    "NetworkError",
    "Pipe",
    "Popen",
    "Reader",
    "Writer",
    "broadcast",
    "get_context",
    "net",
    "open_fifo",
    "open_reader",
    "open_writer",
    "pipe",
    "run",
    "transform",
]
