"""The header of NetCDF 3, held against what the library of NetCDF says."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import netCDF4
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_io
from dask_io.formats.netcdf.classic import read_header
from tests.refusals import may_refuse

VERSIONS = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
TYPES = ["i1", "S1", "i2", "i4", "f4", "f8"]
_REAL = sorted(Path("/usr/share/ferret-vis/data").glob("*.[cn]*"))


def make(path: Path, version: Any, kinds: list[str], n_records: int) -> None:
    """Make a file of variables along one dimension that ends and one that does not."""
    with netCDF4.Dataset(path, "w", format=version) as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        for number, kind in enumerate(kinds):
            for name, axes in (("r", ("t", "x")), ("f", ("x",))):
                made = file.createVariable(f"{name}{number}", kind, axes)
                shape = (n_records, 3) if name == "r" else (3,)
                values = np.arange(65, 65 + np.prod(shape)).astype("u1").reshape(shape)
                made[:] = values.view("S1") if kind == "S1" else values


@pytest.mark.parametrize("version", VERSIONS)
@given(kinds=st.lists(st.sampled_from(TYPES), min_size=1, max_size=4), n_records=st.integers(0, 4))
def test_values_are_where_the_header_says(version: str, kinds: list[str], n_records: int) -> None:
    """Records of several variables are padded and alternate; those of a single one are not."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.nc"
        make(path, version, kinds, n_records)
        with netCDF4.Dataset(path) as file:
            file.set_auto_mask(False)
            for name, one in file.variables.items():
                found = np.asarray(dask_io.open(f"{path}::{name}"))
                assert found.tobytes() == np.asarray(one[...]).astype(found.dtype).tobytes()
                assert found.shape == one.shape


@given(data=st.data())
def test_flipped_bytes(data: st.DataObject) -> None:
    """Whatever byte of the header is another, reading ends, and what is not read is one line."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.nc"
        make(path, "NETCDF3_CLASSIC", ["i2", "f8"], 3)
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        with may_refuse():
            opened = dask_io.open(f"{path}::r0")
            if opened.source.grid.size < 2**20:
                assert np.asarray(opened).shape == opened.shape


def test_a_header_may_be_long() -> None:
    """It is read as far as it goes, and not further than any header needs to."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.nc"
        with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
            file.history = "x" * 300_000
            file.createDimension("x", 3)
            file.createVariable("v", "i4", ("x",))[:] = [1, 2, 3]
        assert np.asarray(dask_io.open(path)).tolist() == [1, 2, 3]
    # Four thousand million dimensions, and nothing behind.
    endless = b"CDF\x01" + bytes(4) + b"\0\0\0\x0a" + b"\xff" * 4
    with pytest.raises(ValueError, match="ends within its header"):
        read_header(lambda n: endless[:n], len(endless))


@pytest.mark.skipif(not _REAL, reason="ferret-datasets are missing")
def test_files_that_nobody_here_made() -> None:
    """Every variable of the example files of Ferret is read as the library of NetCDF reads it."""
    n_read = 0
    for path in _REAL:
        with netCDF4.Dataset(path) as file:
            if not file.data_model.startswith("NETCDF3"):
                continue
            file.set_auto_maskandscale(False)
            for name, one in file.variables.items():
                if one.shape and one.size < 2**24:
                    assert _same(dask_io.open(f"{path}::{name}"), one)
                    n_read += 1
    assert n_read > 20


def _same(opened: Any, one: Any) -> bool:
    values, expected = np.asarray(opened), np.asarray(one[...])
    return values.tobytes() == expected.astype(values.dtype).tobytes()


def test_records_do_not_overlap() -> None:
    """Where one record ends, the next one of the same or of another variable begins."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.nc"
        make(path, "NETCDF3_CLASSIC", ["i1", "i2", "f8"], 2)
        header = read_header(io.BytesIO(path.read_bytes()).read, path.stat().st_size)
    ends = sorted(
        (one.begin + n * (one.step or 0), one.dtype.itemsize * 3)
        for one in header.variables.values()
        for n in range(2 if one.step else 1)
    )
    assert all(0 <= b - (a + n) < 4 for (a, n), (b, _) in pairwise(ends))
