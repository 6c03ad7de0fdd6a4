"""Values of arrays that are copied verbatim; zarr-python reads and writes them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh3_64_intdigest

from dask_io.codecs.registry import LOSSLESS
from dask_io.errors import DataError, UsageError
from dask_io.formats.isolation import WORKER, Limits
from dask_io.formats.zarr.documents import V2, V3, attributes_of
from dask_io.formats.zarr.group import (
    Group,
    refuse_special,
)
from dask_io.formats.zarr.quiet import quiet
from dask_io.hierarchy.checksums import digest
from dask_io.hierarchy.cut import cut_values
from dask_io.storage.files import medium_of, read_whole
from dask_io.stores.cf_attributes import FILL_VALUE, NAMES, encoded, missing_value_of
from dask_io.stores.container import INSIDE
from dask_io.stores.json_documents import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zarr.abc.buffer import Buffer as AnyBuffer

    from dask_io.hierarchy.cut import Bounds
    from dask_io.hierarchy.tree import Tree
    from dask_io.storage.medium import FileInfo


# Arrays that are not moved in blocks are held in memory.
_MOST_BYTES = 32 * 2**20
_BYTES_OF_TEXT = 16
# Codecs that zarr-python may run: those that Dask IO decodes itself, and the one for strings.
# Others, such as pickle, can execute code that is stored in a chunk.
_HARMLESS = frozenset({"vlen-utf8", "bytes", "transpose", "sharding_indexed"}).union(LOSSLESS)
_NEWEST = 3


@dataclass(frozen=True)
class GroupContent:
    """The files of a group."""

    group: Group
    bounds: Mapping[str, Bounds] = field(default_factory=dict)

    def identity(self, names: Iterable[str] | None = None) -> int:
        """Return a number that changes when a file of the group, or of these arrays, changes.

        Files next to the metadata of groups are always included.
        """
        root = self.group.root
        medium = medium_of(root)
        if names is None:
            found: list[tuple[str, FileInfo | None]] = list(medium.files(root))
        else:
            found = [(file, medium.find(root / file)) for file in self.group.files]
            for name in names:
                found += [(f"{name}/{file}", each) for file, each in medium.files(root / name)]
        # Journals record the checksum of this text, so it stays as it was first written.
        files = sorted(
            (name, f"Found(size={each.size}, mark={each.mark!r})" if each else "None")
            for name, each in found
        )
        return xxh3_64_intdigest(repr(files).encode())

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """Return checksums of the values of arrays."""
        return {name: digest([self.read(name)]) for name in names}

    def cut(self, bounds: Mapping[str, Bounds]) -> GroupContent:
        """Return the content of a part of the group."""
        return replace(self, bounds=bounds)

    def read(self, name: str) -> Any:
        """Return the values of an array that only zarr-python understands.

        Raises
        ------
        DataError
            If zarr-python does not understand it either.
        UsageError
            If the array is too large.
        """
        place, documents = self.group.root / name, self.group.arrays[name]
        content, n_bytes = {}, prod(shape_of(documents)) * _BYTES_OF_TEXT
        for file, found in medium_of(place).files(place):
            refuse_special(place / file)
            n_bytes += found.size
            if n_bytes > _MOST_BYTES:
                break
            content[file] = read_whole(place / file, _MOST_BYTES)
        _refuse_large(str(place), n_bytes)
        try:
            _refuse_codecs(documents)
            content |= documents
            values = WORKER.call(Limits.for_file(n_bytes), _read_values, content)
            return cut_values(values, dimensions_of(documents), self.bounds)
        except ValueError as error:
            raise DataError(str(place), [str(error)]) from error


def _refuse_large(place: str, n_bytes: int) -> None:
    """Refuse an array that is too large to be copied verbatim."""
    if n_bytes > _MOST_BYTES:
        raise UsageError(f"{place} is too large to be read at once; give one array")


def _refuse_codecs(documents: Mapping[str, bytes]) -> None:
    """Refuse an array with codecs that are not known to be harmless."""
    if V3 in documents:
        names = _codec_names(parse_json(documents[V3]).get("codecs"), "name")
    else:
        document = parse_json(documents[V2])
        filters, last = document.get("filters"), document.get("compressor")
        names = _codec_names([] if filters is None else filters, "id")
        names += _codec_names([] if last is None else [last], "id")
    for name in names:
        if name.removeprefix("numcodecs.") not in _HARMLESS:
            raise ValueError(f"has codec {name}, which is not supported")


def _codec_names(codecs: object, key: str) -> list[str]:
    """Return the names of codecs, including nested ones."""
    if not isinstance(codecs, list):
        raise ValueError("has no list of codecs")  # noqa: TRY004 - wrong data, not a wrong call
    names = []
    for codec in codecs:
        named = codec if isinstance(codec, dict) else {key: codec}
        names.append(str(named.get(key)))
        within = named.get("configuration")
        for inner in ("codecs", "index_codecs"):
            if isinstance(within, dict) and inner in within:
                names += _codec_names(within[inner], key)
    return names


def _read_values(content: Mapping[str, bytes]) -> Any:
    """Read an array with zarr-python, in a subprocess."""
    import zarr  # noqa: PLC0415 - a third of a second, for few arrays
    from zarr.buffer.cpu import Buffer  # noqa: PLC0415
    from zarr.storage import MemoryStore  # noqa: PLC0415

    kept: dict[str, AnyBuffer] = {name: Buffer.from_bytes(each) for name, each in content.items()}
    try:
        with quiet():
            array = zarr.open_array(MemoryStore(kept), mode="r")
            values = np.asarray(array[...])
    except Exception as error:  # whatever hostile metadata makes zarr-python raise
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"cannot be read: {type(error).__name__}: {reason}") from error
    return values.astype(object) if values.dtype.kind == "T" else values


def shape_of(documents: Mapping[str, bytes]) -> tuple[int, ...]:
    """Return the shape of an array, empty if its documents have none."""
    try:
        found = parse_json(documents[V3 if V3 in documents else V2]).get("shape")
    except ValueError:
        return ()
    lengths = found if isinstance(found, list) else []
    return tuple(length for length in lengths if isinstance(length, int) and length >= 0)


def dimensions_of(documents: Mapping[str, bytes]) -> tuple[str | None, ...]:
    """Return the names of an array's dimensions in either version, None for one without a name."""
    try:
        found = attributes_of(documents).get(NAMES)
        if V3 in documents:
            found = parse_json(documents[V3]).get("dimension_names")
    except ValueError:
        return ()
    n_axes = len(shape_of(documents))
    names = found if isinstance(found, list) and len(found) == n_axes else [None] * n_axes
    return tuple(name if isinstance(name, str) else None for name in names)


def array_files(tree: Tree, name: str, version: int) -> dict[str, bytes]:
    """Return the files of an array that is copied verbatim from another format.

    Raises
    ------
    UsageError
        If Zarr cannot store it, or it is too large.
    """
    import zarr  # noqa: PLC0415 - a third of a second, for few arrays
    from zarr.storage import MemoryStore  # noqa: PLC0415

    array, shown = tree.arrays[name], f"{tree.place}{INSIDE}/{name}"
    n_bytes = prod(array.shape) * _BYTES_OF_TEXT
    _refuse_large(shown, n_bytes)
    values, attributes = np.asarray(tree.content.read(name)), dict(array.attributes)
    is_text = values.dtype.kind == "O" and all(isinstance(each, str) for each in values.ravel())
    _refuse_large(shown, n_bytes + sum(map(len, values.ravel())) if is_text else values.nbytes)
    if values.dtype.hasobject and not is_text:
        raise UsageError(f"Zarr cannot hold {shown}: it {array.verbatim}")
    names = [each or f"dim_{axis}" for axis, each in enumerate(array.dimensions)]
    fill, missing = None, missing_value_of({"attributes": attributes}, values.dtype)
    if version == _NEWEST:
        fill = "" if is_text else np.zeros((), values.dtype)[()]
        if missing is not None:
            attributes[FILL_VALUE] = encoded(missing, values.dtype)
    else:
        attributes[NAMES] = names
        if missing is not None:
            fill = missing
            del attributes[FILL_VALUE]
    kept: dict[str, AnyBuffer] = {}
    with quiet():
        made = zarr.create_array(
            MemoryStore(kept),
            shape=values.shape,
            chunks=tuple(max(1, length) for length in values.shape),
            dtype=str if is_text else values.dtype,
            fill_value=fill,
            attributes=attributes,
            zarr_format=version,  # type: ignore[arg-type]
            dimension_names=names if version == _NEWEST else None,
            compressors=None,
            config={"write_empty_chunks": True},
        )
        made[...] = values
    return {file: each.to_bytes() for file, each in kept.items()}
