"""Files that are broken in any way: one of our errors, or what HDF5 itself reads."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_io
from dask_io.errors import DaskIOError

KINDS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (4, 5)},
    "gzip": {"chunks": (4, 5), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"chunks": (4, 5), "compression": "lzf"},
    "may grow": {"chunks": (4, 5), "maxshape": (None, None), "compression": "gzip"},
}


def make(kind: str, libver: str) -> bytes:
    """Make a small file."""
    content = io.BytesIO()
    with h5py.File(content, "w", libver=libver) as file:
        data = np.arange(12 * 10, dtype="<i4").reshape(12, 10)
        made = file.create_dataset("g/x", data=data, fillvalue=3, **KINDS[kind])
        made.attrs["units"] = "K"
        made.attrs["words"] = ["a", "b"]
        file["s"] = np.arange(10)
        file["s"].make_scale("s")
        made.dims[1].attach_scale(file["s"])
    return content.getvalue()


FILES = {(kind, libver): make(kind, libver) for kind in KINDS for libver in ("earliest", "latest")}


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_flipped_bytes(kind: str, libver: str, data: st.DataObject) -> None:
    """Whatever byte is another, reading ends, and what is not read is one line."""
    content = bytearray(FILES[kind, libver])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.h5"
        path.write_bytes(content)
        _open(path)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_truncated_files(kind: str, data: st.DataObject) -> None:
    """A file that ends anywhere is never taken for a whole one."""
    content = FILES[kind, "earliest"]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.h5"
        path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        with pytest.raises(DaskIOError):
            np.asarray(dask_io.open(f"{path}::/g/x"))


@pytest.mark.parametrize(
    ("behind", "at", "value"),
    [
        # libhdf5 1.14 aborts: a scale is none.
        (b"DIMENSION_SCALE", 1, 0xFF),
        # It does not come to an end: words of no length, and what is free behind them too.
        (b"GCOL", 24, 0),
        (b"GCOL", 120, 0),
        # It reads from where nothing is: types that are no types.
        (b"DIMENSION_LIST", 17, 0xD4),
        (b"words", 9, 0xFF),
    ],
)
def test_files_that_hdf5_fails_on(behind: bytes, at: int, value: int, tmp_path: Path) -> None:
    """A file that HDF5 itself does not survive is an error as any other."""
    content = bytearray(FILES["gzip", "earliest"])
    content[content.index(behind) + at] = value
    path = tmp_path / "a.h5"
    path.write_bytes(content)

    _open(path)


def _open(path: Path) -> None:
    with suppress(DaskIOError):
        opened = dask_io.open(f"{path}::/g/x")
        if opened.source.grid.size < 2**20:
            values = np.asarray(opened)
            assert values.shape == opened.shape
