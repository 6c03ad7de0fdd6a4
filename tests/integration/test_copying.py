"""Chunks and shards that are stored alike are copied as they are, and that equals decoding them."""

from __future__ import annotations

import json
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import dask_io
from dask_io import api
from dask_io.errors import BudgetTooSmallError, DataError, InterruptedRunError, UsageError
from dask_io.planning import CopyPlan, Plan, Series, plan_from_json, plan_to_json
from tests.commands import invoke

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

EXAMPLES = settings().max_examples
# What is stored alike in a target that is asked for so: version, codec, shards.
ALIKE: dict[str, dict[str, Any]] = {
    "zstd": {"codec": "zstd:3"},
    "blosc, version 2": {"codec": "blosc:lz4:5:shuffle", "format_version": 2},
    "shards": {"codec": "zstd:1", "shards": (8, 10, 12)},
    "shards without a codec": {"codec": "none", "shards": (8, 10, 12)},
}


@pytest.fixture
def array() -> NDArray[Any]:
    """An array of uneven lengths, a corner of which is zero, so that chunks are left out."""
    array = np.random.default_rng(7).integers(0, 99, (21, 17, 19)).astype("<i4")
    array[:9, :12] = 0
    return array


def make(place: Path, array: NDArray[Any], **options: Any) -> Path:
    """Save an array as Zarr."""
    np.save(place.with_suffix(".npy"), array)
    dask_io.resplit(place.with_suffix(".npy"), place, chunks=(4, 5, 6), **options)
    return place


def files(root: Path) -> dict[str, bytes]:
    """Every file of an array but its journal, by its name."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in found
        if ".dask-io" not in path.parts
    }


@pytest.mark.parametrize("kind", ALIKE)
def test_a_copy_is_what_decoding_would_have_made(
    kind: str, array: NDArray[Any], tmp_path: Path
) -> None:
    """File by file; every file is touched once on each side, and no array data is held."""
    source = make(tmp_path / "a.zarr", array, **ALIKE[kind])
    job = dask_io.plan(source, tmp_path / "b.zarr", chunks=(4, 5, 6), **ALIKE[kind])
    plain = dask_io.plan(
        source, tmp_path / "c.zarr", chunks=(4, 5, 6), strategy="sweep", **ALIKE[kind]
    )

    done = job.run(verify=True)
    plain.run()

    assert isinstance(job.plan, CopyPlan)
    assert isinstance(plain.plan, Plan)
    assert files(tmp_path / "b.zarr") == files(tmp_path / "c.zarr")
    stored = [name for name in files(source) if name[-1].isdigit()]
    assert (done.seeks.read, done.seeks.write) == (len(stored), len(stored))
    assert len(stored) <= job.plan.seeks.read == job.plan.problem.target.grid.n_blocks
    assert done.held == job.plan.held_bytes == 0
    assert dask_io.verify(source, tmp_path / "b.zarr")


@pytest.mark.parametrize("kind", ALIKE)
def test_parts_copy_too(kind: str, array: NDArray[Any], tmp_path: Path) -> None:
    """Parts hold no array data either, and the files are those of the source."""
    source = make(tmp_path / "a.zarr", array, **ALIKE[kind])
    how: dict[str, Any] = {"chunks": (4, 5, 6), **ALIKE[kind]}
    job = dask_io.plan_parts(source, tmp_path / "b.zarr", parts=4, **how)
    record = job.begin()
    results = [dask_io.run_part(record, part, memory=job.memory, threads=2) for part in job.parts]

    job.finish(results)

    assert job.cut.count == 4
    assert all(result.held == 0 for result in results)
    assert files(tmp_path / "b.zarr") == files(source)
    assert job.cut.seeks.read == job.target.grid.n_blocks
    assert dask_io.verify(source, tmp_path / "b.zarr")
    plain = dask_io.plan(source, **how)
    assert isinstance(plain.plan, CopyPlan)
    assert api.cut_plan(plain.plan, plain.device, 4, "auto", None).memory == job.cut.memory


@pytest.mark.parametrize("kind", ALIKE)
def test_a_plan_without_a_target_copies_too(kind: str, array: NDArray[Any], tmp_path: Path) -> None:
    """Of one array that is asked for so, and of those of a group that keep their chunks."""
    version = ALIKE[kind].get("format_version", 3)
    zarr.create_group(tmp_path / "a.zarr", zarr_format=version)
    source = make(tmp_path / "x.zarr", array, **ALIKE[kind]).rename(tmp_path / "a.zarr" / "x")
    how: dict[str, Any] = {"chunks": (4, 5, 6), "memory": "64MiB", **ALIKE[kind]}

    only, job = dask_io.plan(source, **how), dask_io.plan(source, tmp_path / "b.zarr", **how)
    kept: dict[str, Any] = {"chunks": {}, "memory": "64MiB"}
    group = dask_io.plan(tmp_path / "a.zarr", **kept)
    named = dask_io.plan(tmp_path / "a.zarr", tmp_path / "b.zarr", **kept)

    assert isinstance(only.plan, CopyPlan)
    assert only.plan == job.plan
    assert isinstance(group.plan, Series)
    assert group.plan == named.plan
    assert [each.strategy for each in group.plan.plans.values()] == ["copy"]


@settings(max_examples=EXAMPLES // 5)
@given(
    shape=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    chunks=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    kind=st.sampled_from(
        [(2, 2, False), (3, 3, False), (2, 3, False), (3, 2, False), (3, 3, True)]
    ),
    codec=st.sampled_from(["zstd:1", "gzip:1", "blosc:zstd:1:bitshuffle"]),
    memory=st.sampled_from(["16KiB", "100KiB", "64MiB"]),
)
def test_any_copy_holds_the_same_array(
    shape: tuple[int, int],
    chunks: tuple[int, int],
    kind: tuple[int, int, bool],
    codec: str,
    memory: str,
) -> None:
    """From any version to any other, in shards too, with no more memory than it takes to copy."""
    array = np.random.default_rng(0).integers(0, 3, shape).astype("<i2")
    one, two, in_shards = kind
    # Shards are made of whole chunks, which are no longer than the array.
    chunks = (min(chunks[0], shape[0]), min(chunks[1], shape[1]))
    asked: dict[str, Any] = {"chunks": chunks, "codec": codec}
    if in_shards:
        asked["shards"] = (2 * chunks[0], 3 * chunks[1])
    with TemporaryDirectory() as folder:
        start, source, target = (f"{folder}/{name}" for name in ("a.npy", "a.zarr", "b.zarr"))
        np.save(start, array)
        dask_io.resplit(start, source, format_version=one, **asked)
        job = dask_io.plan(source, target, format_version=two, memory=memory, **asked)

        job.run(verify=True)

        assert isinstance(job.plan, CopyPlan)
        assert job.plan.fits
        assert np.array_equal(np.asarray(zarr.open_array(target, mode="r")[...]), array)


@pytest.mark.parametrize(
    "other",
    [
        {"chunks": (4, 5, 7)},
        {"codec": "zstd:4"},
        {"shards": (8, 10, 12)},
        {"fill_value": 1},
        {"order": "F"},
        {"dtype": "<i8"},
        {"region": "0:8,:,:"},
        {"write_empty": True},
        {"strategy": "naive"},
        {"format": "npy", "codec": None},
    ],
    ids=str,
)
def test_what_is_not_stored_alike_is_decoded(
    other: dict[str, Any], array: NDArray[Any], tmp_path: Path
) -> None:
    """Anything that changes what bytes mean, or which there are, is a plan of elements."""
    source = make(tmp_path / "a.zarr", array, codec="zstd:3")
    target = tmp_path / ("b" if "format" in other else "b.zarr")
    asked = {"chunks": (4, 5, 6), "codec": "zstd:3"} | other

    job = dask_io.plan(source, target, **asked)
    job.run()

    assert not isinstance(job.plan, CopyPlan)
    expected = array[:8] if "region" in other else array
    assert np.array_equal(np.asarray(dask_io.open(target)), expected)


def test_a_copy_that_was_cut_short_is_gone_on_with(array: NDArray[Any], tmp_path: Path) -> None:
    """By copying; files that are durable are not read again, and the source is used up."""
    source = make(tmp_path / "a.zarr", array, codec="zstd:3")

    def stop_midway(progress: dask_io.Progress) -> None:
        if 2 * progress.n_bytes_written >= progress.n_bytes:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match=r"dask_io\.resume"):
        dask_io.resplit(
            source, tmp_path / "b.zarr", chunks=(4, 5, 6), consume=True, progress=stop_midway
        )
    done = dask_io.resume(tmp_path / "b.zarr", verify=True, consume=True)

    assert done.blocks_skipped > 0
    assert (done.seeks.read, done.held) == (done.seeks.write, 0)
    assert np.array_equal(np.asarray(dask_io.open(tmp_path / "b.zarr")), array)
    assert not source.exists()


def test_what_is_damaged_stays_so_unless_it_is_decoded(array: NDArray[Any], tmp_path: Path) -> None:
    """A copy asks for nothing but bytes; any other strategy refuses, and so does a comparison."""
    source = make(tmp_path / "a.zarr", array, codec="zstd:3+crc32c")
    chunk = source / "c/4/3/2"
    damaged = bytearray(chunk.read_bytes())
    damaged[7] ^= 255
    chunk.write_bytes(damaged)

    dask_io.resplit(source, tmp_path / "b.zarr", chunks=(4, 5, 6), verify=True)

    assert (tmp_path / "b.zarr/c/4/3/2").read_bytes() == damaged
    for problem in (
        lambda: dask_io.verify(source, tmp_path / "b.zarr"),
        lambda: dask_io.resplit(source, tmp_path / "c.zarr", chunks=(4, 5, 6), strategy="sweep"),
    ):
        with pytest.raises(DataError, match="cannot be decoded"):
            problem()


def test_what_cannot_be_a_chunk_is_refused(array: NDArray[Any], tmp_path: Path) -> None:
    """A file that is too long, one that leads elsewhere, one that is missing but must not be."""
    source = make(tmp_path / "a.zarr", array + 1, codec="zstd:3")
    chunk = source / "c/4/3/2"
    content = chunk.read_bytes()
    (tmp_path / "secret").write_bytes(content)

    def copy() -> None:
        opened = dask_io.open(source, strict=True)
        dask_io.resplit(opened, tmp_path / "b.zarr", chunks=(4, 5, 6), overwrite=True)

    chunk.write_bytes(content * 100)
    with pytest.raises(DataError, match="too long"):
        copy()
    chunk.unlink()
    chunk.symlink_to(tmp_path / "secret")
    with pytest.raises(DataError, match="leads out of"):
        copy()
    chunk.unlink()
    with pytest.raises(DataError, match="is missing; leave out strict=True"):
        copy()


def test_a_shard_that_is_too_long_is_not_copied(array: NDArray[Any], tmp_path: Path) -> None:
    """There may be no room for it where it goes; chunk by chunk it can be moved."""
    source = make(tmp_path / "a.zarr", array, **ALIKE["shards"])
    shard = source / "c/2/1/1"
    shard.write_bytes(bytes(10**5) + shard.read_bytes())

    with pytest.raises(DataError, match=r"too long: .* choose another strategy than copy"):
        dask_io.resplit(source, tmp_path / "b.zarr", chunks=(4, 5, 6), shards=(8, 10, 12))


def test_what_is_put_together_for_an_object_store_is_counted(
    array: NDArray[Any], tmp_path: Path
) -> None:
    """By every thread: an object is put as a whole, so that it is held before."""
    source = make(tmp_path / "a.zarr", array, **ALIKE["shards"])
    largest = max(len(content) for name, content in files(source).items() if "c/" in name)
    options: dict[str, Any] = {"chunks": (4, 5, 6), "shards": (8, 10, 12), "strategy": "copy"}
    target = "memory://counted/b.zarr"

    disk, objects = (
        dask_io.plan(source, place, workers=3, **options).plan.peak_bytes
        for place in (tmp_path / "b.zarr", target)
    )
    assert objects >= disk + 3 * largest
    with pytest.raises(BudgetTooSmallError):
        dask_io.resplit(source, target, memory=16 * 2**10 + largest - 1, **options)


def test_the_plan_says_that_it_copies(array: NDArray[Any], tmp_path: Path) -> None:
    """In text and in JSON, from which it can be made again."""
    source = make(tmp_path / "a.zarr", array, codec="zstd:3")
    command = ["resplit", str(source), str(tmp_path / "b.zarr"), "--chunks", "4,5,6", "--dry-run"]

    text = invoke(*command).stdout
    told = json.loads(invoke(*command, "--json").stdout)

    assert "copy: blocks are copied verbatim, without decoding" in text
    assert (told["strategy"], told["decodes"], told["memory"]["held"]) == ("copy", 0, 0)
    assert told["seeks"]["total"] == told["seeks"]["lower_bound"]
    again = plan_from_json(told)
    assert isinstance(again, CopyPlan)
    unknown = {"seconds": None, "device": None, "inferred": None}
    assert {**plan_to_json(again), **unknown} == {**told, **unknown}


def test_a_copy_can_be_asked_for(array: NDArray[Any], tmp_path: Path) -> None:
    """Where it cannot be, a line says what has to agree."""
    source = make(tmp_path / "a.zarr", array, codec="zstd:3")

    dask_io.resplit(source, tmp_path / "b.zarr", chunks=(4, 5, 6), strategy="copy")
    with pytest.raises(UsageError, match="differ in chunks, shards, codec"):
        dask_io.resplit(source, tmp_path / "c.zarr", chunks=(4, 5, 7), strategy="copy")
    with pytest.raises(BudgetTooSmallError, match='use at least memory="16KiB"'):
        dask_io.resplit(source, tmp_path / "c.zarr", chunks=(4, 5, 6), memory=1000)
