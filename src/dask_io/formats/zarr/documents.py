"""Metadata documents of an array: ``zarr.json``, or ``.zarray`` and ``.zattrs``.

Usual documents are read and written here, all others by zarr-python, in memory. Their sizes and
shapes are checked first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dask_io.formats.zarr.fields import Fields, read_usual, write_usual
from dask_io.formats.zarr.quiet import quiet
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.json_documents import parse_json, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zarr.abc.buffer import Buffer as AnyBuffer
    from zarr.storage import MemoryStore

    from dask_io.storage.location import Location

V3, V2, V2_ATTRIBUTES, V2_GROUP = "zarr.json", ".zarray", ".zattrs", ".zgroup"
CONSOLIDATED = ".zmetadata"
_MOST_AXES = 64
_LONGEST_AXIS = 2**63


def read_documents(root: Location) -> dict[str, bytes]:
    """Return the metadata documents in a directory by name, newest version first."""
    with storage_errors(root):
        for names in ((V3,), (V2, V2_ATTRIBUTES), (V2_GROUP, V2_ATTRIBUTES)):
            found = {name: read_text(root, name) for name in names if (root / name).is_file()}
            if names[0] in found:
                return found
    return {}


def is_group(documents: Mapping[str, bytes]) -> bool:
    """Tell whether documents describe a group, not an array."""
    if V3 in documents:
        return parse_json(documents[V3]).get("node_type") == "group"
    return V2 not in documents and V2_GROUP in documents


def attributes_of(documents: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the attributes among the documents of a group or an array."""
    if V3 in documents:
        found = parse_json(documents[V3]).get("attributes", {})
    else:
        found = parse_json(documents.get(V2_ATTRIBUTES, b"{}"))
    if not isinstance(found, dict):
        raise ValueError("has attributes that are not a JSON object")  # noqa: TRY004 - wrong data
    return found


def load(documents: Mapping[str, bytes]) -> Fields:
    """Parse an array's documents.

    Raises
    ------
    ValueError
        If they are invalid; the message completes "the file ...".
    """
    name = V3 if V3 in documents else V2
    if name not in documents:
        raise ValueError("has no array metadata")
    document = parse_json(documents[name])
    _check_shapes(document, is_v3=name == V3)
    with quiet():
        return read_usual(document, attributes_of(documents)) or _load_with_zarr(documents, name)


def _load_with_zarr(documents: Mapping[str, bytes], name: str) -> Fields:
    import zarr  # noqa: PLC0415 - a third of a second, for unusual arrays only
    from zarr.buffer.cpu import Buffer  # noqa: PLC0415
    from zarr.storage import MemoryStore  # noqa: PLC0415

    content: dict[str, AnyBuffer] = {key: Buffer.from_bytes(documents[key]) for key in documents}
    try:
        array: Any = zarr.open_array(
            MemoryStore(content), mode="r", zarr_format=3 if name == V3 else 2
        )
    except Exception as error:  # whatever hostile metadata makes zarr-python raise
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"cannot be understood: {type(error).__name__}: {reason}") from error
    return _fields_of(array)


def _fields_of(array: Any) -> Fields:
    """Return the fields of an array of zarr-python."""
    metadata = array.metadata
    common = {
        "shape": array.shape,
        "chunks": array.chunks,
        "shards": array.shards,
        "dtype": array.dtype,
        "fill_value": metadata.fill_value,
        "attributes": metadata.attributes,
    }
    if metadata.zarr_format == 3:  # noqa: PLR2004 - of Zarr
        encoding = metadata.chunk_key_encoding
        return Fields(
            **common,
            codecs=tuple(codec.to_dict() for codec in metadata.codecs),
            prefix="c" if encoding.name == "default" else "",
            separator=encoding.separator,
            dimension_names=metadata.dimension_names,
            extra_fields=metadata.extra_fields,
        )
    codecs = [*(metadata.filters or ()), *([metadata.compressor] if metadata.compressor else [])]
    return Fields(
        **common,
        codecs=tuple(codec.get_config() for codec in codecs),
        separator=metadata.dimension_separator,
        order=metadata.order,
    )


def _check_shapes(document: Mapping[str, Any], *, is_v3: bool) -> None:
    """Refuse implausible shapes before they are used."""
    version = document.get("zarr_format")
    if version != (3 if is_v3 else 2) or isinstance(version, bool):
        raise ValueError("does not name its version of Zarr")
    shape = _lengths(document.get("shape"), "shape", 0)
    if not 1 <= len(shape) <= _MOST_AXES:
        raise ValueError(f"has {len(shape)} axes; 1 to {_MOST_AXES} are supported")
    chunks: list[object] = [document.get("chunks")]
    if is_v3:
        chunks = [_inside(document.get("chunk_grid"), "chunk_shape")]
        codecs = document.get("codecs")
        for codec in codecs if isinstance(codecs, list) else []:
            if isinstance(codec, dict) and codec.get("name") == "sharding_indexed":
                chunks.append(_inside(codec, "chunk_shape"))
    for each in chunks:
        n_axes = len(_lengths(each, "chunks", 1))
        if n_axes != len(shape):
            raise ValueError(f"has chunks of {n_axes} axes, but a shape of {len(shape)}")


def _inside(value: object, key: str) -> Any:
    """Return an entry of a named configuration."""
    configuration = value.get("configuration") if isinstance(value, dict) else None
    return configuration.get(key) if isinstance(configuration, dict) else None


def _lengths(value: object, what: str, least: int) -> list[int]:
    if not isinstance(value, list):
        raise ValueError(f"does not specify its {what}")  # noqa: TRY004 - wrong data, not a wrong call
    for length in value[: _MOST_AXES + 1]:
        if type(length) is not int or not least <= length < _LONGEST_AXIS:
            raise ValueError(f"has {what} that are not all whole numbers from {least} to 2^63")
    return value


def make_array_documents(**description: Any) -> dict[str, bytes]:
    """Create the documents of an array; arguments and result as for `zarr.create_array`."""
    document = write_usual(description)
    if document is None:
        return _made(lambda zarr, store: zarr.create_array(store, **description))
    if document["zarr_format"] == 3:  # noqa: PLR2004 - of Zarr
        return {V3: _as_json(document)}
    return {V2: _as_json(document), V2_ATTRIBUTES: _as_json(description["attributes"])}


def _as_json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=2).encode()


def add_fields(documents: Mapping[str, bytes], fields: Mapping[str, Any]) -> dict[str, bytes]:
    """Return documents of version 3 with more fields in them."""
    if not fields:
        return dict(documents)
    return {V3: _as_json({**parse_json(documents[V3]), **fields})}


def make_group_documents(version: int) -> dict[str, bytes]:
    """Create the documents of a group without attributes, as zarr-python does."""
    if version == 3:  # noqa: PLR2004 - of Zarr
        return {V3: _as_json({"attributes": {}, "zarr_format": 3, "node_type": "group"})}
    return {V2_GROUP: _as_json({"zarr_format": 2}), V2_ATTRIBUTES: _as_json({})}


def _made(make: Callable[[Any, MemoryStore], object]) -> dict[str, bytes]:
    import zarr  # noqa: PLC0415 - a third of a second, for unusual arrays only
    from zarr.storage import MemoryStore  # noqa: PLC0415

    content: dict[str, AnyBuffer] = {}
    with quiet():
        make(zarr, MemoryStore(content))
    return {name: each.to_bytes() for name, each in content.items()}


def is_consolidated(folder: Location, documents: Mapping[str, bytes] | None = None) -> bool:
    """Tell whether a group has consolidated metadata; its documents may have been read before."""
    documents = read_documents(folder) if documents is None else documents
    if V3 not in documents:
        with storage_errors(folder):
            return (folder / CONSOLIDATED).is_file()
    try:
        return parse_json(documents[V3]).get("consolidated_metadata") is not None
    except ValueError:
        return False
