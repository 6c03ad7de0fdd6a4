"""The metadata of a new array, from the user's options and the metadata of the source."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numcodecs  # type: ignore[import-untyped]

from dask_io.codecs.chain import Chain
from dask_io.codecs.parsing import parse_codec
from dask_io.codecs.registry import CODECS, filter_of, is_lossless
from dask_io.codecs.zarr3 import DEFAULT, in_zarr3, is_foreign
from dask_io.errors import UsageError
from dask_io.formats.zarr.documents import add_fields, make_array_documents
from dask_io.formats.zarr.metadata import nothing_of, understand
from dask_io.stores.block_files import order_of
from dask_io.stores.cf_attributes import FILL_VALUE, NAMES, encoded, missing_value_of
from dask_io.stores.dtypes import check_dtype
from dask_io.stores.own_attribute import add_own

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.codecs.codec import Config
    from dask_io.formats.zarr.metadata import ZarrArray
    from dask_io.stores.container import NewArray

_NEWEST = 3
_VERSIONS = (2, _NEWEST)


def describe_new(wanted: NewArray) -> dict[str, bytes]:
    """Return the metadata documents of a new array.

    Raises
    ------
    UsageError
        If Zarr cannot store the array, or does not support an option.
    """
    options, source = wanted.options, wanted.metadata
    version = options.format_version or source.get("zarr_format") or _NEWEST
    if version not in _VERSIONS:
        raise UsageError(f"version {version} of Zarr is not known; give 2 or 3")
    wanted = _with_missing_value(replace(wanted, metadata=add_own(wanted.metadata)), version)
    problem = check_dtype(wanted.dtype)
    if problem:
        raise UsageError(f"a target cannot hold {problem}")
    chunks = _chunks(wanted)
    try:
        codecs = _codecs(wanted, version)
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
        reason = " ".join(str(error).split())[:200]
        filters = [each["id"] for each in codecs if _is_for_arrays(each)]
        if filters and options.codec is None:
            reason += f"; choose a codec in place of the source's {filters[0]}, such as zstd:3"
        raise UsageError(
            f"Zarr {version} cannot hold an array of {wanted.dtype}: {reason}"
        ) from error
    _check_made(made, wanted, codecs)
    return documents


def _with_missing_value(wanted: NewArray, version: int) -> NewArray:
    """Store the missing-data value where this Zarr version expects it.

    A source that is itself Zarr is left as it is.
    """
    return wanted if "zarr_format" in wanted.metadata else with_missing_value(wanted, version)


def with_missing_value(wanted: NewArray, version: int) -> NewArray:
    """Store the missing-data value of any source where xarray expects it in this Zarr version."""
    metadata = wanted.metadata
    missing = missing_value_of(metadata, wanted.dtype)
    is_default = missing is None and bool({"netcdf", "zarr_format"} & metadata.keys())
    if is_default and version != _NEWEST:
        # NetCDF and Zarr 3 have default fill values. In Zarr 2 they would mark missing data.
        return replace(wanted, metadata={**metadata, "fill_value": None})
    if missing is None:
        return wanted
    attributes = {name: each for name, each in metadata["attributes"].items() if name != FILL_VALUE}
    if version == _NEWEST:
        attributes[FILL_VALUE] = encoded(missing, wanted.dtype)
        return replace(wanted, metadata={**metadata, "attributes": attributes})
    return replace(wanted, metadata={**metadata, "attributes": attributes, "fill_value": missing})


def _chunks(wanted: NewArray) -> tuple[int, ...]:
    lengths = [axis.chunk for axis in wanted.grid.axes]
    if None in lengths:
        raise UsageError(
            f"chunks of {wanted.grid} are uneven, which Zarr cannot hold; "
            "give one length for each axis"
        )
    return tuple(length for length in lengths if length is not None)


def choose_codecs(text: str) -> list[Config]:
    """Parse the codecs that the user gave.

    Raises
    ------
    UsageError
        If Zarr has no such codec.
    """
    try:
        return list(parse_codec(text))
    except ValueError as error:
        raise UsageError(f"codec {error}") from error


def _codecs(wanted: NewArray, version: int) -> list[Config]:
    """Return the codecs that the user gave, else those of the source, else Zarr's default.

    A source that is Zarr itself may be uncompressed on purpose, and stays so. A new array of Zarr 3
    only gets codecs that Zarr 3 specifies, unless the source has Zarr 3 too.
    """
    if wanted.options.codec is not None:
        return choose_codecs(wanted.options.codec)
    kept: Sequence[Config] = wanted.metadata.get("codecs", ())
    if not kept and "zarr_format" not in wanted.metadata:
        return [DEFAULT]
    is_converted = version == _NEWEST != wanted.metadata.get("zarr_format")
    for config in kept:
        is_decoded = is_converted and is_foreign(config, wanted.dtype)
        if not is_decoded and not is_lossless(config, wanted.dtype):
            raise UsageError(
                f"the source's codec {config['id']} would change values if they were encoded "
                "again, or Zarr has no equivalent; choose a codec, such as zstd:3 or none"
            )
    return _fitting(in_zarr3(kept, wanted.dtype) if is_converted else kept, wanted)


def _fitting(codecs: Sequence[Config], wanted: NewArray) -> list[Config]:
    """Adapt filters to the sizes of their inputs."""
    itemsize = wanted.dtype.itemsize
    sizes = Chain(codecs, wanted.dtype, prod(_chunks(wanted)) * itemsize).sizes
    pairs = ((config, n, filter_of(config)) for config, n in zip(codecs, sizes, strict=False))
    return [found.fit(config, n, itemsize) if found else config for config, n, found in pairs]


def _fill_value(wanted: NewArray, version: int) -> Any:
    given = wanted.options.fill_value, wanted.metadata.get("fill_value", 0)
    if given != (None, None):
        return wanted.fill_value
    # Arrays of version 2 may have no fill value. Some readers would take 0 for "missing".
    return None if version < _NEWEST else nothing_of(wanted.dtype)[()]


def _for_v2(wanted: NewArray, codecs: Sequence[Config], chunks: tuple[int, ...]) -> dict[str, Any]:
    if wanted.options.shards is not None:
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
    has_compressor = bool(codecs) and filter_of(codecs[-1]) is None
    return {
        "order": "F" if wanted.layout.name == "F" else "C",
        "filters": made[: len(made) - has_compressor] or None,
        "compressors": made[-1] if has_compressor else None,
        "attributes": attributes,
        "chunk_key_encoding": {"name": "v2", "separator": _kept_keys(wanted).get("separator", ".")},
    }


def _for_v3(wanted: NewArray, codecs: Sequence[Config], chunks: tuple[int, ...]) -> dict[str, Any]:
    itemsize = wanted.dtype.itemsize
    in_front = [_as_v3(config, itemsize) for config in codecs if _is_for_arrays(config)]
    behind = [_as_v3(config, itemsize) for config in codecs if not _is_for_arrays(config)]
    axes = wanted.layout.axes
    transpose = [] if axes == tuple(sorted(axes)) else [_named("transpose", order=axes)]
    keys = _kept_keys(wanted)
    description = {
        "filters": [*in_front, *transpose] or None,
        "compressors": behind or None,
        "attributes": dict(wanted.metadata.get("attributes", {})),
        "dimension_names": wanted.metadata.get("dimension_names"),
        "chunk_key_encoding": {
            "name": "default" if keys.get("prefix", "c") else "v2",
            "separator": keys.get("separator", "/"),
        },
    }
    if wanted.dtype.str.startswith(">"):
        description["serializer"] = _named("bytes", endian="big")
    if wanted.options.shards is not None:
        description["shards"] = _shards(wanted.options.shards, chunks, wanted.grid.shape)
    return description


def _shards(
    shards: tuple[int, ...], chunks: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the shape of shards; -1 means the fewest chunks that cover the whole axis.

    If one chunk covers the axis, it was clipped to it, so the shard is clipped too.
    """
    if len(shards) == len(chunks):
        each = zip(shards, chunks, shape, strict=True)
        whole = tuple(max(1, -(-n // c)) * c if s == -1 or s >= n == c else s for s, c, n in each)
        if all(s > 0 and s % c == 0 for s, c in zip(whole, chunks, strict=True)):
            return whole
    raise UsageError(f"shards of {_times(shards)} are not made of whole chunks of {_times(chunks)}")


def _times(lengths: Sequence[int]) -> str:
    return " x ".join(map(str, lengths))


def _kept_keys(wanted: NewArray) -> Mapping[str, str]:
    """Return how the source names its chunks, empty if it has another version of Zarr."""
    version = wanted.metadata.get("zarr_format")
    is_kept = (wanted.options.format_version or version) == version
    return wanted.metadata.get("chunk_key_encoding", {}) if is_kept else {}


def _named(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def _is_for_arrays(config: Config) -> bool:
    found = filter_of(config)
    return found is not None and found.is_for_arrays


def _as_v3(config: Config, itemsize: int) -> dict[str, Any]:
    """Return a codec of numcodecs as metadata of version 3."""
    name, own = config["id"], CODECS[config["id"]].zarr3
    parameters = {key: value for key, value in config.items() if key != "id"}
    written = own.write(parameters, itemsize) if own else None
    if written is None:
        return _named(f"numcodecs.{name}", **parameters)
    return _named(name, **written)


def _check_made(made: ZarrArray, wanted: NewArray, codecs: Sequence[Config]) -> None:
    """Check that zarr-python described the array that was requested."""
    longest = wanted.grid.longest
    compared: list[tuple[str, object, object]] = [
        ("dtype", made.spec.dtype, wanted.dtype),
        ("chunks", made.spec.grid, wanted.grid),
        ("order", order_of(made.spec.layout, longest), order_of(wanted.layout, longest)),
        ("codecs", [c["id"] for c in made.codecs], [c["id"] for c in codecs]),
    ]
    for word, found, requested in compared:
        if found != requested:
            raise UsageError(
                f"Zarr {made.version} cannot hold {word} {requested}: it becomes {found}"
            )
