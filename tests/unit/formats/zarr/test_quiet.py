"""Warnings of zarr-python are silent for all threads that need it, and for nobody afterwards."""

import warnings
from contextlib import ExitStack

import pytest

from dask_io.formats.zarr.quiet import quiet


def test_who_leaves_first_does_not_end_the_silence_of_others() -> None:
    """Blocks that overlap, as those of two threads do, are silent to their ends."""
    before = list(warnings.filters)
    with ExitStack() as second:
        with quiet():
            second.enter_context(quiet())
        warnings.warn("about zarr", stacklevel=1)
    assert list(warnings.filters) == before
    with pytest.warns(UserWarning, match="again"):
        warnings.warn("again", stacklevel=1)
