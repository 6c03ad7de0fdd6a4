"""Reading and writing the metadata of MINC 2 files, which are based on HDF5.

Only this module and the package itself use the HDF5 format.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np

from dask_io.formats.hdf5.dialects import (
    creation_plist,
    in_subprocess,
    make_dataset,
    reading,
    refuse_others,
    type_of,
)
from dask_io.formats.minc.volume import (
    DIMENSIONS,
    IMAGE,
    IMAGE_MAX,
    IMAGE_MIN,
    INFO,
    Volume,
    volume_for,
)
from dask_io.stores.scaling import Scaling

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.formats.minc.volume import Value
    from dask_io.stores.container import NewArray

ROOT = "minc-2.0"
PATH_OF_IMAGE = f"{ROOT}/{IMAGE}"

_MOST_SLICES = 2**20
# Limits for all attributes of a file: their size in bytes and their number.
_MOST_BYTES, _MOST_ATTRIBUTES = 4 * 2**20, 20_000
# Bytes of values that fit into the header of a dataset.
_COMPACT = 32 * 2**10


def read_volume(path: Path) -> Volume:
    """Return the metadata of the image in a file.

    Raises
    ------
    DataError
        If it is not a MINC 2 file, or is damaged.
    """
    return in_subprocess(path, _read_volume, path)


def _read_volume(path: Path) -> Volume:
    with reading(path) as file:
        return volume_in(file)


def volume_in(file: Any) -> Volume:
    """Return the metadata of the image in an open file.

    Raises
    ------
    ValueError
        If it is not a MINC 2 file; the message completes "the file ...".
    """
    image = find(file, PATH_OF_IMAGE)
    if not isinstance(image, h5py.Dataset) or not image.shape:
        raise ValueError(f"is not a MINC 2 file: it has no image at /{PATH_OF_IMAGE}")
    refuse_others(image)
    owners = {"": find(file, ROOT), IMAGE: image}
    for above in (DIMENSIONS, INFO):
        owners |= _members(find(file, f"{ROOT}/{above}".rstrip("/")), above)
    attributes, left_out = _read_attributes(owners)
    dtype = np.dtype(image.dtype.str)
    dimensions = tuple(str(attributes[IMAGE].get("dimorder", "")).split(","))[: image.ndim]
    volume = Volume(tuple(image.shape), dtype, dimensions, attributes, left_out=left_out)
    found = [_read_range(find(file, f"{ROOT}/{path}"), volume) for path in (IMAGE_MIN, IMAGE_MAX)]
    # Defaults of libminc for files without image-min and image-max.
    low, high = (found[n] if found[n] is not None else np.float64(n) for n in (0, 1))
    return scaled(volume, np.asarray(low), np.asarray(high))


def scaled(volume: Volume, low: Any, high: Any) -> Volume:
    """Return a volume with the real values that image-min and image-max give."""
    if volume.dtype.kind == "f":
        values = np.concatenate([low.ravel(), high.ravel()])
        is_known = values.size and np.isfinite(values).all()
        bounds = (float(values.min()), float(values.max())) if is_known else None
        return replace(volume, bounds=bounds)
    info, about = np.iinfo(volume.dtype), volume.attributes[IMAGE]
    ends = about.get("valid_range", [about.get("valid_min"), about.get("valid_max")])
    first, last = float(info.min), float(info.max)
    match ends:
        case [int() | float() as one, int() | float() as other]:
            first, last = sorted((float(one), float(other)))
        case _:
            pass  # Any stored value is valid.
    if first < info.min or last > info.max:
        first, last = float(info.min), float(info.max)
    return replace(volume, scaling=Scaling((first, last), low, high))


def find(file: Any, path: str) -> Any:
    """Return the object at a path, None if there is none, or only through a link."""
    found = file
    for name in path.split("/"):
        link = found.get(name, getlink=True) if isinstance(found, h5py.Group) else None
        if not isinstance(link, h5py.HardLink):
            return None
        found = found[name]
    return found


def _members(group: Any, above: str) -> dict[str, Any]:
    """Return everything in a group and below, by its path."""
    found: dict[str, Any] = {}
    if isinstance(group, h5py.Group):

        def note(name: str, owner: Any) -> bool | None:
            found[f"{above}{name}"] = owner
            return len(found) > _MOST_ATTRIBUTES or None

        group.visititems(note)
    return found


def _read_attributes(
    owners: dict[str, Any],
) -> tuple[dict[str, dict[str, Value]], tuple[str, ...]]:
    """Return the attributes of objects by their paths, and the names of those left out."""
    found: dict[str, dict[str, Value]] = {}
    left_out: list[str] = []
    n_bytes = n_attributes = 0
    for path, owner in owners.items():
        found[path] = {}
        for name in owner.attrs:
            attribute = owner.attrs.get_id(name)
            n_bytes += attribute.get_storage_size()
            n_attributes += 1
            if n_attributes > _MOST_ATTRIBUTES or n_bytes > _MOST_BYTES:
                raise ValueError("has more attributes than any MINC file needs")
            value = _plain(owner.attrs[name])
            if value is None:
                left_out.append(f"{path}@{name}")
            else:
                found[path][name] = value
    return found, tuple(left_out)


def _plain(value: Any) -> Value | None:
    """Return the value of an attribute as plain text or numbers, None if it is neither."""
    if isinstance(value, bytes | str):
        raw = value.encode(errors="surrogateescape") if isinstance(value, str) else bytes(value)
        raw = raw.rstrip(b"\0")
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.decode("latin-1")
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.ndim > 1 or not array.size:
        return None
    plain: Value = array.tolist()
    return plain


def _read_range(dataset: Any, volume: Volume) -> Any:
    """Return image-min or image-max: one value, or those of all slices; None if there is none."""
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
        return None
    refuse_others(dataset)
    if dataset.dtype.kind not in "iuf" or dataset.size > _MOST_SLICES:
        raise ValueError(f"has an invalid {dataset.name.rpartition('/')[2]}")
    along = _plain(dataset.attrs.get("dimorder", b""))
    names = tuple(str(along).split(","))[: dataset.ndim]
    # A dataset without axes may have a stray dimorder.
    if dataset.ndim and names != volume.dimensions[: dataset.ndim]:
        raise ValueError(f"has an image-min or image-max along {','.join(names)}, not the slices")
    return np.asarray(dataset[()], np.float64)


def write_volume(file: Any, volume: Volume) -> None:
    """Write the metadata of an image, which exists already or is created later."""
    root = file.require_group(ROOT)
    for path in ("dimensions", "info", "image/0"):
        root.require_group(path)
    scaling, ends = volume.scaling, volume.bounds or (0.0, 1.0)
    values = ends if scaling is None else (scaling.low, scaling.high)
    for path, each in zip((IMAGE_MIN, IMAGE_MAX), values, strict=True):
        _make(root, path, np.array(each, "<f8", order="C"))
    for path, about in volume.attributes.items():
        if path.startswith((DIMENSIONS, INFO)):
            _make(root, path, np.zeros((), "<i4"))
        owner = root[path] if path else root
        for name, value in about.items():
            _write_attribute(owner, name, value)


def _make(root: Any, path: str, values: Any) -> None:
    """Create a small dataset with its values in its header, so that nothing follows the image."""
    if path in root:
        return
    plist = creation_plist()
    if values.nbytes <= _COMPACT:
        plist.set_layout(h5py.h5d.COMPACT)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_DEFAULT)
    group, _, name = path.rpartition("/")
    above = root.require_group(group)
    scalar = h5py.h5s.create(h5py.h5s.SCALAR)
    space = h5py.h5s.create_simple(values.shape) if values.shape else scalar
    made = h5py.h5d.create(above.id, name.encode(), type_of(values.dtype), space, plist)
    if values.size:
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)


def _write_attribute(owner: Any, name: str, value: Value) -> None:
    """Write an attribute as libminc does: text ends in a zero byte."""
    if isinstance(value, str):
        raw = value.encode() + b"\0"
        kind, space = h5py.h5t.C_S1.copy(), h5py.h5s.create(h5py.h5s.SCALAR)
        kind.set_size(len(raw))
        kind.set_strpad(h5py.h5t.STR_NULLTERM)
        made = h5py.h5a.create(owner.id, name.encode(), kind, space)
        made.write(np.frombuffer(raw, f"S{len(raw)}"))
        return
    numbers = np.asarray(value)
    is_short = numbers.dtype.kind == "i" and (abs(numbers) < 2**31).all()
    dtype = "<f8" if not is_short else "<u4" if name == "length" else "<i4"
    owner.attrs.create(name, numbers.astype(dtype))


def make_described(file: Any, wanted: NewArray, inside: str) -> None:
    """Create an image without values, with all its metadata."""
    volume = volume_for(wanted.metadata, wanted.grid.shape, wanted.dtype)
    make_dataset(file, wanted, inside, in_order=False)
    write_volume(file, volume)
