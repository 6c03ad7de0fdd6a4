"""Open TIFF files that are stored like another one, without parsing all of their tags again.

The slices of a volume differ in little more than the places of their strips or tiles. Their
directory is compared with that of the first slice byte by byte. Only if it is the same, apart from
these places, is the first slice's description used, so everything that was checked holds here too.
"""

from __future__ import annotations

import os
import stat
import struct
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dask_io.formats.tiff.reading import is_joined, is_too_long
from dask_io.stores.chunked_source import ChunkedSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dask_io.formats.tiff.image import Image
    from dask_io.formats.tiff.source import TiffChunks
    from dask_io.storage.location import Location

_STRIP_OFFSETS, _STRIP_COUNTS, _TILE_OFFSETS, _TILE_COUNTS = 273, 279, 324, 325
_PLACES = frozenset({_STRIP_OFFSETS, _STRIP_COUNTS, _TILE_OFFSETS, _TILE_COUNTS})
_DESCRIPTION, _TIME = 270, 306
_CLASSIC, _BIG = 42, 43
_SIZES = (0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8)
_NUMBERS = {3: "u2", 4: "u4", 16: "u8"}
# A directory is usually at the beginning of its file, or at its end.
_FIRST_LOOK, _MOST_TAGS, _MOST_BYTES = 4096, 64, 2**16
_MOST_PLACES = 2**24


class _Directory(NamedTuple):
    """The only directory of a file: its tags without the places of tiles, these, and the size."""

    kind: bytes
    tags: dict[int, tuple[int, int, bytes]]
    places: dict[int, NDArray[np.uint64]]
    size: int
    time: int


@dataclass(frozen=True)
class Alike:
    """Opens files that are stored like the first one."""

    first: ChunkedSource[TiffChunks]
    directory: _Directory

    def __call__(self, path: Location) -> ChunkedSource[TiffChunks] | None:
        """Open a file; return None if it is stored in another way, or may be damaged."""
        found = _read_directory(path)
        if found is None or found.kind != self.directory.kind or found.tags != self.directory.tags:
            return None
        assert isinstance(path, Path), "only local files have been read"
        image = _with_places(self.first.chunks.image, self.directory, found, path)
        if image is None:
            return None
        chunks, spec = copy(self.first.chunks), self.first.chunks.spec
        chunks.path, chunks.image = path, image
        chunks.spec = spec if image.codec is None else replace(spec, codec=image.codec)
        return ChunkedSource(chunks, strict=self.first.strict)


def open_alike(path: Location, first: Any) -> Alike | None:
    """Return a function that opens files like this one; None if it has more than one page."""
    directory = _read_directory(path)
    if directory is None or first.chunks.image.inside != "0" or len(first.chunks.image.files) != 1:
        return None
    return Alike(first, directory)


def _with_places(first: Image, like: _Directory, found: _Directory, path: Path) -> Image | None:
    """Return an image that differs from another one in the places of its tiles or strips."""
    pair = _pair_of(like, found)
    located = None if pair is None else _locate(first, *pair, is_tiled=_TILE_OFFSETS in like.places)
    if located is None:
        return None
    offsets, counts = located
    if int((offsets + counts).max()) > found.size:
        return None
    codec = first.codec
    if codec is not None:
        codec = replace(codec, longest=int(counts.max()))
        if is_too_long(codec.longest, first.stored_shape, first.dtype):
            return None
    return replace(
        first,
        offsets=offsets,
        counts=counts,
        codec=codec,
        files=(path,),
        size_and_time=(found.size, found.time),
    )


def _pair_of(
    like: _Directory, found: _Directory
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]] | None:
    """Return offsets and sizes of tiles or strips, if there are as many as in another file."""
    for tags in ((_TILE_OFFSETS, _TILE_COUNTS), (_STRIP_OFFSETS, _STRIP_COUNTS)):
        if found.places.keys() == like.places.keys() == set(tags):
            lengths = {len(each.places[tag]) for each in (like, found) for tag in tags}
            return (found.places[tags[0]], found.places[tags[1]]) if len(lengths) == 1 else None
    return None


def _locate(
    first: Image, offsets: NDArray[np.uint64], counts: NDArray[np.uint64], *, is_tiled: bool
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]] | None:
    """Return where the blocks of an image are, None if they may not be those of the first."""
    if first.codec is None and first.chunks == first.shape:
        n_bytes = int(first.counts[0])
        is_one_piece = is_joined(offsets[np.newaxis], counts[np.newaxis], n_bytes)
        return (offsets[:1], first.counts) if is_one_piece and not is_tiled else None
    if len(offsets) != len(first.offsets) or (first.codec is None and not is_tiled):
        return None
    counts[offsets == 0], offsets[counts == 0] = 0, 0
    return offsets, counts


def _read_directory(path: Location) -> _Directory | None:
    """Read the directory of a file; None if it is not a short one, or there are several."""
    if not isinstance(path, Path):
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        return _parse(_Content(fd), found.st_size, found.st_mtime_ns)
    except (struct.error, OSError, OverflowError, ValueError, LookupError):
        # `open_tiff` reports what is wrong.
        return None
    finally:
        os.close(fd)


class _Content:
    """The content of a file, whose beginning is read at once."""

    def __init__(self, fd: int) -> None:
        self._fd, self._head = fd, os.pread(fd, _FIRST_LOOK, 0)

    def read(self, offset: int, n_bytes: int) -> bytes:
        """Return bytes at an offset, fewer at the end of the file."""
        if offset + n_bytes <= len(self._head):
            return self._head[offset : offset + n_bytes]
        return os.pread(self._fd, n_bytes, offset)


class _Form(NamedTuple):
    """How a file stores numbers: classic or BigTIFF, in one of two byte orders."""

    order: str
    is_big: bool

    @property
    def offset(self) -> struct.Struct:
        """An offset, or the value of a tag."""
        return struct.Struct(f"{self.order}{'Q' if self.is_big else 'I'}")

    @property
    def entry(self) -> struct.Struct:
        """A tag without its value: number, type and count."""
        return struct.Struct(f"{self.order}HH{'Q' if self.is_big else 'I'}")

    @property
    def n_tags(self) -> struct.Struct:
        """The number of tags."""
        return struct.Struct(f"{self.order}{'Q' if self.is_big else 'H'}")


def _parse(content: _Content, size: int, time: int) -> _Directory | None:
    """Read the directory of a file, with the content of all tags.

    Raises
    ------
    ValueError, struct.error
        If it is not a TIFF file, or has more or longer tags than expected.
    """
    head = content.read(0, 16)
    order = {b"II": "<", b"MM": ">"}[head[:2]]
    (version,) = struct.unpack_from(f"{order}H", head, 2)
    form = _Form(order, is_big={_CLASSIC: False, _BIG: True}[version])
    (start,) = form.offset.unpack_from(head, 8 if form.is_big else 4)
    (n_tags,) = form.n_tags.unpack(content.read(start, form.n_tags.size))
    each = form.entry.size + form.offset.size
    raw = content.read(start + form.n_tags.size, min(n_tags, _MOST_TAGS) * each + form.offset.size)
    if n_tags > _MOST_TAGS or form.offset.unpack(raw[n_tags * each :]) != (0,):
        return None
    tags: dict[int, tuple[int, int, bytes]] = {}
    places: dict[int, NDArray[np.uint64]] = {}
    for at in range(0, n_tags * each, each):
        tag, kind, n_values = form.entry.unpack_from(raw, at)
        value = _value_of(content, form, raw[at : at + each])
        if tag in tags or tag in places:
            return None
        if tag in _PLACES:
            numbers = np.frombuffer(value, f"{order}{_NUMBERS[kind]}")
            places[tag] = numbers.astype(np.uint64)
        elif tag != _TIME:
            tags[tag] = (kind, n_values, value)
    if _DESCRIPTION in tags:
        tags[_DESCRIPTION] = (0, 0, _without_display_range(tags[_DESCRIPTION][2]))
    return _Directory(head[:4], tags, places, size, time)


def _value_of(content: _Content, form: _Form, raw: bytes) -> bytes:
    """Return the value of a tag, which is in the tag itself or elsewhere."""
    tag, kind, n_values = form.entry.unpack_from(raw)
    n_bytes = n_values * _SIZES[kind]
    if not 0 < n_bytes <= (8 * _MOST_PLACES if tag in _PLACES else _MOST_BYTES):
        raise ValueError("has a long tag")
    value = raw[form.entry.size :][:n_bytes]
    if n_bytes > form.offset.size:
        (where,) = form.offset.unpack_from(raw, form.entry.size)
        value = content.read(where, n_bytes)
    if len(value) < n_bytes:
        raise ValueError("is truncated")
    return value


def _without_display_range(description: bytes) -> bytes:
    r"""Remove the darkest and the brightest value, which ImageJ stores for each picture.

    Examples
    --------
    >>> _without_display_range(b"ImageJ=1.53t\nunit=um\nmin=3.0\nmax=250.0\n\0")
    b'ImageJ=1.53t\nunit=um\n\x00'
    """
    if not description.startswith(b"ImageJ="):
        return description
    lines = description.split(b"\n")
    return b"\n".join(line for line in lines if not line.startswith((b"min=", b"max=")))
