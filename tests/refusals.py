"""Errors that a test allows for."""

from collections.abc import Iterator
from contextlib import contextmanager

from dask_io.errors import DaskIOError


@contextmanager
def may_refuse() -> Iterator[None]:
    """Allow one of our errors, which must say in one line what is wrong."""
    try:
        yield
    except DaskIOError as error:
        said = str(error)
        assert said
        assert said.isprintable(), said
