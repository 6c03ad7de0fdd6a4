"""The version."""

from importlib.metadata import version

import dask_io


def test_version_is_the_one_installed() -> None:
    """The version in the code and the one in pyproject.toml are the same."""
    assert dask_io.__version__ == version("dask-io")
