"""A region of a target that is filled in place."""

from pathlib import Path

import numpy as np
import pytest
import zarr

from dask_io.engine.commit import Outlet
from dask_io.errors import UsageError
from dask_io.formats.zarr.inplace import ZarrInPlace
from dask_io.formats.zarr.source import open_zarr
from dask_io.geometry import Region
from dask_io.journal.ledger import Written
from dask_io.stores.staging import new_staging
from dask_io.stores.views import TargetView


@pytest.fixture
def target(tmp_path: Path) -> ZarrInPlace:
    """An array of 9 x 6 in chunks of 4 x 3, with something in it."""
    made = zarr.create_array(tmp_path / "a.zarr", shape=(9, 6), chunks=(4, 3), dtype="i2")
    made[:] = 7
    source = open_zarr(tmp_path / "a.zarr", "", strict=False)
    return ZarrInPlace(source.chunks.stored)


def fill(part: TargetView | ZarrInPlace, value: int) -> None:
    """Write a value to all blocks of a target."""
    outlet = Outlet(part)
    outlet.begin()
    for index in part.grid.indices():
        block = part.grid.block(index)
        with part.writer(index) as writer:
            whole = Region.whole(block.shape)
            values = np.full(block.shape, value, part.dtype)
            writer.write_from(whole, values, new_staging(part, 0))
        outlet.add(Written(index, block, writer.checksum, is_last=True), 1)
    outlet.finish()


def read(target: ZarrInPlace) -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    """Return all values, as zarr-python sees them."""
    found: np.ndarray[tuple[int, ...], np.dtype[np.int16]] = zarr.open_array(target.place)[:]  # type: ignore[assignment]
    return found


def test_only_the_region_is_written(target: ZarrInPlace) -> None:
    """Blocks outside stay as they were, and shorter ones at the end count as whole."""
    fill(TargetView(target, Region((4, 3), (9, 6))), 5)

    expected = np.full((9, 6), 7)
    expected[4:, 3:] = 5
    np.testing.assert_array_equal(read(target), expected)


@pytest.mark.parametrize("region", [Region((3, 0), (9, 6)), Region((0, 0), (5, 6))])
def test_a_region_that_cuts_blocks_is_refused(target: ZarrInPlace, region: Region) -> None:
    """A block would have to be read, changed and written again."""
    with pytest.raises(UsageError, match="cuts blocks"):
        TargetView(target, region)


def test_the_fill_value_removes_what_was_there(target: ZarrInPlace) -> None:
    """A chunk that is left out would otherwise keep its old values."""
    fill(target, 0)

    assert not read(target).any()
    chunks = [path for path in Path(target.place).rglob("c/*/*") if path.is_file()]
    assert not chunks


def test_a_run_that_is_given_up_leaves_whole_chunks(target: ZarrInPlace) -> None:
    """What was being written is removed, and what was there is there still."""
    target.create()
    with target.writer((0, 0)) as writer:
        writer.write_from(Region.whole((4, 3)), np.full((4, 3), 5, "i2"), new_staging(target, 0))
    target.abandon()

    np.testing.assert_array_equal(read(target), np.full((9, 6), 7))
    assert not list(Path(target.place).rglob("*.part"))


def test_two_runs_do_not_share_files_in_the_making(target: ZarrInPlace) -> None:
    """A run that a cluster has lost sight of may write the same chunk at the same time."""
    other = ZarrInPlace(target.stored)
    target.create()
    other.create()
    whole = Region.whole((4, 3))
    with target.writer((0, 0)) as one, other.writer((0, 0)) as two:
        one.write_from(whole, np.full((4, 3), 5, "i2"), new_staging(target, 0))
        two.write_from(whole, np.full((4, 3), 5, "i2"), new_staging(other, 0))
    cell = Written((0, 0), whole, 0, is_last=True)
    target.commit([cell])
    assert (read(target)[:4, :3] == 5).all()
    other.commit([cell])
    assert (read(target)[:4, :3] == 5).all()


def test_nothing_can_be_resumed(target: ZarrInPlace) -> None:
    """Nothing says what has been written."""
    with pytest.raises(UsageError, match="no run can be resumed"):
        TargetView(target, Region((0, 0), (4, 6))).resume()
