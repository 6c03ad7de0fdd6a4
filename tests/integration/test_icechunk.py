"""Arrays go into icechunk repositories and come back; zarr-python through icechunk agrees."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import icechunk
import netCDF4
import numpy as np
import pytest
import zarr
from zarr.buffer.cpu import Buffer
from zarr.core.sync import sync

import dask_io
from dask_io.errors import (
    DaskIOError,
    DataError,
    SamePlaceError,
    StorageError,
    TargetExistsError,
    UsageError,
)
from dask_io.formats.icechunk.repository import repository_errors
from dask_io.stores.staging import new_staging

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

KINDS: dict[str, dict[str, Any]] = {
    "plain": {"codec": "none"},
    "zstd": {"codec": "zstd:1+crc32c"},
    "shards": {"codec": "blosc:lz4:5:shuffle", "shards": (8, 10, 12)},
    "plain shards": {"codec": "none", "shards": (8, 10, 12)},
}


@pytest.fixture
def array() -> NDArray[Any]:
    """An array of uneven lengths, a corner of which is the fill value."""
    array = np.random.default_rng(7).integers(1, 99, (21, 17, 19)).astype("<i4")
    array[:9, :12] = 0
    return array


@pytest.fixture
def start(array: NDArray[Any], tmp_path: Path) -> Path:
    """The array in one file."""
    np.save(tmp_path / "start.npy", array)
    return tmp_path / "start.npy"


def _repository(path: Path) -> icechunk.Repository:
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))


def _history(path: Path) -> list[str]:
    """Return the messages of all commits, but for the one that every repository begins with."""
    return [each.message for each in _repository(path).ancestry(branch="main")][:-1]


def _make(path: Path, name: str, values: NDArray[Any], **options: Any) -> icechunk.Repository:
    """Have zarr-python write an array into a new repository."""
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(path)))
    session = repository.writable_session("main")
    made = zarr.create_array(
        session.store, name=name, shape=values.shape, dtype=values.dtype, **options
    )
    made[...] = values
    session.commit("by zarr-python")
    return repository


@pytest.mark.parametrize("kind", KINDS)
def test_zarr_python_reads_what_we_write(
    kind: str, array: NDArray[Any], start: Path, tmp_path: Path
) -> None:
    """Values, chunks, shards; what holds only the fill value is left out."""
    target = tmp_path / "x.icechunk"

    done = dask_io.resplit(
        start, f"{target}::/day/1", chunks=(4, 5, 6), memory="16MiB", verify=True, **KINDS[kind]
    )

    made = zarr.open_array(_repository(target).readonly_session("main").store, path="day/1")
    assert isinstance(done, dask_io.RunResult)
    assert done.verified
    assert np.array_equal(np.asarray(made[...]), array)
    assert (made.chunks, made.shards) == ((4, 5, 6), KINDS[kind].get("shards"))
    assert made.nchunks_initialized < made.nchunks
    assert len(_history(target)) == 1


@pytest.mark.parametrize("kind", ["plain", "zstd", "shards"])
def test_we_read_what_zarr_python_writes(kind: str, array: NDArray[Any], tmp_path: Path) -> None:
    """With its own default codecs, some chunks missing and small ones in the manifest."""
    options: dict[str, dict[str, Any]] = {
        "plain": {"compressors": None, "filters": None},
        "zstd": {},
        "shards": {"shards": (8, 10, 12)},
    }
    source = tmp_path / "x.icechunk"
    _make(source, "a/b", array, chunks=(4, 5, 6), attributes={"unit": "mm"}, **options[kind])

    done = dask_io.resplit(f"{source}::/a/b", tmp_path / "out", chunks=(21, 3, 19), memory="16MiB")

    assert isinstance(done, dask_io.RunResult)
    assert np.array_equal(np.asarray(dask_io.open(tmp_path / "out")), array)
    assert done.not_kept == (("attributes",) if kind == "plain" else ("attributes", "codec"))
    dask_io.open(f"{source}::/a/b").source.check()


def test_metadata_is_kept(array: NDArray[Any], tmp_path: Path) -> None:
    """Attributes, names of dimensions, the fill value and the codecs; the version becomes 3."""
    old = zarr.create_array(
        tmp_path / "old.zarr",
        shape=array.shape,
        dtype=array.dtype,
        chunks=(8, 8, 8),
        zarr_format=2,
        fill_value=7,
        attributes={"unit": "mm", "_ARRAY_DIMENSIONS": ["z", "y", "x"]},
    )
    old[...] = array

    dask_io.resplit(tmp_path / "old.zarr", tmp_path / "new.icechunk", chunks=(5, 5, 5))

    made = zarr.open_array(_repository(tmp_path / "new.icechunk").readonly_session("main").store)
    assert made.metadata.zarr_format == 3
    assert made.metadata.dimension_names == ("z", "y", "x")
    assert (dict(made.attrs), made.fill_value) == ({"unit": "mm"}, 7)


def test_versions_are_named(array: NDArray[Any], start: Path, tmp_path: Path) -> None:
    """A branch, a tag or a snapshot is read as it was; a target is committed to a branch."""
    place = tmp_path / "x.icechunk"
    dask_io.resplit(start, f"{place}::/a", chunks=(7, 7, 7))
    repository = _repository(place)
    first = repository.lookup_branch("main")
    repository.create_tag("v1", first)
    repository.create_branch("dev", first)
    np.save(start, array + 1)
    dask_io.resplit(start, f"{place}::/@dev/a", chunks=(5, 5, 5), overwrite=True)

    for version, more in (("", 0), ("@main/", 0), ("@v1/", 0), (f"@{first}/", 0), ("@dev/", 1)):
        assert np.array_equal(np.asarray(dask_io.open(f"{place}::/{version}a")), array + more)
    for version in ("v1", first, "other"):
        with pytest.raises(UsageError, match="no branch"):
            dask_io.resplit(start, f"{place}::/@{version}/b", chunks=(5, 5, 5))
    with pytest.raises(UsageError, match="has no branch, tag or snapshot v2; it has dev, main, v1"):
        dask_io.open(f"{place}::/@v2/a")
    repository.create_tag("dev", first)
    with pytest.raises(UsageError, match="is a branch and a tag"):
        dask_io.open(f"{place}::/@dev/a")


def test_a_repository_holds_several_arrays(
    array: NDArray[Any], start: Path, tmp_path: Path
) -> None:
    """Each is a commit with checksums of its own; one can be made from another."""
    place = tmp_path / "x.icechunk"
    dask_io.resplit(start, f"{place}::/day/1", chunks=(7, 7, 7))
    dask_io.resplit(f"{place}::/day/1", f"{place}::/day/2", chunks=(5, 17, 5), codec="zstd:1")

    assert len(_history(place)) == 2
    for name in ("1", "2"):
        assert dask_io.verify(f"{place}::/day/{name}").equal
        assert np.array_equal(np.asarray(dask_io.open(f"{place}::/day/{name}")), array)
    with pytest.raises(UsageError, match=r"is a group; give an array in it, such as .*day/1, "):
        dask_io.open(f"{place}::/day")
    with pytest.raises(UsageError, match=r"is a group; give an array in it, such as .*/day$"):
        dask_io.open(place)
    with pytest.raises(DataError, match="there is no array of this name"):
        dask_io.open(f"{place}::/day/3")


def test_what_is_there_is_replaced_only_if_asked(
    array: NDArray[Any], start: Path, tmp_path: Path
) -> None:
    """An array by another commit, so that it can still be read as it was; nothing else at all."""
    place = tmp_path / "x.icechunk"
    dask_io.resplit(start, f"{place}::/day/1", chunks=(7, 7, 7))
    before = _repository(place).lookup_branch("main")

    with pytest.raises(TargetExistsError):
        dask_io.resplit(start, f"{place}::/day/1", chunks=(3, 3, 3))
    np.save(start, array[:5] + 1)
    dask_io.resplit(start, f"{place}::/day/1", chunks=(3, 3, 3), overwrite=True, verify=True)

    assert np.array_equal(np.asarray(dask_io.open(f"{place}::/day/1")), array[:5] + 1)
    assert np.array_equal(np.asarray(dask_io.open(f"{place}::/@{before}/day/1")), array)
    assert len(_history(place)) == 2
    for inside, problem in (("day", "is a group"), ("day/1/x", "is an array"), ("", "is a group")):
        with pytest.raises(UsageError, match=problem):
            dask_io.resplit(start, f"{place}::/{inside}", chunks=(3, 3, 3), overwrite=True)
    (tmp_path / "y.icechunk").mkdir()
    (tmp_path / "y.icechunk" / "notes").write_text("mine")
    with pytest.raises(UsageError, match="is not an icechunk repository"):
        dask_io.resplit(start, tmp_path / "y.icechunk", chunks=(3, 3, 3), overwrite=True)
    assert (tmp_path / "y.icechunk" / "notes").read_text() == "mine"


def test_a_source_stays_the_snapshot_that_it_was(
    array: NDArray[Any], start: Path, tmp_path: Path
) -> None:
    """Whatever is committed after it was opened, also when it is opened again elsewhere."""
    place = tmp_path / "x.icechunk"
    dask_io.resplit(start, f"{place}::/a", chunks=(7, 7, 7), codec="zstd:1", shards=(7, 7, 14))
    source = dask_io.open(f"{place}::/a")
    np.save(start, array + 1)
    dask_io.resplit(start, f"{place}::/a", chunks=(7, 7, 7), overwrite=True)

    for opened in (source, pickle.loads(pickle.dumps(source))):  # noqa: S301 - made here
        assert np.array_equal(np.asarray(opened), array)


def test_what_icechunk_cannot_hold_is_refused(start: Path, tmp_path: Path) -> None:
    """In one line, before anything is touched."""
    place = tmp_path / "x.icechunk"
    dask_io.resplit(start, place, chunks=(7, 7, 7))
    for target, options, problem in (
        ("new.icechunk", {"format_version": 2}, "Zarr 3 only"),
        ("new.icechunk::/@dev/a", {}, "a branch of a repository that does not exist"),
        ("new.icechunk", {"consume": True}, "durable only when it is complete"),
    ):
        with pytest.raises(UsageError, match=problem):
            dask_io.resplit(start, tmp_path / target, chunks=(3, 3, 3), **options)
    with pytest.raises(UsageError, match="single blocks cannot be removed"):
        dask_io.resplit(place, tmp_path / "out", chunks=(3, 3, 3), consume=True)
    with pytest.raises(SamePlaceError):
        dask_io.resplit(place, place, chunks=(3, 3, 3), overwrite=True)

    assert not (tmp_path / "new.icechunk").exists()
    assert not (tmp_path / "out").exists()
    assert start.exists()


def test_attributes_that_icechunk_cannot_hold_are_named(tmp_path: Path) -> None:
    """Before anything is made; it is strict about JSON."""
    attributes: dict[str, Any] = {"fine": [1.5], "range": [0, float("inf")]}
    zarr.create_array(tmp_path / "a.zarr", shape=(4,), dtype="i2", attributes=attributes)
    with pytest.raises(UsageError, match="attribute range of the source holds infinity or NaN"):
        dask_io.plan(tmp_path / "a.zarr", tmp_path / "b.icechunk", chunks=2)


def test_no_number_stands_for_gaps(tmp_path: Path) -> None:
    """In NetCDF it mostly does, and it is written as xarray does."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 4)
        file.createVariable("v", "f4", ("x",), fill_value=np.nan)[:] = [1, 2, 3, 4]
    dask_io.resplit(f"{tmp_path}/a.nc::/v", f"{tmp_path}/b.icechunk::/v", chunks=2)
    assert np.asarray(dask_io.open(f"{tmp_path}/b.icechunk::/v")).tolist() == [1, 2, 3, 4]


def test_plans_say_that_it_is_all_or_nothing(start: Path, tmp_path: Path) -> None:
    """Nothing is kept of a run that was cut short, and the plan knows it."""
    job = dask_io.plan(dask_io.open(start), tmp_path / "x.icechunk", chunks=(7, 7, 7))

    assert job.plan.problem.target.grain == "container"
    assert not (tmp_path / "x.icechunk").exists()


@pytest.mark.parametrize("strategy", ["spill", "naive", "sweep"])
def test_strategies(strategy: str, array: NDArray[Any], start: Path, tmp_path: Path) -> None:
    """Any of them, into a group; nothing is left beside the repository but the journal."""
    target = f"{tmp_path}/x.icechunk::/a/b"

    dask_io.resplit(start, target, chunks=(21, 3, 3), strategy=strategy, codec="zstd:1")

    assert np.array_equal(np.asarray(dask_io.open(target)), array)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".x.icechunk::a::b.dask-io", "start.npy", "x.icechunk"]


def test_someone_else_commits_meanwhile(array: NDArray[Any], start: Path, tmp_path: Path) -> None:
    """Something else goes under our commit; a change of the same array is not lost but told."""
    place = tmp_path / "x.icechunk"
    dask_io.resplit(start, f"{place}::/a", chunks=(7, 7, 7))

    def commit(name: str) -> Callable[[object], None]:
        done: list[str] = []

        def once(_: object) -> None:
            if not done:
                session = _repository(place).writable_session("main")
                made = zarr.create_array(session.store, name=name, shape=(4,), dtype="i2")
                made[...] = 3
                done.append(session.commit(f"someone else wrote {name}"))

        return once

    dask_io.resplit(start, f"{place}::/b", chunks=(7, 7, 7), progress=commit("other"))
    assert np.array_equal(np.asarray(dask_io.open(f"{place}::/b")), array)
    assert np.asarray(dask_io.open(f"{place}::/other")).tolist() == [3] * 4

    with pytest.raises(StorageError, match="another commit has changed it in the meantime"):
        dask_io.resplit(start, f"{place}::/c", chunks=(7, 7, 7), progress=commit("c"))
    assert np.asarray(dask_io.open(f"{place}::/c")).tolist() == [3] * 4


def test_groups_that_someone_removes_meanwhile_are_made_anew(
    array: NDArray[Any], start: Path, tmp_path: Path
) -> None:
    """An array without groups around it would be found by nobody."""
    place = tmp_path / "x.icechunk"
    dask_io.resplit(start, f"{place}::/in/group/old", chunks=(7, 7, 7))

    def remove(_: object) -> None:
        session = _repository(place).writable_session("main")
        group = zarr.open_group(session.store, mode="a")
        if "in" in group:
            del group["in"]
            session.commit("Remove all")

    dask_io.resplit(start, f"{place}::/in/group/new", chunks=(3, 3, 3), progress=remove)

    store = _repository(place).readonly_session("main").store
    found = dict(zarr.open_group(store, mode="r").members(max_depth=None))
    assert sorted(found) == ["in", "in/group", "in/group/new"]
    assert np.array_equal(np.asarray(found["in/group/new"]), array)


def test_strict_and_missing_chunks(array: NDArray[Any], tmp_path: Path) -> None:
    """A chunk that is not stored is the fill value, unless it must be there."""
    source = tmp_path / "x.icechunk"
    _make(source, "a", array, chunks=(3, 4, 19))

    assert np.array_equal(np.asarray(dask_io.open(f"{source}::/a")), array)
    strict = dask_io.open(f"{source}::/a", strict=True)
    with pytest.raises(DataError, match="is missing"):
        np.asarray(strict)
    with pytest.raises(DataError, match="9 of 35 chunks are missing"):
        strict.source.check()


def test_nothing_outside_the_repository_is_read(array: NDArray[Any], tmp_path: Path) -> None:
    """Neither what virtual chunks refer to, nor what links lead to."""
    source, secret = tmp_path / "x.icechunk", tmp_path / "secret"
    secret.write_bytes(bytes(21 * 17 * 19 * 4))
    repository = _make(source, "a", array, chunks=array.shape, compressors=None, filters=None)
    session = repository.writable_session("main")
    session.store.set_virtual_ref(
        "a/c/0/0/0",
        f"file://{secret}",
        offset=0,
        length=secret.stat().st_size,
        validate_container=False,
    )
    session.commit("refer to another file")

    opened = dask_io.open(f"{source}::/a")
    with pytest.raises(DataError, match="c/0/0/0 is in a file outside the repository"):
        np.asarray(opened)
    with pytest.raises(DataError, match="is in a file outside"):
        opened.source.check()

    chunk = next((source / "chunks").iterdir())
    chunk.unlink()
    chunk.symlink_to(secret)
    with pytest.raises(DataError, match="is a link"):
        dask_io.open(f"{source}::/a")


def test_damaged_repositories(tmp_path: Path) -> None:
    """Any file of it may be cut off, empty, too long or garbage: one clear line, or right data.

    A single bit may be wrong without a trace, as icechunk does not protect all of its own files;
    that too ends in no other way.
    """
    array, whole = np.arange(1, 4001, dtype="<i4"), tmp_path / "whole.icechunk"
    np.save(tmp_path / "a.npy", array)
    dask_io.resplit(tmp_path / "a.npy", f"{whole}::/a", chunks=1000, codec="zstd:1+crc32c")
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    chance, place, refused = random.Random(1), tmp_path / "x.icechunk", list[str]()
    damages: list[Callable[[bytes], bytes]] = [
        lambda content: _flipped(content, chance),
        lambda _: b"",
        lambda content: content[: chance.randrange(len(content))],
        lambda content: chance.randbytes(len(content)),
        lambda content: content + content,
    ]
    for number in range(60):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, place)
        file, kind = place / chance.choice(files), number % len(damages)
        file.write_bytes(damages[kind](file.read_bytes()))
        try:
            source = dask_io.open(f"{place}::/a", strict=True)
            source.source.check()
            assert np.array_equal(np.asarray(source), array) or kind == 0
        except DaskIOError as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert all("\n" not in line and "x.icechunk" in line for line in refused)


def _flipped(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    return (
        content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]
    )


@pytest.mark.parametrize("log", [None, "trace"])
def test_the_log_of_icechunk_is_no_result(log: str | None, tmp_path: Path) -> None:
    """What icechunk would load in advance is damaged, but stdout holds one JSON object."""
    np.save(tmp_path / "start.npy", np.arange(24.0))
    place = f"{tmp_path}/r.icechunk::/time"
    dask_io.resplit(tmp_path / "start.npy", place, chunks=6, format="icechunk")
    [manifest] = (tmp_path / "r.icechunk" / "manifests").iterdir()
    manifest.write_bytes(bytes(manifest.stat().st_size))

    done = subprocess.run(
        [sys.executable, "-m", "dask_io.cli", "info", "--json", place],
        env={**os.environ, **({"ICECHUNK_LOG": log} if log else {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 1
    message = json.loads(done.stdout)["error"]["message"]
    assert "missing or damaged; restore it from a copy" in message
    assert done.stderr == f"dask-io: {message}\n"


def test_panics_of_icechunk_are_errors_of_data() -> None:
    """Damage that icechunk does not expect is named in one line, too."""

    class RustPanic(Exception):  # noqa: N818 - as icechunk calls it
        """What icechunk raises if a thread of it ends without an answer."""

    expected = "r.icechunk: icechunk cannot read it; a file of the repository is missing or damaged"
    with pytest.raises(DataError, match=expected), repository_errors("r.icechunk"):
        raise RustPanic("called `Result::unwrap()` on an `Err` value")


def test_chunks_of_an_absurd_size_are_refused(array: NDArray[Any], tmp_path: Path) -> None:
    """Before they are read."""
    source = tmp_path / "x.icechunk"
    repository = _make(source, "a", array, chunks=array.shape, compressors=None, filters=None)
    session = repository.writable_session("main")
    sync(session.store.set("a/c/0/0/0", Buffer.from_bytes(bytes(10**6))))
    session.commit("one chunk is far too long")

    opened = dask_io.open(f"{source}::/a")
    with pytest.raises(DataError, match="is too long: its chunk has 1000000 bytes"):
        np.asarray(opened)
    with pytest.raises(DataError, match="is too long"):
        opened.source.check()


WRITE_AND_READ = """
import json, sys
import dask_io

source, repository, blocks = sys.argv[1:]
options = {"memory": "64MiB", "workers": 2, "device": "ssd"}
dask_io.resplit(source, f"{repository}::/warm", region="0:1", chunks=(1, 128, 512), **options)
there = dask_io.resplit(source, f"{repository}::/a", chunks=(4, 512, 512), **options)
back = dask_io.resplit(f"{repository}::/a", blocks, chunks=(50, 512, 64), **options)
print(json.dumps([there.peak_memory, back.peak_memory]))
"""


@pytest.mark.linux
def test_a_session_does_not_hold_what_it_is_given(tmp_path: Path) -> None:
    """Of 200 MiB that go into a repository and out of it, no more is in memory than the budget."""
    shape = (200, 512, 512)
    array = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.float32, shape)
    for number in range(shape[0]):
        array[number] = number + 1
    del array
    places = (tmp_path / "a.npy", tmp_path / "x.icechunk", tmp_path / "out")

    done = subprocess.run(
        [sys.executable, "-c", WRITE_AND_READ, *map(str, places)],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert max(json.loads(done.stdout)) < 64 * 2**20 + 24 * 2**20


def test_a_directory_in_place_of_a_repository_is_kept(start: Path, tmp_path: Path) -> None:
    """The journal of what was there before says nothing about what is there now."""
    place = tmp_path / "x.icechunk"
    dask_io.resplit(start, place, chunks=10)
    place.rename(tmp_path / "elsewhere")
    place.mkdir()
    (place / "photo.jpg").write_bytes(b"mine")

    with pytest.raises(UsageError, match="is not an icechunk repository"):
        dask_io.resplit(start, place, chunks=10)

    assert (place / "photo.jpg").read_bytes() == b"mine"


def test_giving_up_leaves_the_repository_to_others(
    start: Path, array: NDArray[Any], tmp_path: Path
) -> None:
    """A run that made it does not take it away from one that writes to it."""
    source = dask_io.open(start)
    jobs = [dask_io.plan(source, f"{tmp_path}/x.icechunk::/{name}", chunks=10) for name in "ab"]
    first, second = (job.open_outlet() for job in jobs)
    first.begin()
    second.begin()
    for index in second.target.grid.indices():
        block = second.target.grid.block(index)
        with second.target.writer(index) as writer:
            values = np.ascontiguousarray(array[block.slices])
            staging = new_staging(second.target, 0)
            writer.write_from(block.relative_to(block.start), values, staging)

    first.abandon()
    second.target.finish()

    assert np.array_equal(np.asarray(dask_io.open(f"{tmp_path}/x.icechunk::/b")), array)
