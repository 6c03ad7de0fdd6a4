"""Trees of Zarr: reading a group as one, and making the group that holds one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from xxhash import xxh3_64_intdigest
from zarr.buffer.cpu import Buffer
from zarr.storage import MemoryStore

from dask_io.codecs.bounded_decoders import DECODERS
from dask_io.codecs.chain import CHECKSUMS
from dask_io.errors import DataError, UsageError, printable
from dask_io.formats.isolation import WORKER, Limits
from dask_io.formats.opening import open_source
from dask_io.formats.zarr.create import choose_codecs
from dask_io.formats.zarr.documents import (
    V2,
    V2_ATTRIBUTES,
    V3,
    attributes_of,
    make_group_documents,
    parse,
    quiet,
)
from dask_io.formats.zarr.group import (
    DEEPEST,
    DOCUMENTS,
    Group,
    read_group,
    refuse_special,
)
from dask_io.formats.zarr.ome import check_images, level_axes
from dask_io.formats.zarr.place import Place
from dask_io.formats.zarr.target import make_zarr
from dask_io.formats.zarr.tree_target import GroupTarget
from dask_io.hierarchy.checksums import digest
from dask_io.hierarchy.conversions import check_names, check_records
from dask_io.hierarchy.tree import ROOT, Tree, TreeArray
from dask_io.storage.files import medium_of, read_whole
from dask_io.storage.own_names import JOURNAL
from dask_io.stores.cf_attributes import FILL_VALUE, NAMES, encoded, gap_of
from dask_io.stores.container import INSIDE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zarr.abc.buffer import Buffer as AnyBuffer

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import Wanted
    from dask_io.stores.store import Target

# What is not moved in blocks is small, and held in memory.
_MOST_BYTES = 32 * 2**20
_BYTES_OF_TEXT = 16
# Codecs that zarr-python may run here: those that run elsewhere too, and that of texts. There are
# others that run whatever a chunk says, such as pickle.
_HARMLESS = frozenset({"vlen-utf8", "bytes", "transpose", "sharding_indexed"}).union(
    DECODERS, CHECKSUMS, {"shuffle", "delta", "packbits"}
)
_NEWEST = 3


@dataclass(frozen=True)
class GroupContent:
    """The files of a group."""

    group: Group

    def identity(self, names: Iterable[str] | None = None) -> int:
        """Return a number that changes when a file does, of the group or of these arrays.

        Files that lie next to the metadata of groups always count.
        """
        root = self.group.root
        medium = medium_of(root)
        if names is None:
            found: list[tuple[str, object]] = list(medium.files(root))
        else:
            found = [(file, medium.find(root / file)) for file in self.group.files]
            for name in names:
                found += [(f"{name}/{file}", each) for file, each in medium.files(root / name)]
        files = sorted((name, repr(each)) for name, each in found)
        return xxh3_64_intdigest(repr(files).encode())

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """Return checksums of the values of arrays."""
        return {name: digest([self.read(name)]) for name in names}

    def read(self, name: str) -> Any:
        """Return the values of an array that is not understood here, as zarr-python reads them.

        Raises
        ------
        DataError
            If it does not understand them either.
        UsageError
            If there are too many.
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
            return WORKER.call(Limits.for_file(n_bytes), _read_values, content)
        except ValueError as error:
            raise DataError(printable(str(place)), [printable(str(error))]) from error


def _refuse_large(place: str, n_bytes: int) -> None:
    """Refuse an array that is not moved in blocks, and not small."""
    if n_bytes > _MOST_BYTES:
        raise UsageError(f"{printable(place)} is too large to be read at once; name one array")


def _refuse_codecs(documents: Mapping[str, bytes]) -> None:
    """Refuse an array with codecs that are not known to be harmless."""
    if V3 in documents:
        names = _codec_names(parse(documents[V3]).get("codecs"), "name")
    else:
        document = parse(documents[V2])
        filters, last = document.get("filters"), document.get("compressor")
        names = _codec_names([] if filters is None else filters, "id")
        names += _codec_names([] if last is None else [last], "id")
    for name in names:
        if name.removeprefix("numcodecs.") not in _HARMLESS:
            raise ValueError(f"has codec {name}, which is not supported")


def _codec_names(codecs: object, key: str) -> list[str]:
    """Return the names of codecs, and of those that they use themselves."""
    if not isinstance(codecs, list):
        raise ValueError("does not say its codecs")  # noqa: TRY004 - wrong data, not a wrong call
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
    """Have zarr-python read an array, in a process of its own."""
    kept: dict[str, AnyBuffer] = {name: Buffer.from_bytes(each) for name, each in content.items()}
    try:
        with quiet():
            array = zarr.open_array(MemoryStore(kept), mode="r")
            values = np.asarray(array[...])
    except Exception as error:  # whatever hostile metadata makes zarr-python raise
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"cannot be read: {type(error).__name__}: {said}") from error
    return values.astype(object) if values.dtype.kind == "T" else values


def read_tree(root: Location) -> Tree:
    """Read the metadata of everything in a group.

    Raises
    ------
    DataError
        If some of it cannot be understood, or has been consumed.
    """
    group = read_group(root)
    levels = level_axes(group)
    arrays: dict[str, TreeArray] = {}
    for name, documents in group.arrays.items():
        # An array that is not understood is copied verbatim, but not after blocks were consumed.
        Place(root / name).refuse_consumed()
        dimensions = levels.get(name) or _dimensions(documents)
        try:
            source = open_source(root / name, format="zarr")
        except DataError as error:
            arrays[name] = _verbatim_array(documents, dimensions, "; ".join(error.problems))
        except UsageError as error:
            arrays[name] = _verbatim_array(documents, dimensions, str(error))
        else:
            arrays[name] = TreeArray.of(source, dimensions)
    return Tree(
        root=root,
        format="zarr",
        content=GroupContent(group),
        groups={path: attributes_of(documents) for path, documents in group.groups.items()},
        arrays=arrays,
        format_specific=tuple(_format_specific(group, arrays)),
        levels=tuple(levels.values()),
    )


def _verbatim_array(
    documents: Mapping[str, bytes], dimensions: tuple[str | None, ...], reason: str
) -> TreeArray:
    said = _plain_attributes(documents)
    return TreeArray(shape_of(documents), dimensions, said, verbatim=reason)


def _format_specific(group: Group, arrays: Mapping[str, TreeArray]) -> Iterator[str]:
    """Yield names for everything that only Zarr has a place for."""
    if group.files:
        yield "files"
    sources = [each.source for each in arrays.values() if each.source is not None]
    said = [attributes_of(documents) for documents in group.groups.values()]
    said += [each.metadata["attributes"] for each in sources]
    if any(None in attributes.values() for attributes in said):
        yield "some_attributes"
    if any(each.metadata.get("extra_fields") for each in sources):
        yield "extra_fields"


def _dimensions(documents: Mapping[str, bytes]) -> tuple[str | None, ...]:
    """Return the names of an array's dimensions, as either version says them, None for no name."""
    try:
        found = attributes_of(documents).get(NAMES)
        if V3 in documents:
            found = parse(documents[V3]).get("dimension_names")
    except ValueError:
        return ()
    n_axes = len(shape_of(documents))
    names = found if isinstance(found, list) and len(found) == n_axes else [None] * n_axes
    return tuple(name if isinstance(name, str) else None for name in names)


def shape_of(documents: Mapping[str, bytes]) -> tuple[int, ...]:
    """Return the shape of an array, as far as its documents say one."""
    try:
        found = parse(documents[V3 if V3 in documents else V2]).get("shape")
    except ValueError:
        return ()
    lengths = found if isinstance(found, list) else []
    return tuple(length for length in lengths if isinstance(length, int) and length >= 0)


def _plain_attributes(documents: Mapping[str, bytes]) -> dict[str, Any]:
    """Return what an array says that is copied as it is, the value of gaps as a plain one."""
    try:
        said, document = attributes_of(documents), parse(documents[V3 if V3 in documents else V2])
    except ValueError:
        return {}
    plain = {name: value for name, value in said.items() if name not in {NAMES, FILL_VALUE}}
    kind, version = ("data_type", 3) if V3 in documents else ("dtype", 2)
    try:
        dtype = np.dtype(document.get(kind))
        gap = gap_of({**document, "zarr_format": version, "attributes": said}, dtype)
        return plain if gap is None else {**plain, FILL_VALUE: np.array(gap, dtype).item()}
    except (TypeError, ValueError):
        # Texts have no value for gaps that could be told from one.
        return plain


def convert(tree: Tree) -> Tree:
    """Return a tree that a group can hold.

    Raises
    ------
    UsageError
        If Zarr cannot hold its names, or records of a variable are not stored.
    """
    if not isinstance(tree.content, GroupContent):
        check_names(tree, _is_name, "a group of Zarr", deepest=DEEPEST)
        check_records(tree)
    return tree


def _is_name(part: str) -> bool:
    """Tell whether a part of a path stays in a group, and means nothing else there."""
    is_reserved = part in {"", ".", ".."} or part in DOCUMENTS or part == JOURNAL
    return not is_reserved and part.isprintable() and "\\" not in part


def write_tree(
    root: Location,
    tree: Tree,
    wanted: Mapping[str, Wanted],
    *,
    version: int | None,
    overwrite: bool,
    durability: Durability,
) -> GroupTarget:
    """Describe a group for a converted tree.

    Raises
    ------
    UsageError
        If Zarr cannot hold it.
    """
    if version not in {None, 2, _NEWEST}:
        raise UsageError(f"version {version} of Zarr is not known; give 2 or 3")
    for codec in {each.wishes.codec for each in wanted.values()}:
        if codec is not None:
            # Checked once, so that no single array is blamed.
            choose_codecs(codec)
    content = tree.content
    is_own = isinstance(content, GroupContent)
    group = content.group if isinstance(content, GroupContent) else _make_group(tree, version)
    if group.version < _NEWEST and any(each.wishes.shards for each in wanted.values()):
        otherwise = "" if is_own else ", or ask for version 3"
        raise UsageError(f"a group of Zarr 2 has no shards; leave them out{otherwise}")
    check_images(group)
    return GroupTarget(
        root,
        group,
        tree.arrays,
        durability=durability,
        overwrite=overwrite,
        arrays={
            name: _make_array(root / name, name, each, durability) for name, each in wanted.items()
        },
        copies=_find_files(tree, group, [name for name in tree.arrays if name not in wanted]),
        not_kept=() if is_own else tree.format_specific,
    )


def _make_array(place: Location, name: str, wanted: Wanted, durability: Durability) -> Target:
    try:
        # An array that exists is replaced together with its group.
        return make_zarr(Place(place), wanted, overwrite=False, durability=durability, reserve=True)
    except UsageError as error:
        raise UsageError(f"array {printable(name)}: {error}") from error


def reopen_tree(
    root: Location,
    described: Mapping[str, Any],
    names: Iterable[str],
    *,
    durability: Durability,
    tree: Tree | None = None,
    copies: Iterable[str] = (),
) -> GroupTarget:
    """Describe a group again, by what its target recorded."""
    group = Group.from_json(root if tree is None else tree.root, described)
    files = {} if tree is None else _find_files(tree, group, copies)
    return GroupTarget(root, group, names, durability=durability, copies=files)


def _find_files(
    tree: Tree, group: Group, names: Iterable[str]
) -> dict[str, Location | Mapping[str, bytes]]:
    """Return the files of arrays that are copied verbatim: where they are, or their content."""
    if isinstance(tree.content, GroupContent):
        return {name: tree.root / name for name in names}
    return {name: array_files(tree, name, group.version) for name in names}


def _make_group(tree: Tree, version: int | None) -> Group:
    """Make a group for the attributes of a tree; its metadata will be consolidated."""
    groups = {path: _group_documents(said, version) for path, said in tree.groups.items()}
    return Group(tree.root, groups, {}, consolidated=(ROOT,), files=())


def _group_documents(attributes: Mapping[str, Any], version: int | None) -> dict[str, bytes]:
    documents = make_group_documents(version or _NEWEST)
    if V3 not in documents:
        return {**documents, V2_ATTRIBUTES: json.dumps(attributes).encode()}
    return {V3: json.dumps({**parse(documents[V3]), "attributes": dict(attributes)}).encode()}


def array_files(tree: Tree, name: str, version: int) -> dict[str, bytes]:
    """Return the files of an array that is copied verbatim from another format.

    Raises
    ------
    UsageError
        If Zarr cannot hold it, or there is too much of it.
    """
    array, shown = tree.arrays[name], f"{tree.place}{INSIDE}/{name}"
    n_bytes = prod(array.shape) * _BYTES_OF_TEXT
    _refuse_large(shown, n_bytes)
    values, said = np.asarray(tree.content.read(name)), dict(array.attributes)
    is_text = values.dtype.kind == "O" and all(isinstance(each, str) for each in values.ravel())
    _refuse_large(shown, n_bytes + sum(map(len, values.ravel())) if is_text else values.nbytes)
    if values.dtype.hasobject and not is_text:
        raise UsageError(f"{printable(shown)} cannot be held by Zarr: it {array.verbatim}")
    names = [each or f"dim_{axis}" for axis, each in enumerate(array.dimensions)]
    fill, gap = None, gap_of({"attributes": said}, values.dtype)
    if version == _NEWEST:
        fill = "" if is_text else np.zeros((), values.dtype)[()]
        if gap is not None:
            said[FILL_VALUE] = encoded(gap, values.dtype)
    else:
        said[NAMES] = names
        if gap is not None:
            fill = gap
            del said[FILL_VALUE]
    kept: dict[str, AnyBuffer] = {}
    with quiet():
        made = zarr.create_array(
            MemoryStore(kept),
            shape=values.shape,
            chunks=tuple(max(1, length) for length in values.shape),
            dtype=str if is_text else values.dtype,
            fill_value=fill,
            attributes=said,
            zarr_format=version,  # type: ignore[arg-type]
            dimension_names=names if version == _NEWEST else None,
            compressors=None,
            config={"write_empty_chunks": True},
        )
        made[...] = values
    return {file: each.to_bytes() for file, each in kept.items()}
