"""The attributes of an N5 dataset, as an `ArraySpec`; and those of a new one.

N5 lists axes fastest first. Here they are slowest first, as in z5py: the shape is the reverse of
N5's ``dimensions``, and elements are in C order. Elements are stored in big-endian byte order, and
presented as little-endian numbers.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import UsageError
from dask_io.formats.n5.attributes import read_space, write_space
from dask_io.formats.n5.compression import choose_compression, codec_maker, read_compression
from dask_io.geometry import Grid, Layout
from dask_io.stores.axis_scales import space_in
from dask_io.stores.header_parsing import dtype_name
from dask_io.stores.json_documents import parse_json
from dask_io.stores.kept_headers import HEADERS, headers_in
from dask_io.stores.orientation import hidden_from_others
from dask_io.stores.own_attribute import KEY, own_value, read_own
from dask_io.stores.space import includes
from dask_io.stores.spec import SPACE, ArraySpec
from dask_io.stores.truncated import TruncatingCodec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dask_io.codecs.codec import Config
    from dask_io.stores.container import NewArray
    from dask_io.stores.space import Space

DOCUMENT = "attributes.json"
VERSION_KEY, VERSION = "n5", "4.0.0"
"""Attribute of the root of a container, and its value in new containers."""
DIMENSIONS, BLOCK_SIZE, DATA_TYPE, COMPRESSION = (
    "dimensions",
    "blockSize",
    "dataType",
    "compression",
)
_OWN_KEYS = {DIMENSIONS, BLOCK_SIZE, DATA_TYPE, COMPRESSION, "compressionType", VERSION_KEY}
_TYPES = {
    **{f"{kind[0]}{n // 8}": f"{kind}{n}" for kind in ("uint", "int") for n in (8, 16, 32, 64)},
    "f4": "float32",
    "f8": "float64",
}
_CODES = {name: code for code, name in _TYPES.items()}
_MOST_AXES, _LONGEST_AXIS, _LONGEST_BLOCK = 64, 2**63, 2**31
_MOST_BYTES = 2**62
_MODE_AND_AXES = struct.Struct(">HH")
_NUMBERS = re.compile("(0|[1-9][0-9]{0,18})(/(0|[1-9][0-9]{0,18})){0,63}").fullmatch


@dataclass(frozen=True, slots=True)
class BlockNames:
    """Names of blocks: their indices, fastest axis first, as nested directories.

    Examples
    --------
    >>> BlockNames().name_of((3, 14)), BlockNames().parse("14/3"), BlockNames().parse("14/03")
    ('14/3', (3, 14), None)
    """

    def name_of(self, index: tuple[int, ...]) -> str:
        """Return the path of a block within its dataset."""
        return "/".join(map(str, reversed(index)))

    def parse(self, name: str) -> tuple[int, ...] | None:
        """Return the index of the block with this path, None if it is not the path of a block."""
        if not _NUMBERS(name):
            return None
        return tuple(map(int, reversed(name.split("/"))))


def could_be_block(name: str) -> bool:
    """Tell whether a path within a dataset could be that of a block."""
    return _NUMBERS(name) is not None


@dataclass(frozen=True)
class N5Dataset:
    """A dataset: an `ArraySpec`, and metadata that only N5 has."""

    spec: ArraySpec
    codec: TruncatingCodec
    compression: Config | None
    attributes: Mapping[str, Any]
    hidden: tuple[str, ...] = ()

    @property
    def stored_as(self) -> tuple[object, ...]:
        """Everything that determines the values: if it differs, it is another array."""
        spec = self.spec
        return spec.grid.shape, spec.chunks, spec.dtype, self.compression

    def described(self) -> dict[str, Any]:
        """Return the metadata of the array except grid, dtype and layout."""
        return {
            **self.spec.described,
            "chunks": self.spec.chunks,
            "codecs": [] if self.compression is None else [dict(self.compression)],
            "attributes": dict(self.attributes),
            **({"hidden": self.hidden} if self.hidden else {}),
        }

    def decode(
        self, shape: tuple[int, ...], data: NDArray[np.uint8], out: NDArray[np.uint8]
    ) -> None:
        """Decode a block whose own shape is known; it may also be stored in the full shape.

        Raises
        ------
        ValueError
            If its header contradicts this, or it cannot be decoded.
        """
        found, n_header = parse_header(data, len(shape))
        if found not in (shape, self.spec.chunks):
            stated, expected = (",".join(map(str, each)) for each in (found, shape))
            raise ValueError(f"has a header for a block of {stated} elements, expected {expected}")
        self.codec.decode_shape(found, data[n_header:], out)


def make_header(shape: tuple[int, ...]) -> bytes:
    """Return the header of a block: its mode, its number of axes, and its shape, fastest first."""
    return _MODE_AND_AXES.pack(0, len(shape)) + struct.pack(f">{len(shape)}I", *reversed(shape))


def parse_header(data: NDArray[np.uint8], n_axes: int) -> tuple[tuple[int, ...], int]:
    """Return the shape in the header of a block, and the length of the header.

    Raises
    ------
    ValueError
        If it is invalid, or of a kind of block that is not supported.
    """
    n_bytes = _MODE_AND_AXES.size + 4 * n_axes
    if data.nbytes < n_bytes:
        raise ValueError("is truncated: its header is incomplete")
    mode, found = _MODE_AND_AXES.unpack_from(data.data)
    if mode != 0:
        raise ValueError(f"has mode {mode}: blocks of varying length or objects are not supported")
    if found != n_axes:
        raise ValueError(f"has a header for {found} axes, but its dataset has {n_axes}")
    return struct.unpack_from(f">{n_axes}I", data.data, _MODE_AND_AXES.size)[::-1], n_bytes


def is_dataset(attributes: Mapping[str, Any] | None) -> bool:
    """Tell whether attributes are those of a dataset, not of a group."""
    return attributes is not None and DIMENSIONS in attributes


def understand(document: bytes) -> N5Dataset:
    """Parse the attributes of a dataset.

    Raises
    ------
    ValueError
        If they do not describe a supported array; the message completes "the file ...".
    """
    found = parse_json(document)
    shape = _lengths(found.get(DIMENSIONS), DIMENSIONS, range(_LONGEST_AXIS))
    chunks = _lengths(found.get(BLOCK_SIZE), BLOCK_SIZE, range(1, _LONGEST_BLOCK))
    if len(shape) != len(chunks):
        raise ValueError(f"has blocks of {len(chunks)} axes, but {len(shape)} dimensions")
    name = found.get(DATA_TYPE)
    if not isinstance(name, str) or name not in _CODES:
        known = ", ".join(_CODES)
        raise ValueError(f"has data type {str(name)[:40]!r}, which is not supported; only {known}")
    dtype = np.dtype(f"<{_CODES[name]}")
    if max(prod(chunks), prod(map(int, shape))) * dtype.itemsize > _MOST_BYTES:
        raise ValueError("has a shape or blocks that no machine can hold")
    compression = read_compression(found.get(COMPRESSION, found.get("compressionType")))
    layout, n_axes = Layout.c(len(shape)), len(shape)
    codec = TruncatingCodec(
        codec_maker(compression, dtype),
        chunks,
        dtype,
        layout,
        is_swapped=True,
        n_header=len(make_header(chunks)),
    )
    attributes = {key: value for key, value in found.items() if key not in _OWN_KEYS}
    space, headers, hidden = _take_space(attributes, n_axes)
    spec = ArraySpec(
        Grid.regular(shape, chunks),
        dtype,
        layout,
        space=space,
        metadata=headers,
        codec=codec,
        stored_shape=chunks,
        fill_bytes=bytes(dtype.itemsize),
        truncates_edges=True,
        encoding=("n5", shape, chunks, dtype, repr(compression)),
    )
    return N5Dataset(spec, codec, compression, attributes, hidden)


def _take_space(
    attributes: dict[str, Any], n_axes: int
) -> tuple[Space | None, dict[str, Any], tuple[str, ...]]:
    """Remove the attributes about axes and other formats, and return what they say."""
    space, used = read_space(attributes, n_axes)
    headers = dict(read_own(attributes.get(KEY), n_axes) or {})
    if headers:
        used.add(KEY)
    exact = headers.pop(SPACE, None)
    hidden: tuple[str, ...] = ()
    # Another tool may have changed the attributes since.
    if exact is not None and read_space(write_space(exact), n_axes)[0] == space:
        space = exact
        hidden = hidden_from_others(exact)
    for key in used:
        del attributes[key]
    return space, headers, hidden


def _lengths(value: object, what: str, allowed: range) -> tuple[int, ...]:
    """Return lengths in untrusted attributes, slowest axis first."""
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST_AXES:
        raise ValueError(f"does not list {what} of 1 to {_MOST_AXES} axes")
    if any(type(length) is not int or length not in allowed for length in value):
        least, most = allowed.start, allowed.stop
        raise ValueError(f"has {what} that are not whole numbers from {least} up to {most}")
    return tuple(reversed(value))


def describe_new(wanted: NewArray, *, is_root: bool) -> bytes:
    """Return the attributes of a new dataset.

    Raises
    ------
    UsageError
        If N5 cannot hold the array.
    """
    chunks = _chunks(wanted)
    try:
        name = dtype_name(wanted.dtype, _TYPES)
    except ValueError as error:
        raise UsageError(f"N5 {error}") from error
    made: dict[str, Any] = {VERSION_KEY: VERSION} if is_root else {}
    made |= {
        DIMENSIONS: list(reversed(wanted.grid.shape)),
        BLOCK_SIZE: list(reversed(chunks)),
        DATA_TYPE: name,
        COMPRESSION: choose_compression(wanted.options.codec, wanted.metadata.get("codecs", ())),
    }
    # What the space says comes last, in place of attributes that it was read from.
    document = _to_json({**_kept_attributes(wanted), **made, **_space_attributes(wanted)})
    try:
        understand(document)
    except ValueError as error:
        raise UsageError(f"N5 cannot hold the array: its metadata {error}") from error
    return document


def _kept_attributes(wanted: NewArray) -> dict[str, Any]:
    """Return the attributes of the source that JSON can hold."""
    found = wanted.metadata.get("attributes", {})
    return {key: value for key, value in found.items() if _is_json(value)}


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _space_attributes(wanted: NewArray) -> dict[str, Any]:
    n_axes = len(wanted.grid.axes)
    kept: dict[str, Any] = {HEADERS: headers_in(wanted.metadata)}
    space = space_in(wanted.metadata, n_axes)
    written = write_space(space)
    seen, _ = read_space(written, n_axes)
    if space.is_known and (seen is None or not includes(seen, space)):
        kept[SPACE] = space
    own = own_value(kept)
    return {**written, **({KEY: own} if own else {})}


def _to_json(attributes: Mapping[str, Any]) -> bytes:
    return json.dumps(attributes, indent=2).encode()


def _chunks(wanted: NewArray) -> tuple[int, ...]:
    lengths = [axis.chunk for axis in wanted.grid.axes]
    if None in lengths:
        raise UsageError(
            f"chunks of {wanted.grid} are uneven, which N5 cannot hold; "
            "give one length for each axis"
        )
    return tuple(length for length in lengths if length is not None)
