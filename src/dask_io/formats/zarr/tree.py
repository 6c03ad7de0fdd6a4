"""Reading a Zarr group as a tree, and creating a group for a tree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import DataError, UsageError
from dask_io.formats.opening import open_source
from dask_io.formats.zarr.create import choose_codecs, with_missing_value
from dask_io.formats.zarr.documents import (
    V2,
    V2_ATTRIBUTES,
    V3,
    attributes_of,
    make_group_documents,
)
from dask_io.formats.zarr.group import (
    DEEPEST,
    DOCUMENTS,
    Group,
    read_group,
)
from dask_io.formats.zarr.ome import check_images, level_axes
from dask_io.formats.zarr.ome_source import without_image
from dask_io.formats.zarr.place import Place
from dask_io.formats.zarr.target import make_zarr
from dask_io.formats.zarr.tree_target import GroupTarget
from dask_io.formats.zarr.verbatim import GroupContent, array_files, dimensions_of, shape_of
from dask_io.hierarchy.conversions import check_names, check_records
from dask_io.hierarchy.tree import ROOT, Tree, TreeArray
from dask_io.storage.own_names import JOURNAL
from dask_io.stores.cf_attributes import FILL_VALUE, NAMES, missing_value_of
from dask_io.stores.json_documents import parse_json
from dask_io.stores.spec import SPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.store import Target

_NEWEST = 3


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
        Place(root / name).folder.refuse_consumed()
        dimensions = levels.get(name) or dimensions_of(documents)
        try:
            source = open_source(root / name, format="zarr")
        except DataError as error:
            arrays[name] = _verbatim_array(documents, dimensions, "; ".join(error.problems))
        except UsageError as error:
            arrays[name] = _verbatim_array(documents, dimensions, str(error))
        else:
            # The metadata of an image belongs to its group, not to its arrays.
            space = source.metadata.get(SPACE)
            arrays[name] = TreeArray.of(without_image(source), dimensions, space=space)
    return Tree(
        root=root,
        format="zarr",
        content=GroupContent(group),
        groups={path: attributes_of(documents) for path, documents in group.groups.items()},
        arrays=arrays,
        format_specific=tuple(_format_specific(group, arrays)),
        levels=tuple(levels.values()),
        dialect="ome-zarr" if levels else None,
    )


def _verbatim_array(
    documents: Mapping[str, bytes], dimensions: tuple[str | None, ...], reason: str
) -> TreeArray:
    attributes = _plain_attributes(documents)
    return TreeArray(shape_of(documents), dimensions, attributes, verbatim=reason)


def _format_specific(group: Group, arrays: Mapping[str, TreeArray]) -> Iterator[str]:
    """Yield names for everything that only Zarr can store."""
    if group.files:
        yield "files"
    sources = [each.source for each in arrays.values() if each.source is not None]
    owners = [attributes_of(documents) for documents in group.groups.values()]
    owners += [each.metadata["attributes"] for each in sources]
    if any(None in attributes.values() for attributes in owners):
        yield "some_attributes"
    if any(each.metadata.get("extra_fields") for each in sources):
        yield "extra_fields"


def _plain_attributes(documents: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the attributes of an array that is copied verbatim, with a plain fill value."""
    try:
        attributes = attributes_of(documents)
        document = parse_json(documents[V3 if V3 in documents else V2])
    except ValueError:
        return {}
    plain = {name: value for name, value in attributes.items() if name not in {NAMES, FILL_VALUE}}
    kind, version = ("data_type", 3) if V3 in documents else ("dtype", 2)
    try:
        dtype = np.dtype(document.get(kind))
        metadata = {**document, "zarr_format": version, "attributes": attributes}
        missing = missing_value_of(metadata, dtype)
        return plain if missing is None else {**plain, FILL_VALUE: np.array(missing, dtype).item()}
    except (TypeError, ValueError):
        # NumPy has no dtype for strings of variable length, so they have no missing-data value.
        return plain


def convert(tree: Tree) -> Tree:
    """Return a tree that a group can store.

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
    """Tell whether a part of a path stays inside the group and is not reserved."""
    is_reserved = part in {"", ".", ".."} or part in DOCUMENTS or part == JOURNAL
    return not is_reserved and part.isprintable() and "\\" not in part


def write_tree(
    root: Location,
    tree: Tree,
    wanted: Mapping[str, NewArray],
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
    for codec in {each.options.codec for each in wanted.values()}:
        if codec is not None:
            # Checked once, so that no single array is blamed.
            choose_codecs(codec)
    own = _own_group(tree, version)
    if own is None and tree.levels:
        raise UsageError(
            f"OME-Zarr has other metadata in version {version} of Zarr, so an image keeps its "
            "version; leave out --format-version, or make a new image of one of its arrays"
        )
    group = _make_group(tree, version) if own is None else own
    if group.version < _NEWEST and any(each.options.shards for each in wanted.values()):
        otherwise = "" if tree.levels else ", or give --format-version 3"
        raise UsageError(f"a group of Zarr 2 has no shards; leave them out{otherwise}")
    if own is None and isinstance(tree.content, GroupContent):
        # Xarray reads what marks missing data from other places in another version.
        wanted = {name: with_missing_value(each, group.version) for name, each in wanted.items()}
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
        not_kept=tree.format_specific if own is None else (),
    )


def _own_group(tree: Tree, version: int | None) -> Group | None:
    """Return the group that a tree was read from, None if it cannot be kept as it is."""
    content = tree.content
    if not isinstance(content, GroupContent) or version not in {None, content.group.version}:
        return None
    return content.group.only(tree.groups) if tree.selected else content.group


def _make_array(place: Location, name: str, wanted: NewArray, durability: Durability) -> Target:
    try:
        # An array that exists is replaced together with its group.
        return make_zarr(place, "", wanted, overwrite=False, durability=durability, reserve=True)
    except UsageError as error:
        raise UsageError(f"array {name}: {error}") from error


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
    is_own = _own_group(tree, group.version) is not None
    return {
        name: tree.root / name
        if is_own and not tree.bounds.keys() & {*tree.arrays[name].dimensions}
        else array_files(tree, name, group.version)
        for name in names
    }


def _make_group(tree: Tree, version: int | None) -> Group:
    """Make a group for the attributes of a tree; its metadata will be consolidated."""
    groups = {path: _group_documents(each, version) for path, each in tree.groups.items()}
    return Group(tree.root, groups, {}, consolidated=(ROOT,), files=())


def _group_documents(attributes: Mapping[str, Any], version: int | None) -> dict[str, bytes]:
    documents = make_group_documents(version or _NEWEST)
    if V3 not in documents:
        return {**documents, V2_ATTRIBUTES: json.dumps(attributes).encode()}
    return {V3: json.dumps({**parse_json(documents[V3]), "attributes": dict(attributes)}).encode()}
