"""One run on many workers: in parts, on a dask.distributed cluster or a batch system."""
