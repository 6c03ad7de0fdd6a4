"""Read a variable of NetCDF 4, which is HDF5 inside, or of NetCDF 3, by its header."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np
from xxhash import xxh3_64_hexdigest

from dask_io.errors import DataError, UsageError, list_names
from dask_io.formats.hdf5.dialects import (
    HIDDEN,
    Dialect,
    attributes_of,
    find_dataset,
    in_subprocess,
    is_bare,
    read_description,
    reading,
    recorded_dimensions,
    refuse_others,
)
from dask_io.formats.netcdf.classic import read_header
from dask_io.formats.netcdf.conventions import numeric_value
from dask_io.formats.netcdf.enumerations import name_of_enumeration
from dask_io.formats.netcdf.related_variables import (
    MOST_BYTES,
    RelatedVariables,
    find_related,
    gather,
    last_of,
)
from dask_io.geometry import Grid, Layout
from dask_io.storage.files import peeking
from dask_io.storage.local.transport import FileReader
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Tally
from dask_io.stores.cf_attributes import FILL_VALUE, is_plain_number
from dask_io.stores.chunked_source import ChunkedSource, Chunks, Located
from dask_io.stores.container import INSIDE
from dask_io.stores.spec import ArraySpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from dask_io.formats.netcdf.classic import Header, Variable
    from dask_io.geometry import Region


@dataclass(frozen=True)
class Netcdf4Original:
    """A variable of NetCDF 4, to find everything that belongs to it."""

    path: Path
    inside: str

    def __str__(self) -> str:
        return f"{self.path}{INSIDE}/{self.inside}"

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the variables that belong to it."""
        return in_subprocess(self.path, self._find_coordinates)

    def _find_coordinates(self) -> tuple[str, ...]:
        with reading(self.path) as file:
            dataset = find_dataset(file, self.path, self.inside)
            found = find_related(dataset.name, _Lookup(dataset))
            return tuple(last_of(path).removeprefix(HIDDEN) for path in found)

    def read(self, region: Region | None) -> RelatedVariables:
        """Read everything that belongs to the variable, or to a region of it."""
        with reading(self.path) as file:
            dataset = find_dataset(file, self.path, self.inside)
            lookup = _Lookup(dataset)
            main = _Dataset(dataset)
            above = [main.path[:at] for at, sign in enumerate(main.path) if sign == "/"]
            return RelatedVariables(
                name=main.path,
                dimensions=main.dimensions,
                attributes=main.attributes,
                groups={path: _typed_attributes(file[f"/{path}"]) for path in ("", *above)},
                unlimited=lookup.unlimited(main),
                variables=gather(dataset.name, lookup, region),
            )


def related_to_dataset(dataset: Any) -> set[str]:
    """Return the paths of the variables that belong to one; none if they are too large."""
    found = find_related(dataset.name, _Lookup(dataset))
    if sum(prod(one.shape) * one.dtype.itemsize for one in found.values()) > MOST_BYTES:
        return set()
    return set(found)


@dataclass(frozen=True)
class _Lookup:
    """Looks up variables in the group of one, and in the groups around it."""

    main: Any

    def __call__(self, name: str) -> _Dataset | None:
        found = self._find(name)
        if found is not None and is_bare(found):
            found = _follow(found.parent, f"{HIDDEN}{last_of(found.name)}")
        return None if found is None else _Dataset(found)

    def _find(self, name: str) -> Any:
        if name.startswith("/"):
            return _follow(self.main.file, name)
        group = self.main.parent
        while (found := _follow(group, name)) is None and group.name != "/":
            group = group.parent
        return found

    def unlimited(self, main: _Dataset) -> frozenset[str]:
        """Return the unlimited dimensions."""
        lengths = zip(main.dimensions, main.dataset.maxshape, strict=True)
        return frozenset(name for name, most in lengths if most is None)


def _follow(group: Any, path: str) -> Any:
    """Return a dataset in a group or below, following hard links only; None if not found."""
    found = group
    for name in filter(None, path.split("/")):
        link = found.get(name, getlink=True) if isinstance(found, h5py.Group) else None
        if not isinstance(link, h5py.HardLink):
            return None
        found = found[name]
    return found if isinstance(found, h5py.Dataset) else None


@dataclass(frozen=True)
class _Dataset:
    """A variable as HDF5 stores it."""

    dataset: Any

    def __post_init__(self) -> None:
        refuse_others(self.dataset)

    @property
    def path(self) -> str:
        """Path in the file."""
        name: str = self.dataset.name
        return name.strip("/")

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        """Paths of its dimension scales; a scale is its own dimension."""
        if self.dataset.is_scale and self.dataset.ndim == 1:
            return (self.path,)
        noted = recorded_dimensions(self.dataset) or [
            axis[0].name.strip("/") if len(axis) else None for axis in self.dataset.dims
        ]
        return tuple(path or f"{self.path}_{number}" for number, path in enumerate(noted))

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis."""
        return tuple(self.dataset.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its elements."""
        found: np.dtype[Any] = self.dataset.dtype
        return found

    @property
    def type_name(self) -> str:
        """Name of the enumeration that its values are of; empty if they are of none."""
        return name_of_enumeration(self.dataset)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Its attributes, with their types."""
        return _typed_attributes(self.dataset)

    def read(self, slices: tuple[slice, ...]) -> NDArray[Any]:
        """Read a part of its values."""
        return np.asarray(self.dataset[slices], self.dataset.dtype)


def _typed_attributes(owner: Any) -> dict[str, Any]:
    found = {}
    for each in attributes_of(owner):
        is_empty = isinstance(each.value, h5py.Empty)
        found[each.name] = (
            (b"" if is_empty else each.value) if each.is_text else numeric_value(each)
        )
    return {name: value for name, value in found.items() if value is not None}


def _complete(path: Path, inside: str, described: dict[str, Any]) -> Mapping[str, Any]:
    """Add the variables that belong to one to its metadata."""
    completed = complete_member(path, inside, described)
    return {**completed, "coordinates": completed["netcdf"].coordinates}


def complete_member(path: Path, inside: str, described: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a variable in the form of NetCDF, and where it is stored."""
    attributes = single(described["attributes"])
    return {**described, "attributes": attributes, "netcdf": Netcdf4Original(path, inside)}


NETCDF4 = Dialect("netcdf", _complete)


def single(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with lists of one value as that value; to NetCDF they are the same."""
    return {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value
        for name, value in attributes.items()
    }


def plain_values(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert attributes of version 3 to plain values."""
    return single(
        {
            name: value.tolist() if isinstance(value, np.ndarray) else _text(value)
            for name, value in attributes.items()
        }
    )


def types_beyond_json(
    attributes: Mapping[str, Any], dtype: np.dtype[Any] | None = None
) -> tuple[str, ...]:
    """Return the names of version 3 attributes whose types JSON cannot represent.

    `dtype` is that of the variable's elements, None for attributes of the file.
    """
    return tuple(
        name
        for name, value in attributes.items()
        if not (
            is_plain_number(name, value.dtype, dtype)
            if isinstance(value, np.ndarray)
            else _type_name(value) == "text"
        )
    )


def _type_name(value: Any) -> str:
    """Return the name that the type of an attribute would have in HDF5."""
    if isinstance(value, np.ndarray):
        return str(value.dtype.newbyteorder("=").str)
    return "text" if _text(value).encode() == value else "bytes"


@dataclass(frozen=True)
class ClassicOriginal:
    """A variable of NetCDF 3, with the header of its file."""

    path: Path
    header: Header
    name: str

    @property
    def inside(self) -> str:
        """The variable's name."""
        return self.name

    def __str__(self) -> str:
        return f"{self.path}{INSIDE}/{self.name}"

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes of the variable, with their types."""
        return self.header.variables[self.name].attributes

    @property
    def attributes_of_file(self) -> Mapping[str, Any]:
        """Attributes of the file, with their types."""
        return self.header.attributes

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the variables that belong to it."""
        return tuple(find_related(self.name, self._look_up))

    def read(self, region: Region | None) -> RelatedVariables:
        """Read everything that belongs to the variable, or to a region of it."""
        header, main = self.header, self.header.variables[self.name]
        return RelatedVariables(
            name=self.name,
            dimensions=main.dimensions,
            attributes=main.attributes,
            groups={"": header.attributes},
            unlimited=frozenset([header.record] if header.record else []),
            variables=gather(self.name, self._look_up, region),
        )

    def _look_up(self, name: str) -> _Classic | None:
        found = self.header.variables.get(name.removeprefix("/"))
        return None if found is None else _Classic(self.path, found)


@dataclass(frozen=True)
class _Classic:
    """A small variable of NetCDF 3."""

    file: Path
    variable: Variable

    @property
    def path(self) -> str:
        """Its name: there are no groups."""
        return self.variable.name

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of its dimensions."""
        return self.variable.dimensions

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each dimension."""
        return self.variable.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its elements."""
        return self.variable.dtype

    @property
    def type_name(self) -> str:
        """Empty: NetCDF 3 has no enumerations."""
        return ""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Its attributes, with their types."""
        return self.variable.attributes

    def read(self, slices: tuple[slice, ...]) -> NDArray[Any]:
        """Read all values, and return a part of them."""
        return read_classic(self.file, self.variable)[slices]


def read_classic(path: Path, one: Variable) -> NDArray[Any]:
    """Read all values of a small variable."""
    values = np.empty(one.shape, one.dtype)
    n_records = None if one.step is None else len(values)
    pieces = [values] if n_records is None else [values[n : n + 1] for n in range(n_records)]
    with FileReader(path, Tally()) as file:
        for number, piece in enumerate(pieces):
            raw = np.empty(piece.nbytes, np.uint8)
            file.read(one.begin + number * (one.step or 0), piece.nbytes, raw.data)
            piece[...] = raw.view(one.dtype).reshape(piece.shape)
    return values


def open_classic(path: Path, inside: str) -> ChunkedSource[ClassicChunks]:
    """Open a variable of NetCDF 3.

    Raises
    ------
    DataError
        If the file's header is invalid, or the file is truncated.
    UsageError
        If there is no such variable, or there are several and none is given.
    """
    header, file_size = open_header(path)
    name = _choose(header, path, inside)
    variable = header.variables[name]
    if not variable.shape:
        raise DataError(str(path), ["has a variable without axes, which is not supported"])
    if variable.end > file_size:
        short = f"is truncated: it has {file_size} bytes, {name} ends at {variable.end}"
        raise DataError(str(path), [short])
    return ChunkedSource(ClassicChunks(path, header, variable))


def open_header(path: Path) -> tuple[Header, int]:
    """Return the header of a NetCDF 3 file, and the file's size.

    Raises
    ------
    DataError
        If the header is invalid.
    """
    with storage_errors(path):
        file_size = path.stat().st_size
    try:
        with peeking(path) as peek:
            return read_header(peek, file_size), file_size
    except ValueError as error:
        raise DataError(str(path), [str(error)]) from error


def _choose(header: Header, path: Path, inside: str) -> str:
    """Return the given variable; without a name, the only one that is not a coordinate."""
    if inside in header.variables:
        return inside
    data = [
        name for name, one in header.variables.items() if one.shape and one.dimensions != (name,)
    ]
    names = data or list(header.variables)
    if not inside and len(names) == 1:
        return names[0]
    shown = str(path)
    listed = list_names(f"{path}{INSIDE}/{name}" for name in names)
    missing = f"{shown}{INSIDE}/{inside} does not exist; " if inside else ""
    if not names:
        raise UsageError(f"{missing}{shown} contains no variable")
    raise UsageError(f"{missing}give a variable of {shown}, such as {listed}")


class ClassicChunks(Chunks):
    """The records of a variable of NetCDF 3, or the whole variable; all are in one file."""

    format = "netcdf"

    def __init__(self, path: Path, header: Header, variable: Variable) -> None:
        self.path, self.header, self.variable = path, header, variable
        lengths = [max(1, length) for length in variable.record_shape]
        self.spec = ArraySpec(
            Grid.regular(variable.shape, lengths),
            variable.dtype,
            Layout.c(len(variable.shape)),
            stored_shape=tuple(variable.record_shape),
        )

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the variable, with its place in the file to find related variables."""
        one = self.variable
        original = ClassicOriginal(self.path, self.header, one.name)
        return MappingProxyType(
            {
                "maxshape": None if one.step is None else (None, *one.shape[1:]),
                "codecs": [],
                "fill_value": _fill_of(one),
                "dimension_names": one.dimensions,
                "attributes": plain_values(one.attributes),
                "coordinates": original.coordinates,
                "types_of_attributes": {
                    name: _type_name(value) for name, value in one.attributes.items()
                },
                "beyond_json": types_beyond_json(one.attributes, one.dtype),
                "attributes_of_file": tuple(self.header.attributes),
                "netcdf": original,
            }
        )

    @property
    def n_bytes_on_disk(self) -> int:
        """Size of the variable in bytes."""
        return self.spec.grid.size * self.spec.dtype.itemsize

    @property
    def n_stored(self) -> int:
        """Every record is stored."""
        return self.spec.grid.n_blocks

    def describe(self) -> dict[str, Any]:
        """Return the description from which the variable can be opened again."""
        return {
            "format": self.format,
            "shape": list(self.variable.shape),
            "path": str(self.path.absolute()),
            "inside": self.variable.name,
            "stored_as": self.stored_as,
        }

    @property
    def stored_as(self) -> str:
        """A checksum that differs for a variable with another shape, type or offset."""
        one = self.variable
        return xxh3_64_hexdigest(repr((one.shape, one.dtype.str, one.begin, one.step)).encode())

    def locate(self, index: tuple[int, ...]) -> Located:
        """Return where a record is."""
        one = self.variable
        return Located(self.path, self.spec.chunk_bytes, one.begin + (one.step or 0) * index[0])

    def open(self, located: Located, tally: Tally) -> FileReader:  # noqa: ARG002 - one for all
        """Open the file."""
        return FileReader(self.path, tally)


def _fill_of(variable: Variable) -> Any:
    """Return the fill value of a variable, None if it has none."""
    value = variable.attributes.get(FILL_VALUE)
    fill = np.frombuffer(value, "S1") if isinstance(value, bytes) else value
    return fill[0] if isinstance(fill, np.ndarray) and fill.size == 1 else None


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def reopen_classic(described: Mapping[str, Any], at: Path | None) -> ChunkedSource[ClassicChunks]:
    """Open a described variable of NetCDF 3 again.

    Raises
    ------
    DataError
        If it no longer exists, or has changed.
    """
    path, inside = read_description(described, at)
    try:
        source = open_classic(path, inside)
    except UsageError as error:
        raise DataError(str(path), [str(error)]) from error
    if described.get("stored_as") != source.chunks.stored_as:
        raise DataError(str(path), ["has changed: the variable is stored differently"])
    return source
