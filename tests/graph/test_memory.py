"""What functions on the way take is in the budget."""

from pathlib import Path

import numpy as np
import pytest
import zarr

import dask_io
from dask_io.engine.staging import share_staging
from dask_io.planning import Plan
from tests.graph.shapes import da
from tests.peak import stays_within

# What Python itself needs meanwhile.
_SLACK = 2 * 2**20


@pytest.mark.parametrize("is_before", [True, False])
def test_functions_take_what_was_counted(tmp_path: Path, *, is_before: bool) -> None:
    """All that is allocated on the way, besides the buffers, is what the plan counts for it."""
    stored = zarr.create_array(
        tmp_path / "a.zarr", shape=(1024, 1024), chunks=(256, 256), dtype="f8", compressors=None
    )
    stored[:] = np.random.default_rng(0).random((1024, 1024))
    array = da.from_array(stored, chunks=(256, 256))
    array = (
        ((array + 1) * 2).rechunk((128, 512)) if is_before else array.rechunk((128, 512)) * 2 + 1
    )
    target = zarr.create_array(
        tmp_path / "b.zarr", shape=(1024, 1024), chunks=(128, 512), dtype="f8", compressors=None
    )
    later = array.store(target, lock=False, compute=False)
    with dask_io.optimize(memory="24MiB", workers=3, on_mismatch="raise"):
        (plan,) = dask_io.explain(later).plans
        assert isinstance(plan, Plan)
        share = share_staging(plan.staging_bytes, [plan.problem], 3)
        assert plan.peak_bytes <= 24 * 2**20
        assert share.codec_bytes > 256 * 256 * 8
        counted = share.n_workers * share.codec_bytes
        assert stays_within(counted + _SLACK, lambda: later.compute(scheduler="sync"))

    np.testing.assert_array_equal(target[:], array.compute())
