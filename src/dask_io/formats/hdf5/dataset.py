"""A dataset, as an `ArraySpec` and a record of HDF5's own metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import h5py  # type: ignore[import-untyped]
import numpy as np
from xxhash import xxh3_64_hexdigest

from dask_io.formats.hdf5.attributes import (
    INTERNAL,
    attributes_of,
    beyond_json,
    groups_around,
    names_of_attributes,
    plain_attributes,
)
from dask_io.formats.hdf5.filters import describe_filters, filters_of, make_codec, type_of
from dask_io.formats.hdf5.scales import is_bare, names_of, scales_along
from dask_io.formats.hdf5.types import address_of, dtype_of, names_of_values
from dask_io.geometry import Grid, Layout
from dask_io.stores.dtypes import check_dtype, dtype_to_json
from dask_io.stores.own_attribute import take_own
from dask_io.stores.spec import ArraySpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.formats.hdf5.filters import Filter


@dataclass(frozen=True)
class Dataset:
    """A dataset: an `ArraySpec`, and metadata that only HDF5 has.

    Without `chunks`, its elements are contiguous. `scales` are datasets along its axes. Only the
    names are known of attributes that JSON cannot represent (`beyond_json`), and of those of the
    file and the groups around it. Elements may be of an enumeration, or of a named type.
    """

    spec: ArraySpec
    chunks: tuple[int, ...] | None
    maxshape: tuple[int | None, ...]
    has_fill: bool
    filters: tuple[Filter, ...]
    attributes: Mapping[str, Any]
    dimension_names: tuple[str | None, ...] | None
    scales: tuple[str, ...] = ()
    types_of_attributes: Mapping[str, str] = field(default_factory=dict)
    beyond_json: tuple[str, ...] = ()
    attributes_of_file: tuple[str, ...] = ()
    attributes_of_groups: tuple[str, ...] = ()
    names_of_values: tuple[str, ...] = ()
    has_named_type: bool = False
    user_block: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis."""
        return self.spec.grid.shape

    @property
    def is_resizable(self) -> bool:
        """Whether it may be enlarged."""
        return self.maxshape != self.shape

    @property
    def is_by_offset(self) -> bool:
        """Whether its blocks can be written without HDF5, because their places are fixed."""
        return not self.filters and not self.is_resizable

    @property
    def stored_as(self) -> str:
        """A checksum that differs for a dataset with other values or another encoding."""
        spec = self.spec
        described = (self.shape, self.chunks, dtype_to_json(spec.dtype), self.filters)
        return xxh3_64_hexdigest(repr((*described, spec.fill_bytes)).encode())

    def described(self) -> dict[str, Any]:
        """Return the metadata of the dataset except grid, dtype and layout."""
        spec = self.spec
        described = {
            "chunks": self.chunks,
            "maxshape": self.maxshape if self.is_resizable else None,
            "codecs": describe_filters(self.filters, spec.dtype),
            "fill_value": spec.fill[()] if self.has_fill else None,
            "dimension_names": self.dimension_names,
            "attributes": dict(self.attributes),
            "coordinates": self.scales,
            "types_of_attributes": dict(self.types_of_attributes),
            "beyond_json": self.beyond_json,
            "attributes_of_file": self.attributes_of_file,
            "attributes_of_groups": self.attributes_of_groups,
            "names_of_values": self.names_of_values,
            "has_named_type": self.has_named_type,
            "user_block": self.user_block,
        }
        return take_own(described, len(self.shape))


def contents_of(file: Any) -> set[str]:
    """Return the names of everything in a file, those of attributes after an ``@``.

    Links are included, but not followed. Scales without values and types of datasets are not
    included.
    """
    names = {f"@{attribute}" for attribute in file.attrs if attribute not in INTERNAL}
    types: dict[str, Any] = {}
    used: list[Any] = []
    addresses: set[int] = set()

    def note(name: str, link: Any) -> None:
        found = file[name] if isinstance(link, h5py.HardLink) else None
        if isinstance(found, h5py.Dataset) and is_bare(found):
            return
        if isinstance(found, h5py.Datatype):
            types[name] = found.id
        if isinstance(found, h5py.Dataset):
            kind = found.id.get_type()
            if kind.committed():
                addresses.add(address_of(kind))
            elif names_of_values(dtype_of(found)):
                used.append(kind)
        names.add(name)
        if found is not None:
            names.update(f"{name}@{each}" for each in found.attrs if each not in INTERNAL)

    file.visititems_links(note)
    return names.difference(
        name
        for name, kind in types.items()
        if address_of(kind) in addresses or any(map(kind.equal, used))
    )


def understand(dataset: Any, numbered: Mapping[int, str] | None = None) -> Dataset:
    """Read the metadata of a dataset; `numbered` has paths of dimensions by their numbers.

    Raises
    ------
    ValueError
        If it is not supported; the message completes "the file ...".
    """
    refuse_others(dataset)
    if dataset.shape is None or not dataset.shape:
        raise ValueError("has a dataset without axes, which is not supported")
    dtype = _dtype_of(dataset)
    plist = dataset.id.get_create_plist()
    fill, has_fill = _fill_of(plist, dtype)
    shape, chunks, filters = dataset.shape, dataset.chunks, filters_of(plist)
    known = fill if has_fill else None
    spec = ArraySpec(
        Grid.regular(shape, chunks or [max(1, n) for n in shape]),
        dtype,
        Layout.c(len(shape)),
        codec=make_codec(filters, dtype, chunks or shape, known) if filters else None,
        stored_shape=chunks or shape,
        fill_bytes=fill,
    )
    return Dataset(
        spec,
        chunks=chunks,
        maxshape=dataset.maxshape,
        has_fill=has_fill,
        filters=filters,
        attributes=plain_attributes(dataset),
        dimension_names=names_of(dataset, numbered),
        scales=scales_along(dataset),
        types_of_attributes={each.name: each.type_name for each in attributes_of(dataset)},
        beyond_json=tuple(beyond_json(dataset)),
        attributes_of_file=tuple(names_of_attributes(dataset.file)),
        attributes_of_groups=tuple(
            f"{path}@{name}"
            for path, group in groups_around(dataset).items()
            for name in names_of_attributes(group)
        ),
        names_of_values=tuple(names_of_values(dataset.dtype)),
        has_named_type=dataset.id.get_type().committed(),
        user_block=("user_block",) if dataset.file.userblock_size else (),
    )


def refuse_others(dataset: Any) -> None:
    """Refuse a dataset whose values are in other files.

    Raises
    ------
    ValueError
        If its values are in other files.
    """
    if dataset.external:
        raise ValueError("has a dataset whose values are in other files, which are not read")
    if dataset.is_virtual:
        raise ValueError("has a virtual dataset: its values may be in other files, not read here")


def _dtype_of(dataset: Any) -> np.dtype[Any]:
    try:
        dtype = _without_notes(dataset.dtype)
        problem = check_dtype(dtype)
    except (TypeError, KeyError) as error:
        raise ValueError("has elements of a type that NumPy does not have") from error
    if problem:
        raise ValueError(f"holds {problem}")
    stored = dataset.id.get_type()
    is_text = isinstance(stored, h5py.h5t.TypeStringID) and stored.get_size() == dtype.itemsize
    is_zero_padded = is_text and stored.get_strpad() != h5py.h5t.STR_SPACEPAD
    is_opaque = isinstance(stored, h5py.h5t.TypeOpaqueID) and stored.get_size() == dtype.itemsize
    # Single bytes have no byte order.
    is_integer = isinstance(stored, h5py.h5t.TypeIntegerID)
    is_byte = is_integer and (stored.get_size(), stored.get_precision()) == (1, 8)
    if not (is_zero_padded or is_opaque or is_byte or type_of(dataset.dtype) == stored):
        raise ValueError(f"has elements that are stored differently from {dtype} in memory")
    return dtype


def _without_notes(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type without h5py's metadata, such as the names of an enumeration."""
    if dtype.fields is not None:
        names = dtype.names or ()
        fields = [dtype.fields[name] for name in names]
        formats = [_without_notes(field[0]) for field in fields]
        offsets = [field[1] for field in fields]
        described: dict[str, Any] = {"names": names, "formats": formats, "offsets": offsets}
        described["itemsize"] = dtype.itemsize
        made: np.dtype[Any] = np.dtype(cast("Any", described))
        return made
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_without_notes(base), shape))
    return dtype if dtype.hasobject else np.dtype(dtype.str)


def _fill_of(plist: Any, dtype: np.dtype[Any]) -> tuple[bytes, bool]:
    """Return the bytes of the fill value, and whether the dataset defines it."""
    if plist.fill_value_defined() != h5py.h5d.FILL_VALUE_USER_DEFINED:
        return bytes(dtype.itemsize), False
    fill = np.zeros((), h5py.opaque_dtype(dtype) if dtype.kind in "mM" else dtype)
    plist.get_fill_value(fill)
    return fill.tobytes(), True
