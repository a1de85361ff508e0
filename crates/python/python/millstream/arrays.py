"""Arrays in a stream of bytes: anything with the buffer protocol, and no pickle.

A frame is a header, the shape, the format and the elements. All numbers are little-endian:

    4 bytes   b"MSAr"
    1 byte    version, 1
    1 byte    order of the elements: b"C" or b"F"
    1 byte    number of dimensions, at most 64
    1 byte    0
    4 bytes   length of the format, at most 1024
    4 bytes   bytes of an element, at least 1
    8 bytes   for each dimension, its length
    ...       the format, as the buffer protocol has it, in ASCII
    ...       the elements

A frame comes from a peer that need not be trusted: every field is checked before memory is allocated for it, and memory is
touched only as elements arrive.
"""

from __future__ import annotations

import functools
import math
import pickle
import re
import select
import struct
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native

if TYPE_CHECKING:
    from ._native import End

# Bytes of the largest array that a reader accepts unless it is told otherwise.
MAX_BYTES = 1 << 30

_HEADER = struct.Struct("<4sBcBBII")
_MAGIC = b"MSAr"
_VERSION = 1
_MOST_DIMENSIONS = 64
_LONGEST_FORMAT = 1024
_LONGEST_DIMENSION = sys.maxsize

# An array of no more bytes goes into one write with its header.
_IN_ONE_WRITE = 64 << 10

_NATIVE_SIZES = {code: struct.calcsize(code) for code in "?cbBhHiIlLqQnNefd"} | {"g": 16}
_STANDARD_SIZES = {code: struct.calcsize("<" + code) for code in "?cbBhHiIlLqQefd"}
_SIMPLE = re.compile(r"([@=<>!]?)(?:(\d*)([sw])|(Z?)([?cbBhHiIlLqQnNefdg]))")
# Of a structure, the names of its fields apart. No code of an object or a pointer is among them.
_STRUCTURE = re.compile(r"T\{[T{}()\d, @=<>!^Z?cbBhHiIlLqQnNefdgswx]*\}")
_KINDS = dict.fromkeys("bhilqn", "i") | dict.fromkeys("BHILQN", "u") | dict.fromkeys("efdg", "f")


class Frame(NamedTuple):
    """What stands before the elements of an array."""

    format: str
    itemsize: int
    shape: tuple[int, ...]
    is_fortran: bool

    @property
    def nbytes(self) -> int:
        return self.itemsize * math.prod(self.shape)

    def over(self, memory: Any) -> memoryview:
        """The memory as an array of this kind."""
        array: Any = _native.Array(memory, self.format, self.itemsize, self.shape, self.is_fortran)
        return memoryview(array)


def write(end: _native.Writer, array: Any) -> None:
    """Writes a frame."""
    with memoryview(array) as view:
        is_fortran = view.f_contiguous and not view.c_contiguous
        frame = Frame(view.format, view.itemsize, tuple(view.shape or ()), is_fortran)
        header = _header_of(frame)
        if not view.contiguous:
            _write_all(end, header, memoryview(view.tobytes()))
            return
        # One view of all bytes, which `cast` gives of native formats only.
        with pickle.PickleBuffer(view).raw() as elements:
            _write_all(end, header, elements)


def _header_of(frame: Frame) -> bytes:
    _check_format(frame.format, frame.itemsize)
    text = frame.format.encode("ascii")
    order = b"F" if frame.is_fortran else b"C"
    fixed = _HEADER.pack(_MAGIC, _VERSION, order, len(frame.shape), 0, len(text), frame.itemsize)
    return fixed + struct.pack(f"<{len(frame.shape)}Q", *frame.shape) + text


@functools.lru_cache(maxsize=64)
def _check_format(text: str, itemsize: int) -> None:
    """Refuses what could lead outside of the elements: pointers, objects, and formats of another size."""
    simple = _SIMPLE.fullmatch(text)
    if simple is not None:
        expected = _size_of(*simple.groups())
    else:
        bare = re.sub(r":[^:]*:", "", text)
        expected = itemsize if _STRUCTURE.fullmatch(bare) else None
    if expected is None or len(text) > _LONGEST_FORMAT or not text.isascii():
        raise ValueError(f"format {text[:80]!r} cannot travel (use numbers, fixed strings or structures of them)")
    if expected != itemsize or itemsize == 0:
        raise ValueError(f"format {text!r} has elements of {expected} bytes, not {itemsize}")


def _size_of(order: str, count: str | None, text: str | None, complex: str | None, code: str | None) -> int | None:
    """Bytes of an element of a simple format. None: it has no such size."""
    if text is not None:
        # A number of many digits is no size of an element.
        return int((count or "1")[:12]) * (4 if text == "w" else 1)
    assert code is not None
    if complex and code not in "fdg":
        return None
    sizes = _NATIVE_SIZES if order in ("", "@") else _STANDARD_SIZES
    size = sizes.get(code, _NATIVE_SIZES[code] if code == "g" else None)
    return size and size * (2 if complex else 1)


def _write_all(end: _native.Writer, header: bytes, elements: memoryview) -> None:
    if elements.nbytes <= _IN_ONE_WRITE:
        parts = [memoryview(b"".join((header, elements)))]
    else:
        parts = [memoryview(header), elements]
    has_begun = False
    for rest in parts:
        while rest:
            count = end.write(rest)
            if count is not None:
                has_begun = True
                rest = rest[count:]
            elif has_begun:
                select.select([], [end.fileno()], [])
            else:
                raise BlockingIOError("the pipe is full")


class ArrayReader:
    """Takes frames out of a stream. A frame that its caller cannot take stays for the next call."""

    def __init__(self, end: _native.Reader) -> None:
        self._end = end
        self._frame: Frame | None = None

    def read(self, out: Any, numpy: bool, max_bytes: int) -> Any:
        module: Any = _import_numpy() if numpy else None
        if self._frame is None:
            self._frame = _read_frame(self._end)
        frame = self._frame
        if frame.nbytes > max_bytes:
            raise ValueError(f"array of {frame.nbytes} bytes is above max_bytes={max_bytes} (give a larger one)")
        if module is not None:
            _check_dtype(module, frame.format, frame.itemsize)
        array = frame.over(_native.bytearray_to_fill(frame.nbytes)) if out is None else _array_in(out, frame)
        self._frame = None
        if frame.nbytes:
            with pickle.PickleBuffer(array).raw() as elements:
                _fill(self._end, elements, "an array", has_begun=True)
        return array if module is None else module.asarray(array)


def _import_numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise ImportError("read_array(numpy=True) needs numpy (install numpy, or leave numpy out)") from error
    return numpy


def _read_frame(end: _native.Reader) -> Frame:
    fixed = bytearray(_HEADER.size)
    _fill(end, memoryview(fixed), "the header of an array", has_begun=False)
    magic, version, order, dimensions, zero, length, itemsize = _HEADER.unpack(fixed)
    if magic != _MAGIC:
        raise ValueError(f"no array begins with {magic!r}")
    if version != _VERSION:
        raise ValueError(f"array of version {version}, of which only {_VERSION} is known")
    if order not in (b"C", b"F") or zero != 0 or dimensions > _MOST_DIMENSIONS or length > _LONGEST_FORMAT:
        raise ValueError(f"bad header of an array: {bytes(fixed)!r}")
    rest = bytearray(8 * dimensions + length)
    _fill(end, memoryview(rest), "the header of an array", has_begun=True)
    shape = struct.unpack_from(f"<{dimensions}Q", rest)
    # What is not ASCII is no format, and refused as such.
    text = rest[8 * dimensions :].decode("latin-1")
    _check_format(text, itemsize)
    if itemsize * math.prod(max(count, 1) for count in shape) > _LONGEST_DIMENSION:
        raise ValueError(f"array of shape {shape} is too large for any memory")
    return Frame(text, itemsize, shape, order == b"F")


def _fill(end: _native.Reader, target: memoryview, what: str, has_begun: bool) -> None:
    """Reads until the target is full. A non-blocking end waits once a frame has begun."""
    size = len(target)
    had = 0
    while had < size:
        count = end.readinto(target[had:])
        if count is None:
            if not has_begun and had == 0:
                raise BlockingIOError("nothing waits in the pipe")
            select.select([end.fileno()], [], [])
        elif count == 0:
            if not has_begun and had == 0:
                raise EOFError("end of the stream")
            raise EOFError(f"the stream ended inside {what}: {size - had} of {size} bytes are missing")
        else:
            had += count


@functools.lru_cache(maxsize=64)
def _check_dtype(numpy: Any, text: str, itemsize: int) -> None:
    """numpy shall read the format as we do: shown with no element, so that a wrong size reads nothing."""
    try:
        dtype = numpy.asarray(Frame(text, itemsize, (0,), False).over(b"")).dtype
    except Exception as error:
        raise ValueError(f"numpy has no type for format {text!r}") from error
    if dtype.itemsize != itemsize or dtype.hasobject:
        raise ValueError(f"format {text!r} has elements of {dtype.itemsize} bytes in numpy, not {itemsize}")


def _array_in(out: Any, frame: Frame) -> memoryview:
    """The caller's memory as the array: bytes take any array that fits, others one of their own kind."""
    view = memoryview(out)
    if view.readonly:
        raise BufferError("out is read-only (give a writable buffer)")
    if view.format == "B" and view.ndim == 1 and view.c_contiguous:
        if view.nbytes < frame.nbytes:
            raise ValueError(f"out has {view.nbytes} bytes, and the array {frame.nbytes}")
        return frame.over(view)
    if view.shape != frame.shape or _kind(view.format, view.itemsize) != _kind(frame.format, frame.itemsize):
        wanted, given = f"{frame.format!r} {frame.shape}", f"{view.format!r} {view.shape}"
        raise ValueError(f"out has format and shape {given}, and the array {wanted}")
    if not (view.f_contiguous if frame.is_fortran else view.c_contiguous):
        raise ValueError("out is not contiguous in the order of the array")
    return view


def _kind(text: str, itemsize: int) -> tuple[str, int]:
    """The same for formats that mean the same: 'l' and 'q' are both integers of eight bytes."""
    native = "@=<" if sys.byteorder == "little" else "@=>!"
    bare = text.lstrip(native)
    return _KINDS.get(bare, bare), itemsize
