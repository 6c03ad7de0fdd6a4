"""N5 datasets: directories with attributes in JSON, and a file for each block.

Any number of blocks may be read or written at once. No library of N5 is needed.
"""

from __future__ import annotations

from dask_io.formats.n5.source import FORMAT_NAME, open_n5, read_back_n5, reopen_n5
from dask_io.formats.n5.target import make_n5, remake_n5


class N5Format:
    """Directories with a dataset, or with groups of datasets."""

    name = FORMAT_NAME
    suffixes = (".n5",)

    open = staticmethod(open_n5)
    make = staticmethod(make_n5)
    reopen = staticmethod(reopen_n5)
    read_back = staticmethod(read_back_n5)
    remake = staticmethod(remake_n5)


FORMAT = N5Format()
