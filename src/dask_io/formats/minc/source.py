"""Reading an image of MINC 2, which is based on HDF5, or of MINC 1, which is NetCDF 3."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import DataError, UsageError
from dask_io.formats.hdf5.dialects import Dialect, open_hdf5
from dask_io.formats.minc.hdf5_file import PATH_OF_IMAGE, read_volume, scaled
from dask_io.formats.minc.volume import DIMENSIONS, IMAGE, INFO, Volume
from dask_io.formats.netcdf.source import ClassicChunks, open_header, plain_values, read_classic
from dask_io.storage.files import peeking
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.chunked_source import ChunkedSource
from dask_io.stores.container import INSIDE, on_disk
from dask_io.stores.scaling import RealValues

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dask_io.formats.netcdf.classic import Header, Variable
    from dask_io.storage.location import Location
    from dask_io.stores.store import Source

REAL = "real"
"""The path of the real values in a file: ``scan.mnc::/real``."""

_CLASSIC = b"CDF"
_MOST_SLICES = 2**20
_OF_IMAGE = frozenset(("image", "image-min", "image-max", "rootvariable"))
# Metadata of HDF5 storage that other formats can keep.
_OF_STORAGE = ("chunks", "codecs", "filters", "maxshape", "fill_value")


def _complete(
    volume: Volume,
    path: Path,  # noqa: ARG001 - as for any dialect
    inside: str,  # noqa: ARG001 - as above
    described: dict[str, Any],
) -> Mapping[str, Any]:
    """Return the metadata of a volume, and how HDF5 stores its image."""
    stored = {key: described[key] for key in _OF_STORAGE if key in described}
    return {**stored, **volume.described}


class Minc1Chunks(ClassicChunks):
    """The slices of an image of MINC 1, which are all in one file."""

    format = "minc"

    def __init__(self, path: Path, header: Header, variable: Variable, volume: Volume) -> None:
        super().__init__(path, header, variable)
        self.volume = volume

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the volume."""
        return MappingProxyType({"codecs": [], **self.volume.described})


def is_classic(path: Location) -> bool:
    """Tell whether a file is of version 1."""
    with storage_errors(path), peeking(path) as peek:
        return peek(len(_CLASSIC)) == _CLASSIC


def open_image(path: Location, inside: str = "", *, strict: bool = False) -> Source:
    """Open the image of a file: its stored values, or its real values.

    Raises
    ------
    DataError
        If it is not a MINC file, or is damaged.
    UsageError
        If `inside` is the path of anything else.
    """
    if inside not in {"", REAL, "image", PATH_OF_IMAGE}:
        raise UsageError(
            f"{path}{INSIDE}/{inside} does not exist; a MINC file holds one image, so leave "
            f"{INSIDE}/{inside} out, or give {INSIDE}/{REAL} for its real values"
        )
    file = on_disk(path, "minc")
    source, volume = _open_classic(file) if is_classic(file) else _open_hdf5(file, strict=strict)
    try:
        _ = volume.space
    except ValueError as error:
        raise DataError(str(file), [str(error)]) from error
    scaling = volume.scaling
    if inside != REAL or scaling is None:
        return source
    return RealValues(source, scaling)


def _open_hdf5(path: Path, *, strict: bool) -> tuple[Source, Volume]:
    volume = read_volume(path)
    dialect = Dialect("minc", partial(_complete, volume))
    return open_hdf5(path, PATH_OF_IMAGE, strict=strict, dialect=dialect), volume


def _open_classic(path: Path) -> tuple[Source, Volume]:
    header, file_size = open_header(path)
    variable = header.variables.get("image")
    if variable is None or not variable.shape:
        raise DataError(str(path), ["is not a MINC 1 file: it has no variable called image"])
    if variable.end > file_size:
        short = f"is truncated: it has {file_size} bytes, image ends at {variable.end}"
        raise DataError(str(path), [short])
    variable = replace(variable, dtype=_dtype_of(variable))
    try:
        volume = _read_volume(path, header, variable, file_size)
    except ValueError as error:
        raise DataError(str(path), [str(error)]) from error
    return ChunkedSource(Minc1Chunks(path, header, variable, volume)), volume


def _dtype_of(image: Variable) -> np.dtype[Any]:
    """Return the dtype of stored values; MINC marks unsigned ones, which NetCDF 3 lacks."""
    dtype = np.dtype("i1") if image.dtype.kind == "S" else image.dtype
    sign = plain_values(image.attributes).get("signtype")
    is_unsigned = sign == "unsigned" or (sign != "signed__" and dtype.itemsize == 1)
    if dtype.kind == "i" and is_unsigned:
        return np.dtype(dtype.str.replace("i", "u"))
    return dtype


def _read_volume(path: Path, header: Header, image: Variable, file_size: int) -> Volume:
    """Return the metadata of a file of version 1, under the paths of version 2."""
    attributes = {"": _plain(header.attributes), IMAGE: _plain(image.attributes)}
    for name, one in header.variables.items():
        if name not in _OF_IMAGE:
            # Widths of a dimension, such as time-width, belong to it.
            is_dimension = name.removesuffix("-width") in header.dimensions
            above = DIMENSIONS if is_dimension else INFO
            attributes[f"{above}{name}"] = _plain(one.attributes)
    volume = Volume(image.shape, image.dtype, image.dimensions, attributes)
    values = []
    for default, name in enumerate(("image-min", "image-max")):
        found = header.variables.get(name)
        values.append(np.asarray(float(default)))
        if found is not None:
            if found.dimensions != image.dimensions[: len(found.shape)]:
                raise ValueError(f"has an {name} along {','.join(found.dimensions)}")
            if np.prod(found.shape) > _MOST_SLICES or found.end > file_size:
                raise ValueError(f"is truncated: {name} ends at {found.end}")
            values[-1] = read_classic(path, found).astype(np.float64)
    return scaled(volume, *values)


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return dict(plain_values(attributes))
