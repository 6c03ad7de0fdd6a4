"""OME-Zarr as a format of targets: images with one level, made from one array."""

from __future__ import annotations

from dask_io.formats.zarr.ome_source import open_level, reopen_level
from dask_io.formats.zarr.ome_target import make_image_target, remake_image_target
from dask_io.formats.zarr.source import reopen_written


class OmeZarrFormat:
    """Groups of Zarr arrays that are the levels of an image; new images have one level."""

    name = "ome-zarr"
    suffixes = (".ome.zarr",)

    open = staticmethod(open_level)
    make = staticmethod(make_image_target)
    reopen = staticmethod(reopen_level)
    read_back = staticmethod(reopen_written)
    remake = staticmethod(remake_image_target)


FORMAT = OmeZarrFormat()
