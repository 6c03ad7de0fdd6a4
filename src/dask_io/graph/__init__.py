"""Dask programs onto our plans: what reads, rechunks and stores in a graph is replaced."""
