"""Creating a dataset from the user's options and the metadata of the source.

The file is first created in memory, complete except for the values of the dataset. This image is
then written to disk as the beginning of the new file.
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
    from collections.abc import Callable, Sequence

    from dask_io.formats.hdf5.source import Original
    from dask_io.geometry import Region
    from dask_io.stores.container import NewArray

DEFAULT_NAME = "data"
_LONGEST_CHUNK = 2**32 - 1
# An attribute written with this many characters may take 64 KiB: 8 bytes for 3 characters or less.
_LONG_ATTRIBUTE = 2**14
# Bytes of a dimension scale. Scales are held in memory, so larger ones are not copied.
LONGEST_SCALE = 16 * 2**20


def make_template(
    wanted: NewArray, inside: str, *, make: Callable[[Any, NewArray, str], None] | None = None
) -> bytes:
    """Return the image of a file with a new dataset that has no values yet.

    Formats based on HDF5 pass `make`, which creates the dataset and everything else they need.

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
    """Write the space of the array again: a copied attribute may describe a larger array."""
    value = wanted.metadata.get("attributes", {}).get(KEY)
    if value is not None and read_own(value, dataset.ndim) is not None:
        write_attributes(dataset, {KEY: value})


def refuse(wanted: NewArray) -> None:
    """Refuse arrays and options that HDF5 does not support.

    Raises
    ------
    UsageError
        If HDF5 cannot store the array, or does not support an option.
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
            "give one length for each axis, or a directory for block files"
        )


def make_dataset(
    file: Any,
    wanted: NewArray,
    inside: str,
    *,
    in_order: bool,
    kind: Any = None,
    original: Any = None,
) -> Any:
    """Create a dataset without values.

    If `in_order`, HDF5 tracks the order in which members and attributes are created. The type of
    elements is `kind`; by default, that of the source if the dtype is the same. `original` is the
    dataset of the source if it is open. To open the file again and close it takes longer, the more
    of its objects are open.
    """
    kind = kind or _type(file, wanted, inside)
    group, name = make_groups(file, inside, in_order=in_order), inside.rpartition("/")[2]
    shape = wanted.grid.shape
    maxshape, filters = _maxshape(wanted), _filters(wanted, original)
    plist = creation_plist()
    if in_order or _has_long_attributes(wanted):
        # Otherwise HDF5 limits attributes to 64 KiB.
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
    values = wanted.metadata.get("attributes", {}).values()
    return any(len(str(value)) >= _LONG_ATTRIBUTE for value in values)


def _type(file: Any, wanted: NewArray, inside: str) -> Any:
    """Return the type of the elements: that of the source if the dtype is the same.

    This keeps enumerations. A named type is also named in the new file, unless its path collides
    with that of the dataset.
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
        if not path or _collide(path, inside):
            return kind.copy()
        return file[path].id if path in file else _copy_type(source[path], file, path)


def _collide(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _copy_type(named: Any, file: Any, path: str) -> Any:
    """Copy a named type with its attributes."""
    made = named.id.copy()
    made.commit(make_groups(file, path, in_order=False).id, path.rpartition("/")[2].encode())
    # Attributes of other objects than the dataset are optional.
    copy_attributes(named, file[path], strict=False)
    return made


def creation_plist() -> Any:
    """Return creation properties for a dataset that is allocated at once, without filling it."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    # Without times, equal datasets give equal files.
    plist.set_obj_track_times(False)
    plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
    return plist


def touch(dataset: Any) -> None:
    """Write one element, so that HDF5 allocates space for all of them."""
    space, n_axes = dataset.id.get_space(), dataset.ndim
    space.select_hyperslab((0,) * n_axes, (1,) * n_axes)
    element = np.zeros(dataset.dtype.itemsize, np.uint8)
    dataset.id.write(h5py.h5s.create_simple((1,)), space, element, dataset.id.get_type())


def _chunks(wanted: NewArray) -> tuple[int, ...]:
    chunks, metadata = tuple(axis.chunk or 1 for axis in wanted.grid.axes), wanted.metadata
    kept, may_be_kept = metadata.get("chunks"), "hdf5" in metadata and "region" not in metadata
    if may_be_kept and kept and Grid.regular(wanted.grid.shape, kept) == wanted.grid:
        # Chunks of a dataset that may grow can be longer than its current shape.
        chunks = tuple(kept)
    if prod(chunks) * wanted.dtype.itemsize > _LONGEST_CHUNK:
        raise UsageError("chunks of HDF5 must be smaller than 4 GiB; use smaller chunks")
    return chunks


def _maxshape(wanted: NewArray) -> tuple[int | None, ...]:
    """Return the maximum shape of the dataset: at least that of a source dataset."""
    shape, kept = wanted.grid.shape, wanted.metadata.get("maxshape")
    if kept is None:
        return shape
    return tuple(most and max(n, most) for n, most in zip(shape, kept, strict=True))


def check_codec(wanted: NewArray) -> None:
    """Check that HDF5 supports the codec that the user gave, if any.

    Raises
    ------
    UsageError
        If HDF5 has no such filter.
    """
    if wanted.options.codec is not None:
        _filters(wanted)


def _filters(wanted: NewArray, original: Any = None) -> list[Filter]:
    """Return the filters that the user gave, else those of the source, which may be open."""
    try:
        if wanted.options.codec is not None:
            found = parse_filters(wanted.options.codec, wanted.dtype)
        elif "hdf5" in wanted.metadata:
            kept = wanted.metadata["hdf5"]
            found = _kept(_filters_at(kept) if original is None else _filters_of(original))
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


def _filters_at(original: Original) -> Sequence[Filter]:
    with reading(original.path) as file:
        return _filters_of(find_dataset(file, original.path, original.inside))


def _filters_of(dataset: Any) -> Sequence[Filter]:
    return filters_of(dataset.id.get_create_plist())


def _kept(filters: Sequence[Filter]) -> list[Filter]:
    """Return the filters of a source as those of a target.

    Raises
    ------
    ValueError
        If one may change values.
    """
    for one in filters:
        if one.code not in LOSSLESS:
            raise ValueError(
                f"{one.name} of the source may change values if they are encoded again; "
                "choose one, such as gzip:4 or none"
            )
    return [to_keep(one) for one in filters]


def _make_described(file: Any, wanted: NewArray, inside: str) -> None:
    """Create a dataset with the metadata of the source; all of it, if the source is a dataset."""
    dataset = make_dataset(file, wanted, inside, in_order=False)
    original: Original | None = wanted.metadata.get("hdf5")
    if original is not None:
        with reading(original.path) as source:
            found = find_dataset(source, original.path, original.inside)
            _copy(found, dataset, wanted.metadata.get("region"))
        return
    metadata = wanted.metadata
    plain = {name: as_attribute(value) for name, value in metadata.get("attributes", {}).items()}
    classic = metadata.get("netcdf")
    write_attributes(dataset, plain if classic is None else classic.attributes)
    write_attributes(file, {} if classic is None else classic.attributes_of_file)
    for axis, name in zip(dataset.dims, metadata.get("dimension_names") or (), strict=False):
        if name:
            axis.label = name


def _copy(source: Any, dataset: Any, region: Region | None) -> None:
    """Copy the attributes of a dataset and of the groups around it, and its dimension scales."""
    copy_attributes(source, dataset)
    around = {"": dataset.file, **groups_around(dataset)}
    for path, group in {"": source.file, **groups_around(source)}.items():
        if path in around:
            # Attributes of other objects than the dataset are optional.
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
    """Copy a scale, or the part of it within `bounds`; return None if it is too large.

    The run then reports that some coordinates were not kept.
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
