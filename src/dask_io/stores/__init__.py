"""The interface between the engine and arrays in blocks, for all formats."""

from dask_io.stores.store import Access, BlockReader, BlockWriter, Source, Store, Target

__all__ = ["Access", "BlockReader", "BlockWriter", "Source", "Store", "Target"]
