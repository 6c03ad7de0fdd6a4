"""Files as a whole: all that is in one, and making another like it.

Datasets whose chunks change are made anew; everything else is copied by HDF5, in the process that
may look into files of others.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py  # type: ignore[import-untyped]

from dask_io.errors import UsageError, printable
from dask_io.formats.hdf5.attributes import (
    INTERNAL,
    beyond_json,
    copy_attributes,
    plain_attributes,
)
from dask_io.formats.hdf5.create import LONGEST_SCALE, make_dataset
from dask_io.formats.hdf5.dataset import refuse_others, understand
from dask_io.formats.hdf5.file import apart_for_long, brief, open_own, reading, writing
from dask_io.formats.hdf5.filters import LOSSLESS, type_of
from dask_io.formats.hdf5.overwrite import contents_at
from dask_io.formats.hdf5.places import find_places
from dask_io.formats.hdf5.scales import is_bare, name_of_scale, names_of, numbered_dimensions
from dask_io.formats.hdf5.source import Hdf5Source
from dask_io.formats.hdf5.types import address_of, dtype_of, names_of_values
from dask_io.geometry import Grid
from dask_io.hierarchy.checksums import digest, identity_of
from dask_io.hierarchy.tree import ROOT, Tree, TreeArray
from dask_io.stores.cf_attributes import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from dask_io.formats.hdf5.dataset import Dataset
    from dask_io.formats.hdf5.places import Places
    from dask_io.stores.container import Wanted

# More than any sane file holds.
_MOST_OBJECTS = 10_000
# What leads to other places in the file, and is made anew.
_REFERRING = ("DIMENSION_LIST", "REFERENCE_LIST")
# What is true of a dataset or a group of another file too.
_NOTES = tuple(sorted(INTERNAL.difference({*_REFERRING, "CLASS", "NAME", "_NCProperties"})))
# Elements of any length that are copied at once.
_PIECE = 2**14


@dataclass(frozen=True)
class Alias:
    """A second name for what has one already."""

    first: str


def walk(file: Any) -> Iterator[tuple[str, Any]]:
    """Yield all that is in a file with its path: groups before what is in them.

    What has several names is yielded once, then as an `Alias`; links that only name others as
    themselves.

    Raises
    ------
    ValueError
        If there is too much.
    """
    seen: dict[int, str] = {h5py.h5o.get_info(file["/"].id).addr: "/"}
    waiting = [("", file)]
    while waiting:
        above, group = waiting.pop(0)
        for name in group:
            path = f"{above}{name}"
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink | h5py.ExternalLink):
                yield path, link
                continue
            found = group[name]
            address = h5py.h5o.get_info(found.id).addr
            if address in seen:
                yield path, Alias(seen[address])
                continue
            seen[address] = path
            if len(seen) > _MOST_OBJECTS:
                raise ValueError(f"holds more than {_MOST_OBJECTS:,} datasets and groups")
            yield path, found
            if isinstance(found, h5py.Group):
                waiting.append((f"{path}/", found))


class _Stored(NamedTuple):
    """A dataset that is read in blocks, as it travels from the process that looked at it."""

    dataset: Dataset
    places: Places
    dimensions: tuple[str | None, ...]


class _Found(NamedTuple):
    """What HDF5 finds in a file; `arrays` become a `Tree` once they have travelled."""

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
    """Look at everything in a file, unless all belongs to one dataset and comes along with it.

    `belonging_to` names what does; with `each` everything is looked at all the same.
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
                    shape, said = tuple(found.shape or ()), plain_attributes(found)
                    arrays[name] = TreeArray(shape, names, said, verbatim=str(error))
                    continue
                places = find_places(found, array, as_found.st_size).as_of(as_found)
                # Derived values, such as its codec, do not travel.
                array = replace(array, dimension_names=names if any(names) else None)
                arrays[name] = _Stored(array, places, names)
        format_specific = tuple(_format_specific(file, content))
    return _Found(groups, arrays, refused, format_specific, main, has_others)


def _holds_values(found: Any) -> bool:
    return isinstance(found, h5py.Dataset) and not is_bare(found)


def _format_specific(file: Any, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield names for everything that only HDF5 has a place for."""
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
    """Yield names for what JSON has no place for, or only for something like it."""
    plain = plain_attributes(owner)
    for name, kind in beyond_json(owner).items():
        if kind == REFERENCE:
            yield "references"
        else:
            yield "types_of_attributes" if name in plain else "some_attributes"


def _why_not(found: Any) -> str:
    """Return why there can be no copy of something in another file, nothing if there can be."""
    if isinstance(found, h5py.ExternalLink):
        return "is a link to another file, which is not followed"
    if not isinstance(found, h5py.Dataset):
        return ""
    try:
        refuse_others(found)
    except ValueError as error:
        return str(error)
    if found.id.get_type().detect_class(h5py.h5t.REFERENCE):
        return "holds references, which lead to places in its own file"
    return ""


def _dimensions(dataset: Any, numbered: Mapping[int, str]) -> tuple[str | None, ...]:
    """Return the names of a dataset's dimensions."""
    return (names_of(dataset, numbered) or (None,) * dataset.ndim) if dataset.shape else ()


def _find_main(
    file: Any, content: Mapping[str, Any], belonging_to: Callable[[Any], set[str]]
) -> str | None:
    """Return the one dataset that all else in a file belongs to, if there is one."""
    datasets = {name: found for name, found in content.items() if isinstance(found, h5py.Dataset)}
    axes = [name for name, found in datasets.items() if found.shape and not is_bare(found)]
    data = [name for name in axes if not datasets[name].is_scale] or axes
    if len(data) != 1:
        return None
    (name,) = data
    kind = _types_in(content).get(_address(datasets[name]), "")
    above = {path[:at] for path in (name, kind) for at, sign in enumerate(path) if sign == "/"}
    plain = {path for path in above if not len(content[path].attrs)}
    known = {name, kind, *plain, *belonging_to(file[name])}
    known.update(path for path, found in datasets.items() if is_bare(found))
    return name if known.issuperset(content) else None


def _types_in(content: Mapping[str, Any]) -> dict[int | None, str]:
    """Return the paths of the types that have a name, by where they are."""
    types = {path: each.id for path, each in content.items() if isinstance(each, h5py.Datatype)}
    return {address_of(kind): path for path, kind in types.items()}


def _address(dataset: Any) -> int | None:
    """Return where the type of a dataset is, None if it has no name."""
    kind = dataset.id.get_type()
    return address_of(kind) if kind.committed() else None


def scales_of(dataset: Any) -> set[str]:
    """Return the paths of the scales along a dataset's axes that come along with it."""
    return {
        scale.name.strip("/")
        for axis in dataset.dims
        for scale in (axis.values() if len(axis) else ())
        if scale.name and scale.ndim == 1 and scale.nbytes <= LONGEST_SCALE
    }


def read_tree(
    path: Path,
    *,
    kind: type[Hdf5Source] = Hdf5Source,
    content: Hdf5Model | None = None,
    belonging_to: Callable[[Any], set[str]] = scales_of,
    each: bool = False,
) -> Tree:
    """Read the metadata of everything in a file; its arrays become sources of a kind.

    If all else belongs to one dataset, the others are read only with `each`.

    Raises
    ------
    StorageError
        If the file is absent or cannot be read.
    DataError
        If it is broken, or some of it is in other files.
    """
    found = apart_for_long(path, _look_into, path, belonging_to, each)
    return Tree(
        root=path,
        format=kind.format,
        content=content or Hdf5Model(path),
        groups=found.groups,
        arrays={name: _as_array(path, name, each, kind) for name, each in found.arrays.items()},
        refused=found.refused,
        format_specific=found.format_specific,
        main=found.main,
        has_others=found.has_others,
    )


def _as_array(
    path: Path, name: str, found: _Stored | TreeArray, kind: type[Hdf5Source]
) -> TreeArray:
    if isinstance(found, TreeArray):
        return found
    array, places, dimensions = found
    is_lossy = any(one.code not in LOSSLESS for one in array.filters)
    source = kind(path, name, array, places, strict=False)
    return TreeArray.of(source, dimensions, is_lossy=is_lossy)


@dataclass(frozen=True)
class Hdf5Model:
    """A file of HDF5, be it of a format that is HDF5 inside."""

    path: Path

    @property
    def file(self) -> Path:
        """The file."""
        return self.path

    def identity(self, names: Iterable[str] | None = None) -> int:  # noqa: ARG002 - one file
        """Return a number that changes when the file does."""
        return identity_of(self.path)

    def contents(self) -> set[str]:
        """Return the names of all that the file holds."""
        return contents_at(self.path)

    def build(self, path: Path, wanted: Mapping[str, Wanted]) -> tuple[str, ...]:
        """Make a file with all that is in this one, but without the values of some datasets."""
        with reading(self.path) as source:
            in_order = bool(source["/"].id.get_create_plist().get_link_creation_order())
            with writing(path), open_own(path, "w", track_order=in_order) as target:
                copy = _Copy(source, target, wanted, in_order=in_order)
                copy.run(path)
            has_more = {
                "references": copy.has_references,
                "names_of_types": copy.has_lost_types,
                "user_block": source.userblock_size,
            }
        return tuple(name for name, is_lost in has_more.items() if is_lost)

    def read(self, name: str) -> Any:
        """Return the values of a dataset that is copied as it is."""
        return apart_for_long(self.path, _read_values, self.path, name)

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """Return checksums of the values of datasets."""
        return apart_for_long(self.path, _digest_values, self.path, list(names))


def _read_values(path: Path, name: str) -> Any:
    with reading(path) as file:
        return _values(file[name])[()]


def _values(dataset: Any) -> Any:
    """Return what values of a dataset are read from, texts as such."""
    is_text = h5py.check_string_dtype(dataset.dtype) is not None
    return dataset.asstr(errors="surrogateescape") if is_text else dataset


def _digest_values(path: Path, names: list[str]) -> dict[str, str]:
    with reading(path) as file:
        found = {name: file[name] for name in names}
        return {
            name: digest(_values(each)[part] for part in _parts(each))
            for name, each in found.items()
        }


class _Copy:
    """Everything in a file is made again in another one."""

    def __init__(
        self, source: Any, target: Any, wanted: Mapping[str, Wanted], *, in_order: bool
    ) -> None:
        self._source, self._target, self._wanted = source, target, wanted
        self._in_order = in_order
        self._types: dict[int | None, str] = {}
        self.has_references = self.has_lost_types = False

    def run(self, path: Path) -> None:
        """Copy all: what others may refer to comes first."""
        content = dict(walk(self._source))
        self._types = _types_in(content)
        self._copy_attributes(self._source, self._target)
        for name, found in content.items():
            if isinstance(found, h5py.Group):
                made = self._target.create_group(name, track_order=self._in_order)
                self._copy_attributes(found, made)
            elif isinstance(found, h5py.Datatype):
                self._copy_object(name)
        datasets = {name: each for name, each in content.items() if isinstance(each, h5py.Dataset)}
        for name, found in datasets.items():
            with _copying(path, name):
                self._copy_dataset(name, found)
        for name, found in datasets.items():
            self._attach_scales(name, found)
        for name, found in content.items():
            if isinstance(found, h5py.SoftLink):
                self._target[name] = h5py.SoftLink(found.path)
            elif isinstance(found, Alias):
                self._target[name] = self._target[found.first]

    def _copy_attributes(self, source: Any, target: Any) -> None:
        if not copy_attributes(source, target, _NOTES):
            self.has_references = True

    def _copy_object(self, name: str) -> None:
        h5py.h5o.copy(self._source.id, name.encode(), self._target.id, name.encode())

    def _copy_dataset(self, name: str, found: Any) -> None:
        if name in self._wanted:
            wanted = self._wanted[name]
            kind = self._kind(found) if found.dtype == wanted.dtype else type_of(wanted.dtype)
            made = make_dataset(self._target, wanted, name, in_order=self._in_order, kind=kind)
        elif _has_any_length(found.id.get_type()) or self._has_named_type(found):
            made = self._copy_values(name, found)
        else:
            self._copy_object(name)
            self._drop_references(self._target[name])
            self.has_lost_types |= _address(found) is not None
            return
        if found.is_scale:
            made.make_scale(name_of_scale(found))
        self._copy_attributes(found, made)

    def _copy_values(self, name: str, found: Any) -> Any:
        """Copy what HDF5 would change: of texts and lists of any length it loses the fill value.

        Elements of a type that has a name it makes of one that has none.
        """
        kind, space, plist = self._kind(found), found.id.get_space(), found.id.get_create_plist()
        made = h5py.Dataset(h5py.h5d.create(self._target.id, name.encode(), kind, space, plist))
        for part in _parts(found):
            made[part] = found[part]
        return made

    def _has_named_type(self, found: Any) -> bool:
        """Tell whether values are of a type that has a name, and can be copied by way of memory."""
        is_coded = found.id.get_create_plist().get_nfilters() > 0
        return _address(found) in self._types and dtype_of(found) is not None and not is_coded

    def _kind(self, found: Any) -> Any:
        """Return the type of a dataset, in the copy too the one of its name."""
        path = self._types.get(_address(found))
        return found.id.get_type().copy() if path is None else self._target[path].id

    def _drop_references(self, made: Any) -> None:
        leading = [name for name, kind in beyond_json(made).items() if kind == REFERENCE]
        for name in [*leading, *_REFERRING]:
            if name in made.attrs:
                del made.attrs[name]
        self.has_references |= bool(leading)

    def _attach_scales(self, name: str, found: Any) -> None:
        made = self._target[name]
        for number, axis in enumerate(found.dims if found.shape else ()):
            if axis.label and not made.dims[number].label:
                made.dims[number].label = axis.label
            for scale in axis.values() if len(axis) else ():
                made.dims[number].attach_scale(self._target[scale.name])


def _parts(dataset: Any) -> list[Any]:
    """Return what selects one part of a dataset after another, no chunk in more than one."""
    if not dataset.shape:
        return [()] if dataset.shape is not None else []
    lengths = list(dataset.chunks or (1,) * dataset.ndim)
    for axis in reversed(range(dataset.ndim)):
        n_chunks = max(1, _PIECE // prod(lengths))
        lengths[axis] = max(1, min(dataset.shape[axis], lengths[axis] * n_chunks))
    grid = Grid.regular(dataset.shape, lengths)
    return [grid.block(index).slices for index in grid.indices()]


def _has_any_length(kind: Any) -> bool:
    is_text = isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str()
    return is_text or bool(kind.detect_class(h5py.h5t.VLEN))


@contextmanager
def _copying(path: Path, name: str) -> Iterator[None]:
    """Tell what cannot be read from what cannot be written, and name it."""
    try:
        yield
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        if getattr(error, "errno", None) is not None or "write failed" in str(error):
            with writing(path):
                raise
        raise UsageError(f"dataset {printable(name)} cannot be copied: {brief(error)}") from error
