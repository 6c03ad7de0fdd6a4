"""Directories and files of blocks as targets: what is made, refused and replaced."""

from __future__ import annotations

import json
import pickle
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, StorageError, TargetExistsError, UsageError
from dask_io.formats import make_target, open_source
from dask_io.geometry import Grid, Layout, Region
from dask_io.journal import local_log as filelog
from dask_io.journal.ledger import Written
from dask_io.storage.local import system
from dask_io.storage.own_names import JOURNAL
from dask_io.stores.manifest import NAME
from dask_io.stores.staging import new_staging

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Target

GRID = Grid.regular((4, 4), (2, 4))


def target_at(
    path: Path,
    *,
    overwrite: bool = False,
    grid: Grid = GRID,
    format: str | None = None,  # noqa: A002
) -> Target:
    """Describe a target."""
    return make_target(
        path,
        grid=grid,
        dtype=np.dtype("<f4"),
        layout=Layout.c(2),
        overwrite=overwrite,
        format=format,
    )


def fill(target: Target, n_blocks: int | None = None) -> None:
    """Write some or all blocks with zeros."""
    target.create()
    for index in list(target.grid.indices())[:n_blocks]:
        block = target.grid.block(index)
        with target.writer(index) as writer:
            values = np.zeros(block.shape, "<f4")
            writer.write_from(Region.whole(block.shape), values, new_staging(target, 0))
            written = Written(index, block, writer.checksum, is_last=True)
        target.commit([written])
    if n_blocks is None:
        target.finish()


def names_in(folder: Path) -> set[str]:
    """Names of all files in a directory."""
    return {path.name for path in folder.iterdir()}


def test_a_directory_gets_blocks_and_a_manifest(tmp_path: Path) -> None:
    """A new directory, with its parents, holds aligned blocks and describes itself."""
    folder = tmp_path / "a" / "b"
    fill(target_at(folder))
    assert names_in(folder) == {"b_0_0.npy", "b_1_0.npy", NAME, JOURNAL}
    assert (folder / "b_0_0.npy").stat().st_size == 4096 + 32
    assert json.loads((folder / NAME).read_bytes())["chunks"] == [2, 4]
    assert np.load(folder / "b_1_0.npy").shape == (2, 4)


def test_a_single_file_has_no_manifest(tmp_path: Path) -> None:
    """A file is all there is of it."""
    fill(target_at(tmp_path / "x.raw", grid=Grid.regular((4, 4), (4, 4))))
    assert names_in(tmp_path) == {"x.raw", f".x.raw{JOURNAL}"}


def test_an_unfinished_directory_is_not_taken_for_an_array(tmp_path: Path) -> None:
    """Blocks of an interrupted run look like a smaller array, but are refused."""
    target = target_at(tmp_path / "x")
    fill(target, n_blocks=1)
    paths = (tmp_path / "x", tmp_path / "x" / "b_{0}_{1}.npy")
    for path in paths:
        with pytest.raises(StorageError, match="another run is writing it"):
            open_source(path)
    target.abandon()
    for path in paths:
        with pytest.raises(DataError, match="it was interrupted or stopped at an error"):
            open_source(path)
    assert names_in(tmp_path / "x") == {"b_0_0.npy", JOURNAL}
    fill(target_at(tmp_path / "x", overwrite=True))
    assert open_source(tmp_path / "x").grid == GRID


def test_abandoning_removes_only_what_was_made(tmp_path: Path) -> None:
    """Directories that were there before stay, and so does what others put into new ones."""
    target = target_at(tmp_path / "new" / "x")
    target.create()
    (tmp_path / "new" / "other").write_bytes(b"")
    target.abandon()
    assert names_in(tmp_path / "new") == {"other"}


def test_an_empty_directory_is_no_target(tmp_path: Path) -> None:
    """It is used as it is."""
    (tmp_path / "x").mkdir()
    fill(target_at(tmp_path / "x"))
    assert not np.any(dask_io.open(tmp_path / "x"))


def test_existing_places_are_refused(tmp_path: Path) -> None:
    """Files, directories that hold anything and links to nowhere are left alone."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes").write_bytes(b"")
    (tmp_path / "x.npy").write_bytes(b"")
    (tmp_path / "plain").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    one = Grid.regular((4, 4), (4, 4))
    for name in ("folder", "plain", "link"):
        with pytest.raises(TargetExistsError, match="exists; choose another"):
            target_at(tmp_path / name).create()
    with pytest.raises(TargetExistsError):
        target_at(tmp_path / "x.npy", grid=one).create()
    for name in ("plain", "link"):
        with pytest.raises(UsageError, match="is a file, not a directory"):
            target_at(tmp_path / name, overwrite=True).create()


def test_overwriting_removes_the_old_target_alone(tmp_path: Path) -> None:
    """Blocks of an older pattern, its manifest and what was in the making are removed."""
    fill(target_at(tmp_path / "x" / "old_{0:03}_{1}.raw"))
    (tmp_path / "x" / ".old_000_7.raw.part").write_bytes(b"")
    fill(target_at(tmp_path / "x", overwrite=True, format="npy"))
    assert names_in(tmp_path / "x") == {"b_0_0.npy", "b_1_0.npy", NAME, JOURNAL}


def test_overwriting_stops_at_foreign_files(tmp_path: Path) -> None:
    """What is not part of a target is named, and nothing is removed."""
    folder = tmp_path / "x"
    fill(target_at(folder))
    (folder / "notes\n.txt").write_bytes(b"")
    (folder / ".secret").write_bytes(b"")
    (folder / "b_9_9.npy").mkdir()
    before = names_in(folder)
    with pytest.raises(UsageError, match=r"\.secret, b_9_9\.npy, notes\\n\.txt; move them away"):
        target_at(folder, overwrite=True).create()
    assert names_in(folder) == before


def test_a_broken_manifest_can_be_overwritten(tmp_path: Path) -> None:
    """What cannot be understood cannot say what is part of it, but is part of it itself."""
    (tmp_path / NAME).write_bytes(b"{")
    fill(target_at(tmp_path, overwrite=True))
    assert not np.any(dask_io.open(tmp_path))


def test_a_file_is_replaced_when_the_new_one_is_whole(tmp_path: Path) -> None:
    """Until then the old one is there; a link is replaced, not what it points to."""
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "x.raw").symlink_to(tmp_path / "old")
    target = target_at(tmp_path / "x.raw", grid=Grid.regular((4, 4), (4, 4)), overwrite=True)
    target.create()
    with target.writer((0, 0)) as writer:
        writer.write_from(Region.whole((4, 4)), np.ones((4, 4), "<f4"), new_staging(target, 0))
        written = Written((0, 0), Region.whole((4, 4)), writer.checksum, is_last=True)
    assert (tmp_path / "x.raw").read_bytes() == b"old"
    target.commit([written])
    target.finish()
    assert (tmp_path / "old").read_bytes() == b"old"
    assert (tmp_path / "x.raw").read_bytes() == np.ones(16, "<f4").tobytes()


def test_a_directory_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    """A directory with a file's name is in the way."""
    (tmp_path / "f").mkdir()
    target = target_at(tmp_path / "f" / "x.npy", grid=Grid.regular((4, 4), (4, 4)), overwrite=True)
    (tmp_path / "f" / "x.npy").mkdir()
    with pytest.raises(UsageError, match="is a directory, not a file"):
        target.create()


def test_a_place_that_cannot_be_made_is_a_matter_of_storage(tmp_path: Path) -> None:
    """A parent that is a file is one clear line."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="a part of the path is a file, not a folder"):
        target_at(tmp_path / "file" / "x").create()


@pytest.mark.parametrize("name", ["x.npy", "x.raw", "folder"])
def test_arrays_without_elements_are_written(name: str, tmp_path: Path) -> None:
    """An empty array is a file without data, or a manifest without blocks."""
    path = tmp_path / name
    fill(target_at(path, grid=Grid.regular((0, 4), (1, 4))))
    assert path.exists()
    if name == "x.npy":
        assert np.load(path).shape == (0, 4)


def test_a_refused_run_leaves_an_unfinished_target_unfinished(tmp_path: Path) -> None:
    """What a killed run left does not become a smaller array when the next one is refused."""
    killed = target_at(tmp_path / "x")
    fill(killed, n_blocks=1)
    refused = target_at(tmp_path / "x")
    with pytest.raises(StorageError, match="another run is writing it"):
        refused.create()
    killed.abandon()
    with pytest.raises(TargetExistsError, match="complete it with dask-io resume"):
        refused.create()
    refused.abandon()
    assert names_in(tmp_path / "x") == {"b_0_0.npy", JOURNAL}
    with pytest.raises(DataError, match="unfinished"):
        open_source(tmp_path / "x")


def test_of_two_runs_that_find_the_place_free_one_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that comes second between another's look and its journal is the one that stays."""
    make, second = system.calls.mkdir, target_at(tmp_path / "x")

    def make_late(folder: Path) -> None:
        make(folder)
        monkeypatch.setattr(system.calls, "mkdir", make)
        second.create()

    monkeypatch.setattr(system.calls, "mkdir", make_late)
    first = target_at(tmp_path / "x")
    with pytest.raises(TargetExistsError):
        first.create()
    first.abandon()
    assert names_in(tmp_path / "x") == {JOURNAL}


def test_a_target_is_refused_the_second_time(tmp_path: Path) -> None:
    """Having been allowed once is no leave to overwrite."""
    target = target_at(tmp_path / "x")
    fill(target)
    with pytest.raises(TargetExistsError):
        fill(target)
    target.abandon()
    assert open_source(tmp_path / "x").grid == GRID


def test_a_target_is_made_again_after_a_failure(tmp_path: Path) -> None:
    """Abandoned or removed meanwhile, the same target works anew."""
    target = target_at(tmp_path / "new" / "x")
    target.create()
    target.abandon()
    assert names_in(tmp_path) == set()
    fill(target, n_blocks=1)
    target.abandon()
    with pytest.raises(TargetExistsError):
        target.create()
    shutil.rmtree(tmp_path / "new")
    fill(target)
    shutil.rmtree(tmp_path / "new")
    fill(target)
    assert open_source(tmp_path / "new" / "x").grid == GRID


@pytest.mark.parametrize("was_there", [True, False])
def test_a_mark_that_cannot_be_written_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, was_there: bool
) -> None:
    """A disk without room for it keeps the old target, and no new directory."""
    if was_there:
        fill(target_at(tmp_path / "x"))
    before = names_in(tmp_path)

    def fail(*_: object) -> None:
        raise StorageError("x", "no space left on device")

    monkeypatch.setattr(filelog, "write_whole", fail)
    with pytest.raises(StorageError, match="no space"):
        target_at(tmp_path / "x", overwrite=True).create()
    assert names_in(tmp_path) == before
    if was_there:
        assert names_in(tmp_path / "x") == {"b_0_0.npy", "b_1_0.npy", NAME, JOURNAL}


def test_nothing_is_begun_after_abandoning(tmp_path: Path) -> None:
    """A thread that comes late leaves no file behind."""
    target = target_at(tmp_path / "x")
    fill(target, n_blocks=1)
    target.abandon()
    with pytest.raises(StorageError, match="abandoned"), target.writer((1, 0)):
        pass
    assert names_in(tmp_path / "x") == {"b_0_0.npy", JOURNAL}


def test_a_target_travels_to_another_process(tmp_path: Path) -> None:
    """What comes out of a pickle writes as the target itself would."""
    copy = pickle.dumps(target_at(tmp_path / "x"))
    fill(pickle.loads(copy))  # noqa: S301 - our own
    assert open_source(tmp_path / "x").grid == GRID
