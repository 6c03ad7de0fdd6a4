"""Run ``dask-io`` with ``python -m dask_io.cli``."""

from dask_io.cli import main

main()
