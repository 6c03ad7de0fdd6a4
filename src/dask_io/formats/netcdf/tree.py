"""Trees of NetCDF 4, which are HDF5; NetCDF 3 and other formats are converted to them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError
from dask_io.formats.hdf5.dialects import HIDDEN, Dialect, Hdf5Model, open_own, writing
from dask_io.formats.hdf5.dialects import read_tree as read_hdf5_tree
from dask_io.formats.netcdf.conventions import (
    has_other_types,
    has_type,
    is_attribute_name,
    is_name,
    sign,
)
from dask_io.formats.netcdf.outline import Outline, OutlinedVariable, outline_of
from dask_io.formats.netcdf.related_variables import MOST_BYTES
from dask_io.formats.netcdf.source import (
    ClassicChunks,
    complete_member,
    open_header,
    plain_values,
    read_classic,
    related_to_dataset,
    single,
    types_beyond_json,
)
from dask_io.geometry import Grid
from dask_io.hierarchy.checksums import digest, identity_of
from dask_io.hierarchy.conversions import (
    copy_text_verbatim,
    has_renamed_dimensions,
    place_dimensions,
    refuse_misnamed,
    refuse_types,
    store_booleans_as_integers,
)
from dask_io.hierarchy.cut import cut_values
from dask_io.hierarchy.tree import ROOT, Tree, TreeArray
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.cf_attributes import FILL_VALUE, missing_value_of
from dask_io.stores.chunked_source import ChunkedSource
from dask_io.stores.not_kept import attribute_contradicts_fill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from dask_io.formats.netcdf.classic import Header, Variable
    from dask_io.hierarchy.cut import Bounds
    from dask_io.hierarchy.tree import Content
    from dask_io.stores.container import NewArray
    from dask_io.stores.store import Source

# Records that are not re-split become chunks of about this many bytes.
_CHUNK_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Netcdf4Model(Hdf5Model):
    """A file of NetCDF 4."""

    def build(self, path: Path, wanted: Mapping[str, NewArray]) -> tuple[str, ...]:
        """Create a file with everything in this one, except the values of `wanted` variables."""
        not_kept = super().build(path, wanted)
        with writing(path), open_own(path, "r+") as file:
            sign(file)
        return not_kept


def read_netcdf4_tree(path: Path, *, each: bool) -> Tree:
    """Read the metadata of everything in a file of version 4.

    If everything belongs to one variable, the others are read only with `each`.
    """
    found = read_hdf5_tree(
        path,
        dialect=Dialect("netcdf", complete_member),
        content=Netcdf4Model(path),
        belonging_to=related_to_dataset,
        each=each,
    )
    hidden = any(name.rpartition("/")[2].startswith(HIDDEN) for name in found.arrays)
    return replace(
        found,
        groups={name: single(attributes) for name, attributes in found.groups.items()},
        arrays={
            name: array if array.source else replace(array, attributes=single(array.attributes))
            for name, array in found.arrays.items()
        },
        shares_dimensions=True,
        format_specific=(*found.format_specific, *(["names_of_variables"] if hidden else [])),
    )


def read_classic_tree(path: Path) -> Tree:
    """Read the metadata of everything in a file of version 3.

    Raises
    ------
    DataError
        If its header is invalid, or the file is truncated.
    """
    header, size = open_header(path)
    arrays = {}
    for name, one in header.variables.items():
        if one.end > size:
            short = f"is truncated: it has {size} bytes, {name} ends at {one.end}"
            raise DataError(str(path), [short])
        if one.shape:
            source = ChunkedSource(ClassicChunks(path, header, one))
            arrays[name] = TreeArray.of(source, one.dimensions, kept_grid=_kept_grid(one))
        else:
            attributes = plain_values(one.attributes)
            arrays[name] = TreeArray((), one.dimensions, attributes, verbatim="has no axes")
    return Tree(
        root=path,
        format="netcdf",
        content=_classic_model(path, header),
        groups={ROOT: plain_values(header.attributes)},
        arrays=arrays,
        refused={
            name: "has the name of a dimension, but does not lie along it alone"
            for name, one in header.variables.items()
            if name in header.dimensions and one.dimensions != (name,)
        },
        shares_dimensions=True,
        format_specific=tuple(_format_specific(header)),
        main=_find_main(header, arrays),
        has_others=len(arrays) > 1,
    )


def _format_specific(header: Header) -> Iterator[str]:
    """Yield names for everything that only NetCDF can store."""
    if header.record:
        yield "unlimited_dimensions"
    if set(header.dimensions).difference(*(one.dimensions for one in header.variables.values())):
        yield "unused_dimensions"
    variables = header.variables.values()
    if types_beyond_json(header.attributes) or any(
        types_beyond_json(one.attributes, one.dtype) for one in variables
    ):
        yield "types_of_attributes"


def _find_main(header: Header, arrays: Mapping[str, TreeArray]) -> str | None:
    """Return the one variable that all others belong to, if there is one."""
    sources = {name: each.source for name, each in arrays.items() if each.source is not None}
    data = [name for name in sources if header.variables[name].dimensions != (name,)]
    if len(data) != 1:
        return None
    related = [header.variables[name] for name in sources[data[0]].metadata["coordinates"]]
    if sum(prod(one.shape) * one.dtype.itemsize for one in related) > MOST_BYTES:
        return None
    known = {data[0], *(one.name for one in related)}
    used = {axis for name in known for axis in header.variables[name].dimensions}
    has_all = known.issuperset(header.variables) and used.issuperset(header.dimensions)
    return data[0] if has_all else None


def _kept_grid(one: Variable) -> Grid:
    """Return the chunks of a variable that is not re-split, each of several records."""
    lengths = [max(1, length) for length in one.shape]
    if one.step is not None:
        n_bytes = max(1, prod(lengths[1:]) * one.dtype.itemsize)
        lengths[0] = max(1, min(lengths[0], _CHUNK_BYTES // n_bytes))
    return Grid.regular(one.shape, lengths)


@dataclass(frozen=True)
class ClassicContent:
    """The values of a NetCDF 3 file."""

    path: Path
    header: Header
    bounds: Mapping[str, Bounds] = field(default_factory=dict)

    def identity(self, names: Iterable[str] | None = None) -> int:  # noqa: ARG002 - one file
        """Return a number that changes when the file does."""
        return identity_of(self.path)

    def read(self, name: str) -> Any:
        """Return the values of a variable that is copied verbatim."""
        found = self.header.variables[name]
        with storage_errors(self.path):
            values = read_classic(self.path, found)
        return cut_values(values, found.dimensions, self.bounds)

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """Return checksums of the values of variables."""
        return {name: digest([self.read(name)]) for name in names}

    def cut(self, bounds: Mapping[str, Bounds]) -> ClassicContent:
        """Return the content of a part of the file."""
        return replace(self, bounds=bounds)


@dataclass(frozen=True)
class OutlinedModel:
    """A NetCDF 4 file that is created from an outline, with values of another format.

    `file` is the file of these values, if a library could crash on it.
    """

    content: Content
    outline: Outline
    not_kept: tuple[str, ...]
    file: Path | None = None

    def identity(self, names: Iterable[str] | None = None) -> int:
        """Return a number that changes when the data in the other format does."""
        return self.content.identity(names)

    def contents(self) -> set[str]:
        """Return the names of everything that the file will contain."""
        return self.outline.contents()

    def build(self, path: Path, wanted: Mapping[str, NewArray]) -> tuple[str, ...]:
        """Create a file with everything except the values of `wanted` variables."""
        self.outline.build(path, wanted, self.read)
        return self.not_kept

    def read(self, name: str) -> Any:
        """Return the values of a variable that is copied verbatim."""
        return self.content.read(name)

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """Return checksums of the values of variables."""
        return self.content.digests(names)

    def cut(self, bounds: Mapping[str, Bounds]) -> OutlinedModel:
        """Return the model of a file with a part of the content."""
        return replace(self, content=self.content.cut(bounds), outline=self.outline.cut(bounds))


def _classic_model(path: Path, header: Header) -> OutlinedModel:
    """Return the model of a NetCDF 4 file with the content of a NetCDF 3 file."""
    outline = Outline(
        attributes={ROOT: header.attributes},
        dimensions=header.dimensions,
        variables={
            name: OutlinedVariable(one.dimensions, one.attributes)
            for name, one in header.variables.items()
        },
        unlimited=frozenset([header.record] if header.record else []),
    )
    owners = [header.attributes, *(one.attributes for one in header.variables.values())]
    not_kept = () if all(map(is_attribute_name, chain(*owners))) else ("some_attributes",)
    return OutlinedModel(ClassicContent(path, header), outline, not_kept, file=path)


def to_netcdf(tree: Tree, *, is_strict: bool) -> Tree:
    """Convert a tree of another format to one that a NetCDF 4 file can hold.

    Unless `is_strict`, types of elements that only HDF5 has are allowed too. Strings of a fixed
    length become strings of any length, and booleans become integers that xarray reads as booleans.

    Raises
    ------
    UsageError
        If dimensions of one name differ in length.
    """
    converted = place_dimensions(copy_text_verbatim(tree), is_name)
    converted = refuse_misnamed(store_booleans_as_integers(converted))
    if is_strict:
        reason = "has elements of {}, for which NetCDF has no type; write .h5 instead"
        converted = refuse_types(converted, has_type, reason)
    lost = dict.fromkeys((*tree.format_specific, *_lost(converted)))
    model = OutlinedModel(tree.content, outline_of(converted), tuple(lost))
    return replace(converted, content=model)


def _lost(converted: Tree) -> Iterator[str]:
    """Yield names for everything in a converted tree that NetCDF cannot store."""
    owners = [*converted.groups.values(), *(each.attributes for each in converted.arrays.values())]
    sources = converted.sources.values()
    if not all(map(is_attribute_name, chain(*owners))) or any(map(_loses_fill_value, sources)):
        yield "some_attributes"
    if any(map(has_other_types, owners)):
        yield "types_of_attributes"
    if has_renamed_dimensions(converted):
        yield "dimension_names"
    if any(each.dtype is not None for each in converted.arrays.values()):
        yield "booleans"


def _loses_fill_value(source: Source) -> bool:
    """Tell whether the fill value in the attributes does not fit the type of the elements."""
    metadata, dtype = source.metadata, source.dtype
    is_other = FILL_VALUE in metadata["attributes"] and missing_value_of(metadata, dtype) is None
    return is_other or attribute_contradicts_fill(metadata, dtype)
