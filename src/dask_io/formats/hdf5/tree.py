"""Read everything in an HDF5 file as one tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py  # type: ignore[import-untyped]

from dask_io.formats.hdf5.attributes import (
    beyond_json,
    plain_attributes,
)
from dask_io.formats.hdf5.create import LONGEST_SCALE
from dask_io.formats.hdf5.dataset import refuse_others, understand
from dask_io.formats.hdf5.file import in_subprocess_for_long, reading
from dask_io.formats.hdf5.filters import LOSSLESS
from dask_io.formats.hdf5.places import find_places
from dask_io.formats.hdf5.scales import is_bare, names_of, numbered_dimensions
from dask_io.formats.hdf5.source import HDF5, Dialect, Hdf5Chunks
from dask_io.formats.hdf5.tree_content import Hdf5Model
from dask_io.formats.hdf5.types import dtype_of, names_of_values
from dask_io.formats.hdf5.walk import Alias, named_type, types_in, walk
from dask_io.hierarchy.tree import ROOT, Tree, TreeArray
from dask_io.stores.cf_attributes import REFERENCE
from dask_io.stores.chunked_source import ChunkedSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from dask_io.formats.hdf5.dataset import Dataset
    from dask_io.formats.hdf5.places import Places


class _Stored(NamedTuple):
    """A dataset that is read in blocks, as a subprocess describes it."""

    dataset: Dataset
    places: Places
    dimensions: tuple[str | None, ...]


class _Found(NamedTuple):
    """Everything that a subprocess finds in a file, ready to become a `Tree`."""

    groups: dict[str, Mapping[str, Any]]
    arrays: dict[str, _Stored | TreeArray]
    refused: dict[str, str]
    format_specific: tuple[str, ...]
    main: str | None
    has_others: bool


def _look_into(
    path: Path,
    belonging_to: Callable[[Any], set[str]],
    each: bool,  # noqa: FBT001 - what travels has no names
) -> _Found:
    """Read the metadata of everything in a file, unless all of it belongs to one dataset.

    `belonging_to` returns the datasets that belong to one; `each` reads everything anyway.
    """
    as_found = path.stat()
    groups: dict[str, Mapping[str, Any]] = {}
    arrays: dict[str, _Stored | TreeArray] = {}
    refused: dict[str, str] = {}
    with reading(path) as file:
        content = dict(walk(file))
        main = _find_main(file, content, belonging_to)
        has_others = any(name != main and _holds_values(found) for name, found in content.items())
        groups[ROOT] = plain_attributes(file)
        datasets = [found for found in content.values() if isinstance(found, h5py.Dataset)]
        numbered = numbered_dimensions(datasets)
        for name, found in content.items() if each or main is None else ():
            if problem := _why_not(found):
                refused[name] = problem
            elif isinstance(found, h5py.Group):
                groups[name] = plain_attributes(found)
            elif _holds_values(found):
                names = _dimensions(found, numbered)
                try:
                    array = understand(found, numbered)
                except ValueError as error:
                    shape, attributes = tuple(found.shape or ()), plain_attributes(found)
                    arrays[name] = TreeArray(shape, names, attributes, verbatim=str(error))
                    continue
                places = find_places(found, array, as_found.st_size).as_of(as_found)
                array = replace(array, dimension_names=names if any(names) else None)
                arrays[name] = _Stored(array, places, names)
        format_specific = tuple(_format_specific(file, content))
    return _Found(groups, arrays, refused, format_specific, main, has_others)


def _holds_values(found: Any) -> bool:
    return isinstance(found, h5py.Dataset) and not is_bare(found)


def _format_specific(file: Any, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield names for everything that only HDF5 can store."""
    datasets = [found for found in content.values() if isinstance(found, h5py.Dataset)]
    if any(None in (found.maxshape or ()) for found in datasets):
        yield "unlimited_dimensions"
    if any(is_bare(found) and "REFERENCE_LIST" not in found.attrs for found in datasets):
        yield "unused_dimensions"
    if any(names_of_values(dtype_of(found)) for found in datasets):
        yield "names_of_values"
    if any(isinstance(found, h5py.Datatype) for found in content.values()):
        yield "names_of_types"
    if any(isinstance(found, Alias | h5py.SoftLink) for found in content.values()):
        yield "links"
    if file.userblock_size:
        yield "user_block"
    owners = [file, *(each for each in content.values() if hasattr(each, "attrs"))]
    yield from dict.fromkeys(word for owner in owners for word in _lost_attributes(owner))


def _lost_attributes(owner: Any) -> Iterator[str]:
    """Yield names for attributes that JSON cannot represent, or only as another type."""
    plain = plain_attributes(owner)
    for name, kind in beyond_json(owner).items():
        if kind == REFERENCE:
            yield "references"
        else:
            yield "types_of_attributes" if name in plain else "some_attributes"


def _why_not(found: Any) -> str:
    """Return why an object cannot be copied to another file, an empty string if it can."""
    if isinstance(found, h5py.ExternalLink):
        return "is a link to another file, which is not followed"
    if not isinstance(found, h5py.Dataset):
        return ""
    try:
        refuse_others(found)
    except ValueError as error:
        return str(error)
    if found.id.get_type().detect_class(h5py.h5t.REFERENCE):
        return "holds references, which are valid only in their own file"
    return ""


def _dimensions(dataset: Any, numbered: Mapping[int, str]) -> tuple[str | None, ...]:
    """Return the names of a dataset's dimensions."""
    return (names_of(dataset, numbered) or (None,) * dataset.ndim) if dataset.shape else ()


def _find_main(
    file: Any, content: Mapping[str, Any], belonging_to: Callable[[Any], set[str]]
) -> str | None:
    """Return the dataset that everything else in a file belongs to, if there is one."""
    datasets = {name: found for name, found in content.items() if isinstance(found, h5py.Dataset)}
    axes = [name for name, found in datasets.items() if found.shape and not is_bare(found)]
    data = [name for name in axes if not datasets[name].is_scale] or axes
    if len(data) != 1:
        return None
    (name,) = data
    kind = types_in(content).get(named_type(datasets[name]), "")
    above = {path[:at] for path in (name, kind) for at, sign in enumerate(path) if sign == "/"}
    plain = {path for path in above if not len(content[path].attrs)}
    known = {name, kind, *plain, *belonging_to(file[name])}
    known.update(path for path, found in datasets.items() if is_bare(found))
    return name if known.issuperset(content) else None


def scales_of(dataset: Any) -> set[str]:
    """Return the paths of the scales that are copied together with a dataset."""
    return {
        scale.name.strip("/")
        for axis in dataset.dims
        for scale in (axis.values() if len(axis) else ())
        if scale.name and scale.ndim == 1 and scale.nbytes <= LONGEST_SCALE
    }


def read_tree(
    path: Path,
    *,
    dialect: Dialect = HDF5,
    content: Hdf5Model | None = None,
    belonging_to: Callable[[Any], set[str]] = scales_of,
    each: bool = False,
) -> Tree:
    """Read the metadata of everything in a file; its arrays become sources.

    If everything belongs to one dataset, the others are read only with `each`.

    Raises
    ------
    StorageError
        If the file is absent or cannot be read.
    DataError
        If it is damaged, or some of it is in other files.
    """
    found = in_subprocess_for_long(path, _look_into, path, belonging_to, each)
    return Tree(
        root=path,
        format=dialect.format,
        content=content or Hdf5Model(path),
        groups=found.groups,
        arrays={name: _as_array(path, name, each, dialect) for name, each in found.arrays.items()},
        refused=found.refused,
        format_specific=found.format_specific,
        main=found.main,
        has_others=found.has_others,
    )


def _as_array(path: Path, name: str, found: _Stored | TreeArray, dialect: Dialect) -> TreeArray:
    if isinstance(found, TreeArray):
        return found
    array, places, dimensions = found
    is_lossy = any(one.code not in LOSSLESS for one in array.filters)
    source = ChunkedSource(Hdf5Chunks(path, name, array, places, dialect))
    return TreeArray.of(source, dimensions, is_lossy=is_lossy)
