"""What is checked before a run starts."""

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import zarr

import dask_io
from dask_io.engine import preflight
from dask_io.engine.preflight import (
    Move,
    check_before_run,
    check_inodes,
    check_open_files,
    check_space,
)
from dask_io.errors import RoomWarning, StorageError
from dask_io.formats import open_source
from dask_io.formats.creating import make_target
from dask_io.geometry import Grid, Layout
from dask_io.stores.container import TargetOptions
from dask_io.stores.store import Source

Disk = Callable[..., None]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Make the filesystem look as given."""

    def look(*, blocks: int = 10**6, files: int = 10**6, all_files: int = 10**6) -> None:
        # In order: bsize, frsize, blocks, bfree, bavail, files, ffree, favail, flag, namemax.
        found = os.statvfs_result(
            (4096, 4096, blocks, blocks, blocks, all_files, files, files, 0, 255)
        )
        monkeypatch.setattr(os, "statvfs", lambda _: found)

    return look


GRID = Grid.regular((100, 4096), (1, 4096))


def move_to(place: Path, source: Source | None = None, format: str = "npy", **options: Any) -> Move:  # noqa: A002
    """A target of 100 blocks of 4096 bytes each; the source does not matter unless it is given."""
    target = make_target(
        place,
        format=format,
        like="npy",
        grid=GRID,
        dtype=np.dtype("u1"),
        layout=Layout.c(2),
        overwrite=True,
        options=TargetOptions(**options),
    )
    return Move(source or cast("Source", None), target)


def zarr_at(place: Path, n_stored: int, **how: Any) -> Source:
    """Store some of 100 chunks."""
    made = zarr.create_array(
        place, shape=GRID.shape, chunks=GRID.longest, dtype="u1", **{"compressors": None, **how}
    )
    made[:n_stored] = 1
    return open_source(place)


def test_a_disk_with_room_is_fine(tmp_path: Path) -> None:
    """Nothing is said, and nothing is made."""
    check_before_run([move_to(tmp_path / "out")], workers=4)
    assert list(tmp_path.iterdir()) == []


def test_too_little_space_is_one_clear_line(tmp_path: Path, disk: Disk) -> None:
    """The line says what is needed, a header for each block too, and what is free."""
    disk(blocks=199)
    with pytest.raises(
        StorageError, match=r"800.00 KiB are needed, but only 796.00 KiB are free"
    ) as caught:
        check_space([move_to(tmp_path / "out")])
    assert caught.value.exit_code == 3
    disk(blocks=200)
    check_space([move_to(tmp_path / "out")])
    with pytest.raises(StorageError, match=r"800.00 KiB, and 4.00 KiB for scratch blocks, are"):
        check_space([move_to(tmp_path / "out")], 4096)


def test_targets_on_one_disk_share_its_room(tmp_path: Path, disk: Disk) -> None:
    """Two targets need room for both."""
    disk(blocks=300)
    moves = [move_to(tmp_path / name) for name in ("one", "two")]
    check_before_run(moves[:1], workers=1)
    with pytest.raises(StorageError, match=r"1.56 MiB are needed"):
        check_before_run(moves, workers=1)


def test_what_is_overwritten_counts_as_free(tmp_path: Path, disk: Disk) -> None:
    """Files of the target that was there are removed before new ones are written."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "old.npy").write_bytes(bytes(8192))
    disk(blocks=198, files=107)
    check_space([move_to(out)])
    check_inodes([move_to(out)])


def test_too_few_inodes_are_one_clear_line(tmp_path: Path, disk: Disk) -> None:
    """The line says how many blocks there are and how many files fit."""
    disk(files=90)
    with pytest.raises(StorageError, match=r"needs 100 files.* only 90") as caught:
        check_inodes([move_to(tmp_path / "out")])
    assert caught.value.exit_code == 3
    assert "larger chunks" in str(caught.value)


def test_one_file_is_one_file(tmp_path: Path, disk: Disk) -> None:
    """However many chunks there are in it."""
    disk(files=90)
    check_inodes([move_to(tmp_path / "out.h5", format="hdf5")])


def test_gaps_need_no_room(tmp_path: Path, disk: Disk) -> None:
    """What is not stored need not be where it goes, unless the target has to have all of it."""
    source = zarr_at(tmp_path / "in.zarr", 40)
    disk(blocks=150, files=50)
    check_before_run([move_to(tmp_path / "out.zarr", source, "zarr", codec="none")], workers=1)
    for others in (
        {"source": zarr_at(tmp_path / "all.zarr", 100), "format": "zarr", "codec": "none"},
        {"source": source, "format": "zarr", "codec": "none", "write_empty": True},
        {"source": source},
    ):
        move = move_to(tmp_path / "out", **others)
        with pytest.raises(StorageError, match="are needed"):
            check_space([move])
        with pytest.raises(StorageError, match="100 files"):
            check_inodes([move])


def test_codecs_may_need_no_room(tmp_path: Path, disk: Disk) -> None:
    """What they make of an array is not known; more than it takes now is only warned of."""
    plain = zarr_at(tmp_path / "plain.zarr", 100)
    packed = zarr_at(tmp_path / "packed.zarr", 100, compressors="auto")
    disk(blocks=150)
    check_space([move_to(tmp_path / "out.zarr", packed, "zarr", codec="zstd:1")])
    with pytest.warns(RoomWarning, match=r"800.00 KiB may be needed, but only 600.00 KiB"):
        check_space([move_to(tmp_path / "out.zarr", plain, "zarr", codec="zstd:1")])
    with pytest.raises(StorageError, match=r"600.04 KiB for scratch"):
        check_space([move_to(tmp_path / "out.zarr", packed, "zarr", codec="zstd:1")], 614441)


def test_a_filesystem_that_makes_inodes_as_needed_is_fine(tmp_path: Path, disk: Disk) -> None:
    """Some filesystems have no fixed number of files, and say 0."""
    disk(files=0, all_files=0)
    check_inodes([move_to(tmp_path / "out")])


def test_too_few_open_files_are_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line says what to do: raise the limit, or use fewer threads."""
    monkeypatch.setattr(preflight, "_n_open_files", lambda: 10)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (17, 100))
    check_open_files(move_to(tmp_path / "out").target, 3)
    with pytest.raises(StorageError, match="up to 18 files are open at once, but the limit is 17"):
        check_open_files(move_to(tmp_path / "out").target, 4)


def test_no_limit_of_open_files_is_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Infinity is written as a negative number on some systems."""
    infinity = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (infinity, infinity))
    check_open_files(move_to(tmp_path / "out").target, 10**6)


def test_open_files_are_counted(tmp_path: Path) -> None:
    """A file that is opened is one more."""
    before = preflight._n_open_files()  # noqa: SLF001  # nothing else shows it
    with (tmp_path / "a").open("w"):
        assert preflight._n_open_files() in {before, before + 1}  # noqa: SLF001


def test_a_run_checks_before_it_makes_anything(tmp_path: Path, disk: Disk) -> None:
    """With too little room the target is not even begun."""
    np.save(tmp_path / "a.npy", np.zeros((64, 64)))
    disk(blocks=1)
    with pytest.raises(StorageError, match="are needed"):
        dask_io.split(tmp_path / "a.npy", tmp_path / "out", chunks=16)
    assert not (tmp_path / "out").exists()
