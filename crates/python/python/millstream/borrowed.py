"""Objects whose large buffers lie in the pipe."""

from __future__ import annotations

from typing import Any

from . import _native

# Of buffers in an arena.
_ALIGNMENT = 64


class Borrowed:
    """A received object: `value`, until the `with` block ends or `release` is called.

    Its large buffers are read-only and lie in the arena of its connection, or in the pipe, where they fit. They are taken out at the
    release, which is a BufferError while something made of `value` still uses them. Until then a connection without an arena receives
    nothing else.
    """

    def __init__(self, value: Any, piece: _native.InPlace | None, size: int) -> None:
        self._values = [value]
        self._piece = piece
        self._size = size

    @property
    def value(self) -> Any:
        for value in self._values:
            return value
        raise ValueError("the object was given back")

    @property
    def is_in_place(self) -> bool:
        """Whether there are large buffers, and `release` ends their use. Otherwise they are copies of their own."""
        return self._piece is not None

    def release(self) -> None:
        """Forgets the object and takes its bytes out of the pipe. Done twice it does nothing."""
        self._values.clear()
        piece = self._piece  # another thread may release too, which the piece allows
        if piece is not None:
            piece.finish(self._size)
            self._piece = None

    def __enter__(self) -> Borrowed:
        return self

    def __exit__(self, exc_type: object, exc_value: object, exc_tb: object) -> None:
        try:
            self.release()
        except BufferError:
            if exc_type is None:
                raise
            # The traceback keeps what the block has made. The bytes are taken when it is forgotten.
            self._piece = None


def receive(reader: _native.Reader, load: Any, arena: _native.Arena | None) -> tuple[Borrowed, bool]:
    """The next message of a connection, and whether it keeps the pipe."""
    message, sizes, piece = reader.receive_message(arena)
    if not sizes:
        return Borrowed(load(message, None), None, 0), False
    if piece is not None:
        return _of_piece(load, message, piece, sizes, _ALIGNMENT), False
    piece = reader.borrow_whole(sum(sizes))
    if piece is None:
        return Borrowed(load(message, reader.receive_buffers(sizes)), None, 0), False
    return _of_piece(load, message, piece, sizes, 1), True


def _of_piece(load: Any, message: bytes, piece: _native.InPlace, sizes: list[int], alignment: int) -> Borrowed:
    """An object whose buffers lie in the piece, each behind the one before and aligned."""
    end = 0
    parts: list[Any] = []
    for size in sizes:
        begin = -(-end // alignment) * alignment
        parts.append(piece.part(begin, size))
        end = begin + size
    # If the object cannot be made, the bytes are taken when the piece is forgotten.
    return Borrowed(load(message, parts), piece, end)
