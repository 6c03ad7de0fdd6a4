"""Where things are."""

import pytest

from dask_io.errors import UsageError
from dask_io.storage.location import locate


def test_an_empty_path_is_refused() -> None:
    """It is what is left of a variable that was not set, and does not mean the folder around."""
    with pytest.raises(UsageError, match="empty"):
        locate("")
