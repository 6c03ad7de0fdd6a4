"""Groups of Zarr arrays and OME-Zarr in object stores, mixed with local ones."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import obstore
import pytest
import xarray as xr
import zarr
from zarr.storage import ObjectStore

import dask_io
from dask_io.errors import DataError, InterruptedRunError, LockedError, StorageError, UsageError
from dask_io.formats.zarr.consolidation import consolidate
from dask_io.formats.zarr.group import read_group
from dask_io.formats.zarr.quiet import quiet
from dask_io.journal import journal
from dask_io.journal.journal import alone
from dask_io.storage.files import write_whole
from dask_io.storage.location import locate
from dask_io.storage.objects.connect import parse_url
from tests.commands import fail, run
from tests.integration.test_groups import CHUNKS, load, save, stop_at
from tests.integration.test_ome_zarr import attributes, make
from tests.server import ACCESS_KEY, SECRET_KEY, Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask_io.storage.location import Location


@pytest.fixture
def bucket() -> str:
    """A place of its own."""
    return f"memory://{uuid4()}/some/where"


def download(url: str, folder: Path) -> Path:
    """Bring all objects of a place to a local directory, as they are."""
    place = parse_url(url)
    for each in obstore.list(place.store, prefix=place.key).collect():
        path = folder / each["path"][len(place.key) + 1 :]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(obstore.get(place.store, each["path"]).bytes())
    return folder


def save_small(place: Path) -> Path:
    """Save a group of an array and a scalar, for a server that takes its time."""
    with quiet():
        group = zarr.create_group(place, attributes={"title": "T"}, zarr_format=3)
        for name, array, names in (("a", np.arange(12).reshape(4, 3), "yx"), ("one", 7, "")):
            shape = np.shape(array)
            options: Any = {"chunks": (2,) * len(shape), "dimension_names": list(names)}
            group.create_array(name, shape=shape, dtype="i4", **options)[...] = array
        zarr.consolidate_metadata(place)
    return place


@pytest.mark.parametrize("version", [2, 3])
def test_xarray_finds_the_same_dataset(version: int, bucket: str, tmp_path: Path) -> None:
    """From a disk to objects, from there to others, and back; consolidated as it was."""
    source = save(tmp_path / "a.zarr", version)
    first, second = f"{bucket}/b.zarr", f"{bucket}/c.zarr"

    done = dask_io.resplit(source, first, chunks=CHUNKS, memory="4MiB", verify=True)
    dask_io.resplit(first, second, chunks={"time": 12, "x": -1}, verify=True)
    dask_io.resplit(second, tmp_path / "d.zarr", chunks={"time": 1})

    assert done.verified
    made = [load(download(url, tmp_path / url[-6:])) for url in (first, second)]
    for each in made:
        xr.testing.assert_identical(each, load(source))
    assert made[1]["t"].encoding["chunks"] == (12, 20, 30)
    xr.testing.assert_identical(load(tmp_path / "d.zarr"), load(source))
    with quiet():
        opened = zarr.open_group(tmp_path / "c.zarr", mode="r")
    assert opened.metadata.consolidated_metadata is not None
    assert dask_io.verify(source, second)
    assert dask_io.verify(second)
    assert dask_io.resume(second).blocks_written == 0


def test_a_file_goes_to_objects_and_back(bucket: str, tmp_path: Path) -> None:
    """All variables of a NetCDF file become a group there, and one file again."""
    expected = load(save(tmp_path / "a.zarr", 3))
    expected.to_netcdf(tmp_path / "a.nc")
    first = f"{bucket}/b.zarr"

    with pytest.raises(InterruptedRunError, match=rf'dask_io\.resume\("{first}"\)$'):
        dask_io.resplit(tmp_path / "a.nc", first, chunks=CHUNKS, progress=stop_at(0.5))
    dask_io.resume(first, verify=True)
    dask_io.resplit(first, tmp_path / "c.nc", chunks={"time": 12}, verify=True)

    xr.testing.assert_identical(load(download(first, tmp_path / "b")), expected)
    with xr.open_dataset(tmp_path / "c.nc") as found:
        xr.testing.assert_identical(found.load(), expected)
    assert dask_io.verify(tmp_path / "a.nc", first)
    assert dask_io.verify(first)


@pytest.mark.parametrize("version", [2, 3])
def test_images_keep_their_metadata(version: int, bucket: str, tmp_path: Path) -> None:
    """Every level is re-split, that of labels too; files beside them come along."""
    source = make(tmp_path / "a.zarr", version)
    (source / "OME").mkdir()
    (source / "OME/METADATA.ome.xml").write_text("<OME/>")

    dask_io.resplit(source, f"{bucket}/b.zarr", chunks=(1, 5, 24, 24))
    dask_io.resplit(f"{bucket}/b.zarr", f"{bucket}/c.zarr", chunks={"x": 40})

    made = download(f"{bucket}/c.zarr", tmp_path / "c.zarr")
    assert attributes(made) == attributes(source)
    assert (made / "OME/METADATA.ome.xml").read_text() == "<OME/>"
    assert dask_io.verify(source, f"{bucket}/c.zarr")
    told = dask_io.info_group(f"{bucket}/c.zarr")
    assert told is not None
    assert told.format == "ome-zarr"
    assert told.arrays["labels/cells/0"].grid.axes[-1].longest == 40


def test_what_is_no_valid_image_is_refused(bucket: str, tmp_path: Path) -> None:
    """Before anything is put."""
    source = make(tmp_path / "a.zarr", 3)
    document = json.loads((source / "zarr.json").read_text())
    del document["attributes"]["ome"]["multiscales"][0]["datasets"][0]["coordinateTransformations"]
    (source / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"is not valid OME-Zarr 0\.5"):
        dask_io.resplit(source, f"{bucket}/b.zarr", chunks={"x": 20})
    assert not parse_url(f"{bucket}/b.zarr").exists()


def test_every_verb_on_a_real_server(server: Server, tmp_path: Path) -> None:
    """On the command line, with --json and without."""
    source, place = save_small(tmp_path / "a.zarr"), f"s3://{server.bucket}/{uuid4()}"
    chunks = ["--chunks", "y=3"]
    planned = json.loads(run("resplit", source, f"{place}/b.zarr", *chunks, "--dry-run", "--json"))
    assert planned["arrays"]["a"]["target"]["chunks"] == [3, 2]
    assert not parse_url(f"{place}/b.zarr").exists()
    told = json.loads(run("resplit", source, f"{place}/b.zarr", *chunks, "--verify", "--json"))
    assert told["result"]["verified"] is True
    run("resplit", f"{place}/b.zarr", f"{place}/c.zarr", "--chunks", "x=-1", "--quiet")
    assert "a group of 2 zarr arrays" in run("info", f"{place}/c.zarr")
    told = json.loads(run("info", f"{place}/c.zarr", "--json"))
    assert told["arrays"]["a"]["chunks"] == [3, 3]
    assert "one" in told["others"]
    run("verify", source, f"{place}/c.zarr")
    run("verify", f"{place}/c.zarr")
    assert "complete" in run("resume", f"{place}/c.zarr")
    said = fail("resplit", source, f"{place}/c.zarr", *chunks, code=2)
    assert "exists; choose another target, or replace it with --overwrite" in said
    run("resplit", source, f"{place}/c.zarr", *chunks, "--shards", "x=4", "--overwrite", "--quiet")
    told = json.loads(run("info", f"{place}/c.zarr", "--json"))
    assert told["arrays"]["a"]["chunks"] == [3, 2]
    run("resplit", f"{place}/c.zarr", tmp_path / "d.zarr", *chunks, "--quiet")
    run("verify", source, tmp_path / "d.zarr")


def test_options_reach_both_groups(
    running_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every verb; they are not kept, so `resume` is given them again."""
    for name in running_server.environment():
        monkeypatch.delenv(name, raising=False)
    reach: Any = {
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY,
        "region": "us-east-1",
        "endpoint": f"http://127.0.0.1:{running_server.port}",
        "allow_http": True,
    }
    place = f"s3://{running_server.bucket}/{uuid4()}"
    source = save_small(tmp_path / "a.zarr")
    dask_io.resplit(source, f"{place}/b.zarr", chunks={"x": 1}, storage_options=reach)
    with pytest.raises(InterruptedRunError, match=rf'dask_io\.resume\("{place}/c.zarr"\)'):
        dask_io.resplit(
            f"{place}/b.zarr",
            f"{place}/c.zarr",
            chunks={"x": 3},
            storage_options=reach,
            progress=stop_at(0.5),
        )
    dask_io.resume(f"{place}/c.zarr", storage_options=reach, verify=True)
    assert dask_io.verify(source, f"{place}/c.zarr", storage_options=reach)
    told = dask_io.info_group(f"{place}/c.zarr", storage_options=reach)
    assert told is not None
    assert told.arrays["a"].grid.axes[-1].longest == 3


@pytest.mark.parametrize("part", [0.001, 0.99])
def test_a_run_that_was_cut_short_is_resumed(part: float, bucket: str, tmp_path: Path) -> None:
    """Until the end no reader takes it for a group; the source may have been moved."""
    source, target = save(tmp_path / "a.zarr", 3), f"{bucket}/b.zarr"

    with pytest.raises(InterruptedRunError, match=rf'dask_io\.resume\("{target}"\)$'):
        dask_io.resplit(source, target, chunks=CHUNKS, progress=stop_at(part), workers=1)
    assert not parse_url(f"{target}/zarr.json").exists()
    with pytest.raises(DataError, match="unfinished"):
        dask_io.open(target)
    with pytest.raises(UsageError, match=r"dask_io\.resume"):
        dask_io.resplit(source, target, chunks=CHUNKS)
    expected = load(source)
    source.rename(tmp_path / "moved.zarr")
    dask_io.resume(target, source=str(tmp_path / "moved.zarr"), verify=True)

    xr.testing.assert_identical(load(download(target, tmp_path / "b")), expected)


def test_a_group_that_changed_is_not_gone_on_with(bucket: str, tmp_path: Path) -> None:
    """Objects that are copied as they are have other versions."""
    dask_io.resplit(save(tmp_path / "a.zarr", 3), f"{bucket}/b.zarr", chunks={"time": 12})
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            f"{bucket}/b.zarr", f"{bucket}/c.zarr", chunks=CHUNKS, progress=stop_at(0.5)
        )
    scalar = parse_url(f"{bucket}/b.zarr/crs/zarr.json")
    obstore.put(scalar.store, scalar.key, obstore.get(scalar.store, scalar.key).bytes() + b" ")
    with pytest.raises(DataError, match="have changed since the run began"):
        dask_io.resume(f"{bucket}/c.zarr")


def test_two_runs_do_not_write_one_group(bucket: str, tmp_path: Path) -> None:
    """The second is refused in one line, and so is one that would write into the group."""
    source, target = save(tmp_path / "a.zarr", 3), f"{bucket}/b.zarr"
    np.save(tmp_path / "x.npy", np.arange(12).reshape(3, 4))
    said: list[str] = []
    attempts: list[Callable[[], object]] = [
        lambda: dask_io.resplit(source, target, chunks=CHUNKS),
        lambda: dask_io.resume(target),
        lambda: dask_io.resplit(tmp_path / "x.npy", f"{target}::/more", chunks=2),
    ]

    def try_too(_: object) -> None:
        for attempt in attempts:
            with pytest.raises(StorageError) as caught:
                attempt()
            said.append(str(caught.value))

    dask_io.resplit(source, target, chunks=CHUNKS, progress=try_too)
    assert said
    assert all("another run is writing it (process" in each for each in said)
    xr.testing.assert_identical(load(download(target, tmp_path / "b")), load(source))


@pytest.fixture(params=["disk", "objects"])
def group(request: pytest.FixtureRequest, tmp_path: Path, bucket: str) -> str:
    """An empty group that holds the metadata of its members, on a disk or in an object store."""
    place = str(tmp_path / "g.zarr") if request.param == "disk" else f"{bucket}/g.zarr"
    np.save(tmp_path / "x.npy", np.arange(12).reshape(3, 4))
    with quiet():
        zarr.create_group(tmp_path / "made.zarr", zarr_format=3)
        zarr.consolidate_metadata(tmp_path / "made.zarr")
    root = locate(place)
    if isinstance(root, Path):
        root.mkdir()
    content = (tmp_path / "made.zarr/zarr.json").read_bytes()
    write_whole(root / "zarr.json", content)
    return place


def members(place: str) -> set[str]:
    """Return what a group says that is in it, and what is."""
    root = locate(place)
    with quiet():
        if isinstance(root, Path):
            opened = zarr.open_group(root, mode="r")
        else:
            opened = zarr.open_group(ObjectStore(root.store), path=root.key, mode="r")
        gathered = opened.metadata.consolidated_metadata
    assert gathered is not None
    assert set(gathered.metadata) == read_group(root).arrays.keys()
    return set(gathered.metadata)


def test_runs_that_share_a_group_wait_for_each_other(group: str, tmp_path: Path) -> None:
    """Arrays that are written at once are all in the metadata that the group gathers."""
    names = [f"a{n}" for n in range(6)]

    def write(name: str) -> None:
        dask_io.resplit(tmp_path / "x.npy", f"{group}::/{name}", chunks=2, workers=1)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(write, names))
    assert members(group) == set(names)
    assert not (locate(group) / ".dask-io").exists(), "nothing of a lock stays"


def test_who_does_not_let_go_of_a_group_is_named(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run ends in one line, and is resumed when the group is free."""
    monkeypatch.setattr(journal, "PATIENCE", 0.0)
    with (
        alone(locate(group) / ".dask-io"),
        pytest.raises(LockedError, match="another run is writing it") as caught,
    ):
        dask_io.resplit(tmp_path / "x.npy", f"{group}::/a", chunks=2)
    assert "dask_io.resume(" in str(caught.value)
    assert "\n" not in str(caught.value)
    dask_io.resume(f"{group}::/a")
    assert members(group) == {"a"}


def test_metadata_that_another_changed_is_gathered_anew(
    bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a run puts late, whose lock is another's by now, does not undo what that one put."""
    place = parse_url(f"{bucket}/g.zarr")
    np.save(tmp_path / "x.npy", np.arange(12).reshape(3, 4))
    with quiet():
        zarr.create_group(ObjectStore(place.store), path=place.key, zarr_format=3)
        zarr.consolidate_metadata(ObjectStore(place.store), path=place.key)
    dask_io.resplit(tmp_path / "x.npy", f"{place}::/a", chunks=2)
    from dask_io.formats.zarr import consolidation as module  # noqa: PLC0415

    others, gathering = ["b"], module._gather_in  # noqa: SLF001

    def late(root: Location) -> bytes:
        found = gathering(root)
        if others:
            dask_io.resplit(tmp_path / "x.npy", f"{place}::/{others.pop()}", chunks=2)
        return found

    monkeypatch.setattr(module, "_gather_in", late)
    consolidate(place)
    assert members(str(place)) == {"a", "b"}


@pytest.mark.parametrize("version", [2, 3])
def test_an_image_is_made_in_an_object_store(version: int, bucket: str, tmp_path: Path) -> None:
    """From one array; interrupted, resumed, verified, replaced and read back with its spacing."""
    array, url = np.arange(960, dtype="i2").reshape(12, 10, 8), f"{bucket}/b.zarr"
    np.save(tmp_path / "a.npy", array)
    options: Any = {"format": "ome-zarr", "format_version": version, "spacing": 2, "chunks": 4}

    def stop_midway(progress: dask_io.Progress) -> None:
        if 2 * progress.n_bytes_written >= progress.n_bytes:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        dask_io.resplit(tmp_path / "a.npy", url, workers=1, progress=stop_midway, **options)
    with pytest.raises(DataError, match="unfinished"):
        dask_io.open(url)
    dask_io.resume(f"{url}/0")
    dask_io.resplit(tmp_path / "a.npy", url, overwrite=True, verify=True, **options)

    opened = dask_io.open(url)
    assert np.array_equal(opened[...], array)
    assert opened.source.metadata["space"].affine.steps == (2.0, 2.0, 2.0)
    assert dask_io.verify(url)
    assert dask_io.verify(tmp_path / "a.npy", f"{url}::/0")
    local = download(url, tmp_path / "c.zarr")
    assert np.array_equal(zarr.open_array(local / "0", mode="r")[...], array)
