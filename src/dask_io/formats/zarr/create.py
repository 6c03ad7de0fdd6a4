"""The metadata of a new array: what is asked for, and what is kept of the source."""

from __future__ import annotations

from dataclasses import replace
from math import gcd, prod
from typing import TYPE_CHECKING, Any

import numcodecs  # type: ignore[import-untyped]

from dask_io.codecs.chain import CHECKSUMS, Chain, is_lossless
from dask_io.codecs.spelling import parse_codec
from dask_io.errors import UsageError
from dask_io.formats.zarr.documents import add_fields, make_array_documents
from dask_io.formats.zarr.metadata import SHUFFLES, nothing_of, understand
from dask_io.stores.block_files import order_of
from dask_io.stores.cf_attributes import FILL_VALUE, NAMES, encoded, gap_of
from dask_io.stores.dtypes import check_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from dask_io.codecs.chain import Config
    from dask_io.formats.zarr.metadata import Metadata
    from dask_io.stores.container import Wanted

_NEWEST = 3
_VERSIONS = (2, _NEWEST)
# Codecs of version 3's own; all others of numcodecs are named with its prefix.
_OWN = frozenset({"blosc", "zstd", "gzip", "crc32c"})
_ARRAY_FILTERS = frozenset({"delta", "packbits"})


def describe_new(wanted: Wanted) -> dict[str, bytes]:
    """Return the documents of an array that is to be made.

    Raises
    ------
    UsageError
        If Zarr cannot hold the array, or cannot honour a wish.
    """
    wishes, source = wanted.wishes, wanted.metadata
    version = wishes.format_version or source.get("zarr_format") or _NEWEST
    if version not in _VERSIONS:
        raise UsageError(f"version {version} of Zarr is not known; give 2 or 3")
    wanted = _with_gaps(wanted, version)
    problem = check_dtype(wanted.dtype)
    if problem:
        raise UsageError(f"a target cannot hold {problem}")
    chunks = _chunks(wanted)
    try:
        codecs = _codecs(wanted)
    except ValueError as error:
        raise UsageError(f"the source {error}; choose a codec, such as zstd:3") from error
    description: dict[str, Any] = {
        "shape": wanted.grid.shape,
        "dtype": wanted.dtype,
        "chunks": chunks,
        "fill_value": _fill_value(wanted, version),
        "zarr_format": version,
    }
    make = _for_v3 if version == _NEWEST else _for_v2
    try:
        documents = make_array_documents(**description, **make(wanted, codecs, chunks))
        if version == _NEWEST:
            documents = add_fields(documents, source.get("extra_fields", {}))
        made = understand(documents)
    except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
        said = " ".join(str(error).split())[:200]
        filters = [each["id"] for each in codecs if each["id"] in _ARRAY_FILTERS]
        if filters and wishes.codec is None:
            said += f"; choose a codec in place of the source's {filters[0]}, say zstd:3"
        raise UsageError(
            f"Zarr {version} cannot hold an array of {wanted.dtype}: {said}"
        ) from error
    _check_held(made, wanted, codecs)
    return documents


def _with_gaps(wanted: Wanted, version: int) -> Wanted:
    """Have the value that stands for a gap where this version has it, if the source is no Zarr."""
    said = wanted.metadata
    gap = None if "zarr_format" in said else gap_of(said, wanted.dtype)
    if gap is None and "netcdf" in said and version != _NEWEST:
        # What is not stored has a value in NetCDF that is none for gaps.
        return replace(wanted, metadata={**said, "fill_value": None})
    if gap is None:
        return wanted
    attributes = {name: each for name, each in said["attributes"].items() if name != FILL_VALUE}
    if version == _NEWEST:
        attributes[FILL_VALUE] = encoded(gap, wanted.dtype)
        return replace(wanted, metadata={**said, "attributes": attributes})
    return replace(wanted, metadata={**said, "attributes": attributes, "fill_value": gap})


def _chunks(wanted: Wanted) -> tuple[int, ...]:
    lengths = [axis.chunk for axis in wanted.grid.axes]
    if None in lengths:
        raise UsageError(
            f"chunks of {wanted.grid} are uneven, which Zarr cannot hold; "
            "give one length for each axis"
        )
    return tuple(length for length in lengths if length is not None)


def choose_codecs(text: str) -> list[Config]:
    """Read the codecs that are asked for.

    Raises
    ------
    UsageError
        If Zarr has no such.
    """
    try:
        return list(parse_codec(text))
    except ValueError as error:
        raise UsageError(f"codec {error}") from error


def _codecs(wanted: Wanted) -> list[Config]:
    """Return the codecs asked for, or else the source's."""
    if wanted.wishes.codec is not None:
        return choose_codecs(wanted.wishes.codec)
    kept: Sequence[Config] = wanted.metadata.get("codecs", ())
    for config in kept:
        if not is_lossless(config, wanted.dtype):
            raise UsageError(
                f"the source's codec {config['id']} would change values if they were encoded "
                "again, or Zarr has none like it; choose a codec, such as zstd:3 or none"
            )
    return _fitting(kept, wanted)


def _fitting(codecs: Sequence[Config], wanted: Wanted) -> list[Config]:
    """Have filters shuffle elements that fill what they are given, as numcodecs demands."""
    itemsize = wanted.dtype.itemsize
    if not any(config["id"] == "shuffle" for config in codecs):
        return list(codecs)
    sizes = Chain(codecs, wanted.dtype, prod(_chunks(wanted)) * itemsize).sizes
    return [
        config
        if config["id"] != "shuffle" or n_bytes % config.get("elementsize", 4) == 0
        else {**config, "elementsize": gcd(n_bytes, itemsize)}
        for config, n_bytes in zip(codecs, sizes, strict=False)
    ]


def _fill_value(wanted: Wanted, version: int) -> Any:
    given = wanted.wishes.fill_value, wanted.metadata.get("fill_value", 0)
    if given != (None, None):
        return wanted.fill_value
    # Of version 2 there are arrays without one: to some readers 0 would mean "missing".
    return None if version < _NEWEST else nothing_of(wanted.dtype)[()]


def _for_v2(wanted: Wanted, codecs: Sequence[Config], chunks: tuple[int, ...]) -> dict[str, Any]:
    if wanted.wishes.shards is not None:
        raise UsageError("Zarr 2 has no shards; leave them out, or ask for version 3")
    if wanted.layout.name not in {"C", "F"} and max(chunks) > 1:
        raise UsageError(
            f"Zarr 2 stores chunks in C or F order, not with the axes {wanted.layout.name}"
        )
    attributes = dict(wanted.metadata.get("attributes", {}))
    names = wanted.metadata.get("dimension_names")
    if names:
        attributes[NAMES] = list(names)
    made = [numcodecs.get_codec(dict(config)) for config in codecs]
    has_compressor = bool(codecs) and codecs[-1]["id"] not in _ARRAY_FILTERS | {"shuffle"}
    return {
        "order": "F" if wanted.layout.name == "F" else "C",
        "filters": made[: len(made) - has_compressor] or None,
        "compressors": made[-1] if has_compressor else None,
        "attributes": attributes,
        "chunk_key_encoding": {"name": "v2", "separator": _kept_keys(wanted).get("separator", ".")},
    }


def _for_v3(wanted: Wanted, codecs: Sequence[Config], chunks: tuple[int, ...]) -> dict[str, Any]:
    in_front = [config for config in codecs if config["id"] in _ARRAY_FILTERS]
    behind = [config for config in codecs if config["id"] not in _ARRAY_FILTERS]
    axes = wanted.layout.axes
    transpose = [] if axes == tuple(sorted(axes)) else [_named("transpose", order=axes)]
    keys = _kept_keys(wanted)
    description = {
        "filters": [*map(_as_v3, in_front), *transpose] or None,
        "compressors": [_as_v3(config, wanted.dtype) for config in behind] or None,
        "attributes": dict(wanted.metadata.get("attributes", {})),
        "dimension_names": wanted.metadata.get("dimension_names"),
        "chunk_key_encoding": {
            "name": "default" if keys.get("prefix", "c") else "v2",
            "separator": keys.get("separator", "/"),
        },
    }
    if wanted.dtype.str.startswith(">"):
        description["serializer"] = _named("bytes", endian="big")
    if wanted.wishes.shards is not None:
        description["shards"] = _shards(wanted.wishes.shards, chunks, wanted.grid.shape)
    return description


def _shards(
    shards: tuple[int, ...], chunks: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the shards' lengths, where -1 is the fewest chunks that hold the whole axis.

    Where one chunk does, which has been clipped to the axis, a shard is clipped, too.
    """
    if len(shards) == len(chunks):
        each = zip(shards, chunks, shape, strict=True)
        whole = tuple(max(1, -(-n // c)) * c if s == -1 or s >= n == c else s for s, c, n in each)
        if all(s > 0 and s % c == 0 for s, c in zip(whole, chunks, strict=True)):
            return whole
    raise UsageError(f"shards of {_times(shards)} are not made of whole chunks of {_times(chunks)}")


def _times(lengths: Sequence[int]) -> str:
    return " x ".join(map(str, lengths))


def _kept_keys(wanted: Wanted) -> Mapping[str, str]:
    """Return how the source names its chunks, or nothing if it is of another version."""
    version = wanted.metadata.get("zarr_format")
    is_kept = (wanted.wishes.format_version or version) == version
    return wanted.metadata.get("chunk_key_encoding", {}) if is_kept else {}


def _named(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def _as_v3(config: Config, dtype: np.dtype[Any] | None = None) -> dict[str, Any]:
    """Write a codec of numcodecs as version 3 does."""
    name = config["id"]
    parameters = {key: value for key, value in config.items() if key != "id"}
    if name == "blosc":
        words = {number: word for word, number in SHUFFLES.items()}
        shuffle = parameters.get("shuffle", 1)
        # Blosc itself decides on -1: bits for single bytes, bytes for larger elements.
        itemsize = dtype.itemsize if dtype is not None else 1
        number = shuffle if shuffle in words else (2 if itemsize == 1 else 1)
        parameters |= {"shuffle": words[number], "typesize": itemsize}
        return _named("blosc", **{"cname": "lz4", "clevel": 5, "blocksize": 0} | parameters)
    if name == "zstd":
        parameters = {"level": 0, "checksum": False} | parameters
    if name == "gzip":
        parameters = {"level": 1} | parameters
    is_own = name in _OWN and not (name in CHECKSUMS and parameters)
    return _named(name if is_own else f"numcodecs.{name}", **parameters)


def _check_held(made: Metadata, wanted: Wanted, codecs: Sequence[Config]) -> None:
    """Hold what zarr-python made of it against what was asked for."""
    longest = wanted.grid.longest
    found: list[tuple[str, object, object]] = [
        ("dtype", made.dtype, wanted.dtype),
        ("chunks", made.read_grid, wanted.grid),
        ("order", order_of(made.layout, longest), order_of(wanted.layout, longest)),
        ("codecs", [c["id"] for c in made.codecs], [c["id"] for c in codecs]),
    ]
    for word, is_held, asked in found:
        if is_held != asked:
            raise UsageError(
                f"Zarr {made.version} cannot hold {word} {asked}: it becomes {is_held}"
            )
