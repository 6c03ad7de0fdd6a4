"""The metadata documents of an array, as an `ArraySpec` and a record of Zarr's own fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Literal

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
    from dask_io.formats.zarr.fields import Fields

_LONGEST_CHUNK = 2**62
_ENDIANS: dict[str, Literal["<", ">"]] = {"little": "<", "big": ">"}


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
    fields = load(documents)
    problem = check_dtype(fields.dtype)
    if problem:
        raise ValueError(f"holds {problem}")
    if prod(fields.chunks) * fields.dtype.itemsize > _LONGEST_CHUNK:
        raise ValueError("has chunks that no machine can hold")
    return _from_v3(fields) if V3 in documents else _from_v2(fields)


def _make_spec(
    fields: Fields,
    dtype: np.dtype[Any],
    layout: Layout,
    codecs: tuple[Config, ...],
    index: ShardIndex | None = None,
) -> ArraySpec:
    """Describe an array; codecs that are not supported are refused now."""
    shape, chunks, fill = fields.shape, fields.chunks, _fill(fields, dtype)
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


def _from_v2(fields: Fields) -> ZarrArray:
    attributes = _attributes(fields)
    names = _names_in(attributes, len(fields.shape))
    if names is not None:
        del attributes[NAMES]
    layout = Layout.named(fields.order, len(fields.shape))
    return ZarrArray(
        _make_spec(fields, fields.dtype, layout, fields.codecs),
        version=2,
        codecs=fields.codecs,
        keys=Keys("", fields.separator),
        attributes=attributes,
        dimension_names=names,
        has_fill=fields.fill_value is not None,
    )


def _from_v3(fields: Fields) -> ZarrArray:
    index, codecs = None, list(fields.codecs)
    if codecs[0]["name"] == "sharding_indexed":
        if len(codecs) > 1:
            raise ValueError("has codecs after its sharding, which is not supported")
        sharding = codecs[0]["configuration"]
        index = _index(fields, sharding)
        codecs = list(sharding["codecs"])
    elif any(codec["name"] == "sharding_indexed" for codec in codecs):
        raise ValueError("has codecs before its sharding, which is not supported")
    layout, endian, configs = _split_codecs(codecs, len(fields.shape))
    dtype = fields.dtype.newbyteorder(endian) if endian else fields.dtype
    return ZarrArray(
        _make_spec(fields, dtype, layout, tuple(configs), index),
        version=3,
        codecs=tuple(configs),
        keys=Keys(fields.prefix, fields.separator),
        attributes=_attributes(fields),
        dimension_names=fields.dimension_names,
        extra_fields=fields.extra_fields,
    )


def _index(fields: Fields, sharding: Mapping[str, Any]) -> ShardIndex:
    layout, endian, configs = _split_codecs(list(sharding["index_codecs"]), len(fields.shape) + 1)
    if endian == ">" or layout != Layout.c(len(fields.shape) + 1):
        raise ValueError("has shards whose index is not in C order and little-endian")
    if any(config["id"] != "crc32c" for config in configs):
        raise ValueError("has shards whose index is compressed, which is not supported")
    pairs = zip(fields.shards or (), fields.chunks, strict=True)
    at_end = str(getattr(sharding["index_location"], "value", sharding["index_location"])) == "end"
    return ShardIndex(tuple(shard // chunk for shard, chunk in pairs), tuple(configs), at_end)


def _split_codecs(
    codecs: Sequence[Mapping[str, Any]], n_axes: int
) -> tuple[Layout, Literal["<", ">"] | None, list[dict[str, Any]]]:
    """Split the codecs of version 3 into the layout, the byte order and all others."""
    axes, configs = tuple(range(n_axes)), list[dict[str, Any]]()
    endian: Literal["<", ">"] | None = None
    is_transposed = is_serialized = has_filter = False
    for codec in codecs:
        name, configuration = codec["name"], dict(codec.get("configuration") or {})
        if name == "transpose":
            order = configuration["order"]
            axes, is_transposed = tuple(axes[axis] for axis in order), True
        elif name == "bytes":
            is_serialized = True
            word = configuration.get("endian")
            endian = _ENDIANS.get(str(getattr(word, "value", word)))
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


def _fill(fields: Fields, dtype: np.dtype[Any]) -> bytes:
    value = fields.fill_value
    fill = nothing_of(dtype) if value is None else np.array(value, dtype)
    if fill.shape:
        raise ValueError("has a fill value that is not one element")
    return fill.tobytes()


def nothing_of(dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the value of missing chunks if there is no fill value, as in zarr-python."""
    return np.array("NaT", dtype) if dtype.kind in "mM" else np.zeros((), dtype)


def _attributes(fields: Fields) -> dict[str, Any]:
    attributes = fields.attributes
    if not isinstance(attributes, dict):
        raise ValueError("has attributes that are not a JSON object")  # noqa: TRY004 - wrong data
    return dict(attributes)


def _names_in(attributes: Mapping[str, Any], n_axes: int) -> tuple[str | None, ...] | None:
    """Return the names that xarray puts among the attributes of version 2."""
    names = attributes.get(NAMES)
    if not isinstance(names, list) or len(names) != n_axes:
        return None
    return tuple(names) if all(isinstance(name, str | None) for name in names) else None
