"""Reading parts of a gzip or zlib stream from the nearest point at which decoding can start.

gzip has no random access. Decoding can start at the beginning of a member, or where the state of a
decoder was saved. Most streams are decoded once, from beginning to end. On the way, states are
saved at even distances, up to a limit, so that going back costs only the distance from the last
state before.

Dask IO writes the size of each member to a field of its header that other readers skip. In such a
stream, decoding can start at any member.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dask_io.codecs.deflate import (
    ANY_HEADER,
    ERRORS,
    GZIP_HEADER,
    encode,
    longest_deflated,
    start_copied_decoder,
    start_decoder,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask_io.storage.medium import Reader

INPUT_BYTES = 2**16
"""Encoded bytes that are read at once."""
STATE_BYTES = 48 * 2**10
"""Memory of a saved state: its window of 32 KiB, its tables, and the object itself."""
DECODER_BYTES = 2 * STATE_BYTES
"""Memory of a decoder."""
MOST_RATIO = 1032
"""No stream decodes to more than this many times its size."""
_MAGIC = b"\x1f\x8b\x08"
_HAS_EXTRA = 4
# Identifier, length of the field, bytes of the member, bytes of its content.
_FIELD = struct.Struct("<2sHQQ")
_ID = b"DI"
_BEFORE_EXTRA = 10
_MEMBER_HEADER = _BEFORE_EXTRA + 2 + _FIELD.size
_TRAILER_BYTES = 8
_MOST_MEMBERS = 2**20


def member_of(content: bytes | memoryview, level: int) -> tuple[bytes, memoryview]:
    """Compress content to a gzip member, as its header, with its size, and the rest.

    Examples
    --------
    >>> import gzip
    >>> gzip.decompress(b"".join(member_of(b"brain", 6)))
    b'brain'
    """
    encoded = encode(np.frombuffer(content, np.uint8), level, GZIP_HEADER).data
    rest = encoded[_BEFORE_EXTRA:]
    sizes = _FIELD.pack(_ID, _FIELD.size - 4, _MEMBER_HEADER + len(rest), len(content))
    header = _MAGIC + bytes([_HAS_EXTRA, 0, 0, 0, 0, 0, 255]) + struct.pack("<H", _FIELD.size)
    return header + sizes, rest


def make_member(content: bytes | memoryview, level: int) -> bytes:
    """Compress content to a gzip member with its size in its header."""
    return b"".join(member_of(content, level))


def longest_member(n_bytes: int) -> int:
    """Return the greatest size of a member: incompressible content is stored as it is."""
    return _MEMBER_HEADER + longest_deflated(n_bytes)


def size_of_member(head: bytes) -> tuple[int, int] | None:
    """Return the sizes of a member and of its content, None if its header does not have them."""
    if len(head) < _MEMBER_HEADER or head[:4] != _MAGIC + bytes([_HAS_EXTRA]):
        return None
    found, length, size, n_bytes = _FIELD.unpack_from(head, _BEFORE_EXTRA + 2)
    if found != _ID or length != _FIELD.size - 4 or size < _MEMBER_HEADER + _TRAILER_BYTES:
        return None
    return size, n_bytes


class _Point(NamedTuple):
    """A point where decoding can start: its offsets in content and file, and a decoder's state.

    Without a state, it is the beginning of a member.
    """

    position: int
    offset: int
    state: Any | None


@dataclass(slots=True)
class _Cursor:
    """A decoder somewhere in a stream; belongs to one thread at a time."""

    position: int
    offset: int
    decoder: Any | None
    rest: bytes = b""
    """Bytes that have been read from the file but not decoded."""
    is_front: bool = False
    """Whether it decodes data that has not been decoded before."""

    @classmethod
    def at(cls, point: _Point, *, is_front: bool = False) -> _Cursor:
        position, offset, state = point
        decoder = None if state is None else state.copy()
        return cls(position, offset, decoder, is_front=is_front)

    @property
    def point(self) -> _Point | None:
        """The point to resume from, None if the decoder has input left."""
        if self.rest:
            return None
        state = None if self.decoder is None else self.decoder.copy()
        return _Point(self.position, self.offset, state)


@dataclass
class GzipStream:
    """A gzip stream of known length; any number of threads may read parts of it.

    Parameters
    ----------
    size
        Bytes of the file.
    n_bytes
        Bytes of the content.
    most_points
        States that are kept at most, each of `STATE_BYTES`.
    start
        Where the stream begins in the file.
    most_after
        Bytes of other content that may follow.
    may_be_zlib
        Whether it may also be a zlib stream.
    """

    size: int
    n_bytes: int
    most_points: int = 64
    start: int = 0
    most_after: int = 0
    may_be_zlib: bool = False
    _points: list[_Point] = field(init=False)
    _members: dict[int, int] = field(init=False)
    _idle: list[_Cursor] = field(default_factory=list)
    _front: _Cursor | None = None
    _reached: int = 0
    _n_states: int = 0
    _is_listed: bool = False
    _says_sizes: bool = False
    _lock: Lock = field(default_factory=Lock)
    _front_lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._points, self._members = [_Point(0, self.start, None)], {0: self.start}

    def list_members(self, read: Callable[[int, int], bytes]) -> bool:
        """Find the beginnings of all members from the sizes in their headers.

        Returns False if a member does not have its size. `read` returns bytes of the file from an
        offset on, fewer at its end.
        """
        with self._front_lock:
            if self._is_listed:
                return self._says_sizes
            self._is_listed = True
            points: list[_Point] = []
            position, offset = 0, self.start
            while offset < self.size and len(points) < _MOST_MEMBERS:
                found = size_of_member(read(offset, _MEMBER_HEADER))
                if found is None or not found[1]:
                    return False
                points.append(_Point(position, offset, None))
                offset, position = offset + found[0], position + found[1]
            if (offset, position) != (self.size, self.n_bytes):
                return False
            with self._lock:
                self._points = points
                self._members = {point.position: point.offset for point in points}
                self._members[position] = offset
                self._reached, self._says_sizes = self.n_bytes, True
            return True

    @property
    def members(self) -> dict[int, int]:
        """Offsets of the known members in the file, by the offsets of their decoded content.

        If all members have their sizes, the end of the stream is included.
        """
        return dict(self._members)

    def read(self, file: Reader, start: int, out: memoryview) -> None:
        """Decode a part of the content, from `start` on, into a buffer.

        Raises
        ------
        ValueError
            If the stream is damaged or of another length; the message completes "the file ...".
        """
        if start < self._reached or not self._read_front(file, start, out):
            cursor = self._take(start)
            self._fill(cursor, file, start, out)
            with self._lock:
                self._idle = [*self._idle[-3:], cursor]

    def _read_front(self, file: Reader, start: int, out: memoryview) -> bool:
        """Read beyond the furthest position so far; return False if `start` is before it."""
        with self._front_lock:
            if start < self._reached:
                return False
            # A read that fails leaves its decoder at an unknown position. The decoder is put back
            # only after success; otherwise, the next read starts again from a known point.
            front, self._front = self._front, None
            if front is None or front.position != self._reached:
                front = _Cursor.at(self._point_before(self._reached), is_front=True)
            self._fill(front, file, start, out)
            with self._lock:
                self._reached = front.position
            self._front = front
            return True

    def _fill(self, cursor: _Cursor, file: Reader, start: int, out: memoryview) -> None:
        """Decode and drop everything before `start`, then decode into the buffer."""
        self._advance(cursor, file, start, None)
        assert cursor.position == start, "the decoder is past the data that it is asked for"
        self._advance(cursor, file, start + len(out), out)
        self._settle(cursor, file)

    def _point_before(self, position: int) -> _Point:
        number = bisect_right(self._points, position, key=lambda point: point.position) - 1
        return self._points[number]

    def _take(self, start: int) -> _Cursor:
        """Return the nearest decoder before a position: one that is idle, or a new one."""
        with self._lock:
            point = self._point_before(start)
            near = [each for each in self._idle if point.position < each.position <= start]
            if not near:
                return _Cursor.at(point)
            found = max(near, key=lambda each: each.position)
            self._idle = [each for each in self._idle if each is not found]
            return found

    def _advance(self, cursor: _Cursor, file: Reader, stop: int, out: memoryview | None) -> None:
        """Decode up to a position, into a buffer if there is one."""
        begin = cursor.position
        while cursor.position < stop:
            most = stop - cursor.position
            decoded = self._decode(cursor, file, most if out is not None else min(most, 2**16))
            if out is not None:
                at = cursor.position - begin
                out[at : at + len(decoded)] = decoded
            cursor.position += len(decoded)
            if cursor.is_front:
                self._keep_state(cursor)

    def _decode(self, cursor: _Cursor, file: Reader, most: int) -> bytes:
        """Decode at most `most` bytes, possibly none."""
        cursor.rest = cursor.rest or self._read_on(cursor, file)
        if cursor.decoder is None:
            self._begin_member(cursor, file)
        decoder = cursor.decoder
        assert decoder is not None
        is_last = not cursor.rest
        try:
            decoded: bytes = decoder.decompress(cursor.rest, min(most, _MOST_AT_ONCE))
        except ERRORS as error:
            raise ValueError(f"is damaged: its gzip stream cannot be decoded ({error})") from error
        # Even without input, a decoder may have output left.
        if is_last and not decoded and not decoder.eof:
            raise ValueError("is truncated: its gzip stream ends before its data does")
        cursor.rest = decoder.unconsumed_tail
        if decoder.eof:
            cursor.rest, cursor.decoder = decoder.unused_data, None
            self._note_member(cursor.position + len(decoded), cursor.offset - len(cursor.rest))
        return decoded

    def _read_on(self, cursor: _Cursor, file: Reader) -> bytes:
        n_bytes = min(INPUT_BYTES, self.size - cursor.offset)
        if n_bytes <= 0:
            return b""
        buffer = memoryview(bytearray(n_bytes))
        found = bytes(file.read(cursor.offset, n_bytes, buffer))
        cursor.offset += n_bytes
        return found

    def _begin_member(self, cursor: _Cursor, file: Reader) -> None:
        """Begin another member; zeros between members are allowed."""
        while cursor.rest and not cursor.rest[0]:
            cursor.rest = cursor.rest.lstrip(b"\0") or self._read_on(cursor, file)
        if not cursor.rest:
            raise ValueError("is truncated: its gzip stream ends before its data does")
        may_be_zlib = self.may_be_zlib and not cursor.position
        if cursor.rest[0] != _MAGIC[0] and not may_be_zlib:
            raise ValueError("is damaged: something else follows within its gzip stream")
        # States are neither kept nor needed if the stream is read once, or starts anywhere.
        is_copied = self.most_points > 0 and not self._says_sizes
        start = start_copied_decoder if is_copied else start_decoder
        cursor.decoder = start(ANY_HEADER if may_be_zlib else GZIP_HEADER)

    def _note_member(self, position: int, offset: int) -> None:
        """Record where a member begins, or compare it with the recorded sizes."""
        with self._lock:
            if self._says_sizes:
                if self._members.get(position) != offset:
                    raise ValueError("is damaged: its gzip members are not as long as they say")
                return
            # Streams of other programs may have a member every 64 KiB, and nothing counts them.
            if position - self._points[-1].position >= self._apart:
                self._members[position] = offset
                self._points.append(_Point(position, offset, None))

    @property
    def _apart(self) -> int:
        """Bytes between two points, so that there are at most `most_points` after the first."""
        return max(2**20, -(-self.n_bytes // max(1, self.most_points)))

    def _keep_state(self, front: _Cursor) -> None:
        """Save the state of the decoder that has come furthest, at even distances."""
        if self._n_states >= self.most_points:
            return
        if front.position - self._points[-1].position < self._apart or front.decoder is None:
            return
        point = front.point
        if point is not None:
            with self._lock:
                self._points.append(point)
            self._n_states += 1

    def _settle(self, cursor: _Cursor, file: Reader) -> None:
        """Compare checksum and length at the end of a member, and of the stream."""
        is_end = cursor.position == self.n_bytes
        if not is_end and cursor.position not in self._members:
            return
        left = self.most_after if is_end else 0
        while cursor.decoder is not None:
            left = self._pass_over(cursor, file, left)
        if is_end and cursor.is_front:
            self._check_end(cursor, file, left)

    def _pass_over(self, cursor: _Cursor, file: Reader, left: int) -> int:
        """Decode content that follows the data; return how much more of it is allowed."""
        left -= len(self._decode(cursor, file, min(left, 2**16) + 1))
        if left < 0:
            raise ValueError("is too long: its gzip stream continues after its data")
        return left

    def _check_end(self, cursor: _Cursor, file: Reader, left: int) -> None:
        """Refuse a stream with more data; empty members and zeros are allowed."""
        while cursor.rest or (self.size > cursor.offset):
            cursor.rest = cursor.rest or self._read_on(cursor, file)
            cursor.rest = cursor.rest.lstrip(b"\0") if cursor.decoder is None else cursor.rest
            if not cursor.rest:
                continue
            if cursor.decoder is None and cursor.rest[0] != _MAGIC[0]:
                # Ignore trailing bytes that are not a member, as gzip does.
                return
            left = self._pass_over(cursor, file, left)


_MOST_AT_ONCE = 2**20


def content_of(peek: Callable[[int], bytes], n_bytes: int) -> bytes:
    """Return the first bytes of the content of a gzip stream, fewer if it has fewer.

    Raises
    ------
    ValueError
        If it is not a gzip stream; the message completes "the file ...".
    """
    taken = 2**12
    while True:
        head = peek(taken)
        if head[:3] != _MAGIC[: len(head[:3])] or not head:
            raise ValueError("is not a gzip file: it does not begin as one")
        found = _decode_head(head, n_bytes)
        if len(found) >= n_bytes or len(head) < taken or taken > 2 * n_bytes + 2**16:
            return found
        taken *= 4


def _decode_head(head: bytes, n_bytes: int) -> bytes:
    found, rest = b"", head
    try:
        while rest[:1] == _MAGIC[:1] and len(found) < n_bytes:
            decoder = start_decoder(GZIP_HEADER)
            found += decoder.decompress(rest, n_bytes - len(found))
            if not decoder.eof:
                break
            rest = decoder.unused_data.lstrip(b"\0")
    except ERRORS as error:
        if not found:
            raise ValueError(f"is damaged: its gzip stream cannot be decoded ({error})") from error
    return found
