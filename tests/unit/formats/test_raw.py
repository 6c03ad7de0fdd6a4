"""Raw files have no header."""

import numpy as np
import pytest

from dask_io.formats.raw import FORMAT
from dask_io.geometry import Layout
from dask_io.stores.block_format import Header


def test_there_is_no_header() -> None:
    """Nothing is written before the data, in any order of axes, and nothing can be read."""
    assert FORMAT.make_header(Header((2, 3, 4), np.dtype(">f4"), Layout((1, 0, 2)))) == b""
    assert FORMAT.longest_header == 0
    with pytest.raises(ValueError, match="give its shape and dtype"):
        FORMAT.parse_header(bytes)
