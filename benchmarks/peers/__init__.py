"""Dask IO next to what its users would pick instead, on the same data in the same run."""
