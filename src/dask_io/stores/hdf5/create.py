"""A new dataset: what is asked for, and what is kept of the source.

It is made in memory, with all that belongs to it but its values: what a file begins with on disk.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np

from dask_io.errors import UsageError
from dask_io.geometry import Grid
from dask_io.stores.blockfiles import order_of
from dask_io.stores.dtypes import check_dtype
from dask_io.stores.hdf5.dataset import (
    NOTHING,
    groups_around,
    kept_attributes,
    leads_elsewhere,
    name_of,
    refuse_others,
)
from dask_io.stores.hdf5.file import (
    apart,
    brief,
    find_dataset,
    image_of,
    in_memory,
    make_groups,
    reading,
)
from dask_io.stores.hdf5.filters import (
    LOSSLESS,
    Filter,
    filters_for,
    filters_of,
    is_available,
    parse_filters,
    set_fill,
    to_keep,
    type_of,
)
from dask_io.stores.hdf5.types import type_in, type_with_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dask_io.geometry import Region
    from dask_io.stores.container import Wanted
    from dask_io.stores.hdf5.source import Original

DEFAULT_NAME = "data"
_LONGEST_CHUNK = 2**32 - 1
# Scales lie along one axis each; longer ones are no small part of the array any more.
LONGEST_SCALE = 16 * 2**20


def make_template(
    wanted: Wanted, inside: str, *, make: Callable[[Any, Wanted, str], None] | None = None
) -> bytes:
    """Return a file with a dataset that is to be written, and nothing of its values.

    `make` makes it in a file with all that belongs to it in another format that is HDF5 inside.

    Raises
    ------
    UsageError
        If HDF5 cannot hold the array, or cannot honour a wish.
    """
    refuse(wanted)
    original: Original | None = wanted.metadata.get("hdf5")
    if original is None:
        return _make_template(wanted, inside, make)
    wanted = replace(wanted, metadata=dict(wanted.metadata))
    return apart(original.path, _make_template, wanted, inside, make)


def _make_template(
    wanted: Wanted, inside: str, make: Callable[[Any, Wanted, str], None] | None
) -> bytes:
    with in_memory(in_order=make is not None) as file:
        try:
            (make or _make_described)(file, wanted, inside or DEFAULT_NAME)
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise UsageError(f"HDF5 cannot hold the array: {brief(error)}") from error
        return image_of(file)


def refuse(wanted: Wanted) -> None:
    """Refuse what HDF5 does not have.

    Raises
    ------
    UsageError
        If it is asked for.
    """
    for word in ("shards", "format_version"):
        if getattr(wanted.wishes, word) is not None:
            raise UsageError(f"format hdf5 has no {word.replace('_', '-')}; leave it out")
    problem = check_dtype(wanted.dtype)
    if problem:
        raise UsageError(f"a target cannot hold {problem}")
    longest = wanted.grid.longest
    if order_of(wanted.layout, longest) != sorted(order_of(wanted.layout, longest)):
        raise UsageError(
            f"HDF5 stores elements in C order, not {wanted.layout.name}; give --order C"
        )
    if any(axis.chunk is None for axis in wanted.grid.axes):
        raise UsageError(
            f"chunks of {wanted.grid} are uneven, which HDF5 cannot hold; "
            "give one length for each axis, or name a directory of block files"
        )


def make_dataset(
    file: Any, wanted: Wanted, inside: str, *, in_order: bool, names_types: bool = False
) -> Any:
    """Make a dataset that is to be written, and nothing of its values.

    The file may remember in which order things are put into it. With `names_types` an enumeration
    gets a name if it has none, as NetCDF needs it; of big-endian numbers its library has none.
    """
    kind, path = _type(wanted)
    if names_types and isinstance(kind, h5py.h5t.TypeEnumID):
        path = path or f"{inside}_t"
        if wanted.dtype.str.startswith(">"):
            kind, path = type_of(wanted.dtype), ""
    if path and not f"{path}/".startswith(f"{inside}/"):
        kind = type_with_name(file, kind, path, in_order=in_order)
    group, name = make_groups(file, inside, in_order=in_order), inside.rpartition("/")[2]
    shape = wanted.grid.shape
    maxshape, filters = _maxshape(wanted), _filters(wanted)
    plist = in_one_go()
    if in_order:
        plist.set_attr_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
    if filters or maxshape != shape:
        plist.set_fill_time(h5py.h5d.FILL_TIME_IFSET)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_INCR)
    if filters or maxshape != shape or wanted.grid.n_blocks > 1:
        plist.set_chunk(_chunks(wanted))
    for one in filters:
        plist.set_filter(*one)
    if wanted.wishes.fill_value is not None or wanted.metadata.get("fill_value") is not None:
        set_fill(plist, np.array(wanted.fill_value, wanted.dtype))
    space = h5py.h5s.create_simple(
        shape, tuple(h5py.h5s.UNLIMITED if n is None else n for n in maxshape)
    )
    made = h5py.h5d.create(group.id, name.encode(), kind, space, plist)
    return h5py.Dataset(made)


def _type(wanted: Wanted) -> tuple[Any, str]:
    """Return the type of the elements, the source's, which may have names for values; and its path.

    The path is that in the source, nothing if it has no name there.
    """
    original: Original | None = wanted.metadata.get("hdf5")
    if original is not None:
        with reading(original.path) as file:
            found = find_dataset(file, original.path, original.inside)
            if found.dtype == wanted.dtype:
                kind, path = type_in(found)
                return kind.copy(), path
    return type_of(wanted.dtype), ""


def in_one_go() -> Any:
    """Return how a dataset is made that gets its room at once, and is not filled before."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    # Equal datasets make equal files.
    plist.set_obj_track_times(False)
    plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
    return plist


def touch(dataset: Any) -> None:
    """Write one element, which has HDF5 find room for all of them."""
    space, n_axes = dataset.id.get_space(), dataset.ndim
    space.select_hyperslab((0,) * n_axes, (1,) * n_axes)
    element = np.zeros(dataset.dtype.itemsize, np.uint8)
    dataset.id.write(h5py.h5s.create_simple((1,)), space, element, dataset.id.get_type())


def _chunks(wanted: Wanted) -> tuple[int, ...]:
    chunks, said = tuple(axis.chunk or 1 for axis in wanted.grid.axes), wanted.metadata
    kept, may_be_kept = said.get("chunks"), "hdf5" in said and "region" not in said
    if may_be_kept and kept and Grid.regular(wanted.grid.shape, kept) == wanted.grid:
        # They may be longer than the array is yet.
        chunks = tuple(kept)
    if prod(chunks) * wanted.dtype.itemsize > _LONGEST_CHUNK:
        raise UsageError("a chunk of HDF5 cannot be of 4 GiB or more; use smaller chunks")
    return chunks


def _maxshape(wanted: Wanted) -> tuple[int | None, ...]:
    """Return what the dataset may grow to: as the source, if that is a dataset too."""
    shape, kept = wanted.grid.shape, wanted.metadata.get("maxshape")
    if kept is None:
        return shape
    return tuple(most and max(n, most) for n, most in zip(shape, kept, strict=True))


def check_codec(wanted: Wanted) -> None:
    """Refuse filters that are asked for, but that HDF5 does not have.

    Raises
    ------
    UsageError
        If there is one.
    """
    if wanted.wishes.codec is not None:
        _filters(wanted)


def _filters(wanted: Wanted) -> list[Filter]:
    """Return the filters asked for, or else the source's."""
    try:
        if wanted.wishes.codec is not None:
            found = parse_filters(wanted.wishes.codec, wanted.dtype)
        elif "hdf5" in wanted.metadata:
            found = _kept_filters(wanted.metadata["hdf5"])
        else:
            found = filters_for(wanted.metadata.get("codecs", ()), wanted.dtype)
    except ValueError as error:
        raise UsageError(f"codec {error}") from error
    for one in found:
        if not is_available(one.code):
            raise UsageError(
                f"{one.name} needs hdf5plugin; install it with: pip install 'dask-io[hdf5]'"
            )
    return found


def _kept_filters(original: Original) -> list[Filter]:
    with reading(original.path) as file:
        dataset = find_dataset(file, original.path, original.inside)
        found = filters_of(dataset.id.get_create_plist())
    for one in found:
        if one.code not in LOSSLESS:
            raise ValueError(
                f"{one.name} of the source may change values if they are encoded again; "
                "choose one, such as gzip:4 or none"
            )
    return [to_keep(one) for one in found]


def _make_described(file: Any, wanted: Wanted, inside: str) -> None:
    """Make a dataset with what the source says about its array: of one, all that belongs to it."""
    dataset = make_dataset(file, wanted, inside, in_order=False)
    original: Original | None = wanted.metadata.get("hdf5")
    if original is not None:
        with reading(original.path) as source:
            found = find_dataset(source, original.path, original.inside)
            _copy(found, dataset, wanted.metadata.get("region"))
        return
    said = wanted.metadata
    plain, exact = said.get("attributes", {}), said.get("exact_attributes", {})
    for name in plain.keys() - exact.keys():
        dataset.attrs[name] = as_attribute(plain[name])
    write_attributes(dataset, exact)
    write_attributes(file, said.get("exact_attributes_of_file", {}))
    for axis, name in zip(dataset.dims, said.get("dimension_names") or (), strict=False):
        if name:
            axis.label = name


def as_attribute(value: object) -> Any:
    """Return what an attribute is to HDF5: what it has no type for is written as JSON."""
    if value is None:
        return NOTHING
    if isinstance(value, str | bool | int | float):
        return value if not isinstance(value, int) or -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, list):
        kinds = {type(each) for each in value}
        if kinds <= {str}:
            return np.array(value, h5py.string_dtype()) if value else np.zeros(0)
        if kinds <= {int, float} or kinds == {bool}:
            return np.array(value)
    return json.dumps(value, default=str)


def write_attributes(owner: Any, attributes: Mapping[str, Any]) -> None:
    """Write attributes with the types that they have."""
    for name, value in attributes.items():
        is_empty = isinstance(value, bytes | str) and not value
        owner.attrs[name] = h5py.Empty("S1") if is_empty else value


def _copy(source: Any, dataset: Any, region: Region | None) -> None:
    """Copy what belongs to a dataset: attributes, and the scales along its axes."""
    copy_attributes(source, dataset)
    copy_attributes(source.file, dataset.file)
    around = groups_around(dataset)
    for path, group in groups_around(source).items():
        if path in around:
            copy_attributes(group, around[path])
    if source.is_scale:
        dataset.make_scale(source.attrs.get("NAME", b""))
    copied: dict[str, Any] = {}
    for number, axis in enumerate(source.dims):
        bounds = None if region is None else region.bounds[number]
        for scale in axis.values() if len(axis) else ():
            if scale.name not in copied:
                copied[scale.name] = _copy_scale(scale, dataset.file, bounds)
            if copied[scale.name] is not None:
                dataset.dims[number].attach_scale(copied[scale.name])
        name = name_of(source, number)
        if axis.label or name != name_of(dataset, number):
            dataset.dims[number].label = name


def _copy_scale(scale: Any, file: Any, bounds: tuple[int, int] | None) -> Any:
    """Copy a scale, or the part of it along the array's part; None if it is too large.

    A run then says that not all coordinates were kept.
    """
    refuse_others(scale)
    if scale.name in file or scale.nbytes > LONGEST_SCALE or scale.ndim != 1:
        return None
    values = scale[...] if bounds is None else scale[slice(*bounds)]
    made = file.create_dataset(scale.name, data=values, dtype=scale.dtype)
    copy_attributes(scale, made)
    made.make_scale(scale.attrs.get("NAME", b""))
    return made


def copy_attributes(source: Any, target: Any, besides: Collection[str] = ()) -> bool:
    """Copy attributes with their types, and some of those that HDF5 notes for itself.

    References, which lead elsewhere, are left out; tells whether there are none.
    """
    has_all = True
    for name in [*kept_attributes(source), *(name for name in besides if name in source.attrs)]:
        attribute = source.attrs.get_id(name)
        if leads_elsewhere(source, name):
            has_all = False
            continue
        value = source.attrs[name]
        if isinstance(value, h5py.Empty):
            target.attrs[name] = value
        else:
            target.attrs.create(name, value, shape=attribute.shape, dtype=attribute.dtype)
    return has_all
