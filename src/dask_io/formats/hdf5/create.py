"""A new dataset: what is asked for, and what is kept of the source.

It is made in memory, with all that belongs to it but its values: what a file begins with on disk.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np

from dask_io.errors import UsageError
from dask_io.formats.hdf5.attributes import (
    as_attribute,
    copy_attributes,
    groups_around,
    write_attributes,
)
from dask_io.formats.hdf5.dataset import refuse_others
from dask_io.formats.hdf5.file import (
    brief,
    find_dataset,
    image_of,
    in_memory,
    in_subprocess,
    make_groups,
    reading,
)
from dask_io.formats.hdf5.filters import (
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
from dask_io.formats.hdf5.scales import name_of, name_of_scale
from dask_io.formats.hdf5.types import path_of_type
from dask_io.geometry import Grid
from dask_io.stores.block_files import order_of
from dask_io.stores.dtypes import check_dtype
from dask_io.stores.own_attribute import KEY, add_own, read_own

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask_io.formats.hdf5.source import Original
    from dask_io.geometry import Region
    from dask_io.stores.container import NewArray

DEFAULT_NAME = "data"
_LONGEST_CHUNK = 2**32 - 1
# Characters of an attribute that may take 64 KiB: three for every number of 8 bytes.
_LONG_ATTRIBUTE = 2**14
# Scales lie along one axis each; longer ones are no small part of the array any more.
LONGEST_SCALE = 16 * 2**20


def make_template(
    wanted: NewArray, inside: str, *, make: Callable[[Any, NewArray, str], None] | None = None
) -> bytes:
    """Return a file with a dataset that is to be written, and nothing of its values.

    `make` makes it in a file with all that belongs to it in another format that is HDF5 inside.

    Raises
    ------
    UsageError
        If HDF5 cannot hold the array, or does not support an option.
    """
    refuse(wanted)
    original: Original | None = wanted.metadata.get("hdf5")
    wanted = replace(wanted, metadata=add_own(wanted.metadata, as_text=True))
    if original is None:
        return _make_template(wanted, inside, make)
    wanted = replace(wanted, metadata=dict(wanted.metadata))
    return in_subprocess(original.path, _make_template, wanted, inside, make)


def _make_template(
    wanted: NewArray, inside: str, make: Callable[[Any, NewArray, str], None] | None
) -> bytes:
    with in_memory(in_order=make is not None) as file:
        try:
            (make or _make_described)(file, wanted, inside or DEFAULT_NAME)
            _write_own(file[inside or DEFAULT_NAME], wanted)
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise UsageError(f"HDF5 cannot hold the array: {brief(error)}") from error
        return image_of(file)


def _write_own(dataset: Any, wanted: NewArray) -> None:
    """Write where the array lies; attributes that were copied may be about a larger array."""
    value = wanted.metadata.get("attributes", {}).get(KEY)
    if value is not None and read_own(value, dataset.ndim) is not None:
        write_attributes(dataset, {KEY: value})


def refuse(wanted: NewArray) -> None:
    """Refuse what HDF5 does not have.

    Raises
    ------
    UsageError
        If it is asked for.
    """
    for word in ("shards", "format_version"):
        if getattr(wanted.options, word) is not None:
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
    file: Any, wanted: NewArray, inside: str, *, in_order: bool, kind: Any = None
) -> Any:
    """Make a dataset that is to be written, and nothing of its values.

    The file may remember in which order things are put into it. By default elements are of a `kind`
    as those of the source, if they are of its dtype.
    """
    kind = kind or _type(file, wanted, inside)
    group, name = make_groups(file, inside, in_order=in_order), inside.rpartition("/")[2]
    shape = wanted.grid.shape
    maxshape, filters = _maxshape(wanted), _filters(wanted)
    plist = in_one_go()
    if in_order or _has_long_attributes(wanted):
        # Only with that there is room for attributes of 64 KiB and more.
        plist.set_attr_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
    if filters or maxshape != shape:
        plist.set_fill_time(h5py.h5d.FILL_TIME_IFSET)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_INCR)
    if filters or maxshape != shape or wanted.grid.n_blocks > 1:
        plist.set_chunk(_chunks(wanted))
    for one in filters:
        plist.set_filter(*one)
    if wanted.options.fill_value is not None or wanted.metadata.get("fill_value") is not None:
        set_fill(plist, np.array(wanted.fill_value, wanted.dtype))
    space = h5py.h5s.create_simple(
        shape, tuple(h5py.h5s.UNLIMITED if n is None else n for n in maxshape)
    )
    made = h5py.h5d.create(group.id, name.encode(), kind, space, plist)
    return h5py.Dataset(made)


def _has_long_attributes(wanted: NewArray) -> bool:
    said = wanted.metadata.get("attributes", {}).values()
    return any(len(str(value)) >= _LONG_ATTRIBUTE for value in said)


def _type(file: Any, wanted: NewArray, inside: str) -> Any:
    """Return the type of the elements: the source's, which may have a name, and so may values.

    It has that name in a file, too, unless it is in the way of the dataset.
    """
    original: Original | None = wanted.metadata.get("hdf5")
    if original is None:
        return type_of(wanted.dtype)
    with reading(original.path) as source:
        found = find_dataset(source, original.path, original.inside)
        if found.dtype != wanted.dtype:
            return type_of(wanted.dtype)
        kind = found.id.get_type()
        path = path_of_type(source, kind)
        if not path or _are_in_one_place(path, inside):
            return kind.copy()
        return file[path].id if path in file else _copy_type(source[path], file, path)


def _are_in_one_place(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _copy_type(named: Any, file: Any, path: str) -> Any:
    """Copy a type that has a name, with what is said about it."""
    made = named.id.copy()
    made.commit(make_groups(file, path, in_order=False).id, path.rpartition("/")[2].encode())
    # What is said of more than the dataset need not be held.
    copy_attributes(named, file[path], strict=False)
    return made


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


def _chunks(wanted: NewArray) -> tuple[int, ...]:
    chunks, said = tuple(axis.chunk or 1 for axis in wanted.grid.axes), wanted.metadata
    kept, may_be_kept = said.get("chunks"), "hdf5" in said and "region" not in said
    if may_be_kept and kept and Grid.regular(wanted.grid.shape, kept) == wanted.grid:
        # They may be longer than the array is yet.
        chunks = tuple(kept)
    if prod(chunks) * wanted.dtype.itemsize > _LONGEST_CHUNK:
        raise UsageError("a chunk of HDF5 cannot be of 4 GiB or more; use smaller chunks")
    return chunks


def _maxshape(wanted: NewArray) -> tuple[int | None, ...]:
    """Return what the dataset may grow to: as the source, if that is a dataset too."""
    shape, kept = wanted.grid.shape, wanted.metadata.get("maxshape")
    if kept is None:
        return shape
    return tuple(most and max(n, most) for n, most in zip(shape, kept, strict=True))


def check_codec(wanted: NewArray) -> None:
    """Refuse filters that are asked for, but that HDF5 does not have.

    Raises
    ------
    UsageError
        If there is one.
    """
    if wanted.options.codec is not None:
        _filters(wanted)


def _filters(wanted: NewArray) -> list[Filter]:
    """Return the filters asked for, or else the source's."""
    try:
        if wanted.options.codec is not None:
            found = parse_filters(wanted.options.codec, wanted.dtype)
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


def _make_described(file: Any, wanted: NewArray, inside: str) -> None:
    """Make a dataset with what the source says about its array: of one, all that belongs to it."""
    dataset = make_dataset(file, wanted, inside, in_order=False)
    original: Original | None = wanted.metadata.get("hdf5")
    if original is not None:
        with reading(original.path) as source:
            found = find_dataset(source, original.path, original.inside)
            _copy(found, dataset, wanted.metadata.get("region"))
        return
    said = wanted.metadata
    plain = {name: as_attribute(value) for name, value in said.get("attributes", {}).items()}
    classic = said.get("netcdf")
    write_attributes(dataset, plain if classic is None else classic.attributes)
    write_attributes(file, {} if classic is None else classic.attributes_of_file)
    for axis, name in zip(dataset.dims, said.get("dimension_names") or (), strict=False):
        if name:
            axis.label = name


def _copy(source: Any, dataset: Any, region: Region | None) -> None:
    """Copy what belongs to a dataset: attributes, and the scales along its axes."""
    copy_attributes(source, dataset)
    around = {"": dataset.file, **groups_around(dataset)}
    for path, group in {"": source.file, **groups_around(source)}.items():
        if path in around:
            # What is said of more than the dataset need not be held.
            copy_attributes(group, around[path], strict=False)
    if source.is_scale:
        dataset.make_scale(name_of_scale(source))
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
    grows: dict[str, Any] = {}
    if scale.maxshape == (None,):
        grows = {"maxshape": (None,), "chunks": (max(1, min(scale.chunks[0], len(values))),)}
    made = file.create_dataset(scale.name, data=values, dtype=scale.dtype, **grows)
    copy_attributes(scale, made)
    made.make_scale(name_of_scale(scale))
    return made
