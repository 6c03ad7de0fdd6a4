"""Places for small files that cost no time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

_MEMORY = Path("/dev/shm")  # noqa: S108


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder in memory where there is one: syncing many small files there is free."""
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A folder in memory where there is one, for one test."""
    with temporary_folder() as folder:
        yield folder
