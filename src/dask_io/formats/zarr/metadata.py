"""What an array's documents say, in the words of stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.codecs.chain import Chain
from dask_io.codecs.registry import CODECS
from dask_io.formats.zarr.documents import V3, load
from dask_io.formats.zarr.keys import Keys
from dask_io.geometry import Grid, Layout
from dask_io.stores.cf_attributes import NAMES
from dask_io.stores.dtypes import check_dtype
from dask_io.stores.own_attribute import take_own
from dask_io.stores.padded import any_padded
from dask_io.stores.store import Access

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dask_io.codecs.codec import Config

_LONGEST_CHUNK = 2**62


@dataclass(frozen=True)
class Index:
    """Where a shard says where its chunks are: at its start or end, encoded by these codecs."""

    counts: tuple[int, ...]
    codecs: tuple[Config, ...]
    at_end: bool

    def shard_of(self, chunk: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shard that a chunk is in."""
        return tuple(i // n for i, n in zip(chunk, self.counts, strict=True))

    @property
    def dtype(self) -> np.dtype[Any]:
        """An offset and a size for each chunk."""
        return np.dtype("<u8")

    @cached_property
    def chain(self) -> Chain:
        """How it is encoded."""
        return Chain(self.codecs, self.dtype, 16 * prod(self.counts))


@dataclass(frozen=True)
class Metadata:
    """A Zarr array: what it holds, how it is cut, and how its chunks are stored.

    `chunks` is what is decoded at once. `shards` is what is one file, if that holds several.
    """

    version: int
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout
    codecs: tuple[Config, ...]
    fill_bytes: bytes
    """Value of what is not stored; no array, of which pickles may change the byte order."""
    keys: Keys
    index: Index | None
    attributes: Mapping[str, Any]
    dimension_names: tuple[str | None, ...] | None
    has_fill: bool = True
    extra_fields: Mapping[str, Any] = field(default_factory=dict)
    """What others have put into its document that need not be understood."""

    @property
    def fill(self) -> NDArray[Any]:
        """The value of what is not stored."""
        return np.frombuffer(self.fill_bytes, self.dtype).reshape(())

    @property
    def shards(self) -> tuple[int, ...] | None:
        """The shape of what is one file, if that holds several chunks."""
        if self.index is None:
            return None
        return tuple(n * c for n, c in zip(self.index.counts, self.chunks, strict=True))

    @cached_property
    def read_grid(self) -> Grid:
        """What is read at once."""
        return Grid.regular(self.shape, self.chunks)

    @cached_property
    def write_grid(self) -> Grid:
        """What is written at once."""
        return Grid.regular(self.shape, self.shards or self.chunks)

    @cached_property
    def chain(self) -> Chain:
        """How a chunk is encoded."""
        return Chain(self.codecs, self.dtype, self.chunk_bytes)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk's elements."""
        return prod(self.chunks) * self.dtype.itemsize

    @property
    def file_bytes(self) -> int:
        """Bytes that a file has at most: that of a chunk, or of a shard with its index."""
        if self.index is None:
            return self.chain.longest
        return prod(self.index.counts) * self.chain.longest + self.index.chain.longest

    @property
    def access(self) -> Access:
        """Whether a part of a chunk can be read alone."""
        return Access.ATOMIC if self.codecs else Access.ADDRESSABLE

    @property
    def has_padding(self) -> bool:
        """Whether some chunk has padding between its elements."""
        return any_padded(self.read_grid, self.chunks, self.layout)

    @property
    def stored_as(self) -> tuple[object, ...]:
        """All that says which values files hold: what differs in it is another array."""
        described = (self.version, self.shape, self.chunks, self.dtype, self.layout, self.codecs)
        return (*described, self.fill_bytes, self.keys, self.index)

    def has_chunk(self, name: str) -> bool:
        """Tell whether a path within the array is that of a chunk, or of a shard."""
        index, counts = self.keys.parse(name), self.write_grid.counts
        if index is None or len(index) != len(counts):
            return False
        return all(i < n for i, n in zip(index, counts, strict=True))

    def described(self) -> dict[str, Any]:
        """Return what a store says about the array besides grid, dtype and layout."""
        described = {
            "zarr_format": self.version,
            "chunks": self.chunks,
            "shards": self.shards,
            "codecs": [dict(config) for config in self.codecs],
            "fill_value": self.fill[()] if self.has_fill else None,
            "chunk_key_encoding": {"prefix": self.keys.prefix, "separator": self.keys.separator},
            "dimension_names": self.dimension_names,
            "attributes": dict(self.attributes),
            "extra_fields": dict(self.extra_fields),
        }
        return take_own(described, len(self.shape))


def understand(documents: Mapping[str, bytes]) -> Metadata:
    """Make sense of an array's documents.

    Raises
    ------
    ValueError
        If there is none, or none that is supported; the message completes "the file ...".
    """
    array = load(documents)
    problem = check_dtype(array.dtype)
    if problem:
        raise ValueError(f"holds {problem}")
    if prod(array.chunks) * array.dtype.itemsize > _LONGEST_CHUNK:
        raise ValueError("has chunks that no machine can hold")
    made = _from_v3(array) if V3 in documents else _from_v2(array)
    # Codecs that are not supported show now, not at the first chunk.
    _ = made.chain, made.index and made.index.chain
    return made


def _from_v2(array: Any) -> Metadata:
    metadata = array.metadata
    codecs = [*(metadata.filters or ()), *([metadata.compressor] if metadata.compressor else [])]
    attributes = _attributes(array)
    names = _names_in(attributes, len(array.shape))
    if names is not None:
        del attributes[NAMES]
    return Metadata(
        version=2,
        shape=array.shape,
        chunks=array.chunks,
        dtype=array.dtype,
        layout=Layout.named(metadata.order, len(array.shape)),
        codecs=tuple(codec.get_config() for codec in codecs),
        fill_bytes=_fill(array, array.dtype),
        keys=Keys("", metadata.dimension_separator),
        index=None,
        attributes=attributes,
        dimension_names=names,
        has_fill=metadata.fill_value is not None,
    )


def _from_v3(array: Any) -> Metadata:
    metadata, index = array.metadata, None
    codecs = [codec.to_dict() for codec in metadata.codecs]
    if codecs[0]["name"] == "sharding_indexed":
        if len(codecs) > 1:
            raise ValueError("has codecs behind its sharding, which is not supported")
        sharding = codecs[0]["configuration"]
        index = _index(array, sharding)
        codecs = list(sharding["codecs"])
    elif any(codec["name"] == "sharding_indexed" for codec in codecs):
        raise ValueError("has codecs before its sharding, which is not supported")
    layout, endian, configs = _take_apart(codecs, len(array.shape))
    dtype = array.dtype.newbyteorder(endian) if endian else array.dtype
    encoding = metadata.chunk_key_encoding
    return Metadata(
        version=3,
        shape=array.shape,
        chunks=array.chunks,
        dtype=dtype,
        layout=layout,
        codecs=tuple(configs),
        fill_bytes=_fill(array, dtype),
        keys=Keys("c" if encoding.name == "default" else "", encoding.separator),
        index=index,
        attributes=_attributes(array),
        dimension_names=metadata.dimension_names,
        extra_fields=metadata.extra_fields,
    )


def _index(array: Any, sharding: Mapping[str, Any]) -> Index:
    layout, endian, configs = _take_apart(list(sharding["index_codecs"]), len(array.shape) + 1)
    if endian == ">" or layout != Layout.c(len(array.shape) + 1):
        raise ValueError("has shards whose index is not in C order and little-endian")
    if any(config["id"] != "crc32c" for config in configs):
        raise ValueError("has shards whose index is compressed, which is not supported")
    pairs = zip(array.shards, array.chunks, strict=True)
    at_end = str(getattr(sharding["index_location"], "value", sharding["index_location"])) == "end"
    return Index(tuple(shard // chunk for shard, chunk in pairs), tuple(configs), at_end)


def _take_apart(
    codecs: Sequence[Mapping[str, Any]], n_axes: int
) -> tuple[Layout, str | None, list[dict[str, Any]]]:
    """Split the codecs of version 3 into the layout, the byte order and all others."""
    axes, endian, configs = tuple(range(n_axes)), None, list[dict[str, Any]]()
    is_transposed = is_serialized = has_filter = False
    for codec in codecs:
        name, configuration = codec["name"], dict(codec.get("configuration") or {})
        if name == "transpose":
            order = configuration["order"]
            axes, is_transposed = tuple(axes[axis] for axis in order), True
        elif name == "bytes":
            is_serialized = True
            word = configuration.get("endian")
            endian = {"little": "<", "big": ">"}.get(str(getattr(word, "value", word)))
        else:
            configs.append(_as_numcodecs(name, configuration))
            has_filter |= not is_serialized
    if not is_serialized:
        raise ValueError("has no codec bytes, and another in its place is not supported")
    if has_filter and (is_transposed or endian == ">"):
        raise ValueError("has filters on transposed or big-endian elements: not supported")
    return Layout(axes), endian, configs


def _as_numcodecs(name: str, configuration: dict[str, Any]) -> dict[str, Any]:
    """Write a codec of version 3 as numcodecs does."""
    short = name.removeprefix("numcodecs.")
    if short != name:
        configuration.pop("id", None)
        return {"id": short, **configuration}
    codec = CODECS.get(name)
    if codec is None or codec.zarr3 is None:
        raise ValueError(f"has codec {name}, which is not supported")
    return {"id": name, **codec.zarr3.read(configuration)}


def _fill(array: Any, dtype: np.dtype[Any]) -> bytes:
    value = array.metadata.fill_value
    fill = nothing_of(dtype) if value is None else np.array(value, dtype)
    if fill.shape:
        raise ValueError("has a fill value that is not one element")
    return fill.tobytes()


def nothing_of(dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return what is read of what is not stored if there is no fill value, as by zarr-python."""
    return np.array("NaT", dtype) if dtype.kind in "mM" else np.zeros((), dtype)


def _attributes(array: Any) -> dict[str, Any]:
    attributes = array.metadata.attributes
    if not isinstance(attributes, dict):
        raise ValueError("has attributes that are not a JSON object")  # noqa: TRY004 - wrong data
    return dict(attributes)


def _names_in(attributes: Mapping[str, Any], n_axes: int) -> tuple[str | None, ...] | None:
    """Return the names that xarray puts among the attributes of version 2."""
    names = attributes.get(NAMES)
    if not isinstance(names, list) or len(names) != n_axes:
        return None
    return tuple(names) if all(isinstance(name, str | None) for name in names) else None
