"""Lets ``python -m dask_io.cli`` stand for ``dask-io``."""

from dask_io.cli import main

main()
