"""The metadata documents of an array, as an `ArraySpec` and a record of Zarr's own fields."""

from __future__ import annotations

from dataclasses import dataclass, field
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
from dask_io.stores.shards import ShardIndex
from dask_io.stores.spec import ArraySpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dask_io.codecs.codec import Config

_LONGEST_CHUNK = 2**62


@dataclass(frozen=True)
class ZarrArray:
    """A Zarr array: an `ArraySpec`, and metadata that only Zarr has."""

    spec: ArraySpec
    version: int
    codecs: tuple[Config, ...]
    keys: Keys
    attributes: Mapping[str, Any]
    dimension_names: tuple[str | None, ...] | None
    has_fill: bool = True
    extra_fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of other tools in the metadata document, which need not be understood."""

    @property
    def stored_as(self) -> tuple[object, ...]:
        """Everything that determines the values: if it differs, it is another array."""
        spec = self.spec
        described = (self.version, spec.grid.shape, spec.chunks, spec.dtype, spec.layout)
        return (*described, self.codecs, spec.fill_bytes, self.keys, spec.index)

    def has_chunk(self, name: str) -> bool:
        """Tell whether a path in the array is the name of a chunk or a shard."""
        index = self.keys.parse(name)
        return index is not None and index in self.spec.write_grid

    def described(self) -> dict[str, Any]:
        """Return the metadata of the array except grid, dtype and layout."""
        described = {
            "zarr_format": self.version,
            "chunks": self.spec.chunks,
            "shards": self.spec.shards,
            "codecs": [dict(config) for config in self.codecs],
            "fill_value": self.spec.fill[()] if self.has_fill else None,
            "chunk_key_encoding": {"prefix": self.keys.prefix, "separator": self.keys.separator},
            "dimension_names": self.dimension_names,
            "attributes": dict(self.attributes),
            "extra_fields": dict(self.extra_fields),
        }
        return take_own(described, len(self.spec.grid.axes))


def understand(documents: Mapping[str, bytes]) -> ZarrArray:
    """Parse the metadata documents of an array.

    Raises
    ------
    ValueError
        If they do not describe a supported array; the message completes "the file ...".
    """
    array = load(documents)
    problem = check_dtype(array.dtype)
    if problem:
        raise ValueError(f"holds {problem}")
    if prod(array.chunks) * array.dtype.itemsize > _LONGEST_CHUNK:
        raise ValueError("has chunks that no machine can hold")
    return _from_v3(array) if V3 in documents else _from_v2(array)


def _make_spec(
    array: Any,
    dtype: np.dtype[Any],
    layout: Layout,
    codecs: tuple[Config, ...],
    index: ShardIndex | None = None,
) -> ArraySpec:
    """Describe an array; codecs that are not supported are refused now."""
    shape, chunks, fill = array.shape, array.chunks, _fill(array, dtype)
    chain = Chain(codecs, dtype, prod(chunks) * dtype.itemsize)
    is_addressed = index is None and not codecs
    if index is not None:
        _ = index.chain
    return ArraySpec(
        Grid.regular(shape, chunks),
        dtype,
        layout,
        codec=chain if codecs else None,
        stored_shape=chunks,
        fill_bytes=fill,
        index=index,
        omits_fill=True,
        encoding=None if is_addressed else (shape, chunks, index, dtype, layout, codecs, fill),
    )


def _from_v2(array: Any) -> ZarrArray:
    metadata = array.metadata
    codecs = [*(metadata.filters or ()), *([metadata.compressor] if metadata.compressor else [])]
    attributes = _attributes(array)
    names = _names_in(attributes, len(array.shape))
    if names is not None:
        del attributes[NAMES]
    configs = tuple(codec.get_config() for codec in codecs)
    layout = Layout.named(metadata.order, len(array.shape))
    return ZarrArray(
        _make_spec(array, array.dtype, layout, configs),
        version=2,
        codecs=configs,
        keys=Keys("", metadata.dimension_separator),
        attributes=attributes,
        dimension_names=names,
        has_fill=metadata.fill_value is not None,
    )


def _from_v3(array: Any) -> ZarrArray:
    metadata, index = array.metadata, None
    codecs = [codec.to_dict() for codec in metadata.codecs]
    if codecs[0]["name"] == "sharding_indexed":
        if len(codecs) > 1:
            raise ValueError("has codecs after its sharding, which is not supported")
        sharding = codecs[0]["configuration"]
        index = _index(array, sharding)
        codecs = list(sharding["codecs"])
    elif any(codec["name"] == "sharding_indexed" for codec in codecs):
        raise ValueError("has codecs before its sharding, which is not supported")
    layout, endian, configs = _split_codecs(codecs, len(array.shape))
    dtype = array.dtype.newbyteorder(endian) if endian else array.dtype
    encoding = metadata.chunk_key_encoding
    return ZarrArray(
        _make_spec(array, dtype, layout, tuple(configs), index),
        version=3,
        codecs=tuple(configs),
        keys=Keys("c" if encoding.name == "default" else "", encoding.separator),
        attributes=_attributes(array),
        dimension_names=metadata.dimension_names,
        extra_fields=metadata.extra_fields,
    )


def _index(array: Any, sharding: Mapping[str, Any]) -> ShardIndex:
    layout, endian, configs = _split_codecs(list(sharding["index_codecs"]), len(array.shape) + 1)
    if endian == ">" or layout != Layout.c(len(array.shape) + 1):
        raise ValueError("has shards whose index is not in C order and little-endian")
    if any(config["id"] != "crc32c" for config in configs):
        raise ValueError("has shards whose index is compressed, which is not supported")
    pairs = zip(array.shards, array.chunks, strict=True)
    at_end = str(getattr(sharding["index_location"], "value", sharding["index_location"])) == "end"
    return ShardIndex(tuple(shard // chunk for shard, chunk in pairs), tuple(configs), at_end)


def _split_codecs(
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
    """Return the value of missing chunks if there is no fill value, as in zarr-python."""
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
