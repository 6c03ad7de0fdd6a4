"""A run that is resumed keeps the limits of the first run."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr

import dask_io
from dask_io import api
from dask_io.errors import DataError, InterruptedRunError, StorageError
from dask_io.jobs.job import Job, JointJob
from dask_io.journal.journal import Journal
from tests.commands import invoke, run

LOST = ("a.npy", "b.npy")
LIMITS: dict[str, Any] = {"memory": 2_000_000, "max_rate": "1GB"}


def stop(_: dask_io.Progress) -> None:
    """Interrupt a run at its first message."""
    raise KeyboardInterrupt


def limits(place: Path, **options: Any) -> tuple[int, int | None]:
    """Return the budget and the rate with which a target is resumed, and complete it."""
    found = set()
    for job in api.plan_resumes(place, **options):
        if isinstance(job, Job | JointJob):
            found.add((job.plan.problem.budget, job.max_rate))
        job.execute()
    ((memory, rate),) = found
    return memory, rate


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small array."""
    np.save(tmp_path / "a.npy", np.arange(4096, dtype="u2").reshape(16, 16, 16))
    return tmp_path / "a.npy"


def test_limits_of_the_first_run_hold(source: Path, tmp_path: Path) -> None:
    """Without `memory` and `max_rate`, a resumed run has those of the first run."""
    target = tmp_path / "out"
    for options, expected in (
        ({}, (2_000_000, 10**9)),
        ({"memory": 3_000_000}, (3_000_000, 10**9)),
        ({"max_rate": "2GB"}, (2_000_000, 2 * 10**9)),
    ):
        with pytest.raises(InterruptedRunError):
            dask_io.resplit(
                source, target, chunks=5, progress=stop, overwrite=True, workers=1, **LIMITS
            )

        assert limits(target, **options) == expected


@pytest.mark.parametrize("name", ["a.npy", "a.zarr"])
def test_a_source_that_was_moved_is_asked_for(name: str, source: Path, tmp_path: Path) -> None:
    """The message names the option that helps, also for the source of a group."""
    place = source
    if name == "a.zarr":
        place = tmp_path / name
        group = zarr.create_group(place)
        group.create_array("x", shape=(16, 16), dtype="u2", chunks=(4, 4))[...] = 1
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(place, tmp_path / "b.zarr", chunks={}, progress=stop, workers=1, **LIMITS)
    (tmp_path / "elsewhere").mkdir()
    moved = place.rename(tmp_path / "elsewhere" / name)

    said = invoke("resume", tmp_path / "b.zarr").stderr
    assert "no such file or directory" in said
    assert "if the source was moved, give its new place with --source" in said
    with pytest.raises(StorageError, match="give its new place with source"):
        dask_io.resume(tmp_path / "b.zarr")
    dask_io.resume(tmp_path / "b.zarr", source=str(moved))
    assert "that of the first" in invoke("resume", "--help").stdout


def test_one_file_says_how_much_is_there(tmp_path: Path) -> None:
    """It is one block, of which a part is written."""
    array = np.arange(64**3, dtype="u2").reshape(64, 64, 64)
    np.save(tmp_path / "a.npy", array)
    dask_io.split(tmp_path / "a.npy", tmp_path / "blocks", chunks=8)

    def stop_midway(now: dask_io.Progress) -> None:
        if now.n_bytes_written > array.nbytes // 4:
            raise KeyboardInterrupt

    slow: dict[str, Any] = {"workers": 1, "memory": 200_000, "max_rate": "1MB"}
    with pytest.raises(InterruptedRunError):
        dask_io.merge(tmp_path / "blocks", tmp_path / "b.npy", progress=stop_midway, **slow)

    said = invoke("resume", tmp_path / "b.npy", "--max-rate", "1GB").stderr

    assert re.search(r"continues a run: [\d.]+ KiB are already written", said)
    assert "more of disk space" in said
    assert np.array_equal(np.load(tmp_path / "b.npy"), array)


def test_a_target_that_was_deleted_is_explained(source: Path, tmp_path: Path) -> None:
    """The checksums are still there, so it can be written again."""
    dask_io.merge(source, tmp_path / "b.npy")
    (tmp_path / "b.npy").unlink()

    with pytest.raises(DataError, match=r"b\.npy: is missing; repair it with: dask_io\.repair"):
        dask_io.resume(tmp_path / "b.npy")
    dask_io.repair(tmp_path / "b.npy")
    assert np.array_equal(np.load(tmp_path / "b.npy"), np.load(source))


def test_a_budget_that_the_machine_lacks_is_not_taken_over(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with less memory, a resumed run has the default budget."""
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(source, tmp_path / "out", chunks=5, progress=stop, workers=1, **LIMITS)
    monkeypatch.setattr("dask_io.jobs.settings.available_memory", lambda: 1_600_000)

    assert limits(tmp_path / "out") == (800_000, 10**9)


def test_limits_hold_for_all_arrays_of_a_group(tmp_path: Path) -> None:
    """Each array of a group has the limits of the run that began."""
    group = zarr.create_group(tmp_path / "a.zarr")
    for name in "ab":
        made = group.create_array(name, shape=(60, 60), chunks=(10, 10), dtype="u2")
        made[:] = 1
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=20, progress=stop, workers=1, **LIMITS
        )

    assert limits(tmp_path / "b.zarr") == (2_000_000, 10**9)


@pytest.mark.parametrize("moved", [False, True], ids=["relative", "moved"])
def test_files_are_known_again_by_another_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, moved: bool
) -> None:
    """The journal has the absolute path of a source that was given by a relative one."""
    array = np.arange(4096, dtype="u2").reshape(16, 16, 16)
    (tmp_path / "tiles").mkdir()
    for z in range(2):
        for y in range(2):
            part = array[8 * z : 8 * z + 8, 8 * y : 8 * y + 8]
            tifffile.imwrite(tmp_path / f"tiles/t_{z}_{y}_0.tif", part, photometric="minisblack")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InterruptedRunError):
        dask_io.resplit("tiles", "out", format="npy", chunks=4, progress=stop)
    place = Path("tiles").rename("elsewhere") if moved else None

    result = dask_io.resume("out", source=None if place is None else str(place))

    assert result.blocks_skipped
    assert np.array_equal(dask_io.open("out")[...], array)


def test_an_image_that_was_moved_is_given_as_before(source: Path, tmp_path: Path) -> None:
    """The run was given the image, not its only level."""
    image, target = tmp_path / "image.ome.zarr", tmp_path / "out"
    dask_io.resplit(source, image, format="ome-zarr", chunks=8)
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(image, target, format="npy", chunks=5, progress=stop)
    moved = image.rename(tmp_path / "moved.ome.zarr")

    assert dask_io.resume(target, source=str(moved)).blocks_skipped
    assert np.array_equal(dask_io.open(target)[...], np.load(source))


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_of_blocks_are_not_read_in_many_short_runs(tmp_path: Path, order: str) -> None:
    """Parts that the first run needed are gaps, which are read if seeks would take longer."""
    array = np.arange(40**3, dtype="u2").reshape(40, 40, 40)
    np.save(tmp_path / "a.npy", np.asarray(array, order="F" if order == "F" else "C"))
    dask_io.split(tmp_path / "a.npy", tmp_path / "a", chunks=10)
    n_planned = dask_io.plan(tmp_path / "a", tmp_path / "b", chunks=16, **LIMITS).plan.seeks.read
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            tmp_path / "a", tmp_path / "b", chunks=16, progress=stop, workers=1, **LIMITS
        )

    done = dask_io.resume(tmp_path / "b", verify=True)

    assert done.blocks_skipped
    assert done.seeks.read <= n_planned
    np.testing.assert_array_equal(dask_io.open(tmp_path / "b")[:], array)


@pytest.mark.parametrize("target", ["a.zarr", "image.ome.zarr"])
def test_scratch_blocks_of_a_killed_run_are_no_target(
    target: str, source: Path, tmp_path: Path
) -> None:
    """They are passed over in the folder of the target, or in the image that contains it."""
    folder = tmp_path / "out"
    folder.mkdir()
    space: dict[str, Any] = {"spacing": "1", "unit": "um"} if target.startswith("image") else {}
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(source, folder / target, chunks=5, progress=stop, workers=1, **space)
    inner = folder / target / "0" if space else folder / target
    scratch = inner.with_name(f".{inner.name}.9zvr12sy.scratch")
    scratch.mkdir()
    Journal.begin(scratch / ".dask-io", b"{}", [], durable=False).close()

    place = folder / target if space else folder
    run("resume", place)

    assert run("verify", place)
    assert not scratch.exists()


def test_a_problem_with_one_target_does_not_stop_the_others(source: Path, tmp_path: Path) -> None:
    """Each problem is reported, and the exit code is that of the first."""
    folder = tmp_path / "out"
    folder.mkdir()
    for name in LOST:
        dask_io.merge(source, folder / name)
        (folder / name).unlink()
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(source, folder / "z.zarr", chunks=5, progress=stop, workers=1)

    done = invoke("resume", folder)

    assert done.exit_code == 1
    assert all(f"{folder / name}: is missing; repair it" in done.stderr for name in LOST)
    assert f"{folder / 'z.zarr'}: " in done.stdout
    assert dask_io.verify(folder / "z.zarr")
    with pytest.raises(DataError, match=r"a\.npy: is missing") as caught:
        dask_io.resume(folder)
    assert any("b.npy: is missing" in note for note in caught.value.__notes__)


def test_a_run_that_fails_does_not_stop_the_others(source: Path, tmp_path: Path) -> None:
    """An error of a run is passed on to the plan, and the next target is completed."""
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("a.zarr", "b.zarr"):
        with pytest.raises(InterruptedRunError):
            dask_io.resplit(source, folder / name, chunks=5, progress=stop, workers=1)
    found = []

    def execute(job: api.Job | api.SeriesJob | api.Complete) -> None:
        found.append(job)
        if len(found) == 1:
            raise StorageError(str(folder), "disk full")
        job.execute()

    with pytest.raises(StorageError, match="disk full"):
        list(api.run_each(api.plan_resumes(folder), execute))
    assert len(found) == 2
    assert dask_io.verify(folder / "b.zarr")
