"""Connections as those of multiprocessing, over millstream's pipes.

Differences: large buffers of an object (protocol 5: the arrays of array, numpy, arrow and torch) travel beside its pickle, so
that each is copied once into the pipe and once out of it; `fileno()` is to be watched only.
"""

from __future__ import annotations

import array
import copyreg
import io
import os
import pickle
import pickletools
import weakref
from multiprocessing import BufferTooShort, reduction
from multiprocessing import connection as standard
from multiprocessing.context import get_spawning_popen
from typing import Any, Literal, overload

from . import _native, borrowed

# A buffer of fewer bytes is copied into the pickle: that costs less than to send it by itself.
_BESIDE_FROM = 32 << 10

# Objects of these types need none of the reducers that programs register, which take longer to set up than the pickle itself.
PLAIN = frozenset((bytes, str, int, float, bool, type(None)))

# The pickles of arrays of numpy whose memory goes beside them: all of a type and a shape have the same.
_ARRAY_PICKLES: dict[Any, Any] = {}
_MOST_ARRAY_PICKLES = 256

# Of what starts a child: the copies of ends that it gives the child.
GIVEN = "_millstream_given"

Dumped = tuple[Any, "list[memoryview] | None"]


def _array_of(typecode: str, buffer: Any) -> array.array[Any]:
    numbers: array.array[Any] = array.array(typecode)
    numbers.frombytes(buffer)
    return numbers


class _Pickler(reduction.ForkingPickler):
    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        # Python pickles an array as bytes; its memory will do.
        if kind is array.array and obj.typecode not in ("u", "w"):
            return _array_of, (obj.typecode, pickle.PickleBuffer(obj))
        # Of protocol 5 an array that cannot be written to, or is small, would arrive read-only.
        if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
            if obj.nbytes < _BESIDE_FROM or not obj.flags.writeable:
                return obj.__reduce_ex__(4)
        return NotImplemented


def dump(obj: Any) -> Dumped:
    """The pickle of an object, and its large buffers beside it."""
    kind = type(obj)
    if kind in PLAIN:
        return pickle.dumps(obj, 5), None
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy" and _is_like_others(obj):
        return _dump_array(obj)
    return _dump_any(obj)


def _is_like_others(obj: Any) -> bool:
    """Whether an array is a large one of plain numbers, whose pickle nobody has changed."""
    kind, flags, dtype = type(obj), obj.flags, obj.dtype
    return (
        obj.nbytes >= _BESIDE_FROM
        and flags.writeable
        and flags.forc
        and dtype.isbuiltin == 1
        and dtype.kind in "biufc"
        and dtype.metadata is None
        and kind not in reduction.ForkingPickler._extra_reducers  # type: ignore[attr-defined]
        and kind not in copyreg.dispatch_table
    )


def _dump_array(obj: Any) -> Dumped:
    """The same as for any object, without pickling anything for the second array of a type and a shape."""
    key = (obj.dtype, obj.shape, obj.flags.fnc)
    message = _ARRAY_PICKLES.get(key)
    if message is not None:
        return message, [pickle.PickleBuffer(obj).raw()]
    dumped = _dump_any(obj)
    if len(_ARRAY_PICKLES) >= _MOST_ARRAY_PICKLES:
        _ARRAY_PICKLES.clear()
    _ARRAY_PICKLES[key] = bytes(dumped[0])
    return dumped


def _dump_any(obj: Any) -> Dumped:
    beside: list[memoryview] = []

    def stays_inside(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # not in one piece
            return True
        if raw.nbytes < _BESIDE_FROM:
            return True
        beside.append(raw)
        return False

    stream = io.BytesIO()
    _Pickler(stream, 5, True, stays_inside).dump(obj)
    return stream.getbuffer(), beside or None


def load(message: bytes, beside: list[Any] | None) -> Any:
    """The object again."""
    return pickle.loads(message, buffers=beside or ())


def in_one_piece(message: bytes, beside: list[bytearray]) -> bytes:
    """The same pickle with its buffers inside, made without unpickling anything."""
    operations = list(pickletools.genops(message))
    ends = [position for _, _, position in operations[1:]] + [len(message)]
    buffers = iter(beside)
    parts: list[Any] = []
    for number, (operation, _, begin) in enumerate(operations):
        if operation.name == "NEXT_BUFFER":
            buffer = next(buffers)
            is_readonly = operations[number + 1][0].name == "READONLY_BUFFER"
            parts += [pickle.BINBYTES8 if is_readonly else pickle.BYTEARRAY8, len(buffer).to_bytes(8, "little"), buffer]
        # What is in a frame has another length now; no frame is needed.
        elif operation.name not in ("FRAME", "READONLY_BUFFER"):
            parts.append(message[begin : ends[number]])
    return b"".join(parts)


class Connection:
    """One end of a connection: as multiprocessing.connection.Connection."""

    _reader: _native.Reader | None
    _writer: _native.Writer | None

    def __init__(
        self,
        reader: _native.Reader | None,
        writer: _native.Writer | None,
        *,
        received_in: _native.Arena | None = None,
        sent_in: _native.Arena | None = None,
    ) -> None:
        if reader is None and writer is None:
            raise ValueError("at least one of `reader` and `writer` must be given")
        self._reader = reader
        self._writer = writer
        # Where the large buffers of messages lie, if not in the pipe.
        self._received_in = received_in
        self._sent_in = sent_in
        self._closed = False
        # Copies for children that are being started, until that is done.
        self._given: list[weakref.finalize[Any, Any]] = []
        self._lent: weakref.ref[borrowed.Borrowed] | None = None

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            try:
                self.close()
            except BufferError:  # what it has lent keeps the end
                pass

    def _check_closed(self) -> None:
        if self._closed:
            raise OSError("handle is closed")

    def _to_read(self) -> _native.Reader:
        self._check_closed()
        if self._reader is None:
            raise OSError("connection is write-only")
        return self._reader

    def _to_write(self) -> _native.Writer:
        self._check_closed()
        if self._writer is None:
            raise OSError("connection is read-only")
        return self._writer

    @property
    def closed(self) -> bool:
        """True if the connection is closed"""
        return self._closed

    @property
    def readable(self) -> bool:
        """True if the connection is readable"""
        return self._reader is not None

    @property
    def writable(self) -> bool:
        """True if the connection is writable"""
        return self._writer is not None

    def fileno(self) -> int:
        """A descriptor that is ready when something can be received, or sent if this end only sends: to be watched"""
        self._check_closed()
        return (self._reader or self._writer).fileno()  # type: ignore[union-attr]

    def close(self) -> None:
        """Close the connection. While something uses what was received with `borrow` it is a BufferError, and stays open."""
        lent = self._lent and self._lent()
        if lent:
            lent.release()
        self._closed = True
        given, self._given = self._given, []
        for give_up in given:
            give_up()
        for end in (self._reader, self._writer):
            if end is not None:
                end.close()
        # What lies there still is kept by its messages.
        self._received_in = self._sent_in = None

    def send_bytes(self, buf: Any, offset: int = 0, size: int | None = None) -> None:
        """Send the bytes data from a bytes-like object"""
        writer = self._to_write()
        if offset == 0 and size is None and type(buf) is bytes:
            return writer.send(buf)
        m = memoryview(buf)
        if m.itemsize > 1:
            m = m.cast("B")
        n = m.nbytes
        if offset < 0:
            raise ValueError("offset is negative")
        if n < offset:
            raise ValueError("buffer length < offset")
        if size is None:
            size = n - offset
        elif size < 0:
            raise ValueError("size is negative")
        elif offset + size > n:
            raise ValueError("buffer length < offset + size")
        writer.send(m[offset : offset + size])

    def send_dumped_if_room(self, message: Any, beside: list[memoryview] | None) -> bool:
        """Send what dump() has made unless that could wait; whether it was sent. Nothing else may send meanwhile."""
        writer = self._to_write()
        if beside is None:
            return writer.send_if_room(message)
        size = len(message) + sum(buffer.nbytes + 8 for buffer in beside) + 128
        if writer.waiting + size > writer.capacity // 2:
            return False
        writer.send(message, beside)
        return True

    def send_many_bytes(self, messages: list[Any]) -> None:
        """Send several messages at once."""
        self._to_write().send_many(messages)

    def send(self, obj: Any) -> None:
        """Send a (picklable) object"""
        self._to_write()
        self.send_dumped(dump(obj))

    def send_dumped(self, dumped: Dumped) -> None:
        """Send what dump() has made of an object"""
        self._to_write().send(*dumped, self._sent_in)

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        """
        Receive bytes data as a bytes object.
        """
        reader = self._to_read()
        if maxlength is not None and maxlength < 0:
            raise ValueError("negative maxlength")
        received = reader.receive(maxlength, self._received_in)
        if received is None:
            # What follows is not a message any more.
            if self._writer is None:
                self.close()
            else:
                reader.close()
                self._reader = None
            raise OSError("bad message length")
        message, beside = received
        return message if beside is None else in_one_piece(message, beside)

    def recv_bytes_into(self, buf: Any, offset: int = 0) -> int:
        """
        Receive bytes data into a writeable bytes-like object.
        Return the number of bytes read.
        """
        reader = self._to_read()
        with memoryview(buf) as m:
            bytesize = m.nbytes
            if offset < 0:
                raise ValueError("negative offset")
            if offset > bytesize:
                raise ValueError("offset too large")
            if m.readonly:
                raise TypeError("a read-write bytes-like object is needed")
            received = reader.receive_into(m, offset, self._received_in)
            if isinstance(received, int):
                return received
            message, beside = received
            if beside is not None:
                message = in_one_piece(message, beside)
            if bytesize < offset + len(message):
                raise BufferTooShort(message)
            m.cast("B")[offset : offset + len(message)] = message
            return len(message)

    @overload
    def recv(self, *, borrow: Literal[True]) -> borrowed.Borrowed: ...
    @overload
    def recv(self, *, borrow: Literal[False] = False) -> Any: ...
    def recv(self, *, borrow: bool = False) -> Any:
        """Receive a (picklable) object

        With `borrow` its large buffers stay in the arena, or in the pipe, where they fit: `with connection.recv(borrow=True) as
        message` has it as `message.value`. That is without a copy at a pipe with `trust`, whose other end this program has got by
        fork.
        """
        if not borrow:
            return load(*self.recv_dumped())
        message, is_in_pipe = borrowed.receive(self._to_read(), load, self._received_in)
        if is_in_pipe:
            self._lent = weakref.ref(message)
        return message

    def recv_dumped(self) -> tuple[bytes, list[bytearray] | None]:
        """Receive what load() makes an object of"""
        received = self._to_read().receive(None, self._received_in)
        assert received is not None  # no length was too much
        return received

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether there is any input available to be read"""
        reader = self._to_read()
        return reader.waiting > 0 or bool(standard.wait([self], timeout))  # type: ignore[list-item]

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, exc_type: object, exc_value: object, exc_tb: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        self._check_closed()
        ends = (end and self._give(end.dup().detach()) for end in (self._reader, self._writer))
        arenas = (arena and self._give(arena.dup()) for arena in (self._received_in, self._sent_in))
        return _rebuild, (*ends, *arenas)

    def _give(self, fd: int) -> Any:
        """What another process gets a descriptor by."""
        popen = get_spawning_popen()
        if popen is None:
            try:
                return reduction.DupFd(fd)
            finally:
                os.close(fd)
        # The child inherits it when it is started, which is not done yet: at the latest the copy goes with what has started it.
        self._given = [given for given in self._given if given.alive]
        given = weakref.finalize(popen, os.close, fd)
        self._given.append(given)
        popen.__dict__.setdefault(GIVEN, []).append(given)
        return reduction.DupFd(fd)


def _rebuild(reader: Any, writer: Any, received_in: Any, sent_in: Any) -> Connection:
    return Connection(
        reader and _native.Reader.attach(reader.detach()),
        writer and _native.Writer.attach(writer.detach()),
        received_in=received_in and _native.Arena.attach(received_in.detach()),
        sent_in=sent_in and _native.Arena.attach(sent_in.detach()),
    )


def Pipe(
    duplex: bool = True, *, capacity: int | None = None, trust: bool = False, arena: int | None = None
) -> tuple[Connection, Connection]:
    """Returns a pair of connections: both send and receive, or the first receives what the second sends.

    `capacity` and `trust` are those of `millstream.pipe`. With `arena` large buffers of objects lie in shared memory of so many bytes
    for each direction, which may be more than a pipe can have: `recv(borrow=True)` then uses them there.
    """
    if arena is not None and not trust:
        raise ValueError(f"arena={arena} needs trust=True: what is received in it must not be written to")
    reader, writer = _native.pipe(capacity, trust)
    there = None if arena is None else _native.Arena(arena)
    if not duplex:
        return Connection(reader, None, received_in=there), Connection(None, writer, sent_in=there)
    other_reader, other_writer = _native.pipe(capacity, trust)
    back = None if arena is None else _native.Arena(arena)
    return (
        Connection(reader, other_writer, received_in=there, sent_in=back),
        Connection(other_reader, writer, received_in=back, sent_in=there),
    )
