"""The fields of an array's metadata, read and written here in the usual cases.

Usual are regular grids of booleans, integers and floats, with codecs that Zarr specifies. All else,
and whatever is invalid, is left to zarr-python, which takes a third of a second to import.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numcodecs  # type: ignore[import-untyped]
import numpy as np

from dask_io.codecs.registry import CODECS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.codecs.codec import Config

_KINDS = "biuf"
_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8)}
_TYPES = {np.dtype(f"{k}{size}").name: np.dtype(f"{k}{size}") for k in _KINDS for size in _SIZES[k]}
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_BYTES = {"endian": ("little", "big")}
# The parameters of codecs, all of which must be present, with their possible values.
_PARAMETERS: dict[str, dict[str, Sequence[Any]]] = {
    "zstd": {"level": range(-(2**17), 23), "checksum": (False, True)},
    "gzip": {"level": range(10)},
    "blosc": {
        "typesize": range(1, 256),
        "cname": ("lz4", "lz4hc", "blosclz", "zlib", "zstd"),
        "clevel": range(10),
        "shuffle": ("noshuffle", "shuffle", "bitshuffle"),
        "blocksize": range(2**31),
    },
    "crc32c": {},
}
_KEYS_OF_V3 = {
    *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding"),
    *("fill_value", "codecs", "attributes", "dimension_names", "storage_transformers"),
}
_KEYS_OF_V2 = {
    *("zarr_format", "shape", "chunks", "dtype", "fill_value", "order", "filters", "compressor"),
    "dimension_separator",
}
_INDEX_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


@dataclass(frozen=True, kw_only=True)
class Fields:
    """What the metadata documents of an array state.

    `codecs` are those of numcodecs in version 2, and those of the document in version 3.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    fill_value: Any
    codecs: tuple[Config, ...]
    separator: str
    attributes: Any
    order: str = "C"
    prefix: str = ""
    shards: tuple[int, ...] | None = None
    dimension_names: tuple[str | None, ...] | None = None
    extra_fields: Mapping[str, Any] = field(default_factory=dict)


def read_usual(document: Mapping[str, Any], attributes: Mapping[str, Any]) -> Fields | None:
    """Return the fields of a document with plausible shapes, None if it is unusual or invalid.

    `attributes` are those of version 2, which have a document of their own.
    """
    try:
        if document["zarr_format"] == 2:  # noqa: PLR2004 - of Zarr
            return _read_v2(document, attributes)
        return _read_v3(document)
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        return None


def _expect(condition: object) -> None:
    if not condition:
        raise ValueError("is unusual")


def _read_v2(document: Mapping[str, Any], attributes: Mapping[str, Any]) -> Fields:
    _expect(document.keys() <= _KEYS_OF_V2 and document["order"] in {"C", "F"})
    dtype = np.dtype(document["dtype"])
    _expect(dtype.name in _TYPES and dtype.str == document["dtype"])
    compressor = document["compressor"]
    filters = [] if document["filters"] is None else document["filters"]
    _expect(isinstance(filters, list))
    configs = [*filters, *([] if compressor is None else [compressor])]
    _expect(all(config["id"] in CODECS for config in configs))
    separator = document.get("dimension_separator", ".")
    _expect(separator in {".", "/"})
    fill = document["fill_value"]
    return Fields(
        shape=tuple(document["shape"]),
        chunks=tuple(document["chunks"]),
        dtype=dtype,
        fill_value=None if fill is None else _read_fill(fill, dtype),
        codecs=tuple(numcodecs.get_codec(dict(config)).get_config() for config in configs),
        separator=separator,
        attributes=attributes,
        order=document["order"],
    )


def _read_v3(document: Mapping[str, Any]) -> Fields:
    _expect(document.keys() <= _KEYS_OF_V3 and document["node_type"] == "array")
    _expect(document.get("storage_transformers", []) == [])
    shape, dtype, codecs = document["shape"], _TYPES[document["data_type"]], document["codecs"]
    grid, keys = document["chunk_grid"], document["chunk_key_encoding"]
    chunks, shards = _configured(grid, "regular", "chunk_shape"), None
    _expect(len(chunks) == len(shape))
    if codecs[0]["name"] == "sharding_indexed":
        _expect(len(codecs) == 1 and codecs[0].keys() == {"name", "configuration"})
        sharding, shards = codecs[0]["configuration"], chunks
        _expect(sharding.keys() == {"chunk_shape", "codecs", "index_codecs", "index_location"})
        _expect(sharding["index_location"] in {"start", "end"})
        _expect(sharding["index_codecs"] == _INDEX_CODECS)
        chunks = sharding["chunk_shape"]
        _expect(all(s % c == 0 for s, c in zip(shards, chunks, strict=True)))
        _check_codecs(sharding["codecs"], len(shape), dtype)
    else:
        _check_codecs(codecs, len(shape), dtype)
    name, names = keys["name"], document.get("dimension_names")
    separator = _configured(keys, name, "separator")
    _expect(name in {"default", "v2"} and separator in {".", "/"})
    if names is not None:
        _expect(type(names) is list and len(names) == len(shape))
        _expect(all(isinstance(each, str | None) for each in names))
    attributes = document.get("attributes", {})
    _expect(isinstance(attributes, dict))
    return Fields(
        shape=tuple(shape),
        chunks=tuple(chunks),
        shards=None if shards is None else tuple(shards),
        dtype=dtype,
        fill_value=_read_fill(document["fill_value"], dtype),
        codecs=tuple(codecs),
        prefix="c" if name == "default" else "",
        separator=separator,
        attributes=attributes,
        dimension_names=None if names is None else tuple(names),
    )


def _configured(named: Mapping[str, Any], name: str, key: str) -> Any:
    """Return the only parameter of a named configuration."""
    _expect(named.keys() == {"name", "configuration"} and named["name"] == name)
    _expect(named["configuration"].keys() == {key})
    return named["configuration"][key]


def _check_codecs(codecs: list[Mapping[str, Any]], n_axes: int, dtype: np.dtype[Any]) -> None:
    """Expect transpositions, `bytes` and specified compressors and checksums, in this order."""
    names = [codec["name"] for codec in codecs]
    serializer = names.index("bytes")
    for codec in codecs[:serializer]:
        order = _configured(codec, "transpose", "order")
        _expect(all(type(axis) is int for axis in order) and sorted(order) == [*range(n_axes)])
    _check_parameters(codecs[serializer], _BYTES if dtype.itemsize > 1 else {})
    for codec in codecs[serializer + 1 :]:
        _check_parameters(codec, _PARAMETERS[codec["name"]])


def _check_parameters(codec: Mapping[str, Any], known: Mapping[str, Sequence[Any]]) -> None:
    configuration = codec.get("configuration", {})
    _expect(codec.keys() <= {"name", "configuration"} and configuration.keys() == known.keys())
    for key, values in known.items():
        # In Python, True is 1.
        _expect(type(configuration[key]) is type(values[0]) and configuration[key] in values)


def _read_fill(value: object, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f" and isinstance(value, str):
        return _WORDS[value]
    known = {"b": (bool,), "f": (int, float)}.get(dtype.kind, (int,))
    _expect(type(value) in known)
    with np.errstate(all="ignore"):
        found = np.array(value, dtype)
    _expect(np.isfinite(found))
    return value


def write_usual(description: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the document that zarr-python would make, None if it is unusual or invalid.

    The arguments are those of `zarr.create_array`. The document of version 2 lacks the attributes.
    """
    try:
        fill = _write_fill(description["fill_value"], description["dtype"])
        make = _write_v2 if description["zarr_format"] == 2 else _write_v3  # noqa: PLR2004 - of Zarr
        # Tuples become lists.
        document: dict[str, Any] = json.loads(json.dumps(make(description, fill)))
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        return None
    return document if read_usual(document, {}) else None


def _write_v2(description: Mapping[str, Any], fill: Any) -> dict[str, Any]:
    compressor = description["compressors"] and description["compressors"].get_config()
    if compressor and compressor["id"] == "zstd" and not compressor["checksum"]:
        del compressor["checksum"]
    filters = description["filters"]
    return {
        "shape": description["shape"],
        "chunks": description["chunks"],
        "dtype": description["dtype"].str,
        "fill_value": fill,
        "order": description["order"],
        "filters": filters and [codec.get_config() for codec in filters],
        "dimension_separator": description["chunk_key_encoding"]["separator"],
        "compressor": compressor,
        "zarr_format": 2,
    }


def _write_v3(description: Mapping[str, Any], fill: Any) -> dict[str, Any]:
    chunks, shards = description["chunks"], description.get("shards")
    dtype, keys = description["dtype"], description["chunk_key_encoding"]
    plain = _named("bytes", endian="little") if dtype.itemsize > 1 else _named("bytes")
    behind = [_in_order(codec) for codec in description["compressors"] or ()]
    codecs = [*(description["filters"] or ()), description.get("serializer", plain), *behind]
    if shards is not None:
        inner = {"chunk_shape": chunks, "codecs": codecs, "index_codecs": _INDEX_CODECS}
        codecs = [_named("sharding_indexed", **inner, index_location="end")]
    names = description["dimension_names"]
    return {
        "shape": description["shape"],
        "data_type": dtype.name,
        "chunk_grid": _named("regular", chunk_shape=shards or chunks),
        "chunk_key_encoding": _named(keys["name"], separator=keys["separator"]),
        "fill_value": fill,
        "codecs": codecs,
        "attributes": description["attributes"],
        **({} if names is None else {"dimension_names": names}),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def _named(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name} | ({"configuration": configuration} if configuration else {})


def _in_order(codec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a codec with its parameters in zarr-python's order."""
    known = _PARAMETERS[codec["name"]]
    _check_parameters(codec, known)
    return _named(codec["name"], **{key: codec["configuration"][key] for key in known})


def _write_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as JSON; another NaN than that of NumPy is unusual."""
    if value is None:
        return None
    found = np.array(value, dtype)
    plain = found.item()
    if dtype.kind != "f" or math.isfinite(plain):
        return plain
    word = next(w for w, each in _WORDS.items() if repr(each) == repr(plain))
    _expect(np.array(_WORDS[word], dtype).tobytes() == found.tobytes())
    return word
