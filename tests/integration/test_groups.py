"""Groups of Zarr arrays are re-split as a whole, and xarray finds the same dataset in them."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.codecs import GzipCodec

import dask_io
from dask_io.errors import DataError, InterruptedRunError, TargetExistsError, UsageError
from dask_io.formats.zarr.quiet import quiet
from dask_io.storage.pace import Pace
from tests.commands import fail, invoke

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHUNKS = {"time": 24, "y": -1, "x": 10}


def dataset() -> xr.Dataset:
    """A dataset as climate scientists have them: zeros that are no gaps, scalars, texts, dates."""
    random = np.random.default_rng(0)
    return xr.Dataset(
        {
            "t": (("time", "y", "x"), random.normal(size=(48, 20, 30)).astype("f4"), {"u": "K"}),
            "mask": (("y", "x"), np.arange(600).reshape(20, 30) % 2),
            "count": (("time",), np.zeros(48, "i4")),
            "crs": ((), 7, {"name": "WGS 84"}),
        },
        coords={
            "time": xr.date_range("2000-01-01", periods=48, freq="h"),
            "y": np.arange(20.0),
            "x": np.arange(30.0),
            "station": (("y",), np.array([f"s{i}" * (i % 3) for i in range(20)], object)),
        },
        attrs={"title": "An example", "levels": [1, 2]},
    )


def save(place: Path, version: int, *, consolidated: bool = True) -> Path:
    """Save the dataset as other tools do."""
    with quiet():
        dataset().to_zarr(
            place,
            zarr_format=version,
            consolidated=consolidated,
            encoding={"t": {"chunks": (1, 20, 30)}},
        )
    return place


def load(place: Path) -> xr.Dataset:
    """Read a dataset as other tools do."""
    with quiet():
        found: xr.Dataset = xr.open_zarr(place).load()
        return found


@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("version", [2, 3])
def test_xarray_finds_the_same_dataset(version: int, *, consolidated: bool, tmp_path: Path) -> None:
    """In other chunks; attributes, coordinates, dates, texts, scalars and zeros are the same."""
    source = save(tmp_path / "a.zarr", version, consolidated=consolidated)

    done = dask_io.resplit(source, tmp_path / "b.zarr", chunks=CHUNKS, memory="2MiB", verify=True)

    made = load(tmp_path / "b.zarr")
    xr.testing.assert_identical(made, load(source))
    assert made["t"].encoding["chunks"] == (24, 20, 10)
    assert made["count"].encoding["chunks"] == (24,)
    assert made["time"].encoding["chunks"] == load(source)["time"].encoding["chunks"]
    with quiet():
        opened = zarr.open_group(tmp_path / "b.zarr", mode="r")
    assert (opened.metadata.consolidated_metadata is not None) == consolidated
    assert done.verified
    assert dask_io.verify(tmp_path / "b.zarr")


def test_groups_in_groups_are_kept(tmp_path: Path) -> None:
    """Every group keeps its attributes, and its arrays are re-split by the same names."""
    tree = xr.DataTree.from_dict(
        {"/": dataset()[["count"]], "/day": dataset()[["t"]], "/day/low": dataset()[["mask"]]}
    )
    with quiet():
        tree.to_zarr(tmp_path / "a.zarr", zarr_format=3)

    dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks={"time": 12, "x": 7})

    with quiet():
        made, meant = (
            xr.open_datatree(tmp_path / name, engine="zarr") for name in ("b.zarr", "a.zarr")
        )
        xr.testing.assert_identical(made.load(), meant.load())
    assert zarr.open_array(tmp_path / "b.zarr/day/t", mode="r").chunks == (12, 20, 7)
    assert zarr.open_array(tmp_path / "b.zarr/day/low/mask", mode="r").chunks == (20, 7)


def in_shards(place: Path) -> dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]]:
    """Chunks and shards of all arrays in a group."""
    with quiet():
        members = zarr.open_group(place, mode="r").members(max_depth=None)
        return {n: (a.chunks, a.shards) for n, a in members if isinstance(a, zarr.Array)}


def test_shards_by_names_of_dimensions(tmp_path: Path) -> None:
    """Arrays that have one of them get shards, as long as a chunk elsewhere; others keep theirs."""
    source, target = save(tmp_path / "a.zarr", 3), tmp_path / "b.zarr"
    kept = in_shards(source)

    done = dask_io.resplit(
        source, target, chunks={"time": 12, "x": 10}, shards={"time": 24, "y": -1}, verify=True
    )

    assert done.verified
    assert sum(path.is_file() for path in (target / "t/c").rglob("*")) == 2 * 3
    xr.testing.assert_identical(load(target), load(source))
    assert in_shards(target) == kept | {
        "t": ((12, 20, 10), (24, 20, 10)),
        "mask": ((20, 10), (20, 10)),
        "count": ((12,), (24,)),
    }
    dask_io.resplit(target, tmp_path / "c.zarr", chunks={"x": 10}, shards={"time": 48})
    after = in_shards(tmp_path / "c.zarr")
    assert after["t"] == ((12, 20, 10), (48, 20, 10)), "chunks that are not named are kept"
    assert after["count"] == ((12,), (48,)), "an array that keeps its chunks gets other shards"
    assert after["mask"] == ((20, 10), None), "shards are not kept by what is re-split"
    assert after["time"] == kept["time"]
    xr.testing.assert_identical(load(tmp_path / "c.zarr"), load(source))
    dask_io.resplit(target, tmp_path / "d.zarr", chunks={"y": 5}, shards={"y": 10})
    assert in_shards(tmp_path / "d.zarr")["count"] == ((12,), (24,)), "it has none of the names"


@pytest.mark.parametrize("shards", [-1, (12, 9)])
def test_shards_by_position(shards: Any, tmp_path: Path) -> None:
    """One length is for all axes; several, where all arrays have so many."""
    data = {name: (("y", "x"), np.arange(216.0).reshape(12, 18)) for name in ("a", "b")}
    with quiet():
        xr.Dataset(data, {"y": np.arange(12)}).to_zarr(tmp_path / "a.zarr", zarr_format=3)

    dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(4, 3), shards=shards)

    whole = (12, 18) if shards == -1 else shards
    found = in_shards(tmp_path / "b.zarr")
    assert (found["a"], found["b"], found["y"]) == (((4, 3), whole),) * 2 + (((12,), None),)
    xr.testing.assert_identical(load(tmp_path / "b.zarr"), load(tmp_path / "a.zarr"))


def test_a_run_that_makes_shards_is_resumed(tmp_path: Path) -> None:
    """The journal says what they are to be."""
    source, target = save(tmp_path / "a.zarr", 3), tmp_path / "b.zarr"
    shards = {"time": 24}
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            source, target, chunks={"time": 12}, shards=shards, progress=stop_at(0.3), workers=1
        )

    dask_io.resume(target, verify=True)

    assert in_shards(target)["t"] == ((12, 20, 30), (24, 20, 30))
    xr.testing.assert_identical(load(target), load(source))


def test_shards_on_the_command_line(tmp_path: Path) -> None:
    """They are written as chunks are; what cannot be is one line, and nothing is there."""
    source, target = save(tmp_path / "a.zarr", 3), tmp_path / "b.zarr"
    old = save(tmp_path / "old.zarr", 2)

    def run(source: Path, target: str, *asked: str, code: int = 0) -> str:
        command = ["resplit", str(source), str(tmp_path / target), "--chunks", "time=12", *asked]
        done = invoke(*command)
        assert done.exit_code == code, done.output
        return done.output

    for asked, said in [
        ("time=30", "array count: shards of 30 are not made of whole chunks of 12"),
        ("z=3", "no array has a dimension 'z'; the dimensions are time, x, y"),
        ("24,20", "give shards by dimension name, as time=24,y=-1"),
        ("time=auto", "shards 'time=auto' are invalid; write them as"),
    ]:
        told = run(source, "b.zarr", "--shards", asked, code=2)
        assert said in told
        assert told.count("\n") == 1
    told = run(old, "b.zarr", "--shards", "time=24", code=2)
    assert "a group of Zarr 2 has no shards; leave them out, or give --format-version 3\n" in told
    told = run(source, "b.nc", "--shards", "time=24", code=2)
    assert "format netcdf has no shards; leave them out\n" in told
    assert {path.name for path in tmp_path.iterdir()} == {"a.zarr", "old.zarr"}
    told = json.loads(run(source, "b.zarr", "--shards", "time=24,y=-1", "--dry-run", "--json"))
    assert told["arrays"]["t"]["target"]["chunks"] == [24, 20, 30], "what is written at once"
    run(source, "b.zarr", "--shards", "time=24,y=-1", "--quiet")
    assert in_shards(target)["t"] == ((12, 20, 30), (24, 20, 30))
    alone = [f"{source}::/t", str(tmp_path / "t.zarr"), "--chunks", "4,5,6"]
    for asked in ("8,20,-1", "x=-1,time=8,y=20"):
        done = invoke("resplit", *alone, "--shards", asked, "--quiet", "--overwrite")
        assert done.exit_code == 0, done.output
        with quiet():
            assert zarr.open_array(tmp_path / "t.zarr", mode="r").shards == (8, 20, 30)


def test_what_a_plan_without_a_target_says_of_shards(tmp_path: Path) -> None:
    """As much as one with a target."""
    source = save(tmp_path / "a.zarr", 3)
    asked: Any = {"chunks": {"time": 12}, "shards": {"time": 24}}

    alone = dask_io.plan(source, **asked)
    named = dask_io.plan(source, tmp_path / "b.zarr", **asked)

    assert isinstance(alone, dask_io.SeriesJob)
    assert isinstance(named, dask_io.SeriesJob)
    assert alone.plan.plans["t"].problem.target.grid == named.plan.plans["t"].problem.target.grid
    assert alone.plan.seeks == named.plan.seeks


def stop_at(part: float) -> Callable[[dask_io.Progress], None]:
    """What interrupts a run when a part of it has been written."""

    def stop(progress: dask_io.Progress) -> None:
        if progress.n_bytes_written >= part * progress.n_bytes:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("part", [0.001, 0.03, 0.5, 0.99])
@pytest.mark.parametrize("version", [2, 3])
def test_a_run_that_was_cut_short_is_resumed(version: int, part: float, tmp_path: Path) -> None:
    """Wherever it was: until the end no reader takes it for a group, and arrays are not redone."""
    source, target = save(tmp_path / "a.zarr", version), tmp_path / "b.zarr"
    expected = load(source)

    with pytest.raises(InterruptedRunError, match=rf'dask_io\.resume\("{target}"\)$'):
        dask_io.resplit(source, target, chunks=CHUNKS, progress=stop_at(part), workers=1)
    assert not (target / "zarr.json").exists()
    assert not (target / ".zgroup").exists()
    with pytest.raises(DataError, match="unfinished"):
        dask_io.open(target)
    with pytest.raises(DataError, match=rf'dask_io\.resume\("{target}"\)$'):
        dask_io.verify(target)
    with pytest.raises(TargetExistsError, match=r"dask_io\.resume"):
        dask_io.resplit(source, target, chunks=CHUNKS)
    shutil.move(source, tmp_path / "moved.zarr")
    done = dask_io.resume(target, source=str(tmp_path / "moved.zarr"), verify=True)

    xr.testing.assert_identical(load(target), expected)
    assert done.verified
    assert dask_io.resume(target).blocks_written == 0


@pytest.mark.parametrize("target", ["b.zarr", "b.nc"])
def test_what_is_verified_waits_for_the_pace(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All arrays are read back once, of a run that is resumed too, and no faster than asked for."""
    waited: list[int] = []
    monkeypatch.setattr(Pace, "wait_for", lambda _, n_bytes: waited.append(n_bytes))
    source = save(tmp_path / "a.zarr", 3)

    def waited_for(run: Callable[[], object]) -> int:
        waited.clear()
        run()
        return sum(waited)

    chosen: Any = {"chunks": CHUNKS, "workers": 1, "max_rate": "1GB"}
    move = partial(dask_io.resplit, source, tmp_path / target, **chosen, overwrite=True)
    moved = waited_for(move)
    verified = waited_for(lambda: move(verify=True)) - moved
    again = waited_for(
        lambda: dask_io.resume(tmp_path / target, workers=1, max_rate="1GB", verify=True)
    )
    assert 0 < verified == again
    with pytest.raises(InterruptedRunError):
        move(progress=stop_at(0.001))
    resumed = waited_for(
        lambda: dask_io.resume(tmp_path / target, workers=1, max_rate="1GB", verify=True)
    )
    # The file that was not replaced after all is complete.
    assert verified + (target == "b.zarr") <= resumed <= moved + verified


def test_what_is_damaged_is_found(tmp_path: Path) -> None:
    """By the checksums of the array that it is in, and by comparing groups."""
    source, target = save(tmp_path / "a.zarr", 3), tmp_path / "b.zarr"
    dask_io.resplit(source, target, chunks=CHUNKS)
    assert dask_io.verify(target)
    chunk = target / "mask/c/0/1"
    chunk.write_bytes(chunk.read_bytes()[::-1])

    assert not dask_io.verify(target)
    with pytest.raises(DataError, match="cannot be decoded"):
        dask_io.verify(source / "mask", target / "mask")
    shutil.rmtree(target / "mask")
    with pytest.raises(DataError, match="array mask is missing"):
        dask_io.verify(source, target)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"chunks": {"z": 3}}, "no array has a dimension 'z'; the dimensions are time, x, y"),
        ({"chunks": (4, 4)}, "give chunks by dimension name, as time=24,y=-1"),
        ({"chunks": {0: 4}}, "give chunks by dimension name, as time=24,y=-1"),
        ({"chunks": CHUNKS, "region": "0:3"}, "give ranges by dimension name, as in time=0:10"),
        ({"chunks": CHUNKS, "consume": True}, "consume is for one array"),
        ({"chunks": CHUNKS, "format": "npy"}, "has the suffix of zarr, but format is npy"),
        ({"chunks": {"time": 0}}, "give a positive length"),
    ],
    ids=str,
)
def test_what_a_group_cannot_be_asked_for(
    asked: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """It is refused in one line, before anything is there."""
    source = save(tmp_path / "a.zarr", 3)

    with pytest.raises(UsageError, match=message):
        dask_io.resplit(source, tmp_path / "b.zarr", **asked)

    assert not (tmp_path / "b.zarr").exists()


def test_targets_that_are_there(tmp_path: Path) -> None:
    """They are kept, unless they are to be replaced."""
    source, target = save(tmp_path / "a.zarr", 3), save(tmp_path / "b.zarr", 2)
    before = load(target)

    with pytest.raises(TargetExistsError, match="exists; choose another target, or replace it wi"):
        dask_io.resplit(source, target, chunks=CHUNKS)
    xr.testing.assert_identical(load(target), before)
    for place in (source / "inner.zarr", source, tmp_path):
        with pytest.raises(UsageError, match=r"are the same|lies in source|contains source"):
            dask_io.resplit(source, place, chunks=CHUNKS)


def test_nothing_of_a_group_is_left_out_unsaid(tmp_path: Path) -> None:
    """Folders that are neither group nor array are copied, links are named."""
    source = save(tmp_path / "a.zarr", 3)
    (source / "thumbnails" / "small").mkdir(parents=True)
    (source / "thumbnails" / "small" / "1.png").write_bytes(b"picture")
    dask_io.resplit(source, tmp_path / "c.zarr", chunks=CHUNKS)
    assert (tmp_path / "c.zarr/thumbnails/small/1.png").read_bytes() == b"picture"
    (source / "linked").symlink_to(source / "time", target_is_directory=True)
    with pytest.raises(DataError, match="linked: is a link, which is not followed"):
        dask_io.resplit(source, tmp_path / "b.zarr", chunks=CHUNKS)
    assert not (tmp_path / "b.zarr").exists()


def test_what_cannot_be_re_split_is_copied_or_named(tmp_path: Path) -> None:
    """Texts of any length are copied file by file, but not where other chunks would matter."""
    words = np.array([["a", "bcd"], ["", "ef"]], object)
    with quiet():
        xr.Dataset({"words": (("a", "b"), words), "n": (("c",), np.arange(4))}).to_zarr(
            tmp_path / "a.zarr", zarr_format=2
        )

    dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks={"c": 2})

    xr.testing.assert_identical(load(tmp_path / "b.zarr"), load(tmp_path / "a.zarr"))
    with pytest.raises(UsageError, match="array words cannot be re-split"):
        dask_io.resplit(tmp_path / "a.zarr", tmp_path / "c.zarr", chunks={"a": 1})


def test_info_lists_the_arrays(tmp_path: Path) -> None:
    """By their paths, with their dimensions, those that are not understood too."""
    source = save(tmp_path / "a.zarr", 2)

    text = invoke("info", source).stdout
    told = json.loads(invoke("info", source, "--json").stdout)

    assert "a group of 8 zarr arrays" in text
    assert told["arrays"]["t"]["shape"] == [48, 20, 30]
    assert told["attributes"]["title"] == "An example"
    assert "0 axes" in told["others"]["crs"]
    for name in [*told["arrays"], *told["others"]]:
        assert f"\n{name} " in text
    assert text.count("copied verbatim") == len(told["others"])


def test_the_plan_of_a_group_is_that_of_its_arrays(tmp_path: Path) -> None:
    """Its costs are the sums of theirs, its memory the most of any; nothing is touched."""
    source = save(tmp_path / "a.zarr", 3)
    command = ["resplit", str(source), str(tmp_path / "b.zarr"), "--chunks", "time=24,x=10"]

    told = json.loads(invoke(*command, "--dry-run", "--json").stdout)
    text = invoke(*command, "--dry-run").stdout
    job = dask_io.plan(source, tmp_path / "b.zarr", chunks={"time": 24, "x": 10})
    assert not (tmp_path / "b.zarr").exists()
    assert isinstance(job, dask_io.SeriesJob)
    done = job.run()

    arrays = told["arrays"].values()
    assert told["seeks"]["total"] == sum(plan["seeks"]["total"] for plan in arrays)
    assert told["memory"]["peak"] == max(plan["memory"]["peak"] for plan in arrays)
    assert told["arrays"]["time"]["strategy"] == "copy"
    assert done.held == job.plan.held_bytes == told["memory"]["held"]
    assert "in all 6 arrays" in text
    assert "written as zarr" in text
    assert job.output is not None
    assert list(job.output.target.digests()) == ["crs", "station"]


def test_names_are_chunks_of_a_single_array_too(tmp_path: Path) -> None:
    """An array that names its dimensions can be re-split by them, and says which there are."""
    source = save(tmp_path / "a.zarr", 3)

    dask_io.resplit(source / "t", tmp_path / "t.zarr", chunks={"time": 24, "x": 10})

    assert zarr.open_array(tmp_path / "t.zarr", mode="r").chunks == (24, 20, 10)
    with pytest.raises(UsageError, match="'z', but its axes are time, y, x"):
        dask_io.resplit(source / "t", tmp_path / "u.zarr", chunks={"z": 3})


def test_groups_that_are_too_deep(tmp_path: Path) -> None:
    """They are refused in one line, as sources and as what is to be replaced, and stay there."""
    deep, text = tmp_path / "a.zarr", json.dumps({"zarr_format": 3, "node_type": "group"})
    folder = deep
    for _ in range(150):
        folder.mkdir()
        (folder / "zarr.json").write_text(text)
        folder /= "g"
    np.save(tmp_path / "b.npy", np.zeros(4))

    for command in (dask_io.info_group, dask_io.verify):
        with pytest.raises(DataError, match="more than 100 deep"):
            command(deep)
    with pytest.raises(DataError, match="more than 100 deep"):
        dask_io.resplit(deep, tmp_path / "c.zarr", chunks=2)
    with pytest.raises(UsageError, match="is a group"):
        dask_io.resplit(tmp_path / "b.npy", deep, chunks=2, overwrite=True)
    assert folder.parent.is_dir()
    assert not (tmp_path / "c.zarr").exists()


def test_files_of_groups_that_are_too_deep(tmp_path: Path) -> None:
    """A file of HDF5 holds them, but no group of Zarr is made of it."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["/".join(["g"] * 150)] = np.zeros(4)
        file["d"] = np.zeros(4)

    with pytest.raises(UsageError, match="more than 100 deep"):
        dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.zarr", chunks=2)
    assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_scalars_are_compared_by_value(codec: str, tmp_path: Path) -> None:
    """Another version of Zarr or another codec is no difference; values and attributes are."""
    one, other = tmp_path / "a.zarr", tmp_path / "b.zarr"
    compressors = None if codec == "none" else [GzipCodec()]
    scalar = xr.Dataset({"height": ((), 2.0, {"unit": "m", "missing": float("nan")})})
    with quiet():
        scalar.to_zarr(one, zarr_format=2)
        scalar.to_zarr(other, zarr_format=3, encoding={"height": {"compressors": compressors}})
    assert dask_io.verify(one, other)

    with quiet():
        zarr.open_array(other / "height").attrs["unit"] = "km"
    with pytest.raises(DataError, match=r"b\.zarr: array height differs from that of"):
        dask_io.verify(one, other)
    with quiet():
        zarr.open_array(other / "height").attrs["unit"] = "m"
        zarr.open_array(other / "height")[...] = 3.0
    with pytest.raises(DataError, match=r"b\.zarr: array height differs from that of"):
        dask_io.verify(one, other)


def test_damaged_metadata_is_named_when_groups_are_compared(tmp_path: Path) -> None:
    """The blocks of the array are not blamed, and a target of Dask IO can be repaired."""
    source, target = save(tmp_path / "a.zarr", 3), tmp_path / "b.zarr"
    dask_io.resplit(source, target, chunks=CHUNKS)
    (target / "t" / "zarr.json").write_text("{}")

    line = fail("verify", source, target, code=1)

    assert "b.zarr::/t: does not name its version of Zarr; repair it with: dask-io rep" in line
    dask_io.repair(target)
    assert dask_io.verify(source, target)


@pytest.mark.parametrize(("old", "new"), [(2, 3), (3, 2)])
def test_a_group_gets_another_version_of_zarr(old: int, new: int, tmp_path: Path) -> None:
    """Xarray finds the same dataset, also where data is missing or zeros are not missing."""
    source, target = tmp_path / "a.zarr", tmp_path / "b.zarr"
    data = dataset()
    data["count"].encoding["_FillValue"] = 3
    data["count"][5] = 3
    with quiet():
        data.to_zarr(source, zarr_format=old, encoding={"t": {"chunks": (1, 20, 30)}})
    options: dict[str, Any] = {"format_version": new, "shards": {"time": 48} if new == 3 else None}

    dask_io.resplit(source, target, chunks=CHUNKS, verify=True, **options)

    with quiet():
        assert zarr.open_group(target, mode="r").metadata.zarr_format == new
    xr.testing.assert_identical(load(target), load(source))
    assert dask_io.verify(source, target)
    shutil.rmtree(target / "crs")
    dask_io.repair(target)
    assert dask_io.verify(target)


def test_an_image_keeps_its_version_of_zarr(tmp_path: Path) -> None:
    """OME-Zarr has other metadata in the other version, so the message offers another way."""
    np.save(tmp_path / "a.npy", np.zeros((4, 4), "u1"))
    image = tmp_path / "a.ome.zarr"
    dask_io.resplit(tmp_path / "a.npy", image, chunks=2, spacing="1", unit="um")

    with pytest.raises(UsageError, match=r"keeps its version; leave out format_version=\.\.\., or"):
        dask_io.resplit(image, tmp_path / "b.zarr", chunks=2, format="zarr", format_version=2)


def test_one_array_keeps_its_name_in_another_format(tmp_path: Path) -> None:
    """The variable is called as the array in its group, and `data` if it was in none."""
    source = save(tmp_path / "a.zarr", 3)

    dask_io.resplit(f"{source}::/t", tmp_path / "t.nc", chunks={"time": 12})
    dask_io.resplit(source / "mask", tmp_path / "mask.h5", chunks=5)
    shutil.copytree(source / "mask", tmp_path / "m.zarr")
    dask_io.resplit(tmp_path / "m.zarr", tmp_path / "m.h5", chunks=5)

    with xr.open_dataset(tmp_path / "t.nc", decode_times=False) as found:
        assert "t" in found
    for name, inside in (("mask.h5", "mask"), ("m.h5", "data")):
        with h5py.File(tmp_path / name) as file:
            assert inside in file
