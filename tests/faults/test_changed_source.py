"""A source that changes while a run reads it: the run fails, and its target is not complete."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import h5py  # type: ignore[import-untyped]
import netCDF4
import numpy as np
import obstore
import pytest
import zarr

import dask_io
from dask_io.engine import commit, identity
from dask_io.errors import DataError, InterruptedRunError
from dask_io.storage.objects.connect import parse_url
from dask_io.testing.faults import RequestFaults, inject_into_requests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.conftest import Sample, Tool
    from tests.server import Server

ARRAY = np.arange(24 * 20, dtype="<i4").reshape(24, 20)
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "npy": ("in", {"chunks": (6, 10)}),
    "raw": ("in", {"chunks": (6, 10), "format": "raw"}),
    "one npy file": ("in.npy", {"chunks": -1}),
    "npy-stack": ("in.npystack", {"chunks": (6, 20)}),
    "zarr": ("in.zarr", {"chunks": (6, 10), "codec": "zstd:1"}),
    "shards": ("in.zarr", {"chunks": (6, 10), "shards": (12, 10), "codec": "zstd:1"}),
    "hdf5": ("in.h5", {"chunks": (6, 10), "codec": "none"}),
    "netcdf": ("in.nc", {"chunks": (6, 10), "codec": "none"}),
    "minc": ("in.mnc", {"chunks": (6, 10), "codec": "none"}),
    "minc blocks": ("in", {"chunks": (6, 10), "format": "minc"}),
}
# The file that changes, and the blocks that are named.
CHANGES = {
    "npy": ("in/b_1_1.npy", ": block 1,1;"),
    "raw": ("in/b_1_1.raw", ": block 1,1;"),
    "one npy file": ("in.npy", ";"),
    "npy-stack": ("in.npystack/1.npy", ": block 1,0;"),
    "zarr": ("in.zarr/c/1/1", ": block 1,1;"),
    "shards": ("in.zarr/c/1/1", ": block 2,1, block 3,1;"),
    "hdf5": ("in.h5", ";"),
    "netcdf": ("in.nc", ";"),
    "minc": ("in.mnc", ";"),
    "minc blocks": ("in/b_1_1.mnc", ": block 1,1;"),
}
PLAIN: dict[str, Any] = {"workers": 1, "device": "ssd", "memory": "16MiB"}


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every cell durable as soon as it is written."""
    monkeypatch.setattr(commit, "MOST_CELLS", 1)


def make(folder: Path, kind: str = "npy") -> Path:
    """Write the array in blocks of some kind."""
    np.save(folder / "whole.npy", ARRAY)
    name, options = KINDS[kind]
    dask_io.resplit(folder / "whole.npy", folder / name, **options)
    return folder / name


def rewrite(path: Path, content: bytes | None = None) -> None:
    """Write as many bytes to a file as it has, and let its time be another one."""
    before = path.stat()
    path.write_bytes(path.read_bytes() if content is None else content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    assert path.stat().st_size == before.st_size


def once(part: float, change: Callable[[], object]) -> Callable[[dask_io.Progress], None]:
    """Return what makes a change when a part of the array has been written."""
    changes = [change]

    def watch(progress: dask_io.Progress) -> None:
        if changes and progress.n_bytes_written >= part * progress.n_bytes:
            changes.pop()()

    return watch


def check_unfinished(target: Path) -> None:
    """Check that nothing takes the target for a complete one."""
    for look in (dask_io.open, dask_io.verify):
        with pytest.raises(DataError, match="unfinished"):
            look(target)


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_that_changes_is_named(kind: str, tmp_path: Path) -> None:
    """It is rewritten with the same size; only a run that begins again gets over it."""
    source, target = make(tmp_path, kind), tmp_path / "out"
    name, said = CHANGES[kind]
    # What is in one file is looked at whenever a block is read, so it changes after the last one.
    part = 1 if kind in {"hdf5", "minc", "netcdf"} else 0
    change = once(part, lambda: rewrite(tmp_path / name))

    with pytest.raises(DataError, match=f"changed while it was being read{said} start again"):
        dask_io.resplit(source, target, chunks=(8, 5), format="npy", progress=change, **PLAIN)

    check_unfinished(target)
    with pytest.raises(DataError, match="would mix two versions; start again"):
        dask_io.resume(target)
    dask_io.resplit(source, target, chunks=(8, 5), format="npy", overwrite=True, **PLAIN)
    assert np.array_equal(dask_io.open(target)[:, :], ARRAY)


@pytest.mark.parametrize("target", ["out.npy", "out.zarr", "out.h5", "out.npystack"])
def test_no_target_is_complete(target: str, tmp_path: Path) -> None:
    """Neither a file nor an array has its name before the source has been looked at again."""
    source = make(tmp_path)
    change = once(1, lambda: rewrite(source / "b_0_1.npy"))
    chunks = (24, 20) if target == "out.npy" else (8, 20)

    with pytest.raises(DataError, match="block 0,1"):
        dask_io.resplit(source, tmp_path / target, chunks=chunks, progress=change, **PLAIN)

    assert not (tmp_path / target).is_file()
    assert not (tmp_path / target / "zarr.json").exists()
    assert not (tmp_path / target / "info").exists()


@pytest.mark.parametrize("strategy", ["spill", "naive"])
def test_three_blocks_are_named_at_most(strategy: str, tmp_path: Path) -> None:
    """The others are counted; whatever the plan is."""
    source = make(tmp_path)

    def change() -> None:
        for path in source.glob("b_?_0.npy"):
            rewrite(path)

    said = "read: block 0,0, block 1,0, block 2,0 and 1 more; start again"
    with pytest.raises(DataError, match=said):
        dask_io.resplit(
            source,
            tmp_path / "out",
            chunks=(8, 5),
            strategy=strategy,
            progress=once(0.5, change),
            **PLAIN,
        )


def test_of_many_blocks_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the sum of their fingerprints is kept, so what is found is that one has changed."""
    monkeypatch.setattr(identity, "MOST_KEPT", 7)
    source = make(tmp_path)
    change = once(0, lambda: rewrite(source / "b_1_1.npy"))
    with pytest.raises(DataError, match="changed while it was being read; start again"):
        dask_io.resplit(source, tmp_path / "out", chunks=(8, 5), progress=change, **PLAIN)
    check_unfinished(tmp_path / "out")
    dask_io.resplit(source, tmp_path / "out", chunks=(8, 5), overwrite=True)


@pytest.mark.parametrize("is_removed", [False, True])
@pytest.mark.parametrize("target", ["out", "out.zarr", "out.h5"])
def test_a_target_stays_refused_if_the_source_is_restored(
    target: str, tmp_path: Path, *, is_removed: bool
) -> None:
    """It holds a mixture: with the block as it was, and another that had gone, only --overwrite."""
    source, place = make(tmp_path), tmp_path / target
    changing, removed = source / "b_3_1.npy", source / "b_0_0.npy"
    kept = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (changing, removed)}

    def change() -> None:
        rewrite(changing, kept[changing][0][:-240] + b"\1" * 240)
        if is_removed:
            removed.unlink()

    options: dict[str, Any] = {**PLAIN, "chunks": (8, 5)}
    with pytest.raises(DataError, match="block 3,1"):
        dask_io.resplit(source, place, progress=once(1, change), **options)
    for path, (content, time) in kept.items():
        path.write_bytes(content)
        os.utime(path, ns=(time, time))

    with pytest.raises(DataError, match="would mix two versions; start again"):
        dask_io.resume(place)
    dask_io.resplit(source, place, overwrite=True, **options)
    assert np.array_equal(dask_io.open(place)[:, :], ARRAY)


def test_a_resumed_run_looks_again_too(tmp_path: Path) -> None:
    """Blocks that change while the rest is written are found."""
    source, target = make(tmp_path), tmp_path / "out"

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        dask_io.resplit(source, target, chunks=(8, 5), progress=once(0.5, stop), **PLAIN)
    change = once(1, lambda: rewrite(source / "b_0_0.npy"))
    with pytest.raises(DataError, match="changed while it was being read: block 0,0;"):
        dask_io.resume(target, progress=change, **PLAIN)
    check_unfinished(target)


def test_of_several_targets_those_with_the_block_are_not_complete(tmp_path: Path) -> None:
    """The block is named as it is numbered in the whole source."""
    source, rois = make(tmp_path), tmp_path / "rois"
    change = once(1, lambda: rewrite(source / "b_3_1.npy"))
    regions = ["0:6,:", "18:24,10:"]
    with pytest.raises(DataError, match="changed while it was being read: block 3,1;"):
        dask_io.extract(source, rois, regions=regions, chunks=3, progress=change, **PLAIN)
    for number in range(2):
        check_unfinished(rois / f"region_00{number}")


@pytest.mark.parametrize("target", ["out.zarr", "out.nc"])
@pytest.mark.parametrize("changed", ["a/c/1/1", "small/c"])
def test_a_group_is_not_made_of_what_changes(target: str, changed: str, tmp_path: Path) -> None:
    """Neither if a chunk does, nor if something does that is copied as it is."""
    group = zarr.create_group(tmp_path / "in.zarr", zarr_format=3)
    for name in "ab":
        options: dict[str, Any] = {"dtype": "<i4", "dimension_names": ("y", "x")}
        group.create_array(name, shape=(24, 20), chunks=(6, 10), **options)[...] = 1 + ARRAY
    group.create_array("small", shape=(), dtype="<i4")[...] = 7
    change = once(0.1, lambda: rewrite(tmp_path / "in.zarr" / changed))

    with pytest.raises(DataError, match="changed while"):
        dask_io.resplit(
            tmp_path / "in.zarr",
            tmp_path / target,
            chunks={"y": 8, "x": 5},
            progress=change,
            **PLAIN,
        )

    assert not (tmp_path / "out.nc").exists()
    assert not (tmp_path / "out.zarr/zarr.json").exists()
    if target == "out.zarr":
        with pytest.raises(DataError, match=r"changed (since|while)"):
            dask_io.resume(tmp_path / target)


def save_netcdf(path: Path) -> None:
    """Save two variables in a NetCDF file."""
    with netCDF4.Dataset(path, "w") as file:
        for name, length in zip("yx", ARRAY.shape, strict=True):
            file.createDimension(name, length)
        for name in "ab":
            file.createVariable(name, "i4", ("y", "x"), chunksizes=(6, 10))[:] = ARRAY


def save_hdf5(path: Path) -> None:
    """Save two datasets in an HDF5 file."""
    with h5py.File(path, "w") as file:
        for name in "ab":
            made = file.create_dataset(name, data=ARRAY, chunks=(6, 10))
            for axis, dimension in zip(made.dims, "yx", strict=True):
                axis.label = dimension


@pytest.mark.parametrize(
    ("name", "target"),
    [("in.nc", "out.nc"), ("in.nc", "out.zarr"), ("in.h5", "out.h5"), ("in.h5", "out.zarr")],
)
def test_nothing_is_made_of_a_file_that_changes(name: str, target: str, tmp_path: Path) -> None:
    """A file of several arrays is one thing; it changes when the last array has been read."""
    source = tmp_path / name
    {".nc": save_netcdf, ".h5": save_hdf5}[source.suffix](source)
    change = once(1, lambda: rewrite(source))
    with pytest.raises(DataError, match=f"{name}: .*changed while"):
        dask_io.resplit(source, tmp_path / target, chunks=(8, 5), progress=change, **PLAIN)
    assert not (tmp_path / target).is_file()
    assert not (tmp_path / target / "zarr.json").exists()


def test_a_block_that_changes_is_not_consumed(tmp_path: Path) -> None:
    """It stays, with what it has now; blocks that were removed before are not missed."""
    source, target = make(tmp_path), tmp_path / "out"
    changing = source / "b_3_1.npy"
    other = changing.read_bytes()[:-240] + b"\1" * 240
    change = once(0, lambda: rewrite(changing, other))
    with pytest.raises(DataError, match="read: block 3,1; restore its original content: only"):
        dask_io.resplit(source, target, chunks=(6, 5), consume=True, progress=change, **PLAIN)
    assert changing.read_bytes() == other
    assert not (source / "b_0_0.npy").exists()
    check_unfinished(target)


def test_of_many_blocks_a_change_is_found_when_all_are_consumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the sum of their fingerprints is known, which is compared before the end."""
    monkeypatch.setattr(identity, "MOST_KEPT", 7)
    source, target = make(tmp_path), tmp_path / "out"
    change = once(0, lambda: rewrite(source / "b_3_1.npy"))
    with pytest.raises(DataError, match="has changed since the run began; restore its original"):
        dask_io.resplit(source, target, chunks=(6, 5), consume=True, progress=change, **PLAIN)
    check_unfinished(target)


def put_again(url: str) -> None:
    """Put other bytes, of the same number, in the place of an object's."""
    path = parse_url(url)
    content = bytes(obstore.get(path.store, path.key).bytes())
    obstore.put(path.store, path.key, content[:-1] + bytes([content[-1] ^ 255]))


@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_objects_are_listed_once_more_and_not_asked_for_one_by_one(
    kind: str, tmp_path: Path
) -> None:
    """A listing shows their versions; one that changes is named."""
    make(tmp_path)
    bucket, (name, options) = f"memory://{uuid4()}", KINDS[kind]
    source, target = f"{bucket}/{name}", f"{bucket}/out"
    dask_io.resplit(tmp_path / "whole.npy", source, **options)

    with inject_into_requests(counted := RequestFaults()):
        dask_io.resplit(source, target, chunks=(8, 5), format="npy", **PLAIN)
    log = counted.log
    at_the_end = log[log.index("put out/b_2_3.npy") :]
    assert [entry for entry in at_the_end if f" {name}" in entry] == [f"list {name}"]

    change = once(1, lambda: put_again(f"{bucket}/{CHANGES[kind][0]}"))
    with pytest.raises(DataError, match="changed while it was being read: block 1,1; start again"):
        dask_io.resplit(
            source,
            target,
            chunks=(8, 5),
            format="npy",
            overwrite=True,
            progress=change,
            **PLAIN,
        )


@pytest.mark.parametrize("kind", ["npy", "zarr", "one npy file"])
def test_an_object_that_changes_is_found_on_a_server(
    kind: str, server: Server, tmp_path: Path
) -> None:
    """By its ETag; the run fails, and its target is not complete."""
    make(tmp_path)
    place, (name, options) = f"s3://{server.bucket}/{uuid4()}", KINDS[kind]
    file, said = CHANGES[kind]
    dask_io.resplit(tmp_path / "whole.npy", f"{place}/{name}", **options)
    change = once(1, lambda: put_again(f"{place}/{file}"))
    with pytest.raises(DataError, match=f"changed while it was being read{said} start again"):
        dask_io.resplit(
            f"{place}/{name}", tmp_path / "out", chunks=(8, 5), progress=change, **PLAIN
        )
    check_unfinished(tmp_path / "out")


def test_the_command_says_so_in_one_line(sample: Sample, tool: Tool) -> None:
    """With exit code 1; `info`, `verify` and `resume` then say that the target is not complete."""
    run = tool.hold(*sample.resplit)
    rewrite(sample.blocks / "b_2_0.npy")
    told = tool.release(run)

    assert run.returncode == 1
    said = f"{sample.blocks}: changed while it was being read: block 2,0; start again: "
    assert said in tool.only_line(told)
    assert "it is unfinished" in tool.fail("info", sample.out, code=1)
    assert "it is unfinished" in tool.fail("verify", sample.out, code=1)
    assert "would mix two versions; start again" in tool.fail("resume", sample.out, code=1)
