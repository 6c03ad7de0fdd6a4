"""Damaged targets are found and written again, on the command line and in Python."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import zarr

import dask_io
from dask_io.codecs import deflate
from dask_io.errors import DataError, InterruptedRunError, StorageError, UsageError
from dask_io.formats.zarr.quiet import quiet
from dask_io.storage.objects.connect import parse_url
from tests.commands import fail, invoke, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ARRAY = np.arange(1, 1 + 20 * 12, dtype="<i4").reshape(20, 12)
# One block of most targets holds nothing else.
ARRAY[15:, 8:] = 0
# So little memory that a file is written in several cells.
LITTLE = 16 * 2**10 + 8192 + 64


@dataclass(frozen=True)
class Case:
    """A target: its name, the pattern of its data files, and how it is made."""

    target: str
    files: str
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        said = [f"{name}={value}" for name, value in self.options.items() if name != "chunks"]
        return "-".join([self.target, *said])

    @property
    def is_one_file(self) -> bool:
        """Whether all of it is in one file."""
        return not self.files


CASES = [
    Case("out", "b_*.npy", {"chunks": (5, 4)}),
    Case("out", "b_*", {"chunks": (5, 4), "format": "raw"}),
    Case("out", "b_*.npy", {"chunks": (10, 12), "memory": LITTLE, "strategy": "naive"}),
    Case("out", "b_*.npy", {"chunks": (5, 4), "region": "2:18,1:"}),
    Case("out", "b_*.npy", {"chunks": (5, 4), "dtype": "float64"}),
    Case("out.npystack", "*.npy", {"chunks": (5, -1)}),
    Case("out.zarr", "c/*/*", {"chunks": (5, 4), "codec": "zstd:1"}),
    Case("out.zarr", "c/*/*", {"chunks": (5, 4), "codec": "none"}),
    Case("out.zarr", "c/*/*", {"chunks": (5, 2), "shards": (5, 4), "codec": "zstd:1"}),
    Case("out.zarr", "[0-9]*", {"chunks": (5, 4), "format_version": 2}),
    Case("one.npy", "", {"chunks": -1}),
    Case("one.npy", "", {"chunks": -1, "memory": LITTLE, "strategy": "naive"}),
    Case("one.raw", "", {"chunks": -1}),
    Case("one.h5", "", {"chunks": (5, 4), "codec": "none"}),
    Case("one.h5", "", {"chunks": (5, 4), "codec": "gzip:1"}),
    Case("one.nc", "", {"chunks": (5, 4)}),
]
FOLDERS = [case for case in CASES if not case.is_one_file]
FILES = [case for case in CASES if case.is_one_file]


def look(*arguments: object) -> str:
    """Run a dry run that finds damage, and return what it prints: exit code 1, as `verify`."""
    done = invoke("repair", "--dry-run", *arguments)
    assert done.exit_code == 1, done.output
    return done.stdout


def make(folder: Path, case: Case) -> Path:
    """Make a source in blocks, and a target of it."""
    np.save(folder / "whole.npy", ARRAY)
    dask_io.split(folder / "whole.npy", folder / "in", chunks=(4, 12))
    dask_io.resplit(folder / "in", folder / case.target, **case.options)
    return folder / case.target


def snapshot(place: Path) -> dict[str, bytes]:
    """Return all files of a target, of its journal the lines."""
    journal = place.with_name(f"{place.name}.dask-io")
    paths = [place] if place.is_file() else list(place.rglob("*"))
    paths.append(journal.with_name(f".{journal.name}"))
    paths += list(journal.rglob("*")) if journal.exists() else []
    files = [path for path in paths if path.is_file() and path.name != "lock"]
    # Whoever takes a journal over ends the last line first.
    return {str(path): path.read_bytes().rstrip(b"\n") for path in files}


def times_of(paths: Iterable[str]) -> dict[str, int]:
    """Return when files were written."""
    return {path: Path(path).stat().st_mtime_ns for path in paths}


def flip(path: Path) -> None:
    """Change one bit of a file, near its end."""
    content = bytearray(path.read_bytes())
    content[-5] ^= 4
    path.write_bytes(content)


def flip_first(path: Path) -> None:
    """Change one bit of how a file begins."""
    content = bytearray(path.read_bytes())
    content[1] ^= 4
    path.write_bytes(content)


def flip_data(path: Path) -> None:
    """Change what a file of one block holds, or the first chunk of an HDF5 file."""
    if path.suffix not in {".h5", ".nc"}:
        flip(path)
        return
    with h5py.File(path) as file:
        name = next(name for name, each in file.items() if getattr(each, "chunks", None))
        offset = file[name].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[offset + 6] ^= 4
    path.write_bytes(content)


def falsify(path: Path) -> None:
    """Change all values of a block file, which looks as it did otherwise."""
    times = path.stat()
    values = np.lib.format.open_memmap(path, mode="r+")
    values[...] = -1 - values
    values.flush()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def truncate(path: Path) -> None:
    """Cut a file short."""
    os.truncate(path, path.stat().st_size // 2)


def remove(path: Path) -> None:
    """Remove a file."""
    path.unlink()


def break_some(place: Path, case: Case) -> int:
    """Damage several files of a target, each in another way, and return how many."""
    paths = sorted(path for path in place.glob(case.files) if path.is_file())
    for path, damage in zip(paths[::-1], [flip, truncate, remove], strict=False):
        damage(path)
    return min(3, len(paths))


@pytest.mark.parametrize("case", FOLDERS, ids=str)
def test_damaged_blocks_are_written_again(case: Case, tmp_path: Path) -> None:
    """All of them at once, and nothing else: the target is byte by byte what it was."""
    place = make(tmp_path, case)
    before = snapshot(place)
    times = times_of(before)
    n_broken = break_some(place, case)
    damaged = {path for path, content in before.items() if snapshot(place).get(path) != content}
    seen = snapshot(place)
    found = dask_io.repair(place, dry_run=True)
    assert found.n_damaged == n_broken == len(damaged)
    assert snapshot(place) == seen, "a dry run changes nothing"
    done = dask_io.repair(place)
    assert done.damaged == found.damaged
    assert done.result.blocks_written == n_broken
    assert snapshot(place) == before
    kept = times_of(before.keys() - damaged)
    assert kept.items() <= times.items(), "what is right is not written again"
    assert dask_io.verify(place)
    assert not dask_io.repair(place).damaged


@pytest.mark.parametrize("damage", [flip_data, truncate, remove])
@pytest.mark.parametrize("case", FILES, ids=str)
def test_a_damaged_file_is_written_again_as_a_whole(
    case: Case, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    """It is replaced when the new one is complete and right."""
    place = make(tmp_path, case)
    before = snapshot(place)
    damage(place)
    done = dask_io.repair(place)
    assert done.n_damaged
    assert done.damaged[0].needs_whole_file == (done.n_blocks > 1)
    assert dask_io.verify(place)
    assert np.array_equal(dask_io.open(place)[:, :], ARRAY)
    if place.suffix not in {".h5", ".nc"}:
        assert snapshot(place) == before
    left = {
        path.name for path in tmp_path.rglob("*") if path.name == "repair" or ".part" in path.name
    }
    assert not left
    assert not dask_io.repair(place).damaged


@pytest.mark.parametrize("damage", [flip, truncate, remove])
@pytest.mark.parametrize("slab_bytes", [2**20, 512])
@pytest.mark.parametrize("name", ["one.nii", "one.nii.gz", "one.mrc.gz"])
def test_a_damaged_volume_is_written_again(
    name: str,
    slab_bytes: int,
    damage: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also one that is compressed as a whole, in one slab or several: byte by byte as it was."""
    monkeypatch.setattr("dask_io.stores.gzip_files.SLAB_BYTES", slab_bytes)
    volume = np.arange(10 * 9 * 8, dtype="<i2").reshape(10, 9, 8)
    np.save(tmp_path / "whole.npy", volume)
    dask_io.split(tmp_path / "whole.npy", tmp_path / "in", chunks=(4, 9, 5), format="nifti")
    place = tmp_path / name
    dask_io.merge(tmp_path / "in", place)
    before = place.read_bytes()
    damage(place)
    assert "repair it with" in fail("verify", place, code=1)
    done = dask_io.repair(place)
    assert done.n_damaged
    assert (done.n_blocks > 1) == (slab_bytes < volume.nbytes and name != "one.nii")
    assert place.read_bytes() == before
    assert dask_io.verify(place)
    assert np.array_equal(dask_io.open(place)[:, :, :], volume)


@pytest.mark.parametrize("case", [CASES[0], CASES[5], CASES[6], CASES[9]], ids=str)
@pytest.mark.parametrize("is_gone", [True, False])
def test_metadata_is_written_again(case: Case, is_gone: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    """Without it, or with nonsense in its place, nobody could read the blocks, which are right."""
    place = make(tmp_path, case)
    before = snapshot(place)
    name = next(n for n in ("dask-io.json", "info", "zarr.json", ".zarray") if (place / n).exists())
    if is_gone:
        (place / name).unlink()
    else:
        (place / name).write_bytes(b"nonsense")
    assert dask_io.repair(place, dry_run=True).damaged[0].others == ("metadata",)
    done = dask_io.repair(place)
    assert (done.n_damaged, done.result.blocks_written) == (0, 0)
    assert snapshot(place) == before


def test_a_damaged_header_is_written_again(tmp_path: Path) -> None:
    """Its size is right, but the block cannot be read."""
    place = make(tmp_path, CASES[0])
    before = snapshot(place)
    flip_first(place / "b_1_1.npy")
    flip_first(place / "b_0_0.npy")
    assert dask_io.repair(place).damaged[0].blocks == ((0, 0), (1, 1))
    assert snapshot(place) == before


def test_a_block_that_should_not_be_stored_is_removed(tmp_path: Path) -> None:
    """It held only the fill value, and something else has been put there since."""
    place = make(tmp_path, CASES[6])
    before = snapshot(place)
    assert not (place / "c/3/2").exists()
    shutil.copy(place / "c/0/0", place / "c/3/2")
    assert not dask_io.verify(place)
    assert dask_io.repair(place).damaged[0].blocks == ((3, 2),)
    assert snapshot(place) == before


def test_what_a_user_has_added_to_metadata_stays(tmp_path: Path) -> None:
    """Only what cannot be understood is written again."""
    place = make(tmp_path, CASES[6])
    zarr.open_array(place, mode="r+").attrs["seen"] = "yes"
    (place / "c/0/0").unlink()
    dask_io.repair(place)
    assert dict(zarr.open_array(place, mode="r").attrs) == {"seen": "yes"}
    assert dask_io.verify(place)


def test_a_file_that_holds_more_is_not_replaced(tmp_path: Path) -> None:
    """What somebody has added to it would be lost."""
    place = make(tmp_path, FILES[-3])
    flip_data(place)
    with h5py.File(place, "r+") as file:
        file["added"] = 1
    before = place.read_bytes()
    assert "contains more, which would be lost: added" in fail("repair", place, code=2)
    assert place.read_bytes() == before


@pytest.mark.parametrize("case", [CASES[0], CASES[6], CASES[10], CASES[14]], ids=str)
def test_a_source_that_gives_something_else_changes_nothing(case: Case, tmp_path: Path) -> None:
    """It looks as it did, but what it gives does not match the checksums: exit code 1."""
    place = make(tmp_path, case)
    for path in (tmp_path / "in").glob("b_*.npy"):
        falsify(path)
    if case.is_one_file:
        flip_data(place)
    else:
        break_some(place, case)
    before = snapshot(place)
    assert "gives different data now" in fail("repair", place, code=1)
    assert snapshot(place) == before


def test_another_library_that_compresses_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If zlib cannot make the blocks of libdeflate again, the error says what to install."""
    place = make(tmp_path, Case("out.zarr", "c/*/*", {"chunks": (5, 4), "codec": "gzip:6"}))
    flip(place / "c/0/0")
    monkeypatch.setattr(deflate, "_LIBDEFLATE", None)
    said = fail("repair", place, code=1)
    assert "zlib compresses here, and libdeflate (pip install deflate) writes other bytes" in said
    monkeypatch.undo()
    run("repair", place)


def test_what_the_source_still_gives_is_repaired(tmp_path: Path) -> None:
    """One block of the source is wrong; the damaged blocks that it does not feed are repaired."""
    place = make(tmp_path, CASES[0])
    before = snapshot(place)
    flip(place / "b_0_0.npy")
    flip(place / "b_3_2.npy")
    left = (place / "b_0_0.npy").read_bytes()
    falsify(tmp_path / "in" / "b_0_0.npy")
    said = fail("repair", place, code=1)
    assert "gives different data now for 1 of 12 blocks" in said
    assert "(0,0)" in said
    assert snapshot(place) == {**before, str(place / "b_0_0.npy"): left}


def test_a_source_that_has_changed_or_gone_is_refused(tmp_path: Path) -> None:
    """Nothing is touched; a healthy target needs no source."""
    place = make(tmp_path, CASES[0])
    flip(place / "b_0_0.npy")
    before = snapshot(place)
    os.utime(tmp_path / "in" / "b_0_0.npy", ns=(1, 1))
    assert "has changed since the run began; restore it" in fail("repair", place, code=1)
    (tmp_path / "in").rename(tmp_path / "moved")
    assert f"source: dask-io repair {place} SRC" in fail("repair", place, code=3)
    assert snapshot(place) == before
    assert json.loads(look(place, "--json"))["blocks_damaged"] == 1


def test_metadata_is_repaired_even_if_blocks_are_lost(tmp_path: Path) -> None:
    """It needs no source, so a source that is gone does not stand in its way."""
    place = make(tmp_path, CASES[0])
    flip(place / "b_0_0.npy")
    (place / "dask-io.json").unlink()
    shutil.rmtree(tmp_path / "in")
    fail("repair", place, code=3)
    assert dask_io.repair(place, dry_run=True).damaged[0].others == ()


def test_the_advice_about_a_source_fits_what_is_wrong_with_it(tmp_path: Path) -> None:
    """Only a source that is not there is to be named; its path may need escapes to be shown."""
    np.save(tmp_path / "whole.npy", ARRAY)
    source, place = tmp_path / "in\n1", tmp_path / "out"
    dask_io.split(tmp_path / "whole.npy", source, chunks=(4, 12))
    dask_io.resplit(source, place, chunks=(5, 4))
    flip(place / "b_0_0.npy")
    os.utime(source / "b_0_0.npy", ns=(1, 1))
    said = fail("repair", place, code=1)
    assert "has changed since the run began" in said
    assert "SRC" not in said
    shutil.rmtree(source)
    assert f"source: dask-io repair {place} SRC" in fail("repair", place, code=3)


def test_a_source_that_has_been_moved_is_named(tmp_path: Path) -> None:
    """As the second argument; afterwards nothing is damaged, and no source is needed."""
    place = make(tmp_path, CASES[0])
    flip(place / "b_0_0.npy")
    (tmp_path / "in").rename(tmp_path / "moved")
    assert "rewrote 1 block, 80 B, in " in run("repair", place, tmp_path / "moved")
    assert "nothing to repair: 12 blocks checked" in run("repair", place)


def test_a_source_that_was_consumed_is_told_of(tmp_path: Path) -> None:
    """Exit code 1, unless a copy of it is named that has kept its times."""
    np.save(tmp_path / "whole.npy", ARRAY)
    dask_io.split(tmp_path / "whole.npy", tmp_path / "in", chunks=(4, 12))
    shutil.copytree(tmp_path / "in", tmp_path / "copy")
    place = tmp_path / "out"
    dask_io.resplit(tmp_path / "in", place, chunks=(5, 4), consume=True)
    before = snapshot(place)
    flip(place / "b_0_0.npy")
    assert "its source was consumed" in fail("repair", place, code=1)
    run("repair", place, tmp_path / "copy")
    assert snapshot(place) == before


def test_an_unfinished_target_is_completed_first(tmp_path: Path) -> None:
    """What was durable may be damaged all the same; a dry run says how to complete it."""
    np.save(tmp_path / "whole.npy", ARRAY)

    def stop(progress: dask_io.Progress) -> None:
        if progress.n_blocks_written > 20:
            raise KeyboardInterrupt

    place = tmp_path / "out"
    with pytest.raises(InterruptedRunError):
        dask_io.split(tmp_path / "whole.npy", place, chunks=(2, 2), progress=stop)
    flip(min(place.glob("b_*.npy")))
    assert "unfinished" in fail("repair", place, "--dry-run", code=1)
    assert dask_io.repair(place).n_damaged == 1
    assert np.array_equal(dask_io.open(place)[:, :], ARRAY)
    assert dask_io.verify(place)


def test_an_interrupted_repair_is_run_again(tmp_path: Path) -> None:
    """Nothing is left of it, and one line says how to go on."""
    place = make(tmp_path, CASES[0])
    before = snapshot(place)
    break_some(place, CASES[0])
    damaged = snapshot(place)

    def stop(_: dask_io.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match=r"continue with: dask_io\.repair"):
        dask_io.repair(place, progress=stop)
    assert snapshot(place) == damaged
    dask_io.repair(place)
    assert snapshot(place) == before


def test_a_target_that_another_run_writes_is_refused(tmp_path: Path) -> None:
    """Two repairs do not get into each other's way."""
    place = make(tmp_path, CASES[0])
    flip(place / "b_0_0.npy")
    said: list[str] = []

    def try_too(_: dask_io.Progress) -> None:
        said.append(fail("repair", place, code=3))

    dask_io.repair(place, progress=try_too)
    assert "another run is writing it" in said[0]
    assert dask_io.verify(place)


def test_what_a_killed_repair_left_is_in_nobodys_way(tmp_path: Path) -> None:
    """The target can be read, verified, overwritten and consumed, and another repair tidies up."""
    place = make(tmp_path, CASES[0])
    left = place / ".dask-io" / "repair" / "target" / "b_0_0.npy"

    def leave() -> None:
        left.parent.mkdir(parents=True)
        left.touch()

    leave()
    assert np.array_equal(dask_io.open(place)[:, :], ARRAY)
    assert dask_io.verify(place)
    assert not dask_io.repair(place).damaged
    assert not left.exists()
    leave()
    dask_io.resplit(tmp_path / "in", place, chunks=(3, 4), overwrite=True)
    dask_io.merge(place, tmp_path / "one.npy", consume=True)
    assert not place.exists()
    assert np.array_equal(np.load(tmp_path / "one.npy"), ARRAY)


def test_all_targets_of_a_folder_are_repaired(tmp_path: Path) -> None:
    """Those of `extract`, by naming their folder."""
    np.save(tmp_path / "whole.npy", ARRAY)
    rois = tmp_path / "rois"
    dask_io.extract(tmp_path / "whole.npy", rois, regions=["0:5", "3:9,1:4", "7:"])
    before = snapshot(rois)
    flip(rois / "region_001.npy")
    (rois / "region_002.npy").unlink()
    done = dask_io.repair(rois)
    assert [each.place for each in done.damaged] == [
        str(rois / "region_001.npy"),
        str(rois / "region_002.npy"),
    ]
    assert snapshot(rois) == before


def make_group(folder: Path) -> Path:
    """Make a group with an array to re-split, one to copy as it is, and a target of it."""
    group = zarr.open_group(folder / "year.zarr", mode="w")
    made = group.create_array("day/temp", shape=(20, 12), chunks=(4, 12), dtype="i4")
    made[:] = ARRAY
    made.update_attributes({"units": "K"})
    group.create_array("scale", shape=(), dtype="f8")[...] = 2.5
    dask_io.resplit(folder / "year.zarr", folder / "out.zarr", chunks=(5, 4))
    return folder / "out.zarr"


def test_a_group_is_repaired(tmp_path: Path) -> None:
    """Its arrays, and what was copied as it is; a whole array may be gone."""
    place = make_group(tmp_path)
    before = snapshot(place)
    flip(place / "day/temp/c/1/1")
    shutil.rmtree(place / "scale")
    (place / "scale").mkdir()
    (place / "scale/more").touch()
    said = look(place)
    assert f"{place}/day/temp: block 1,1\n  {place}/scale: all of it" in said
    run("repair", place)
    assert snapshot(place) == before
    shutil.rmtree(place / "day/temp")
    assert "array day/temp is missing; repair it" in fail("verify", place, code=1)
    run("repair", place)
    assert np.array_equal(dask_io.open(f"{place}::/day/temp")[:, :], ARRAY)
    run("verify", place)
    assert "nothing to repair" in run("repair", place)


@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("version", [2, 3])
def test_metadata_of_groups_is_written_again(
    version: Literal[2, 3],
    *,
    consolidated: bool,
    tmp_path: Path,
) -> None:
    """`verify` misses that of the outermost group and of those in it; no source is needed."""
    group = zarr.open_group(tmp_path / "year.zarr", mode="w", zarr_format=version)
    group.attrs["title"] = "a year"
    group.create_array("day/temp", shape=(20, 12), chunks=(4, 12), dtype="i4")[:] = ARRAY
    if consolidated:
        with quiet():
            zarr.consolidate_metadata(tmp_path / "year.zarr")
    place = tmp_path / "out.zarr"
    dask_io.resplit(tmp_path / "year.zarr", place, chunks=(5, 4))
    before = snapshot(place)
    shutil.rmtree(tmp_path / "year.zarr")
    name = "zarr.json" if version == 3 else ".zattrs"
    (place / name).write_bytes(b"nonsense")
    (place / "day" / ("zarr.json" if version == 3 else ".zgroup")).unlink()
    advice = f"is missing or invalid; repair it with: dask-io repair {place}"
    assert fail("verify", place, code=1).endswith(advice)
    said = look(place)
    assert f"{place}: metadata\n" in said
    assert f"{place}/day: metadata\n" in said
    run("repair", place)
    assert snapshot(place) == before
    assert "nothing to repair" in run("repair", place)


def test_a_group_whose_source_was_moved_or_changed(tmp_path: Path) -> None:
    """The source group is named as a whole; what was copied from it must be what it was."""
    place = make_group(tmp_path)
    before = snapshot(place)
    flip(place / "day/temp/c/1/1")
    (tmp_path / "year.zarr").rename(tmp_path / "moved.zarr")
    assert "no such file or directory; give the new path" in fail("repair", place, code=3)
    run("repair", place, tmp_path / "moved.zarr")
    assert snapshot(place) == before
    (place / "scale/zarr.json").unlink()
    assert "no such file or directory" in fail("repair", place, code=3)
    zarr.open_array(tmp_path / "moved.zarr/scale", mode="r+")[...] = 3.5
    damaged = snapshot(place)
    said = fail("repair", place, tmp_path / "moved.zarr", code=1)
    assert "array scale has changed since it was copied" in said
    assert snapshot(place) == damaged


@pytest.mark.parametrize("damage", [flip_data, truncate, remove])
def test_a_file_of_several_arrays_is_repaired(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    """It is made again as a whole, with what was copied as it is."""
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("a", data=ARRAY, chunks=(4, 12))
        file.create_dataset("b", data=-ARRAY, chunks=(4, 12), compression="gzip")
        file["text"] = "as it is"
        file.attrs["title"] = "two"
    place = tmp_path / "out.h5"
    dask_io.resplit(tmp_path / "in.h5", place, chunks=(5, 4))
    damage(place)
    assert "no such file or directory" in fail("repair", place, tmp_path / "gone.h5", code=3)
    done = dask_io.repair(place)
    assert done.damaged
    assert all(each.needs_whole_file for each in done.damaged)
    assert dask_io.verify(place)
    with h5py.File(place) as file:
        assert np.array_equal(file["a"], ARRAY)
        assert np.array_equal(file["b"], -ARRAY)
        assert (file["text"].asstr()[()], file.attrs["title"]) == ("as it is", "two")
    assert {path.name for path in tmp_path.iterdir()} == {"in.h5", "out.h5", ".out.h5.dask-io"}
    assert "nothing to repair" in run("repair", place)


def rewrite_document(path: Path, old: str, new: str) -> None:
    """Change a document so that it stays valid."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def append_rows(place: Path) -> None:
    """Append to a Zarr array, as xarray does: blocks at the edge get the new values, too."""
    array = zarr.open_array(place, mode="r+")
    array.resize((33, 12))
    array[20:] = 7


def drop_rows(place: Path) -> None:
    """Leave out the last blocks of block files."""
    rewrite_document(place / "dask-io.json", "[20, 12]", "[15, 12]")
    for path in place.glob("b_3_*.npy"):
        path.unlink()


def replace_dataset(path: Path) -> None:
    """Put another dataset of the same name and shape into an HDF5 file."""
    with h5py.File(path, "r+") as file:
        (name,) = (name for name, each in file.items() if each.ndim == 2)
        del file[name]
        file.create_dataset(name, data=ARRAY + 0.5, chunks=(5, 4))


OTHERS: list[tuple[Case, Callable[[Path], None], str]] = [
    (CASES[6], append_rows, "has grown from 20 to 33 along axis 0 since"),
    (CASES[8], append_rows, "has grown from 20 to 33 along axis 0 since"),
    (CASES[9], append_rows, "has grown from 20 to 33 along axis 0 since"),
    (
        CASES[6],
        lambda place: rewrite_document(place / "zarr.json", '"fill_value": 0', '"fill_value": 1'),
        "its fill value has changed since",
    ),
    (
        Case("out.n5", "", {"chunks": (5, 4)}),
        lambda place: rewrite_document(place / "attributes.json", "int32", "float32"),
        "its dtype has changed from int32 to float32 since",
    ),
    (CASES[0], drop_rows, "shape of the array has changed from 20 x 12 to 15 x 12 since"),
    (
        CASES[10],
        lambda place: np.save(place, ARRAY[:, :11]),
        "shape of the array has changed from 20 x 12 to 20 x 11 since",
    ),
    (FILES[-3], replace_dataset, "its dtype has changed from int32 to float64 since"),
    (FILES[-1], replace_dataset, "its dtype has changed from int32 to float64 since"),
    (
        Case("out.ome.zarr", "", {"chunks": (5, 4)}),
        lambda place: append_rows(place / "0"),
        "has grown from 20 to 33 along y since",
    ),
]


@pytest.mark.parametrize(("case", "change", "told"), OTHERS)
def test_another_array_is_not_damage(
    case: Case, change: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    """Somebody has put it there: `repair` refuses it, and `verify` says why, not to repair it."""
    place = make(tmp_path, case)
    run("verify", place)
    change(place)
    before = snapshot(place)
    for command in (["verify", place], ["repair", place], ["repair", place, "--dry-run"]):
        said = fail(*command, code=1)
        assert told in said
        assert "repair it with" not in said
        assert snapshot(place) == before


def test_a_group_with_another_array_is_left_as_it_is(tmp_path: Path) -> None:
    """Also what is damaged in it, and an array that was copied as it is and has grown."""
    place = make_group(tmp_path)
    flip(place / "day/temp/c/1/1")
    zarr.open_group(place, mode="r+").create_array("scale", shape=(3,), dtype="f8", overwrite=True)
    before = snapshot(place)
    for more in ([], ["--dry-run"]):
        assert "shape of the array has changed" in fail("repair", place, *more, code=1)
    append_rows(place / "day/temp")
    before = snapshot(place)
    for command in ("verify", "repair"):
        assert "day/temp: the array has grown" in fail(command, place, code=1)
    assert snapshot(place) == before


def test_a_file_with_another_array_is_left_as_it_is(tmp_path: Path) -> None:
    """A file of several arrays would be replaced as a whole, with what was changed on purpose."""
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("a", data=ARRAY, chunks=(4, 12), maxshape=(None, 12))
        file.create_dataset("b", data=-ARRAY, chunks=(4, 12))
        file["text"] = "as it is"
    place = tmp_path / "out.h5"
    dask_io.resplit(tmp_path / "in.h5", place, chunks=(5, 4))
    with h5py.File(place, "r+") as file:
        file["a"].resize((30, 12))
    before = snapshot(place)
    for command in ("verify", "repair"):
        assert "/a: the array has grown from 20 to 30" in fail(command, place, code=1)
    assert snapshot(place) == before


def test_a_source_that_has_grown_is_nothing_to_a_healthy_target(tmp_path: Path) -> None:
    """It is not needed, so its arrays are not compared with those that were copied from it."""
    source, place = tmp_path / "in.h5", tmp_path / "out.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("a", data=ARRAY, chunks=(4, 12))
        file["names"] = ["x", "y"]
    dask_io.resplit(source, place, chunks=-1)
    with h5py.File(source, "r+") as file:
        del file["names"]
        file["names"] = ["x", "y", "z"]
    assert "nothing to repair" in run("repair", place)


def test_values_changed_in_place_are_replaced(tmp_path: Path) -> None:
    """They are not told from damage, so the list of blocks says that it may be either."""
    place = make(tmp_path, CASES[6])
    zarr.open_array(place, mode="r+")[0, 0] = 99
    assert "these are damaged, or changed since" in look(place)
    run("repair", place)
    assert dask_io.verify(place)


def test_icechunk_says_what_to_do(tmp_path: Path) -> None:
    """What it has stored is never changed."""
    pytest.importorskip("icechunk")
    place = make(tmp_path, Case("out.icechunk", "", {"chunks": (5, 4), "codec": "none"}))
    assert "nothing to repair" in run("repair", place)
    for path in (place / "chunks").iterdir():
        flip(path)
    said = fail("repair", place, code=1)
    assert "icechunk never changes stored data; rewrite it" in said


@pytest.mark.parametrize(("name", "options"), [("out", {}), ("out.zarr", {"codec": "zstd:1"})])
def test_objects_are_repaired(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    """In an object store blocks are compared, too, before they are put in their places."""
    np.save(tmp_path / "whole.npy", ARRAY)
    place = f"memory://{uuid4()}/{name}"
    dask_io.split(tmp_path / "whole.npy", place, chunks=(5, 4), **options)
    path = parse_url(place)
    files = {file: path.medium.find(path / file) for file, _ in path.medium.files(path)}
    first, second, *_ = (file for file in files if "json" not in file)
    path.medium.remove([path / first])
    path.medium.write_whole(path / second, b"nonsense")
    done = dask_io.repair(place)
    assert done.n_damaged == 2
    assert np.array_equal(dask_io.open(place)[:, :], ARRAY)
    assert dask_io.verify(place)
    assert {file for file, _ in path.medium.files(path)} == set(files)
    assert not any("repair" in str(each) for each in path.store.list().collect())


def test_verify_and_resume_lead_to_repair(tmp_path: Path) -> None:
    """Both name the command; what they say of a healthy target stays short."""
    place = make(tmp_path, CASES[0])
    assert "there is nothing left to do (dask-io verify looks for damage)" in run("resume", place)
    flip(place / "b_0_0.npy")
    advice = f"dask-io repair {place}"
    assert fail("verify", place, code=1).endswith(advice)
    (place / "b_0_0.npy").unlink()
    assert fail("verify", place, code=1).endswith(advice)
    assert fail("resume", place, code=1).endswith(advice)


def test_what_repair_prints(tmp_path: Path) -> None:
    """The blocks by their indices, as text and as JSON."""
    place = make(tmp_path, CASES[0])
    assert run("repair", place) == f"{place}: nothing to repair: 12 blocks checked, none damaged\n"
    flip(place / "b_1_2.npy")
    head = "these are damaged, or changed since, and the source's would replace them:"
    assert look(place) == f"{place}: {head}\n  {place}: block 1,2\n"
    advised = f"is damaged; repair it with: dask-io repair {place}"
    assert fail("repair", place, "--dry-run", "--quiet", code=1).endswith(advised)
    told = json.loads(run("repair", place, "--json", "--memory", "1MiB", "--workers", "1"))
    assert (told["blocks"], told["blocks_damaged"], told["plan"]) == (12, 1, None)
    assert told["damaged"] == [
        {
            "place": str(place),
            "blocks_damaged": 1,
            "blocks": [[1, 2]],
            "others": [],
            "needs_whole_file": False,
        }
    ]
    assert (told["result"]["blocks_written"], told["result"]["verified"]) == (1, True)
    flip(place / "b_1_2.npy")
    assert run("repair", place, "--quiet", "--max-rate", "1GB") == ""
    assert dask_io.verify(place)


def test_only_the_first_of_many_damaged_blocks_are_listed(tmp_path: Path) -> None:
    """All are counted and written again, but not all are held in memory."""
    values = np.arange(1, 1201, dtype="<i2")
    np.save(tmp_path / "whole.npy", values)
    place = tmp_path / "one.h5"
    dask_io.resplit(tmp_path / "whole.npy", place, chunks=1, codec="none")
    truncate(place)
    assert "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 and 1,180 more" in look(place)
    told = json.loads(run("repair", place, "--json"))
    assert told["blocks_damaged"] == told["result"]["blocks_written"] == 1200
    assert told["damaged"][0]["blocks"] == [[n] for n in range(1000)]
    assert np.array_equal(dask_io.open(place)[:], values)


def test_what_cannot_be_repaired(tmp_path: Path) -> None:
    """Nothing is there, or nothing says what it should hold."""
    np.save(tmp_path / "whole.npy", ARRAY)
    with pytest.raises(StorageError, match="no such file or directory"):
        dask_io.repair(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="has no journal"):
        dask_io.repair(tmp_path / "whole.npy")
    with pytest.raises(UsageError, match="is not a size"):
        dask_io.repair(tmp_path / "whole.npy", memory="much")


def test_a_journal_that_lacks_lines_is_told_of(tmp_path: Path) -> None:
    """Without all checksums nobody knows what is right."""
    place = make(tmp_path, CASES[0])
    journal = place / ".dask-io" / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if b" cell 0,0 " not in line))
    with pytest.raises(DataError, match="lists only 11 of 12 blocks"):
        dask_io.repair(place)


@pytest.mark.parametrize("name", ["one.npy", "one.h5"])
def test_a_file_that_was_deleted_is_missing(name: str, tmp_path: Path) -> None:
    """`verify` says so and how to repair it, with exit code 1; `repair` writes it again."""
    place = make(tmp_path, Case(name, name, {"chunks": -1}))
    before = place.read_bytes()
    place.unlink()

    advice = f"{place}: is missing; repair it with: dask-io repair {place}"
    assert fail("verify", place, code=1) == f"dask-io: {advice}"
    run("repair", place)
    assert dask_io.verify(place)
    assert name.endswith(".h5") or place.read_bytes() == before


def test_opening_damaged_blocks_that_dask_io_wrote_advises_repair(tmp_path: Path) -> None:
    """Nobody is asked to write files by hand that the journal can restore."""
    np.save(tmp_path / "a.npy", ARRAY)
    target = tmp_path / "out"
    dask_io.split(tmp_path / "a.npy", target, chunks=5)
    (target / "b_0_0.npy").unlink()

    for command in (("info", target), ("verify", tmp_path / "a.npy", target)):
        line = fail(*command, code=1)
        assert f"b_0_0.npy is missing; repair it with: dask-io repair {target}" in line
    shutil.rmtree(target / ".dask-io")
    assert "copy or write the missing files" in fail("info", target, code=1)


@pytest.mark.parametrize("target", ["out", "out.npy"])
def test_repair_tells_how_to_restore_a_source_that_has_changed(target: str, tmp_path: Path) -> None:
    """A new time of a file is enough, so copies must keep their times."""
    np.save(tmp_path / "a.npy", ARRAY)
    dask_io.split(tmp_path / "a.npy", tmp_path / "in", chunks=5)
    place = tmp_path / target
    dask_io.resplit(tmp_path / "in", place, chunks=-1 if place.suffix else 4)
    damaged = place if place.suffix else place / "b_0_0.npy"
    damaged.write_bytes(b"")
    os.utime(tmp_path / "in" / "b_3_2.npy", (0, 0))

    line = fail("repair", place, code=1)

    assert "has changed since the run began; restore it as it was, with the times of" in line
    assert "(cp -p keeps them)" in line


def test_little_damage_is_repaired_without_scratch_files(tmp_path: Path) -> None:
    """With a budget for which the first run used scratch files, only what is damaged is written."""
    array = np.random.default_rng(0).integers(0, 4000, (64, 256, 256), dtype="u2")
    np.save(tmp_path / "x.npy", array)
    dask_io.split(tmp_path / "x.npy", tmp_path / "x", chunks=(1, 256, 256))
    options: Any = {"chunks": (8, 32, 32), "shards": (32, 128, 128), "memory": "5MiB"}
    first = dask_io.resplit(
        tmp_path / "x", tmp_path / "y.zarr", codec="zstd", strategy="spill", **options
    )
    assert first.n_bytes_scratch
    (tmp_path / "y.zarr/c/0/0/0").unlink()

    repaired = dask_io.repair(tmp_path / "y.zarr", memory="5MiB")

    assert repaired.n_damaged == 1
    assert not repaired.result.n_bytes_scratch
    np.testing.assert_array_equal(dask_io.open(tmp_path / "y.zarr")[:], array)
