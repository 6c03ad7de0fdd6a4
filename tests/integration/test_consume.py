"""A source that is used up on the way: what the disk holds at the most is predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from xxhash import xxh3_64_hexdigest

import dask_io
from dask_io.engine import commit, problem
from dask_io.errors import (
    DataError,
    InterruptedRunError,
    KeptWarning,
    StorageError,
    UsageError,
)
from tests.commands import invoke
from tests.notices import without_notices

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.engine.run import Progress

ARRAY = np.arange(64 * 30, dtype="<i4").reshape(64, 30)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write an array in blocks of raw bytes, so that files hold nothing else."""
    np.save(tmp_path / "whole.npy", ARRAY)
    dask_io.split(tmp_path / "whole.npy", tmp_path / "in", chunks=(3, 10), format="raw")
    return tmp_path / "in"


def bytes_in(folder: Path) -> int:
    """Sum up the sizes of blocks, also of those in the making."""
    paths = [*folder.glob("b_*.raw"), *folder.glob(".b_*.part")]
    return sum(path.stat().st_size for path in paths)


@pytest.mark.parametrize("chunks", [(5, 15), (16, 30), (64, 5)])
def test_the_disk_is_never_fuller_than_predicted(
    source: Path, monkeypatch: pytest.MonkeyPatch, chunks: tuple[int, int]
) -> None:
    """However the target is cut; and where it can be, that is less than the array once more."""
    for module in (commit, problem):
        monkeypatch.setattr(module, "MOST_CELLS", 2)
    target = source.parent / "out"
    options: dict[str, Any] = {"memory": "64KiB", "workers": 1, "consume": True}
    job = dask_io.plan(dask_io.open(source), target, chunks=chunks, **options)
    before, peak = bytes_in(source), [0]

    def measure(_: object) -> None:
        peak.append(bytes_in(source) + bytes_in(target) - before)

    job.run(progress=measure, verify=True)

    assert max(peak) <= job.plan.disk_bytes <= ARRAY.nbytes
    assert not source.exists()
    assert np.array_equal(dask_io.open(target)[:, :], ARRAY)
    if chunks == (5, 15):
        assert job.plan.disk_bytes < ARRAY.nbytes / 2


def test_a_plan_tells_the_peak(source: Path) -> None:
    """Without using up the source it is the whole array."""
    job = dask_io.plan(dask_io.open(source), source.parent / "out", chunks=(5, 15))
    assert job.plan.disk_bytes == ARRAY.nbytes


def test_what_would_be_lost_is_not_consumed(source: Path) -> None:
    """A region, or several targets, leave something over that only the source has."""
    with pytest.raises(UsageError, match="consume removes source blocks"):
        dask_io.resplit(source, source.parent / "out", chunks=4, consume=True, region="0:4")
    with pytest.raises(UsageError, match="loss of power could destroy the target; use fsync"):
        dask_io.resplit(source, source.parent / "out", chunks=4, consume=True, durability="rename")
    with pytest.raises(UsageError, match="several"):
        dask_io.resplit(
            source, [source.parent / "a", source.parent / "b"], chunks=[4, 5], consume=True
        )
    assert sum(1 for _ in source.glob("b_*.raw")) == 66


@pytest.mark.parametrize("kind", ["raw", "zarr"])
def test_what_is_lost_of_a_consumed_source_is_never_made_up(
    source: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Not even as fill values; and once it is back, the run is completed."""
    blocks, target = source, source.parent / "out"
    if kind == "zarr":
        blocks = source.parent / "in.zarr"
        dask_io.resplit(source, blocks, chunks=(3, 10))

    def fail(_: object) -> None:
        raise StorageError("here", "no power")

    with monkeypatch.context() as patch:
        patch.setattr(commit.Consumption, "finish", fail)
        with pytest.raises(StorageError, match="no power"):
            dask_io.resplit(blocks, target, chunks=(16, 15), format=kind, consume=True)
    lost = target / {"raw": "b_1_1.raw", "zarr": "c/1/1"}[kind]
    kept = lost.rename(source.parent / "kept")

    for _ in range(2):
        with pytest.raises(DataError, match="was consumed, but the target has lost its data"):
            dask_io.resume(target, consume=True)
    kept.rename(lost)
    dask_io.resume(target, consume=True)

    assert np.array_equal(dask_io.open(target)[:, :], ARRAY)


def test_a_block_that_was_to_be_removed_but_is_still_there_is_read_again(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If what it became is lost meanwhile."""
    target = source.parent / "out"

    def fail(*_: object) -> None:
        raise StorageError("here", "no power")

    with monkeypatch.context() as patch:
        patch.setattr(type(dask_io.open(source).source), "discard", fail)
        with pytest.raises(StorageError, match="no power"):
            dask_io.resplit(source, target, chunks=(16, 15), consume=True)
    (target / "b_1_1.raw").unlink()
    dask_io.resume(target, consume=True)
    assert np.array_equal(dask_io.open(target)[:, :], ARRAY)


def stop_midway(progress: Progress) -> None:
    """Stop a run when half of it is written."""
    if 2 * progress.n_bytes_written >= progress.n_bytes:
        raise KeyboardInterrupt


def cut_short(source: Path, target: Path, *, consume: bool) -> set[Path]:
    """Stop a run midway, and return the files that are left of its source."""
    with pytest.raises(InterruptedRunError, match="consume=True" if consume else rf'"{target}"\)$'):
        dask_io.resplit(
            source,
            target,
            chunks=(16, 15),
            memory="64KiB" if target.suffix != ".zarr" else "1MiB",
            workers=1,
            consume=consume,
            progress=stop_midway,
        )
    return {path for path in source.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", ["raw", "zarr"])
def test_resume_removes_nothing_unless_it_is_asked_to(
    source: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It copes with blocks that are gone, and keeps the others, which are no array any more."""
    monkeypatch.setattr(commit, "MOST_CELLS", 1)
    blocks, target = source, source.parent / "out"
    if kind == "zarr":
        blocks, target = source.parent / "in.zarr", source.parent / "out.zarr"
        dask_io.resplit(source, blocks, chunks=(3, 10))
    left = cut_short(blocks, target, consume=True)
    n_blocks = sum(path.name.startswith("b_") or path.parent.parent.name == "c" for path in left)
    assert 0 < n_blocks < 66

    with pytest.warns(KeptWarning, match=rf"\({n_blocks} of 66\) are kept, because --cons"):
        dask_io.resume(target, verify=True)

    assert {path for path in blocks.rglob("*") if path.is_file()} == left
    assert np.array_equal(dask_io.open(target)[:, :], ARRAY)
    with pytest.raises(DataError, match=r"is missing|if the target is complete, use it"):
        dask_io.open(blocks)
    assert dask_io.resume(target, consume=True).blocks_written == 0
    assert {path for path in blocks.rglob("*") if path.is_file()} == left


def test_a_journal_alone_cannot_ask_for_deletion(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever changes its first line, with its checksum, removes nothing by that."""
    monkeypatch.setattr(commit, "MOST_CELLS", 1)
    target = source.parent / "out"
    left = cut_short(source, target, consume=False)
    journal = target / ".dask-io" / "journal"
    first, _, rest = journal.read_bytes().partition(b"\n")
    job = first.partition(b" ")[2].replace(b'"consume": false', b'"consume": true')
    journal.write_bytes(b"%s %s\n%s" % (xxh3_64_hexdigest(job).encode(), job, rest))

    with pytest.warns(KeptWarning, match=r"\(66 of 66\) are kept"):
        dask_io.resume(target)

    assert {path for path in source.rglob("*") if path.is_file()} == left
    assert dask_io.verify(source, target)


def test_the_command_says_in_one_line_what_is_kept(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, with exit code 0; nothing if it is to be quiet."""
    monkeypatch.setattr(commit, "MOST_CELLS", 1)
    for name, options in (("a", []), ("b", ["--quiet"])):
        blocks, target = source.parent / f"in-{name}", source.parent / name
        dask_io.resplit(source, blocks, chunks=(3, 10))
        cut_short(blocks, target, consume=True)
        done = invoke("resume", target, *options)
        assert done.exit_code == 0, done.output
        said = f"dask-io: {blocks}: the remaining blocks ("
        assert done.stderr.startswith(said) if name == "a" else not done.stderr
        assert without_notices("".join(done.stderr.splitlines(keepends=True)[1:])) == ""


def test_a_source_is_not_consumed_if_the_first_run_was_not_to(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array or a group: resuming with --consume is a mistake, and nothing is done."""
    monkeypatch.setattr(commit, "MOST_CELLS", 1)
    folder = source.parent
    left = cut_short(source, folder / "out", consume=False)
    group = zarr.create_group(folder / "group.zarr", zarr_format=3)
    for name in "ab":
        options: Any = {"dtype": "<i4", "dimension_names": ("x", "y")}
        group.create_array(name, shape=(64, 30), chunks=(3, 10), **options)[...] = ARRAY
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            folder / "group.zarr",
            folder / "out.zarr",
            chunks={"x": 16, "y": 15},
            progress=stop_midway,
        )
    for target in ("out", "out.zarr"):
        done = invoke("resume", folder / target, "--consume")
        assert done.exit_code == 2, done.output
        assert f"the run that began {folder / target} was not given --consume" in done.stderr
    assert {path for path in source.rglob("*") if path.is_file()} == left
    dask_io.resume(folder / "out")
    dask_io.resume(folder / "out.zarr")


@pytest.mark.parametrize("target", ["copy.zarr", "copy.nc"])
def test_a_group_with_an_array_that_is_half_used_up_is_refused(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is gone of it would be the fill value, wherever it is copied to, or overwritten."""
    monkeypatch.setattr(commit, "MOST_CELLS", 1)
    group = tmp_path / "group.zarr"
    for name in "ab":
        made = zarr.create_array(
            group,
            name=name,
            shape=(64, 30),
            chunks=(8, 10),
            dtype="<i4",
            dimension_names=("x", "y"),
        )
        made[...] = 1 + ARRAY

    def stop(progress: Progress) -> None:
        if progress.n_blocks_written > 1:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            f"{group}::/a",
            tmp_path / "out.zarr",
            chunks=(16, 30),
            memory="1MiB",
            consume=True,
            workers=1,
            progress=stop,
        )

    with pytest.raises(DataError, match="removed by a run with consume=True"):
        dask_io.resplit(group, tmp_path / target, chunks={"y": 15})
    with pytest.raises(DataError, match="removed by a run with consume=True"):
        dask_io.resplit(f"{group}::/b", f"{group}::/a", chunks=(16, 30), overwrite=True)
    dask_io.resume(tmp_path / "out.zarr", consume=True)
    assert np.array_equal(dask_io.open(tmp_path / "out.zarr")[:, :], 1 + ARRAY)


def test_what_is_left_of_slices_is_not_a_smaller_array(tmp_path: Path) -> None:
    """Names alone would count from 1 once the first slice is gone; the folder describes itself."""
    source = tmp_path / "slices"
    source.mkdir()
    for number in range(12):
        np.save(source / f"s_{number:03}.npy", np.full((4, 6), number, "<i2"))

    def stop(_: Progress) -> None:
        if not (source / "s_000.npy").exists():
            raise KeyboardInterrupt

    options: dict[str, Any] = {"workers": 1, "device": "ssd", "strategy": "naive"}
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            source, tmp_path / "out", chunks=(1, 2, 2), consume=True, progress=stop, **options
        )

    assert list(source.glob("s_*.npy"))
    with pytest.raises(DataError, match=r"missing, from s_000\.npy on"):
        dask_io.open(source)
    dask_io.resume(tmp_path / "out", consume=True)
    assert not source.exists()
    assert np.array_equal(dask_io.open(tmp_path / "out")[:, 0, 0], range(12))
