"""The seam to storage: what the engine asks of an array in blocks, whatever its format."""

from dask_io.stores.store import Access, BlockReader, BlockWriter, Source, Store, Target

__all__ = ["Access", "BlockReader", "BlockWriter", "Source", "Store", "Target"]
