"""The document of a new volume, from the user's options and the metadata of the source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.formats.precomputed.encodings import RAW
from dask_io.formats.precomputed.names import Frame
from dask_io.formats.precomputed.sharding import GZIP, bits_of, boxes, sharding_of
from dask_io.formats.precomputed.space import Position, choose_axes, own_entry
from dask_io.formats.precomputed.volume import (
    IMAGE,
    KINDS,
    OWN_HEADER,
    TYPE,
    TYPE_NAME,
    TYPES,
    find_scale,
    read_scale,
)
from dask_io.stores.header_parsing import dtype_name
from dask_io.stores.kept_headers import header_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.stores.container import NewArray


def describe_new(wanted: NewArray) -> tuple[bytes, str]:
    """Return the document of a new volume, and its axes if they were inferred.

    Raises
    ------
    UsageError
        If a volume cannot hold the array, or does not support an option.
    """
    letters, space, is_inferred = choose_axes(wanted)
    try:
        name = dtype_name(wanted.dtype, TYPES)
    except ValueError as error:
        raise UsageError(f"a precomputed volume {error}") from error
    shape, chunks = wanted.grid.shape, _chunks(wanted)
    n_channels = shape[letters.index("c")] if "c" in letters else 1
    if "c" in letters and chunks[letters.index("c")] < n_channels:
        raise UsageError("precomputed chunks have all channels; give -1 as chunk along that axis")
    position = Position.of(space, letters)
    frame = Frame(_xyz(shape, letters), _xyz(chunks, letters), position.offset, letters)
    scale: dict[str, Any] = {
        "key": "_".join(map(_number, position.resolution)),
        "size": list(frame.size),
        "resolution": [int(n) if n == int(n) else n for n in position.resolution],
        "voxel_offset": list(frame.offset),
        "chunk_sizes": [list(frame.chunk)],
        "encoding": RAW,
    }
    encoding = _data_encoding(wanted)
    if wanted.options.shards is not None:
        scale["sharding"] = _sharding(wanted, frame, encoding)
    kind = header_in(wanted.metadata, OWN_HEADER)
    info = {
        TYPE: TYPE_NAME,
        "type": kind["type"] if isinstance(kind, dict) and kind.get("type") in KINDS else IMAGE,
        "data_type": name,
        "num_channels": n_channels,
        "scales": [scale],
        **own_entry(wanted, space, letters, n_channels),
    }
    document = json.dumps(info, indent=2).encode()
    try:
        made = read_scale(info, find_scale(info, ""))
    except ValueError as error:
        raise UsageError(f"a precomputed volume cannot hold the array: it {error}") from error
    assert made.frame.axes == letters, "a new volume presents its axes in the source's order"
    return document, ", ".join(letters) if is_inferred else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _xyz(presented: Sequence[int], letters: str) -> tuple[int, ...]:
    return tuple(presented[letters.index(letter)] for letter in "xyz")


def _chunks(wanted: NewArray) -> tuple[int, ...]:
    lengths = [axis.chunk for axis in wanted.grid.axes]
    if None in lengths:
        raise UsageError(
            f"chunks of {wanted.grid} are uneven, which a precomputed volume cannot hold; "
            "give one length for each axis"
        )
    return tuple(length for length in lengths if length is not None)


def _data_encoding(wanted: NewArray) -> str:
    """Return the encoding of chunks in shards; chunks in their own files are always raw."""
    codec, shards = wanted.options.codec, wanted.options.shards
    if codec is None:
        return GZIP if shards is not None else RAW
    if codec == "none":
        return RAW
    if codec != GZIP:
        raise UsageError(
            f"codec '{codec}' is not one that precomputed volumes have; choose none or gzip"
        )
    if shards is None:
        raise UsageError(
            "precomputed chunks that are not in shards are raw; leave out the codec, or give "
            "shards with --shards"
        )
    return GZIP


def _sharding(wanted: NewArray, frame: Frame, encoding: str) -> dict[str, Any]:
    """Return the sharding whose shards have the shape that the user asked for.

    Raises
    ------
    UsageError
        If shards cannot have this shape; the message contains one that they can have.
    """
    assert wanted.options.shards is not None
    shards = _xyz(wanted.options.shards, frame.axes)
    asked = [-(-n // c) for n, c in zip(shards, frame.chunk, strict=True)]
    bits = bits_of(frame.counts)
    known = list(boxes(bits))
    for box in known:
        fields = zip(box, asked, frame.counts, shards, frame.chunk, strict=True)
        # A shard that covers all of an axis may be longer.
        if all(
            (n == m and length % chunk == 0) or min(n, m) >= count
            for n, m, count, length, chunk in fields
        ):
            return sharding_of(box, bits, encoding).to_json()
    nearest = min(known, key=lambda box: sum(abs(n - m) for n, m in zip(box, asked, strict=True)))
    fits = tuple(n * chunk for n, chunk in zip(nearest, frame.chunk, strict=True))
    n_channels = wanted.options.shards[frame.axes.index("c")] if "c" in frame.axes else 1
    shown = ",".join(map(str, frame.present(fits, n_channels)))
    raise UsageError(
        f"shards of {','.join(map(str, wanted.options.shards))} do not follow the numbers of "
        f"chunks, which interleave the axes; give shards of {shown} instead"
    )
