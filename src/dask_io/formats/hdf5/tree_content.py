"""The content of an HDF5 file, and copies of it with other chunks.

Datasets whose chunks change are created again. HDF5 copies everything else, in a subprocess.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]

from dask_io.errors import UsageError
from dask_io.formats.hdf5.attributes import (
    INTERNAL,
    beyond_json,
    copy_attributes,
)
from dask_io.formats.hdf5.create import make_dataset
from dask_io.formats.hdf5.file import brief, in_subprocess_for_long, open_own, reading, writing
from dask_io.formats.hdf5.filters import type_of
from dask_io.formats.hdf5.overwrite import contents_at
from dask_io.formats.hdf5.scales import (
    is_bare,
    name_of_scale,
    names_of,
    numbered_dimensions,
    renamed_scale,
)
from dask_io.formats.hdf5.types import dtype_of
from dask_io.formats.hdf5.walk import Alias, named_type, types_in, walk
from dask_io.geometry import Grid, Region
from dask_io.hierarchy.checksums import digest, identity_of
from dask_io.hierarchy.cut import region_along
from dask_io.stores.cf_attributes import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import Self

    from dask_io.hierarchy.cut import Bounds
    from dask_io.stores.container import NewArray

# Attributes with references to other objects of the file. They are created again.
_REFERRING = ("DIMENSION_LIST", "REFERENCE_LIST")
# Internal attributes that are valid in another file too.
_NOTES = tuple(sorted(INTERNAL.difference({*_REFERRING, "CLASS", "NAME", "_NCProperties"})))
# Elements of variable length that are copied at once.
_PIECE = 2**14


@dataclass(frozen=True)
class Hdf5Model:
    """An HDF5 file, or a file of a format based on HDF5."""

    path: Path
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    """Start and stop along each dimension of which the content is only a part."""

    @property
    def file(self) -> Path:
        """The file."""
        return self.path

    def identity(self, names: Iterable[str] | None = None) -> int:  # noqa: ARG002 - one file
        """Return a number that changes when the file does."""
        return identity_of(self.path)

    def contents(self) -> set[str]:
        """Return the names of everything in the file."""
        return contents_at(self.path)

    def cut(self, bounds: Mapping[str, Bounds]) -> Self:
        """Return the content of a part of the file."""
        return replace(self, bounds=bounds)

    def build(self, path: Path, wanted: Mapping[str, NewArray]) -> tuple[str, ...]:
        """Create a file with everything in this one except the values of some datasets."""
        with reading(self.path) as source:
            in_order = bool(source["/"].id.get_create_plist().get_link_creation_order())
            with writing(path), open_own(path, "w", track_order=in_order) as target:
                copy = _Copy(source, target, wanted, self.bounds, in_order=in_order)
                copy.run(path)
            has_more = {
                "references": copy.has_references,
                "names_of_types": copy.has_lost_types,
                "user_block": source.userblock_size,
            }
        return tuple(name for name, is_lost in has_more.items() if is_lost)

    def read(self, name: str) -> Any:
        """Return the values of a dataset that is copied verbatim."""
        return in_subprocess_for_long(self.path, _read_values, self.path, name, self.bounds)

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """Return checksums of the values of datasets."""
        named = list(names)
        return in_subprocess_for_long(self.path, _digest_values, self.path, named, self.bounds)


def _read_values(path: Path, name: str, bounds: Mapping[str, Bounds]) -> Any:
    with reading(path) as file:
        region = _region_in(file[name], bounds, _numbered_in(file, bounds))
        return _values(file[name])[() if region is None else region.slices]


def _numbered_in(file: Any, bounds: Mapping[str, Bounds]) -> dict[int, str]:
    """Return the dimensions of a file by their numbers, if any of them is cut."""
    found = dict(walk(file)).values() if bounds else ()
    return numbered_dimensions(each for each in found if isinstance(each, h5py.Dataset))


def _region_in(
    dataset: Any, bounds: Mapping[str, Bounds], numbered: Mapping[int, str]
) -> Region | None:
    """Return the region of a dataset within bounds of dimensions, None if none is bounded."""
    if not bounds or not dataset.shape:
        return None
    names = names_of(dataset, numbered) or (None,) * dataset.ndim
    return region_along(names, dataset.shape, bounds)


def _values(dataset: Any) -> Any:
    """Return a view of a dataset that reads strings as `str`."""
    is_text = h5py.check_string_dtype(dataset.dtype) is not None
    return dataset.asstr(errors="surrogateescape") if is_text else dataset


def _digest_values(path: Path, names: list[str], bounds: Mapping[str, Bounds]) -> dict[str, str]:
    with reading(path) as file:
        numbered = _numbered_in(file, bounds)
        regions = {name: _region_in(file[name], bounds, numbered) for name in names}
        return {
            name: digest(_values(file[name])[part] for part, _ in _parts(file[name], region))
            for name, region in regions.items()
        }


class _Copy:
    """Copies everything in a file to another one."""

    def __init__(
        self,
        source: Any,
        target: Any,
        wanted: Mapping[str, NewArray],
        bounds: Mapping[str, Bounds],
        *,
        in_order: bool,
    ) -> None:
        self._source, self._target, self._wanted = source, target, wanted
        self._bounds, self._in_order = bounds, in_order
        self._numbered = _numbered_in(source, bounds)
        self._types: dict[int | None, str] = {}
        self.has_references = self.has_lost_types = False

    def run(self, path: Path) -> None:
        """Copy everything, objects that others refer to first."""
        content = dict(walk(self._source))
        self._types = types_in(content)
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
        region = _region_in(found, self._bounds, self._numbered)
        if name in self._wanted:
            wanted = self._wanted[name]
            kind = self._kind(found) if found.dtype == wanted.dtype else type_of(wanted.dtype)
            made = make_dataset(
                self._target, wanted, name, in_order=self._in_order, kind=kind, original=found
            )
        elif (
            region is not None
            or _has_any_length(found.id.get_type())
            or self._has_named_type(found)
        ):
            made = self._copy_values(name, found, region)
        else:
            self._copy_object(name)
            self._drop_references(self._target[name])
            self.has_lost_types |= named_type(found) is not None
            return
        if found.is_scale:
            length = None if region is None else made.shape[0]
            made.make_scale(
                name_of_scale(found) if length is None else renamed_scale(found, length)
            )
        self._copy_attributes(found, made)

    def _copy_values(self, name: str, found: Any, region: Region | None) -> Any:
        """Copy values through memory if a copy by HDF5 would change the dataset.

        HDF5 copies no parts, and loses the fill value of elements of variable length, and the name
        of a type.
        """
        kind, space, plist = self._kind(found), found.id.get_space(), found.id.get_create_plist()
        if region is not None:
            most = tuple(
                None if n is None else m for n, m in zip(found.maxshape, region.shape, strict=True)
            )
            space = h5py.h5s.create_simple(
                region.shape, tuple(h5py.h5s.UNLIMITED if n is None else n for n in most)
            )
            if found.chunks:
                plist.set_chunk(_chunks_within(found.chunks, most))
        made = h5py.Dataset(h5py.h5d.create(self._target.id, name.encode(), kind, space, plist))
        if not is_bare(found):
            for part, into in _parts(found, region):
                made[into] = found[part]
        return made

    def _has_named_type(self, found: Any) -> bool:
        """Tell whether elements have a named type, and can be copied through memory."""
        is_coded = found.id.get_create_plist().get_nfilters() > 0
        return named_type(found) in self._types and dtype_of(found) is not None and not is_coded

    def _kind(self, found: Any) -> Any:
        """Return the type of a dataset; a named type is that of the copy."""
        path = self._types.get(named_type(found))
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


def _chunks_within(chunks: tuple[int, ...], shape: tuple[int | None, ...]) -> tuple[int, ...]:
    """Return the chunks of a smaller dataset; None is an axis that can grow."""
    pairs = zip(chunks, shape, strict=True)
    return tuple(chunk if n is None else max(1, min(chunk, n)) for chunk, n in pairs)


def _parts(dataset: Any, region: Region | None = None) -> list[tuple[Any, Any]]:
    """Return selections that together cover a dataset, or a region of it.

    Each comes with the selection in a copy of the region. In a copy with the same chunks, no chunk
    is in more than one.
    """
    if not dataset.shape:
        return [((), ())] if dataset.shape is not None else []
    region = region or Region.whole(dataset.shape)
    limits = tuple(
        None if n is None else m for n, m in zip(dataset.maxshape, region.shape, strict=True)
    )
    lengths = list(_chunks_within(dataset.chunks or (1,) * dataset.ndim, limits))
    for axis in reversed(range(dataset.ndim)):
        n_chunks = max(1, _PIECE // prod(lengths))
        lengths[axis] = max(1, min(region.shape[axis], lengths[axis] * n_chunks))
    grid = Grid.regular(region.shape, lengths)
    blocks = [grid.block(index) for index in grid.indices()]
    return [(block.shifted_by(region.start).slices, block.slices) for block in blocks]


def _has_any_length(kind: Any) -> bool:
    is_text = isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str()
    return is_text or bool(kind.detect_class(h5py.h5t.VLEN))


@contextmanager
def _copying(path: Path, name: str) -> Iterator[None]:
    """Report a dataset that cannot be read, to distinguish it from a failure to write."""
    try:
        yield
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        if getattr(error, "errno", None) is not None or "write failed" in str(error):
            with writing(path):
                raise
        raise UsageError(f"dataset {name} cannot be copied: {brief(error)}") from error
