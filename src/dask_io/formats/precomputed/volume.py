"""The document ``info`` of a precomputed volume: one of its scales as an `ArraySpec`; a new one.

The axes of an array are x, y and z, as in cloud-volume and tensorstore, and the channel if there
are several. If Dask IO has written a volume from an array with the same axes in another order, it
presents them in that order again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.codecs.chain import Chain
from dask_io.formats.precomputed.encodings import ENCODINGS, RAW, ImageChunks
from dask_io.formats.precomputed.names import ChunkFileNames, Frame, ShardFileNames
from dask_io.formats.precomputed.sharding import (
    GZIP,
    IDENTITY,
    Sharding,
    bits_of,
    boxes,
)
from dask_io.formats.precomputed.space import Position, read_space
from dask_io.geometry import Grid, Layout
from dask_io.stores.kept_headers import HEADERS, headers_in
from dask_io.stores.shards import ShardIndex
from dask_io.stores.spec import ArraySpec
from dask_io.stores.truncated import TruncatingCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dask_io.stores.space import Space
    from dask_io.stores.truncated import SizedCodec

DOCUMENT = "info"
TYPE, TYPE_NAME = "@type", "neuroglancer_multiscale_volume"
OWN_HEADER = "precomputed"
"""Key of the volume's own metadata in the headers of a store."""
IMAGE, KINDS = "image", ("image", "segmentation")
TYPES = {
    **{f"u{n // 8}": f"uint{n}" for n in (8, 16, 32, 64)},
    **{f"i{n // 8}": f"int{n}" for n in (8, 16, 32)},
    "f4": "float32",
}
_CODES = {name: code for code, name in TYPES.items()}
_MOST_SCALES, _MOST_CHANNELS, _LONGEST, _FARTHEST = 256, 2**16, 2**40, 2**52
_MOST_BYTES, _MOST_NUMBER_BITS = 2**62, 64
_GZIP: tuple[dict[str, Any], ...] = ({"id": "gzip", "level": 6},)
# Bytes of a new shard's index for each chunk: a place and an entry, and what gzip adds to them.
_ENTRY_BYTES = 64


@dataclass(frozen=True)
class Scale:
    """One scale of a volume: an `ArraySpec`, and metadata that only precomputed has."""

    key: str
    frame: Frame
    dtype: np.dtype[Any]
    n_channels: int
    encoding: str
    sharding: Sharding | None
    kind: str
    space: Space
    headers: Mapping[str, Any]
    hidden: tuple[str, ...] = ()
    position: Position | None = None

    @property
    def stored_as(self) -> tuple[object, ...]:
        """Everything that determines the values: if it differs, it is another array."""
        described = (self.key, self.frame, self.dtype.str, self.n_channels)
        return (*described, self.encoding, self.sharding)

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of chunks."""
        return self.frame.present(self.frame.chunk, self.n_channels)

    @property
    def layout(self) -> Layout:
        """Order of the elements in a chunk: x is the fastest, then y, z and the channel."""
        axes = self.frame.axes
        return Layout(tuple(axes.index(axis) for axis in "czyx" if axis in axes))

    @cached_property
    def codec(self) -> TruncatingCodec:
        """How chunks are encoded."""
        is_gzipped = self.sharding is not None and self.sharding.data_encoding == GZIP
        return self._codec(is_gzipped=is_gzipped)

    @cached_property
    def gzipped(self) -> TruncatingCodec:
        """How chunks are encoded in files that are compressed as a whole."""
        return self._codec(is_gzipped=True)

    def _codec(self, *, is_gzipped: bool) -> TruncatingCodec:
        make: Callable[[int], SizedCodec]
        if self.encoding == RAW:
            make = partial(Chain, _GZIP if is_gzipped else (), self.dtype)
        else:
            channels = self.n_channels
            make = partial(ImageChunks, self.encoding, self.dtype, channels, is_gzipped=is_gzipped)
        # Room for files that are compressed as a whole, although the others are not.
        raw = prod(self.chunks) * self.dtype.itemsize
        return TruncatingCodec(make, self.chunks, self.dtype, self.layout, n_header=raw // 8 + 4096)

    @property
    def shard_box(self) -> tuple[int, ...] | None:
        """Chunks of a shard along x, y and z; None if shards are not boxes."""
        if self.sharding is None or self.sharding.hash != IDENTITY:
            return None
        bits = bits_of(self.frame.counts)
        n_bits = self.sharding.preshift_bits + self.sharding.minishard_bits
        if n_bits + self.sharding.shard_bits < sum(bits):
            return None
        return list(boxes(bits))[min(n_bits, sum(bits))]

    def spec(self, *, in_shards: bool = False) -> ArraySpec:
        """Describe the array; with `in_shards`, for files that are written as a unit."""
        frame = self.frame
        index = None
        if in_shards and self.shard_box is not None:
            counts = frame.present(self.shard_box, 1)
            index = ShardIndex(counts, (), at_end=True, entry_bytes=_ENTRY_BYTES)
        shape, chunks = frame.present(frame.size, self.n_channels), self.chunks
        return ArraySpec(
            Grid.regular(shape, chunks),
            self.dtype,
            self.layout,
            space=self.space,
            metadata=self.headers,
            codec=self.codec,
            stored_shape=chunks,
            fill_bytes=bytes(self.dtype.itemsize),
            index=index,
            truncates_edges=True,
        )

    def names(self) -> ChunkFileNames | ShardFileNames:
        """Return the names of the files that are written as a unit."""
        if self.sharding is None:
            return ChunkFileNames(self.key, self.frame)
        assert self.shard_box is not None, "only shards that are boxes have names by their index"
        return ShardFileNames(self.key, self.frame, self.sharding, self.shard_box)

    def described(self, spec: ArraySpec) -> dict[str, Any]:
        """Return the metadata of the array except grid, dtype and layout."""
        own = {} if self.kind == IMAGE else {OWN_HEADER: {"type": self.kind}}
        headers = {**headers_in(spec.metadata), **own}
        return {
            **spec.described,
            "chunks": self.chunks,
            "encoding": self.encoding,
            **({HEADERS: headers} if headers else {}),
            **({"hidden": self.hidden} if self.hidden else {}),
        }


def find_scale(info: Mapping[str, Any], wanted: str) -> Mapping[str, Any]:
    """Return the metadata of a scale, by its key or number; the only one if none is given.

    Raises
    ------
    ValueError
        If the metadata is invalid; the message completes "the file ...".
    LookupError
        If there is no such scale, or there are several; the message lists the keys.
    """
    scales = info.get("scales")
    if not isinstance(scales, list) or not 1 <= len(scales) <= _MOST_SCALES:
        raise ValueError(f"does not list 1 to {_MOST_SCALES} scales")
    keys = [_key_of(scale) for scale in scales]
    if wanted in keys:
        return scales[keys.index(wanted)]  # type: ignore[no-any-return]  # checked by `_key_of`
    is_number = wanted.isdecimal() and wanted.isascii() and len(wanted) < len(str(_MOST_SCALES)) + 1
    if is_number and int(wanted) < len(scales):
        return scales[int(wanted)]  # type: ignore[no-any-return]  # checked by `_key_of`
    if not wanted and len(scales) == 1:
        return scales[0]  # type: ignore[no-any-return]  # checked by `_key_of`
    raise LookupError(keys)


def _key_of(scale: object) -> str:
    """Return the key of a scale: the path of its directory in the volume."""
    key = scale.get("key") if isinstance(scale, dict) else None
    if not isinstance(key, str):
        raise ValueError("has a scale without a key")  # noqa: TRY004 - wrong data
    for part in key.split("/"):
        if part in {"", ".", ".."} or not part.isprintable() or "\\" in part:
            raise ValueError(f"has a scale with the key {key[:80]!r}, which leads elsewhere")
    return key


def read_scale(info: Mapping[str, Any], scale: Mapping[str, Any]) -> Scale:
    """Parse the metadata of a volume and one of its scales.

    Raises
    ------
    ValueError
        If it is invalid or not supported; the message completes "the file ...".
    """
    if info.get(TYPE, TYPE_NAME) != TYPE_NAME:
        raise ValueError("does not describe a volume")
    name, channels, kind = (info.get(key) for key in ("data_type", "num_channels", "type"))
    if not isinstance(name, str) or name.lower() not in _CODES:
        known = ", ".join(_CODES)
        raise ValueError(f"has data type {str(name)[:40]!r}, which is not supported; only {known}")
    if type(channels) is not int or not 1 <= channels <= _MOST_CHANNELS:
        raise ValueError(f"has a number of channels that is not 1 to {_MOST_CHANNELS}")
    dtype = np.dtype(f"<{_CODES[name.lower()]}")
    size = _integers(scale.get("size"), "size", range(_LONGEST))
    offset = _integers(scale.get("voxel_offset", [0, 0, 0]), "voxel_offset", _near())
    listed = scale.get("chunk_sizes")
    first = listed[0] if isinstance(listed, list) and listed else None
    chunk = _integers(first, "chunk_sizes", range(1, _LONGEST))
    if max(prod(size), prod(chunk)) * channels * dtype.itemsize > _MOST_BYTES:
        raise ValueError("has a scale or chunks that no machine can hold")
    encoding = scale.get("encoding")
    if not isinstance(encoding, str) or encoding not in ENCODINGS:
        known, shown = ", ".join(ENCODINGS), str(encoding)[:40]
        raise ValueError(f"has encoding {shown!r}, which is not supported; only {known}")
    ENCODINGS[encoding](dtype, channels)
    position = Position.read(scale.get("resolution"), offset)
    space, axes, headers, hidden = read_space(info, position, channels)
    found = scale.get("sharding")
    sharding = None if found is None else Sharding.from_json(found)
    frame = Frame(size, chunk, offset, axes)
    if sharding is not None and sum(bits_of(frame.counts)) > _MOST_NUMBER_BITS:
        raise ValueError("has shards with more chunks than can be numbered")
    return Scale(
        _key_of(scale),
        frame,
        dtype,
        channels,
        encoding,
        sharding,
        kind if kind in KINDS else IMAGE,
        space,
        headers,
        hidden,
        position,
    )


def _near() -> range:
    return range(-_FARTHEST, _FARTHEST)


def _integers(value: object, what: str, allowed: range) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) != 3:  # noqa: PLR2004 - x, y and z
        raise ValueError(f"has a scale without {what} for x, y and z")
    if any(type(n) is not int or n not in allowed for n in value):
        raise ValueError(f"has a scale with impossible {what}")
    return tuple(value)


def document_of(info: Mapping[str, Any], scale: Mapping[str, Any]) -> bytes:
    """Return the document of a volume that has only this scale."""
    return json.dumps({**info, "scales": [scale]}).encode()
