"""The hidden file with checksums next to a complete target of one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import dask_io
from dask_io.errors import UsageError
from tests.commands import fail, run

if TYPE_CHECKING:
    from pathlib import Path

ARRAY = np.arange(6000.0).reshape(60, 100)


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    """Blocks of an array."""
    np.save(tmp_path / "in.npy", ARRAY)
    dask_io.split(tmp_path / "in.npy", tmp_path / "blocks", chunks=25)
    return tmp_path / "blocks"


@pytest.mark.parametrize("name", ["out.npy", "out.h5", "out.nii", "out.tif"])
def test_only_one_hidden_file_stays(blocks: Path, tmp_path: Path, name: str) -> None:
    """It moves with the target; verify, repair, resume and overwrite find it."""
    place, moved = tmp_path / "a" / name, tmp_path / "b" / name
    dask_io.resplit(blocks, place, chunks=-1)
    assert {path.name for path in place.parent.iterdir()} == {name, f".{name}.dask-io"}
    place.parent.rename(moved.parent)
    assert dask_io.verify(moved)
    content = bytearray(moved.read_bytes())
    content[-1500] ^= 1
    moved.write_bytes(content)
    assert dask_io.repair(moved).n_damaged == 1
    assert np.array_equal(dask_io.open(moved)[:, :], ARRAY)
    dask_io.resume(moved)
    dask_io.resplit(blocks, moved, chunks=-1, overwrite=True)
    assert dask_io.verify(moved)
    assert {path.name for path in moved.parent.iterdir()} == {name, f".{name}.dask-io"}


def test_the_folder_of_an_earlier_version_counts(blocks: Path, tmp_path: Path) -> None:
    """A sealed journal in a folder is read, and becomes a file when the target is replaced."""
    place, small = tmp_path / "out.npy", tmp_path / ".out.npy.dask-io"
    dask_io.merge(blocks, place)
    (tmp_path / "out.npy.dask-io").mkdir()
    small.rename(tmp_path / "out.npy.dask-io" / "journal")
    assert dask_io.verify(place)
    assert not dask_io.repair(place).damaged
    dask_io.merge(blocks, place, overwrite=True)
    assert small.is_file()
    assert not (tmp_path / "out.npy.dask-io").exists()


def test_a_lock_that_a_crash_left_is_removed(blocks: Path, tmp_path: Path) -> None:
    """As if a run had ended just after the journal got its last name."""
    place, folder = tmp_path / "out.npy", tmp_path / "out.npy.dask-io"
    dask_io.merge(blocks, place)
    folder.mkdir()
    (folder / "lock").touch()
    assert dask_io.verify(place)
    dask_io.resume(place)
    assert not folder.exists()
    assert dask_io.verify(place)


def test_it_can_be_left_out(blocks: Path, tmp_path: Path) -> None:
    """Then there are no checksums, and the error tells how to compare with the source."""
    place = tmp_path / "out.npy"
    shown = run("merge", blocks, place)
    assert "checksums for verify and repair are in .out.npy.dask-io" in shown
    shown = run("merge", blocks, place, "--overwrite", "--no-sidecar", "--verify")
    assert "checksums" not in shown
    assert not list(tmp_path.glob("*out.npy.dask-io"))
    assert f"dask-io verify SRC {place}" in fail("verify", place, code=2)
    dask_io.verify(blocks, place)
    dask_io.merge(blocks, place, overwrite=True)
    run("resume", place, "--no-sidecar")
    assert not list(tmp_path.glob(".out.npy.dask-io"))


def test_the_first_of_several_is_named_with_its_folder(blocks: Path, tmp_path: Path) -> None:
    """The files are hidden in the folder of the regions."""
    place = tmp_path / "rois"
    shown = run("extract", blocks, place, "--region", "0:5", "--region", "5:9")

    assert f"are in {place}/.region_000.npy.dask-io and 1 more file" in shown


def test_a_folder_has_none(blocks: Path, tmp_path: Path) -> None:
    """To leave out what is inside of the target is refused before anything is written."""
    for place in (tmp_path / "x.zarr", tmp_path / "files"):
        with pytest.raises(UsageError, match="is not one file"):
            dask_io.resplit(blocks, place, chunks=25, sidecar=False)
        assert not place.exists()
    with pytest.raises(UsageError, match="is not one file"):
        dask_io.resume(blocks, sidecar=False)


def test_progress_of_reading_back(blocks: Path, tmp_path: Path) -> None:
    """Verify and repair tell how much has been read, up to all of it."""
    for verb in (dask_io.verify, dask_io.repair):
        seen: list[tuple[int, int, int]] = []

        def take(now: dask_io.Progress, seen: list[tuple[int, int, int]] = seen) -> None:
            seen.append((now.n_bytes_written, now.n_bytes, now.n_blocks_written))

        verb(blocks, progress=take)
        assert seen[-1] == (ARRAY.nbytes, ARRAY.nbytes, 12)
        assert seen == sorted(seen)
    last: list[dask_io.Progress] = []
    dask_io.verify(tmp_path / "in.npy", blocks, progress=last.append)
    assert last[-1].n_bytes_written == ARRAY.nbytes


@pytest.mark.parametrize("order", [("DST", "--memory", "4", "GB"), ("--memory", "4", "GB", "DST")])
def test_a_size_with_a_space(blocks: Path, order: tuple[str, ...]) -> None:
    """The unit is an argument of its own then; the error says what to write."""
    told = fail("merge", blocks, *order, code=2)
    assert "write 4GB, or '4 GB' in quotes" in told
