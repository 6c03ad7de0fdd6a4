"""All formats, and functions to open and create arrays in them."""

from dask_io.formats.creating import check_places, make_target
from dask_io.formats.opening import open_source
from dask_io.formats.registry import format_names

__all__ = ["check_places", "format_names", "make_target", "open_source"]
