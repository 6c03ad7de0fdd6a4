"""Arrays go from any format to any other, through plans, and come back the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numcodecs  # type: ignore[import-untyped]
import numpy as np
import pytest
import zarr
import zarr.codecs.numcodecs
from zarr.core.metadata import ArrayV3Metadata

import dask_io
from dask_io.api import plan_extract
from dask_io.errors import DataError, InterruptedRunError, UsageError
from dask_io.formats.zarr.quiet import quiet
from dask_io.planning import memory_for_lower_bound, plan_from_json, plan_to_json
from dask_io.report.jsonable import info_to_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dask_io.planning import AnyPlan

# By name: how a place of this kind is called, and what is asked for.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "npy": ("{}", {"format": "npy"}),
    "raw": ("{}", {"format": "raw"}),
    "zarr 2": ("{}.zarr", {"format_version": 2, "codec": "none"}),
    "zarr 2 with blosc": ("{}.zarr", {"format_version": 2, "codec": "blosc:lz4:5:shuffle"}),
    "zarr 3": ("{}.zarr", {"format_version": 3, "codec": "none"}),
    "zarr 3 with zstd": ("{}.zarr::/in/group", {"format_version": 3, "codec": "zstd:1+crc32c"}),
    "zarr 3 in shards": (
        "{}.zarr",
        {"format_version": 3, "codec": "gzip:1", "shards": (8, 10, 12)},
    ),
}


@pytest.fixture(scope="module")
def array() -> NDArray[Any]:
    """An array of uneven lengths, a corner of which is zero."""
    array = np.random.default_rng(7).integers(0, 99, (21, 17, 19)).astype("<i4")
    array[:9, :12] = 0
    return array


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_every_kind_to_every_other(
    source: str, target: str, array: NDArray[Any], tmp_path: Path
) -> None:
    """In other chunks, within a small budget, verified."""
    np.save(tmp_path / "start.npy", array)
    one, two = (f"{tmp_path}/{KINDS[kind][0].format(n)}" for n, kind in enumerate((source, target)))
    dask_io.resplit(tmp_path / "start.npy", one, chunks=(8, 5, 6), **KINDS[source][1])
    chunks = (4, 5, 12) if target == "zarr 3 in shards" else (5, 17, 4)

    done = dask_io.resplit(one, two, chunks=chunks, memory="2MiB", verify=True, **KINDS[target][1])

    assert done.verified
    assert np.array_equal(np.asarray(dask_io.open(two)), array)
    if target.startswith("zarr"):
        with quiet():
            path, _, inside = two.partition("::/")
            made = zarr.open_array(path, path=inside, mode="r")
        assert (made.chunks, made.metadata.zarr_format) == (
            chunks,
            KINDS[target][1]["format_version"],
        )
        assert np.array_equal(np.asarray(made[...]), array)


@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("memory", ["17KiB", "20KiB", "1MiB"])
def test_seeks_are_those_of_the_plan(kind: str, order: str, memory: str, tmp_path: Path) -> None:
    """Also at the far ends of an array, whose chunks are stored with padding."""
    options = KINDS[kind][1]
    np.save(
        tmp_path / "start.npy", np.arange(1, 21 * 17 * 19 + 1).astype("<i2").reshape(21, 17, 19)
    )
    dask_io.resplit(
        tmp_path / "start.npy", tmp_path / "a.zarr", chunks=(8, 5, 6), order=order, **options
    )
    job = dask_io.plan(
        tmp_path / "a.zarr",
        tmp_path / "b.zarr",
        chunks=(5, 8, 7),
        memory=memory,
        strategy="sweep",
        workers=1,
    )

    done = job.run()

    planned = job.plan.seeks
    assert (done.seeks.read, done.seeks.write) == (planned.read, planned.write)


def test_what_is_missing_is_filled_on_the_way(array: NDArray[Any], tmp_path: Path) -> None:
    """Chunks that are not stored cost nothing, and are not stored again; the plan is a bound."""
    np.save(tmp_path / "start.npy", array)
    dask_io.resplit(tmp_path / "start.npy", tmp_path / "a.zarr", chunks=(3, 4, 19), codec="zstd:1")
    job = dask_io.plan(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(3, 4, 10))

    done = job.run()

    assert done.seeks.read == 7 * 5 - 9 < job.plan.seeks.read
    assert len(list((tmp_path / "b.zarr").rglob("c/*/*/*"))) == 2 * (7 * 5 - 9)
    with pytest.raises(DataError, match="is missing; leave out strict=True"):
        np.asarray(dask_io.open(tmp_path / "a.zarr", strict=True))


@pytest.mark.parametrize(
    ("place", "options", "absent"),
    [
        ("a.zarr", {}, 9),
        ("a.zarr", {"shards": (6, 8, 19)}, None),
        ("a.zarr", {"write_empty": True}, 0),
        ("a.h5", {"codec": "gzip:1"}, 9),
        ("a.nc", {"write_empty": True}, 0),
        ("a.icechunk::/a", {}, 9),
        ("a", {"format": "npy"}, 0),
    ],
)
def test_a_plan_says_that_it_is_a_bound(
    place: str, options: dict[str, Any], absent: int | None, array: NDArray[Any], tmp_path: Path
) -> None:
    """What is not stored is counted where that is soon done, in words and in JSON."""
    np.save(tmp_path / "start.npy", array)
    source = f"{tmp_path / place}"
    dask_io.resplit(tmp_path / "start.npy", source, chunks=(3, 4, 19), **options)

    plan = dask_io.plan(dask_io.open(source), chunks=(3, 4, 10)).plan

    said = {9: "; 9 are not stored, so", None: "; some may not be stored, so", 0: "C order\n"}
    assert said[absent] in f"{plan}"
    told = plan_to_json(plan)
    assert (told["source"]["absent"], told["target"]["absent"]) == (absent, 0)
    assert plan_from_json(told) == plan
    regions = ["0:6,:,:", "3:9,:,:"]
    several = plan_extract(source, tmp_path / "out", regions=regions, format="npy").plan
    assert (" not " in f"{several}") == (absent != 0)


@pytest.mark.parametrize("kind", [{"codec": "zstd:1"}, {"codec": "none", "shards": (8, 8)}])
@pytest.mark.parametrize("memory", ["1MiB", "2MiB", "64MiB"])
def test_several_regions_become_chunks_that_are_written_whole(
    kind: dict[str, Any], memory: str, tmp_path: Path
) -> None:
    """However little memory there is, no such chunk is written in parts."""
    array = np.arange(60 * 60, dtype="<i4").reshape(60, 60)
    np.save(tmp_path / "start.npy", array)
    dask_io.split(tmp_path / "start.npy", tmp_path / "in", chunks=(7, 9))
    regions = [np.s_[0:20, 0:20], np.s_[10:53, 5:60]]

    dask_io.extract(
        tmp_path / "in",
        tmp_path / "out",
        regions=[",".join(f"{part.start}:{part.stop}" for part in region) for region in regions],
        chunks=(4, 4),
        format="zarr",
        memory=memory,
        **kind,
    )

    for number, region in enumerate(regions):
        place = tmp_path / "out" / f"region_{number:03}.zarr"
        assert np.array_equal(dask_io.open(place)[:, :], array[region])
        assert dask_io.verify(place)


@pytest.mark.parametrize("target", [kind for kind in KINDS if kind.startswith("zarr")])
@pytest.mark.parametrize("source", ["npy", "zarr 3 with zstd", "zarr 3 in shards"])
def test_runs_are_resumed_and_use_up_their_source(
    source: str, target: str, array: NDArray[Any], tmp_path: Path
) -> None:
    """A run that is cut short goes on with the rest; the source is gone then, the target right."""
    np.save(tmp_path / "start.npy", array)
    one, two = (f"{tmp_path}/{KINDS[kind][0].format(n)}" for n, kind in enumerate((source, target)))
    dask_io.resplit(tmp_path / "start.npy", one, chunks=(4, 5, 6), **KINDS[source][1])
    chunks = (4, 5, 12) if target == "zarr 3 in shards" else (5, 4, 4)

    def stop_midway(progress: dask_io.Progress) -> None:
        if 2 * progress.n_bytes_written >= progress.n_bytes:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match=r"dask_io\.resume"):
        dask_io.resplit(
            one, two, chunks=chunks, consume=True, progress=stop_midway, **KINDS[target][1]
        )
    with pytest.raises(DataError, match="unfinished"):
        dask_io.open(two)
    # What is left of the source is not to be taken for all of it.
    if source != "npy":
        with pytest.raises(DataError, match=r"removed by a run with consume=True.*dask_io\.resume"):
            dask_io.open(one)
    done = dask_io.resume(two, verify=True, consume=True)

    assert done.verified
    assert done.blocks_skipped > 0
    assert np.array_equal(np.asarray(dask_io.open(two)), array)
    assert not Path(one.replace("::", "")).exists()
    assert dask_io.resume(two).blocks_written == 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("zarr")])
def test_what_has_changed_since_is_found(kind: str, array: NDArray[Any], tmp_path: Path) -> None:
    """A chunk that is not what was written, or is gone, is found by its checksum."""
    np.save(tmp_path / "start.npy", array)
    place = f"{tmp_path}/{KINDS[kind][0].format('x')}"
    dask_io.resplit(tmp_path / "start.npy", place, chunks=(4, 5, 6), **KINDS[kind][1])
    assert dask_io.verify(place)
    root = Path(place.replace("::", ""))
    chunk = max(path for path in root.rglob("*") if path.is_file() and path.name[-1].isdigit())
    content = bytearray(chunk.read_bytes())
    content[0] ^= 1
    chunk.write_bytes(content)
    assert not dask_io.verify(place)
    chunk.unlink()
    assert not dask_io.verify(place)


def test_what_a_target_cannot_hold_is_named(tmp_path: Path) -> None:
    """Attributes and names of axes go with a Zarr array to another, and nowhere else."""
    made = zarr.create_array(
        tmp_path / "a.zarr",
        shape=(4, 6),
        chunks=(2, 3),
        dtype="<i4",
        attributes={"units": "K"},
        dimension_names=("y", "x"),
    )
    made[...] = np.arange(24).reshape(4, 6)

    kept = dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(4, 6))
    lost = dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b", chunks=(4, 6), format="npy")

    assert kept.not_kept == ()
    assert lost.not_kept == ("attributes", "dimension_names", "codec")
    assert dask_io.info(tmp_path / "b.zarr").metadata["attributes"] == {"units": "K"}


@pytest.mark.parametrize("asked", [{}, {"codec": "zstd:1"}, {"codec": "none"}])
@pytest.mark.parametrize("name", ["one.zarr", "one.h5", "one.nc"])
def test_a_plan_without_a_target_counts_its_codec(
    name: str, asked: dict[str, str], array: NDArray[Any], tmp_path: Path
) -> None:
    """It is the plan of a target in the source's format, which keeps its codec or has another."""
    np.save(tmp_path / "start.npy", array)
    source = tmp_path / name
    dask_io.resplit(tmp_path / "start.npy", source, chunks=(8, 5, 6), codec="gzip:1")
    how: dict[str, Any] = {"chunks": (5, 17, 4), "memory": "2MiB", **asked}

    only = dask_io.plan(dask_io.open(source), **how)
    job = dask_io.plan(source, tmp_path / f"two{source.suffix}", **how)

    assert only.plan == job.plan
    assert only.plan.problem.target.atomic == (asked != {"codec": "none"})
    assert not list(tmp_path.glob("planned*"))


def test_a_plan_without_a_target_has_the_format_that_is_asked_for(
    array: NDArray[Any], tmp_path: Path
) -> None:
    """With its codec; a format without one is refused as for a target."""
    np.save(tmp_path / "start.npy", array)
    how: dict[str, Any] = {"chunks": (5, 17, 4), "memory": "2MiB", "codec": "gzip:1"}

    only = dask_io.plan(tmp_path / "start.npy", format="zarr", **how)

    assert only.plan == dask_io.plan(tmp_path / "start.npy", tmp_path / "two.zarr", **how).plan
    with pytest.raises(UsageError, match="format npy has no codec"):
        dask_io.plan(tmp_path / "start.npy", **how)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Blocks of an array whose chunks are to be large; one chunk of it would hold only zeros."""
    array = np.random.default_rng(3).integers(0, 99, (128, 200, 128)).astype("<i4")
    array[:64, :128] = 0
    folder = tmp_path_factory.mktemp("large")
    np.save(folder / "start.npy", array)
    dask_io.split(folder / "start.npy", folder / "blocks", chunks=(30, 70, 128))
    return folder


GROWTH = """
import json, sys
import dask_io

dask_io.info(sys.argv[1])
job = dask_io.plan(*sys.argv[1:3], **json.loads(sys.argv[3]))
print(json.dumps([job.target.in_pieces, job.run().peak_memory]))
"""
# Chunks of 4 MiB, some of which are cut off by the array's end.
IN_CHUNKS: dict[str, Any] = {"chunks": (64, 128, 128), "fill_value": 0}


@pytest.mark.parametrize(("codec", "little"), [("zstd:3", 14_200_000), ("gzip:1", 12_000_000)])
@pytest.mark.parametrize(("version", "objective"), [(2, "seeks"), (3, "time")])
def test_chunks_are_encoded_in_pieces_if_memory_is_short(
    *, codec: str, little: int, version: int, objective: str, large: Path, tmp_path: Path
) -> None:
    """Every reader finds in them what it would find in chunks that were encoded whole."""
    array = np.load(large / "start.npy")
    how: dict[str, Any] = {
        **IN_CHUNKS,
        "codec": codec,
        "format_version": version,
        "objective": objective,
    }
    for name, memory in (("whole", 2**30), ("pieces", little)):
        place = tmp_path / f"{name}.zarr"
        job = dask_io.plan(large / "blocks", place, memory=memory, **how)
        assert job.target.in_pieces == (name == "pieces")  # type: ignore[union-attr]
        result = job.run(verify=True)
        assert result.verified
        assert result.held == job.plan.held_bytes
        assert result.seeks.total <= job.plan.seeks.total
        assert dask_io.verify(large / "blocks", place)
        with quiet():
            assert np.array_equal(np.asarray(zarr.open_array(place, mode="r")), array)
    names = [
        {path.relative_to(place) for path in place.rglob("*") if path.is_file()}
        for place in (tmp_path / "whole.zarr", tmp_path / "pieces.zarr")
    ]
    assert names[0] == names[1]
    # The chunk of zeros is left out.
    assert sum(path.name[-1].isdigit() for path in names[0]) == 3


def test_chunks_are_gone_on_with_in_any_memory(large: Path, tmp_path: Path) -> None:
    """What was begun in pieces is completed whole, and the other way round."""
    array, amounts = np.load(large / "start.npy"), (14_200_000, 2**30)

    def stop_midway(progress: dask_io.Progress) -> None:
        if 2 * progress.n_bytes_written >= progress.n_bytes:
            raise KeyboardInterrupt

    for number, memory in enumerate(amounts):
        place = tmp_path / f"{number}.zarr"
        with pytest.raises(InterruptedRunError, match=r"dask_io\.resume"):
            dask_io.resplit(
                large / "blocks", place, memory=memory, progress=stop_midway, **IN_CHUNKS
            )
        done = dask_io.resume(place, memory=amounts[1 - number], verify=True)
        assert done.verified
        assert np.array_equal(np.asarray(dask_io.open(place)), array)


def test_a_plan_says_in_what_memory_every_chunk_is_touched_once(
    large: Path, tmp_path: Path
) -> None:
    """The same whichever way chunks are encoded in the budget that it was made for."""

    def plan(memory: int) -> AnyPlan:
        blocks = dask_io.open(large / "blocks")
        return dask_io.plan(blocks, tmp_path / "x.zarr", memory=memory, **IN_CHUNKS).plan

    plans = [plan(memory) for memory in (14_200_000, 20_000_000, 2**30)]
    (least,) = {memory_for_lower_bound(each.problem) for each in plans}
    once = plan(least)
    assert once.seeks.total == once.problem.lower_bound
    assert plan_from_json(plan_to_json(once)) == once


def test_the_least_memory_is_that_of_pieces(large: Path, tmp_path: Path) -> None:
    """Where they take hardly longer, as with Zstandard."""
    how: dict[str, Any] = {**IN_CHUNKS, "codec": "zstd:3", "memory": 2**30}
    jobs = {
        objective: dask_io.plan(large / "blocks", tmp_path / "x.zarr", objective=objective, **how)
        for objective in ("time", "memory")
    }
    assert jobs["memory"].target.in_pieces  # type: ignore[union-attr]
    assert jobs["memory"].plan.peak_bytes < jobs["time"].plan.peak_bytes


@pytest.mark.linux
def test_what_is_left_out_takes_no_memory_in_pieces(tmp_path: Path) -> None:
    """Even if the codec does not compress, and only a chunk's last element is to be stored."""
    array = np.lib.format.open_memmap(
        tmp_path / "a.npy", "w+", dtype="u1", shape=(4, 2**22), version=(1, 0)
    )
    array[-1, -1] = 1
    array.flush()
    whole = {"chunks": array.shape, "codec": "gzip:0", "format_version": 2}
    source, target = str(tmp_path / "a.npy"), str(tmp_path / "b.zarr")
    options = {**whole, "memory": 30 * 2**20, "workers": 1, "strategy": "sweep"}
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, source, target, json.dumps(options)],
        capture_output=True,
        text=True,
        check=True,
    )
    in_pieces, grown = json.loads(done.stdout)
    assert in_pieces
    assert grown <= 1.02 * 30 * 2**20
    assert dask_io.verify(source, target)


def made(place: Path, **how: Any) -> Path:
    """Have zarr-python make an array of ones."""
    description = {"shape": (4, 6), "chunks": (2, 3), "dtype": "<i4", **how}
    with quiet():
        zarr.create_array(place, **description)[...] = 1
    return place


@pytest.mark.parametrize(("text", "value"), [("False", False), ("0", False), ("true", True)])
def test_truth_is_read(text: str, *, value: bool, tmp_path: Path) -> None:
    """As fill value too, which comes as text from a command line."""
    source = made(tmp_path / "a.zarr", dtype="?", fill_value=True)

    dask_io.resplit(source, tmp_path / "b.zarr", chunks=4, fill_value=text)

    assert zarr.open_array(tmp_path / "b.zarr").fill_value == value
    with pytest.raises(UsageError, match="fill value '2' is not a valid bool; give true or false"):
        dask_io.plan(source, tmp_path / "c.zarr", chunks=4, fill_value="2")


@pytest.mark.parametrize("place", ["g.zarr::/in/new", "g.zarr/in/new", "g.zarr/in/new/"])
@pytest.mark.parametrize("version", [2, 3])
def test_an_array_is_of_the_version_of_its_group(
    place: str, version: Literal[2, 3], tmp_path: Path
) -> None:
    """Readers of the group find it, however its place is written."""
    source = made(tmp_path / "a.zarr", zarr_format=5 - version)
    zarr.create_group(tmp_path / "g.zarr", zarr_format=version)

    dask_io.resplit(source, f"{tmp_path}/{place}", chunks=4)

    found = zarr.open_group(tmp_path / "g.zarr", mode="r", zarr_format=version)["in/new"]
    assert np.array_equal(np.asarray(found), np.ones((4, 6)))
    with pytest.raises(UsageError, match=f"is a group of Zarr {version}, in which readers find no"):
        dask_io.plan(source, tmp_path / "g.zarr::/b", chunks=4, format_version=5 - version)


def test_a_path_in_a_group_that_is_not_there_yet_is_an_array(tmp_path: Path) -> None:
    """As with the colons; so `merge` has one place to write to."""
    dask_io.merge(made(tmp_path / "a.zarr"), tmp_path / "new.zarr" / "in" / "b")

    assert np.asarray(zarr.open_group(tmp_path / "new.zarr", mode="r")["in/b"]).shape == (4, 6)


@pytest.mark.parametrize("size", [4, 8])
def test_what_shuffles_fits_chunks(size: int, tmp_path: Path) -> None:
    """A filter that is kept has elements that fill the new chunks, of the new type."""
    how: Any = {"zarr_format": 2, "compressors": numcodecs.Zlib(1), "dtype": "<i2"}
    source = made(tmp_path / "a.zarr", chunks=(4, 6), filters=[numcodecs.Shuffle(size)], **how)

    dask_io.resplit(source, tmp_path / "b.zarr", chunks=(3, 1), dtype="<f8")
    dask_io.resplit(source, tmp_path / "c.zarr", chunks=(3, 1))

    for name, expected in (("b.zarr", size), ("c.zarr", 2)):
        found = zarr.open_array(tmp_path / name)
        assert np.array_equal(np.asarray(found), np.ones((4, 6)))
        (shuffle,) = found.filters
        assert shuffle.get_config()["elementsize"] == expected  # type: ignore[union-attr]


@pytest.mark.parametrize("names", [["y", "x"], [None, "x"], ["y"], "yx", None])
@pytest.mark.parametrize("steps", [(2, 3, 2), (3, 2, 3), (3, 3), (2, 2)])
def test_names_of_dimensions_go_there_and_back(
    names: object, steps: tuple[Literal[2, 3], ...], tmp_path: Path
) -> None:
    """What xarray puts among attributes, or is taken for it, is kept as what it is."""
    attributes = {"a": 1} if names is None else {"a": 1, "_ARRAY_DIMENSIONS": names}
    place = made(tmp_path / "0", zarr_format=steps[0], attributes=attributes)

    for number, version in enumerate(steps[1:], 1):
        target = tmp_path / f"{number}"
        dask_io.resplit(place, target, chunks=4, format="zarr", format_version=version)
        place = target

    found = zarr.open_array(place)
    told = dict(found.attrs)
    if isinstance(found.metadata, ArrayV3Metadata) and found.metadata.dimension_names is not None:
        told["_ARRAY_DIMENSIONS"] = list(found.metadata.dimension_names)
    assert told == attributes


def test_dates_without_a_fill_value_are_no_dates(tmp_path: Path) -> None:
    """As zarr-python reads them, and in version 3, where there has to be a value, too."""
    place = tmp_path / "a.zarr"
    with quiet():
        array = zarr.create_array(
            place, shape=(7,), chunks=(4,), dtype="M8[D]", zarr_format=2, fill_value=None
        )
        array[:4] = np.datetime64("2000-01-01")
        expected = np.asarray(array[...])
    assert np.isnat(expected[4:]).all()

    for version in (2, 3):
        target = tmp_path / f"{version}.zarr"
        dask_io.resplit(place, target, chunks=7, format_version=version)
        with quiet():
            found = np.asarray(zarr.open_array(target)[...])
        assert np.array_equal(found, expected, equal_nan=True)


def test_shards_of_an_axis_without_elements(tmp_path: Path) -> None:
    """One chunk is the fewest that hold it."""
    with quiet():
        zarr.create_array(tmp_path / "a.zarr", shape=(0, 6), chunks=(1, 3), dtype="<i4")
    dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(1, 3), shards=(-1, -1))
    assert zarr.open_array(tmp_path / "b.zarr").shards == (1, 6)


def test_a_filter_that_is_in_the_way_is_named(tmp_path: Path) -> None:
    """With what to do: choose another codec."""
    with quiet():
        delta = zarr.codecs.numcodecs.Delta(dtype="<i4")
        source = made(tmp_path / "a.zarr", filters=[delta])
        with pytest.raises(UsageError, match="choose a codec in place of the source's delta"):
            dask_io.plan(source, tmp_path / "b.zarr", chunks=4, order="F")
    dask_io.resplit(source, tmp_path / "b.zarr", chunks=4, order="F", codec="zstd:1")


def test_what_has_no_checksums_is_not_passed_over(tmp_path: Path) -> None:
    """Of the arrays of a group that others have put there; all of ours are compared, wherever."""
    group, source = tmp_path / "g.zarr", made(tmp_path / "a.zarr")
    dask_io.resplit(source, f"{group}::/in/a", chunks=4)
    dask_io.resplit(source, f"{group}::/b", chunks=4)
    assert dask_io.verify(group).n_elements == 48

    zarr.open_group(group).create_array("c", shape=(3,), chunks=(3,), dtype="u1")
    with pytest.raises(UsageError, match="has arrays without checksums: c; the others are as they"):
        dask_io.verify(group)
    chunk = next(path for path in (group / "b" / "c").rglob("*") if path.is_file())
    chunk.write_bytes(bytes(chunk.stat().st_size))
    assert not dask_io.verify(group)


def test_what_json_has_no_word_for_is_text(tmp_path: Path) -> None:
    """Records with bytes, numbers that are none, and dates."""
    dtype = np.dtype([("a", "<i4"), ("b", "S3"), ("c", "M8[s]")])
    with quiet():
        zarr.create_array(
            tmp_path / "a.zarr",
            shape=(4,),
            chunks=(2,),
            dtype=dtype,
            zarr_format=2,
            attributes={"x": [1, float("inf"), {"y": float("nan")}]},
        )
    told = json.loads(json.dumps(info_to_json(dask_io.info(tmp_path / "a.zarr")), allow_nan=False))
    assert told["metadata"]["attributes"] == {"x": [1, "inf", {"y": "nan"}]}
    assert len(told["metadata"]["fill_value"]) == 3


def test_what_shuffles_fits_what_others_make_of_chunks(tmp_path: Path) -> None:
    """Filters in front may make fewer bytes of it."""
    filters = [numcodecs.PackBits(), numcodecs.Shuffle(4)]
    how: Any = {"zarr_format": 2, "compressors": numcodecs.Zlib(1), "dtype": "?"}
    source = made(tmp_path / "a.zarr", shape=(24, 8), chunks=(24, 1), filters=filters, **how)

    dask_io.resplit(source, tmp_path / "b.zarr", chunks=(8, 5))

    assert np.asarray(zarr.open_array(tmp_path / "b.zarr")).all()


@pytest.mark.parametrize("size", [0, -4, "4"])
def test_elements_of_no_size_are_refused(size: object, tmp_path: Path) -> None:
    """In one line, whoever wrote that."""
    how: Any = {"zarr_format": 2, "compressors": None, "filters": [numcodecs.Shuffle(4)]}
    path = made(tmp_path / "a.zarr", **how) / ".zarray"
    said = f'"elementsize": {json.dumps(size)}'
    path.write_text(path.read_text().replace('"elementsize": 4', said))
    with pytest.raises(DataError, match="has codec shuffle with an invalid element size"):
        dask_io.open(tmp_path / "a.zarr")


@pytest.mark.parametrize("place", ["g.zarr/../g.zarr/x", "g.zarr/../blocks"])
def test_a_path_that_leads_out_of_a_group_is_none_in_it(place: str, tmp_path: Path) -> None:
    """Nothing is made a group that was none."""
    source = made(tmp_path / "a.zarr")
    zarr.create_group(tmp_path / "g.zarr")
    dask_io.resplit(source, f"{tmp_path}/{place}", chunks=4, format="npy")
    dask_io.resplit(source, f"{tmp_path}/{place}2", chunks=4)
    assert not (tmp_path / "zarr.json").exists()
    zarr.create_group(tmp_path / "plain")
    dask_io.resplit(source, tmp_path / "plain" / "x", chunks=4)
    assert (tmp_path / "plain" / "x" / "dask-io.json").exists()


def test_a_region_of_what_has_gaps_has_some_perhaps(tmp_path: Path) -> None:
    """Which of the chunks that are not stored lie in it is not looked for."""
    source = made(tmp_path / "a.zarr")
    assert "not be stored" not in str(dask_io.plan(source, chunks=2, region="0:2,:").plan)
    (source / "c" / "1" / "1").unlink()
    told = dask_io.plan(source, chunks=2, region="0:2,:").plan
    assert "; some may not be stored" in str(told)


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("g.zarr/in::/new", None),
        ("g.zarr/in::/new", "zarr"),
        ("g.zarr::/in/new", None),
        ("g.zarr/in/new", None),
    ],
)
def test_the_outermost_group_hears_of_it(place: str, named: str | None, tmp_path: Path) -> None:
    """What it gathers of its members is true, however the array in it is named."""
    with quiet():
        zarr.create_group(tmp_path / "g.zarr").create_group("in")
        zarr.consolidate_metadata(tmp_path / "g.zarr")
    dask_io.resplit(made(tmp_path / "a.zarr"), f"{tmp_path}/{place}", chunks=4, format=named)
    with quiet():
        assert "in/new" in zarr.open_consolidated(tmp_path / "g.zarr")


def test_a_group_is_one_by_what_is_there_too(tmp_path: Path) -> None:
    """If something is named inside of it."""
    zarr.create_group(tmp_path / "plain")
    dask_io.resplit(made(tmp_path / "a.zarr"), f"{tmp_path}/plain::/q", chunks=4)
    assert "q" in zarr.open_group(tmp_path / "plain", mode="r")
    with pytest.raises(UsageError, match="is not a container"):
        dask_io.resplit(tmp_path / "a.zarr", f"{tmp_path}/nothing::/q", chunks=4)


def test_the_plan_of_a_group_says_that_it_is_a_bound(tmp_path: Path) -> None:
    """If one of its arrays has gaps."""
    group = tmp_path / "g.zarr"
    for name in "ab":
        made(group / name)
    zarr.create_group(group)
    assert "not stored" not in str(dask_io.plan(group, chunks=2))
    (group / "a" / "c" / "1" / "1").unlink()
    told = str(dask_io.plan(group, chunks=2))
    assert told.endswith("; of all source blocks 1 is not stored, so that costs are upper bounds")


@pytest.mark.parametrize("target", ["b.zarr", "b.h5"])
def test_filters_fit_the_type_that_elements_become(target: str, tmp_path: Path) -> None:
    """Shuffle works on elements, so that it is told how long they are now."""
    values = np.arange(60, dtype="i2").reshape(6, 10)
    source, coded = tmp_path / "a.zarr", {"compressors": numcodecs.Zlib(1), "zarr_format": 2}
    how: Any = {"chunks": (3, 5), "filters": [numcodecs.Shuffle(2)], **coded}
    zarr.create_array(source, data=values, **how)

    dask_io.resplit(source, tmp_path / target, chunks=(2, 2), dtype="f8")

    shuffle, _ = dask_io.info(tmp_path / target).metadata["codecs"]
    assert shuffle == {"id": "shuffle", "elementsize": 8}
    dask_io.merge(tmp_path / target, tmp_path / "c.npy")
    assert np.array_equal(np.load(tmp_path / "c.npy"), values)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("strategy", ["sweep", "naive"])
def test_an_array_that_grows_shows_its_fill_value(
    order: str, strategy: Any, array: NDArray[Any], tmp_path: Path
) -> None:
    """Chunks that are written in one go or in parts are padded with it, at no cost in seeks."""
    np.save(tmp_path / "start.npy", array)
    asked: dict[str, Any] = {"order": order, "codec": "none", "fill_value": 7, "memory": "32kB"}
    job = dask_io.plan(
        tmp_path / "start.npy", tmp_path / "x.zarr", chunks=(8, 8, 8), strategy=strategy, **asked
    )

    assert job.run().seeks == job.plan.seeks

    assert dask_io.verify(tmp_path / "x.zarr")
    opened = zarr.open_array(tmp_path / "x.zarr", mode="r+")
    opened.resize((24, 24, 24))
    expected = np.full((24, 24, 24), 7, array.dtype)
    expected[: array.shape[0], : array.shape[1], : array.shape[2]] = array
    assert np.array_equal(opened[...], expected)


def test_a_new_array_has_the_default_codec_of_zarr(tmp_path: Path) -> None:
    """Unless the user or a source in Zarr says otherwise; what has no codec loses it visibly."""
    np.save(tmp_path / "a.npy", np.zeros((8, 6), "<i2"))

    dask_io.split(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=4)
    dask_io.split(tmp_path / "a.npy", tmp_path / "plain.zarr", chunks=4, codec="none")
    dask_io.resplit(tmp_path / "plain.zarr", tmp_path / "c.zarr", chunks=3)
    result = dask_io.merge(tmp_path / "b.zarr", tmp_path / "b.npy")

    codecs = [
        zarr.open_array(tmp_path / f"{name}.zarr").compressors for name in ("b", "plain", "c")
    ]
    assert [[type(each).__name__ for each in found] for found in codecs] == [["ZstdCodec"], [], []]
    assert result.not_kept == ("codec",)
