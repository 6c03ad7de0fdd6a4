"""Files of NetCDF as a whole: those of version 4 as HDF5 has them, those of version 3 made anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError, printable
from dask_io.formats.hdf5 import whole as hdf5
from dask_io.formats.hdf5.file import open_own, writing
from dask_io.formats.hdf5.scales import HIDDEN
from dask_io.formats.hdf5.source import Hdf5Source
from dask_io.formats.netcdf.conventions import can_be_said, has_other_types, has_type, sign
from dask_io.formats.netcdf.outline import Outline, Outlined, outline_of
from dask_io.formats.netcdf.source import (
    ClassicSource,
    Netcdf4Original,
    belonging_to_dataset,
    open_header,
    plain_values,
    read_classic,
    single,
    typed_in,
)
from dask_io.formats.netcdf.surroundings import MOST_BYTES, last_of
from dask_io.geometry import Grid
from dask_io.hierarchy.whole import Whole, digest, identity_of
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.cf_attributes import FILL_VALUE, TRUTH, gap_of
from dask_io.stores.not_kept import says_other_gap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from dask_io.formats.netcdf.classic import Header, Variable
    from dask_io.hierarchy.whole import Content
    from dask_io.stores.container import Wanted
    from dask_io.stores.store import Source

# Records that are not re-split become chunks of about so many bytes.
_CHUNK_BYTES = 4 * 2**20


class _Variable(Hdf5Source):
    """A variable of NetCDF 4 that is moved with all others."""

    format = "netcdf"

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the variable says, and where it is."""
        said = super().metadata
        where = {"netcdf": Netcdf4Original(self.path, self.inside)}
        return MappingProxyType({**said, **where, "attributes": single(said["attributes"])})


@dataclass(frozen=True)
class Netcdf4Model(hdf5.Hdf5Model):
    """A file of NetCDF 4."""

    def build(self, path: Path, wanted: Mapping[str, Wanted]) -> tuple[str, ...]:
        """Make a file with all that is in this one, but without the values of some variables."""
        not_kept = super().build(path, wanted)
        with writing(path), open_own(path, "r+") as file:
            sign(file)
        return not_kept


def open_netcdf4(path: Path, *, each: bool) -> Whole:
    """Look at everything in a file of version 4; if all belongs to one, only with `each`."""
    found = hdf5.open_all(
        path, kind=_Variable, model=Netcdf4Model(path), belonging_to=belonging_to_dataset, each=each
    )
    said = {name: single(attributes) for name, attributes in found.attributes.items()}
    hidden = any(name.rpartition("/")[2].startswith(HIDDEN) for name in found.dimensions)
    peculiar = (*found.peculiar, *(["names_of_variables"] if hidden else []))
    return replace(found, attributes=said, peculiar=peculiar)


def open_classic_file(path: Path) -> Whole:
    """Look at everything in a file of version 3.

    Raises
    ------
    DataError
        If its header cannot be trusted, or it is truncated.
    """
    header, size = open_header(path)
    arrays = {}
    for name, one in header.variables.items():
        if one.end > size:
            short = f"is truncated: it has {size} bytes, {name} ends at {one.end}"
            raise DataError(printable(str(path)), [printable(short)])
        if one.shape:
            arrays[name] = ClassicSource(path, header, one)
    return Whole(
        root=path,
        content=ClassicModel(path, header),
        format="netcdf",
        arrays=arrays,
        others={name: "has no axes" for name, one in header.variables.items() if not one.shape},
        dimensions={name: one.dimensions for name, one in header.variables.items()},
        only=_find_only(header, arrays),
        is_alone=len(header.variables) == 1,
        uncopied={
            name: "has the name of a dimension, but does not lie along it alone"
            for name, one in header.variables.items()
            if name in header.dimensions and one.dimensions != (name,)
        },
        kept={name: _kept(one) for name, one in header.variables.items() if one.shape},
        attributes={
            "": plain_values(header.attributes),
            **{
                name: plain_values(one.attributes)
                for name, one in header.variables.items()
                if not one.shape
            },
        },
        shapes={name: () for name, one in header.variables.items() if not one.shape},
        peculiar=tuple(_peculiar(header)),
    )


def _peculiar(header: Header) -> Iterator[str]:
    """Yield names for what only NetCDF has a place for."""
    if header.record:
        yield "unlimited_dimensions"
    if set(header.dimensions).difference(*(one.dimensions for one in header.variables.values())):
        yield "unused_dimensions"
    variables = header.variables.values()
    if typed_in(header.attributes) or any(typed_in(one.attributes, one.dtype) for one in variables):
        yield "types_of_attributes"


def _find_only(header: Header, arrays: Mapping[str, ClassicSource]) -> str | None:
    """Return the one variable that all others belong to, if there is one."""
    data = [name for name in arrays if header.variables[name].dimensions != (name,)]
    if len(data) != 1:
        return None
    beside = [header.variables[name] for name in arrays[data[0]].metadata["coordinates"]]
    if sum(prod(one.shape) * one.dtype.itemsize for one in beside) > MOST_BYTES:
        return None
    known = {data[0], *(one.name for one in beside)}
    used = {axis for name in known for axis in header.variables[name].dimensions}
    has_all = known.issuperset(header.variables) and used.issuperset(header.dimensions)
    return data[0] if has_all else None


def _kept(one: Variable) -> Grid:
    """Return the blocks of a variable that is not re-split: several records in each."""
    lengths = [max(1, length) for length in one.shape]
    if one.step is not None:
        n_bytes = max(1, prod(lengths[1:]) * one.dtype.itemsize)
        lengths[0] = max(1, min(lengths[0], _CHUNK_BYTES // n_bytes))
    return Grid.regular(one.shape, lengths)


@dataclass(frozen=True)
class ClassicModel:
    """A file of NetCDF 3, of which one of NetCDF 4 is made."""

    path: Path
    header: Header

    @property
    def file(self) -> Path:
        """The file."""
        return self.path

    def identity(self) -> int:
        """Return a number that changes when the file does."""
        return identity_of(self.path)

    def contents(self) -> set[str]:
        """Return the names of all that the file holds."""
        return self._outline.contents()

    def build(self, path: Path, wanted: Mapping[str, Wanted]) -> tuple[str, ...]:
        """Make a file with all that is in this one, but without the values of some variables."""
        self._outline.build(path, wanted, self.read)
        owners = [
            self.header.attributes,
            *(one.attributes for one in self.header.variables.values()),
        ]
        return () if all(map(can_be_said, chain(*owners))) else ("some_attributes",)

    @property
    def _outline(self) -> Outline:
        header = self.header
        return Outline(
            attributes={"": header.attributes},
            dimensions=header.dimensions,
            variables={
                name: Outlined(one.dimensions, one.attributes)
                for name, one in header.variables.items()
            },
            unlimited=frozenset([header.record] if header.record else []),
        )

    def read(self, name: str) -> Any:
        """Return the values of a variable that is copied as it is."""
        with storage_errors(self.path):
            return read_classic(self.path, self.header.variables[name])

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """Return checksums of the values of variables."""
        return {name: digest([self.read(name)]) for name in names}


@dataclass(frozen=True)
class OtherModel:
    """What is in another format, of which a file of NetCDF 4 is made."""

    content: Content
    outline: Outline
    not_kept: tuple[str, ...]

    file = None

    def identity(self) -> int:
        """Return a number that changes when what is in the other format does."""
        return self.content.identity()

    def contents(self) -> set[str]:
        """Return the names of all that the file will hold."""
        return self.outline.contents()

    def build(self, path: Path, wanted: Mapping[str, Wanted]) -> tuple[str, ...]:
        """Make a file with all that there is, but without the values of some variables."""
        self.outline.build(path, wanted, self.read)
        return self.not_kept

    def read(self, name: str) -> Any:
        """Return the values of a variable that is copied as it is."""
        return self.content.read(name)

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """Return checksums of the values of variables."""
        return self.content.digests(names)


def _loses_gap(source: Source) -> bool:
    """Tell whether an array says by the name of a value for gaps what is none."""
    said, dtype = source.metadata, source.dtype
    is_none = FILL_VALUE in said["attributes"] and gap_of(said, dtype) is None
    return is_none or says_other_gap(said, dtype)


def as_netcdf(source: Whole, *, is_strict: bool) -> Whole:
    """Return what is in another format as a file of NetCDF 4 holds it, or one of HDF5 like it.

    The former holds fewer types of elements. Texts of one length become texts of any length, and
    truth becomes numbers that xarray knows again.

    Raises
    ------
    UsageError
        If dimensions of one name differ in length.
    """
    texts = {name: each for name, each in source.arrays.items() if each.dtype.kind == "U"}
    arrays = {name: each for name, each in source.arrays.items() if name not in texts}
    others = {**source.others, **dict.fromkeys(texts, "holds texts")}
    said = {name: each.metadata["attributes"] for name, each in texts.items()}
    plain = replace(
        source,
        arrays=arrays,
        others=others,
        attributes={**source.attributes, **said},
        shapes={**source.shapes, **{name: each.grid.shape for name, each in texts.items()}},
    )
    outline = outline_of(plain)
    uncopied = {
        name: "has the name of a dimension, but does not lie along it alone"
        for name, one in outline.variables.items()
        if name in outline.dimensions and one.dimensions != (name,)
    }
    converted = {name: TRUTH for name, each in arrays.items() if each.dtype.kind == "b"}
    if is_strict:
        uncopied |= {
            name: f"has elements of {each.dtype}, for which NetCDF has no type (HDF5 has: call the "
            "file .h5)"
            for name, each in arrays.items()
            if not has_type(converted.get(name, each.dtype))
        }
    owners = [
        *plain.attributes.values(),
        *(each.metadata["attributes"] for each in arrays.values()),
    ]
    has_more = {
        "some_attributes": not all(map(can_be_said, chain(*owners)))
        or any(_loses_gap(each) for each in arrays.values()),
        "types_of_attributes": any(map(has_other_types, owners)),
        "dimension_names": any(
            name and name != last_of(held)
            for path, names in plain.dimensions.items()
            for name, held in zip(names, outline.variables[path].dimensions, strict=False)
        ),
        "booleans": bool(converted),
    }
    lost = dict.fromkeys(
        (*source.peculiar, *(name for name, is_lost in has_more.items() if is_lost))
    )
    model = OtherModel(source.content, outline, tuple(lost))
    uncopied |= source.uncopied
    return replace(plain, content=model, uncopied=uncopied, converted=converted)
