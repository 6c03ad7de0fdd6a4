"""Formats that store elements in one order only use it, whatever the order of the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import dask_io
from dask_io.errors import UsageError
from dask_io.planning import Plan

if TYPE_CHECKING:
    from pathlib import Path

ARRAY = np.asfortranarray(np.arange(4 * 6 * 8, dtype="<i2").reshape(4, 6, 8))
FORMATS = ["hdf5", "minc", "netcdf", "mrc", "fits"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Save an array in Fortran order."""
    np.save(tmp_path / "f.npy", ARRAY)
    return tmp_path / "f.npy"


@pytest.mark.parametrize("suffix", [".h5", ".mnc"])
def test_block_files_need_no_order(suffix: str, source: Path, tmp_path: Path) -> None:
    """A source in Fortran order is split into block files in C order without --order."""
    pattern = tmp_path / "blocks" / f"b_{{0}}_{{1}}_{{2}}{suffix}"
    dask_io.split(source, pattern, chunks=(2, 3, 8))
    assert dask_io.info(pattern).order == "C"
    assert dask_io.verify(source, pattern).equal


@pytest.mark.parametrize("name", FORMATS)
def test_plans_without_a_target_have_the_order_of_the_format(name: str, source: Path) -> None:
    """A plan of costs alone assumes the order that the target would have."""
    job = dask_io.plan(source, format=name, chunks=(2, 3, 8))
    assert isinstance(job.plan, Plan)
    assert job.plan.problem.target.layout.name == "C"


@pytest.mark.parametrize("name", FORMATS)
def test_plans_without_a_target_refuse_another_order(name: str, source: Path) -> None:
    """An order that the format cannot have is refused, as it is with a target."""
    with pytest.raises(UsageError, match=r"in C order, not F; leave order=\.\.\. out"):
        dask_io.plan(source, format=name, chunks=(2, 3, 8), order="F")
