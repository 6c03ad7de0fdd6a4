"""Groups in parts: other processes write the large arrays, this one the rest."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import dask_io
from dask_io import api
from dask_io.api import Job
from dask_io.cluster import series
from dask_io.cluster.processes import ProcessJob
from dask_io.cluster.series import PartedSeries
from dask_io.engine.run import Progress, RunResult
from dask_io.errors import InterruptedRunError, UsageError
from dask_io.formats.zarr.quiet import quiet

CHUNKS = {"time": 12, "lat": 5}
MEMORY = 2**24
SHARED: dict[str, Any] = {"chunks": CHUNKS, "memory": MEMORY, "processes": 2}


@pytest.fixture
def climate() -> xr.Dataset:
    """Two variables with coordinates, and one without axes."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1000, (24, 10, 6)).astype("f4")
    return xr.Dataset(
        {
            "t": (("time", "lat", "lon"), values, {"units": "K"}),
            "p": (("time", "lat", "lon"), values + 1),
            "crs": ((), 7),
        },
        {"time": np.arange(24), "lat": np.arange(10.0), "lon": np.arange(6.0)},
        {"title": "T"},
    )


@pytest.fixture(autouse=True)
def _share_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of more than 300 bytes are large."""
    monkeypatch.setattr(series, "_SMALL", 300)


def save(dataset: xr.Dataset, place: Path) -> Path:
    """Save a dataset as NetCDF or Zarr."""
    if place.suffix == ".nc":
        dataset.to_netcdf(place, encoding={"t": {"chunksizes": (4, 10, 6), "zlib": True}})
    else:
        dataset.to_zarr(place, encoding={"t": {"chunks": (4, 10, 6)}}, consolidated=False)
    return place


@pytest.mark.parametrize("name", ["year.zarr", "year.nc"])
def test_processes_share_a_group(climate: xr.Dataset, tmp_path: Path, name: str) -> None:
    """The group has everything that a run of one process writes, and nothing else."""
    source, target, alone = save(climate, tmp_path / name), tmp_path / "b.zarr", tmp_path / "c.zarr"
    seen: list[Progress] = []

    result = dask_io.resplit(source, target, verify=True, progress=seen.append, **SHARED)
    one = dask_io.resplit(source, alone, chunks=CHUNKS, memory=MEMORY)

    assert isinstance(result, RunResult)
    assert isinstance(one, RunResult)
    assert result.verified
    assert (result.blocks_written, result.not_kept) == (one.blocks_written, one.not_kept)
    assert seen[-1].n_bytes_written == seen[-1].n_bytes
    assert seen[-1].n_blocks_written == seen[-1].n_blocks
    assert list_files(target) == list_files(alone)
    with load(target) as found, load(alone) as expected:
        xr.testing.assert_identical(found, expected)
        assert found["t"].encoding["chunks"] == (12, 5, 6)
    assert dask_io.verify(target)


def load(place: Path) -> xr.Dataset:
    """Open a group; zarr-python warns of the journal in it."""
    with quiet():
        found: xr.Dataset = xr.open_zarr(place, consolidated=False).load()
    return found


def list_files(place: Path) -> set[str]:
    """Return the names of all files, except those of locks."""
    files = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    return {name for name in files if not name.endswith("lock")}


def test_only_large_arrays_are_shared(climate: xr.Dataset, tmp_path: Path) -> None:
    """Coordinates are not worth another process."""
    job = plan_shared(save(climate, tmp_path / "a.zarr"), tmp_path / "b.zarr")

    assert isinstance(job.parted, PartedSeries)
    assert set(job.parted.large) == {"t", "p"}
    assert len(job.parted.parts) >= 4


def plan_shared(source: Path, target: Path) -> ProcessJob:
    """Plan a group for two processes."""
    request = api.Request("resplit", source, target, CHUNKS)
    job = api.plan_shared(request, memory=MEMORY, max_rate="2MB", processes=2)
    assert isinstance(job, ProcessJob)
    return job


def test_an_interrupted_group_is_resumed(climate: xr.Dataset, tmp_path: Path) -> None:
    """By one process, with the memory and the rate of the whole first run."""
    source, target = save(climate, tmp_path / "a.zarr"), tmp_path / "b.zarr"

    def interrupt(progress: Progress) -> None:
        if progress.n_blocks_written:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="resume"):
        plan_shared(source, target).run(progress=interrupt)

    jobs = []
    for job in api.plan_resumes(target):
        job.run()
        jobs.append(job)
    arrays = [job for job in jobs if isinstance(job, Job)]
    assert arrays
    assert {(job.plan.problem.budget, job.max_rate) for job in arrays} == {(MEMORY, 2_000_000)}
    with load(target) as found:
        xr.testing.assert_identical(found, climate)
    assert dask_io.verify(target)
    assert not list(target.rglob("parts"))


def test_the_first_limits_hold_for_a_resumed_array(tmp_path: Path) -> None:
    """A run that completes an array of two processes has the memory and the rate of both."""
    np.save(tmp_path / "a.npy", np.zeros((20, 20)))
    request = api.Request("resplit", tmp_path / "a.npy", tmp_path / "b", 5)
    job = api.plan_shared(request, memory=MEMORY, max_rate="2MB", processes=2)
    assert isinstance(job, ProcessJob)
    assert (job.parted.memory, job.parted.settings.max_rate) == (MEMORY // 2, 1_000_000)
    job.parted.begin()  # type: ignore[union-attr]

    (rest,) = api.plan_resumes(tmp_path / "b")

    assert isinstance(rest, Job)
    assert (rest.plan.problem.budget, rest.max_rate) == (MEMORY, 2_000_000)
    rest.run()


def test_a_file_of_several_arrays_is_refused(climate: xr.Dataset, tmp_path: Path) -> None:
    """Only one process can write it; nothing is created."""
    source = save(climate, tmp_path / "a.zarr")
    with pytest.raises(UsageError, match="one netcdf file, which only one process can write"):
        dask_io.resplit(source, tmp_path / "b.nc", **SHARED)
    with pytest.raises(UsageError, match=r"use processes=\.\.\. or client=\.\.\. to write all"):
        dask_io.resplit(source, tmp_path / "b.zarr", chunks=CHUNKS, part=(1, 2))
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]
