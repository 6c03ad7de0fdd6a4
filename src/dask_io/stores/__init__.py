"""The seam to storage: the Store protocol, block files, and the way from a place to a store."""

from dask_io.stores.formats import format_names
from dask_io.stores.making import check_places, make_target
from dask_io.stores.opening import open_source
from dask_io.stores.store import Access, BlockReader, BlockWriter, Source, Store, Target

__all__ = [
    "Access",
    "BlockReader",
    "BlockWriter",
    "Source",
    "Store",
    "Target",
    "check_places",
    "format_names",
    "make_target",
    "open_source",
]
