"""Groups are replaced as a whole, and nothing else that lies where they are."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

import numpy as np
import obstore
import pytest
import xarray as xr
import zarr

import dask_io
from dask_io.errors import (
    DataError,
    InterruptedRunError,
    LockedError,
    SamePlaceError,
    TargetExistsError,
    UsageError,
)
from dask_io.formats.zarr.quiet import quiet
from dask_io.journal.journal import Journal
from dask_io.journal.local_log import FileLogs
from dask_io.storage.local.disk import Disk
from dask_io.storage.objects.connect import parse_url
from tests.commands import invoke
from tests.faults.test_groups import files_in
from tests.integration.test_groups import CHUNKS, dataset, load, stop_at
from tests.integration.test_ome_zarr import make

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Saving: TypeAlias = "Callable[..., Path]"
PLAIN: dict[str, Any] = {"chunks": CHUNKS, "durability": "none"}


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two datasets, in both versions: some names are the same, some dimensions differ."""
    folder = tmp_path_factory.mktemp("templates")
    whole = dataset().isel(y=slice(0, 4), x=slice(0, 11))
    small = whole.isel(time=slice(0, 9)).rename(mask="other").drop_vars("station")
    with quiet():
        for version in (2, 3):
            how: Any = {"zarr_format": version, "encoding": {"t": {"chunks": (12, 4, 11)}}}
            whole.to_zarr(folder / f"whole-{version}", **how)
            small.to_zarr(folder / f"other-{version}", zarr_format=version)
    return folder


@pytest.fixture
def save(templates: Path) -> Callable[..., Path]:
    """What saves the one that is moved."""
    return lambda place, version=3: shutil.copytree(templates / f"whole-{version}", place)


@pytest.fixture
def other(templates: Path) -> Callable[..., Path]:
    """What saves the other one."""
    return lambda place, version=3: shutil.copytree(templates / f"other-{version}", place)


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """All that is in a folder."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("version", [2, 3])
def test_only_the_new_group_is_there_then(
    version: int, save: Saving, other: Saving, *, ours: bool, tmp_path: Path
) -> None:
    """Be the old one of another version, with other arrays, by Dask IO or by other tools."""
    source, target = save(tmp_path / "a.zarr", version), tmp_path / "b.zarr"
    old = other(tmp_path / "old.zarr" if ours else target, 5 - version)
    if ours:
        dask_io.resplit(old, target, **PLAIN)
    with pytest.raises(TargetExistsError, match="or replace it with overwrite=True"):
        dask_io.resplit(source, target, **PLAIN)

    done = dask_io.resplit(source, target, overwrite=True, verify=True, **PLAIN)

    assert done.verified
    xr.testing.assert_identical(load(target), load(source))
    dask_io.resplit(source, tmp_path / "fresh.zarr", **PLAIN)
    assert files_in(target) == files_in(tmp_path / "fresh.zarr")
    assert dask_io.verify(target)
    assert dask_io.resume(target).blocks_written == 0


def test_files_that_came_along_go_with_their_group(tmp_path: Path) -> None:
    """The journal of the old group says which they are; those of others are foreign."""
    source, target = make(tmp_path / "a.zarr", 3), tmp_path / "b.zarr"
    (source / "OME").mkdir()
    (source / "OME/METADATA.ome.xml").write_text("<OME/>")
    dask_io.resplit(source, target, chunks=5, durability="none")
    shutil.rmtree(source / "OME")

    dask_io.resplit(source, target, chunks=(1, 5, 24, 24), overwrite=True, durability="none")

    assert not (target / "OME").exists()
    (target / "OME").mkdir()
    (target / "OME/METADATA.ome.xml").write_text("<OME/>")
    with pytest.raises(UsageError, match=r"not part of a group: OME/METADATA\.ome\.xml; move"):
        dask_io.resplit(source, target, chunks=5, overwrite=True)


def put_foreign_file(target: Path) -> str:
    """Put a file where groups have none."""
    (target / "notes.txt").write_text("mine")
    return "files that are not part of a group: notes.txt; move them away, or choose another target"


def put_into_array(target: Path) -> str:
    """Put files into an array, one of them like a chunk."""
    (target / "t/notes.txt").write_text("mine")
    (target / "t/c/99/0").mkdir(parents=True)
    (target / "t/c/99/0/0").write_text("mine")
    return "not part of a group: t/c/99/0/0, t/notes.txt;"


def put_link(target: Path) -> str:
    """Put a link to an array elsewhere."""
    (target / "linked").symlink_to(target.parent / "a.zarr/t", target_is_directory=True)
    return "not part of a group: linked;"


def put_hidden_array(target: Path) -> str:
    """Put an array into a directory that is no group."""
    shutil.copytree(target / "time", target / "plain/time")
    return "not part of a group: plain/time/"


def put_array_into_array(target: Path) -> str:
    """Put an array into another, where no reader looks for one."""
    shutil.copytree(target / "time", target / "t/time")
    return "not part of a group: t/time/"


def be_an_array(target: Path) -> str:
    """Be no group."""
    shutil.move(target / "t", target.parent / "t")
    shutil.rmtree(target)
    shutil.move(target.parent / "t", target)
    return "is an array, but a group is to be written there; remove the array, or choose another"


def be_a_file(target: Path) -> str:
    """Be no directory."""
    shutil.rmtree(target)
    target.write_text("mine")
    return "is a file, not a group to overwrite"


def be_no_group(target: Path) -> str:
    """Be a directory of arrays."""
    (target / "zarr.json").unlink()
    return "contains files that are not part of a group: "


def be_broken(target: Path) -> str:
    """Be what nobody understands."""
    (target / "zarr.json").write_text("{")
    return "has damaged metadata, so it is not known to be a group to overwrite; remove it"


def begin_an_array(target: Path) -> str:
    """Have an array in it that another run has not completed."""
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            f"{target.parent}/a.zarr::/t", f"{target}::/new", progress=stop_at(0.3), chunks=5
        )
    advice = f"complete it with dask-io resume {target}/new"
    return f"{target}/new already exists and is unfinished; {advice}"


@pytest.mark.parametrize(
    "spoil",
    [
        put_foreign_file,
        put_into_array,
        put_link,
        put_hidden_array,
        put_array_into_array,
        be_an_array,
        be_a_file,
        be_no_group,
        be_broken,
        begin_an_array,
    ],
)
def test_what_is_no_part_of_a_group_is_not_touched(
    spoil: Callable[[Path], str], tmp_path: Path, save: Saving, other: Saving
) -> None:
    """It is refused in one line, as usage, and all is as it was."""
    source, target = save(tmp_path / "a.zarr"), other(tmp_path / "b.zarr")
    said = spoil(target)
    before = snapshot(tmp_path)

    command = ["resplit", str(source), str(target), "--chunks", "time=24", "--overwrite"]
    done = invoke(*command)

    assert done.exit_code == 2, done.output
    assert said in done.output
    assert done.output.count("\n") == 1
    assert snapshot(tmp_path) == before


def test_places_in_each_other_are_refused(tmp_path: Path, save: Saving) -> None:
    """To overwrite a group with a part of it would lose both."""
    source = save(tmp_path / "a.zarr")
    shutil.copytree(source, source / "inner")
    before = snapshot(tmp_path)
    pairs = [(source, source), (source / "inner", source), (source, source / "inner")]
    for one, another in pairs:
        with pytest.raises(UsageError, match=r"are the same|lies in source|contains source"):
            dask_io.resplit(one, another, overwrite=True, **PLAIN)
    with pytest.raises(UsageError, match=r"are the same|lies in source|contains source"):
        dask_io.resplit(source, tmp_path, overwrite=True, format="zarr", **PLAIN)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("part", [0.03, 0.5, 0.99])
def test_an_unfinished_group_is_replaced(
    part: float, tmp_path: Path, save: Saving, other: Saving
) -> None:
    """Wherever the run was that wrote it; what it left beside its arrays goes, too."""
    source, target = save(tmp_path / "a.zarr"), tmp_path / "b.zarr"
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            other(tmp_path / "old.zarr"), target, progress=stop_at(part), workers=1, **PLAIN
        )
    scratch = tempfile.mkdtemp(prefix=".t.", suffix=".scratch", dir=target)
    (tmp_path / scratch / "block").write_text("scratch")
    with pytest.raises(
        TargetExistsError, match=r"resume\(\S+\), or replace it with overwrite=True$"
    ):
        dask_io.resplit(source, target, **PLAIN)

    dask_io.resplit(source, target, overwrite=True, verify=True, **PLAIN)

    xr.testing.assert_identical(load(target), load(source))
    dask_io.resplit(source, tmp_path / "fresh.zarr", **PLAIN)
    assert files_in(target) == files_in(tmp_path / "fresh.zarr")


def test_what_has_been_written_since_is_not_removed(tmp_path: Path, save: Saving) -> None:
    """A run that goes on knows that the old group is gone, whose arrays had the same names."""
    source, target = save(tmp_path / "a.zarr"), save(tmp_path / "b.zarr")
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(source, target, progress=stop_at(0.99), workers=1, overwrite=True, **PLAIN)
    written = {path: path.stat().st_ino for path in target.rglob("c/**/*") if path.is_file()}
    assert len(written) > 5

    dask_io.resume(target, verify=True)

    assert {path: path.stat().st_ino for path in written} == written
    xr.testing.assert_identical(load(target), load(source))


def test_who_stops_a_run_that_removes_is_told_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Saving, other: Saving
) -> None:
    """It may take long; what has not been removed is when it goes on."""
    source, target = save(tmp_path / "a.zarr"), other(tmp_path / "b.zarr")
    removed, remove = [], Disk.remove

    def stop(disk: Disk, paths: Any) -> None:
        for path in paths:
            remove(disk, [path])
            removed.append(path)
            if len(removed) == 10:
                raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Disk, "remove", stop)
        with pytest.raises(InterruptedRunError, match=rf'dask_io\.resume\("{target}"\)$'):
            dask_io.resplit(source, target, overwrite=True, **PLAIN)
    assert removed[0] == target / "zarr.json"
    with pytest.raises(DataError, match="unfinished"):
        dask_io.open(target)
    (target / "t/notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"not part of a group: t/notes\.txt"):
        dask_io.resplit(source, target, overwrite=True, **PLAIN)
    (target / "t/notes.txt").unlink()

    dask_io.resume(target, verify=True)

    xr.testing.assert_identical(load(target), load(source))


def test_groups_that_others_write(tmp_path: Path, save: Saving, other: Saving) -> None:
    """Neither they nor arrays in them are replaced meanwhile; a lock that was left is nothing."""
    source, target = save(tmp_path / "a.zarr"), tmp_path / "b.zarr"
    dask_io.resplit(other(tmp_path / "old.zarr"), target, **PLAIN)
    before = snapshot(target)
    for inner in ("", "t/"):
        place = target / f"{inner}.dask-io"
        journal = Journal.resume(place, durable=False)
        journal.begin_again(b"{}", [])
        with pytest.raises(LockedError, match="another run is writing it"):
            dask_io.resplit(source, target, overwrite=True, **PLAIN)
        journal.close()
        (place / "journal").write_bytes(before[f"{inner}.dask-io/journal"])  # type: ignore[arg-type]
    assert {**snapshot(target), **before} == snapshot(target)
    shutil.rmtree(target / ".dask-io")
    with FileLogs().holding(target / ".dask-io"):
        shutil.copytree(target / ".dask-io", tmp_path / "lock")
    shutil.move(tmp_path / "lock", target / ".dask-io")

    dask_io.resplit(source, target, overwrite=True, **PLAIN)

    xr.testing.assert_identical(load(target), load(source))


def test_what_only_an_array_in_it_has_is_kept(tmp_path: Path, save: Saving, other: Saving) -> None:
    """An array whose source was consumed is not removed before it is complete."""
    source, target = save(tmp_path / "a.zarr"), other(tmp_path / "b.zarr")
    np.save(tmp_path / "x.npy", np.arange(60).reshape(6, 10))
    dask_io.split(tmp_path / "x.npy", tmp_path / "x", chunks=(1, 10))
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            tmp_path / "x",
            f"{target}::/z",
            chunks=(1, 5),
            consume=True,
            progress=stop_at(0.5),
            workers=1,
        )
    with quiet():
        like = zarr.create_array(tmp_path / "like", shape=(6, 10), chunks=(1, 5), dtype="i8")
    shutil.copy(tmp_path / "like/zarr.json", target / "z/zarr.json")
    assert like.shape == (6, 10)

    with pytest.raises(UsageError, match=rf"{target}/z contains the only copy of data"):
        dask_io.resplit(source, target, overwrite=True, **PLAIN)


def test_room_is_looked_for_before_anything_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Saving, other: Saving
) -> None:
    """A group that would not fit does not cost the one that is there."""
    source, target = save(tmp_path / "a.zarr"), other(tmp_path / "b.zarr")
    before = snapshot(target)
    job = dask_io.plan(source, target, overwrite=True, **PLAIN)

    def refuse(*_: object, **__: object) -> None:
        raise dask_io.errors.StorageError(str(target), "no space left")

    monkeypatch.setattr("dask_io.jobs.job.check_before_run", refuse)
    with pytest.raises(dask_io.errors.StorageError, match="no space left"):
        job.run()
    assert snapshot(target) == before


def test_room_is_needed_for_one_of_the_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Saving
) -> None:
    """The old one counts as free room, and as free files, whatever its arrays are called."""
    source, target = save(tmp_path / "a.zarr"), tmp_path / "b.zarr"
    zarr.create_array(target / "z", shape=(10**6,), chunks=(10**4,), dtype="u1")[:] = 1
    zarr.create_group(target)
    job = dask_io.plan(source, target, overwrite=True, **PLAIN)
    full, now = os.statvfs_result((4096, 4096, 9, 0, 0, 9, 0, 0, 0, 255)), os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: full if (target / "z").exists() else now)

    job.run()

    xr.testing.assert_identical(load(target), load(source))


@pytest.mark.parametrize("ours", [True, False])
def test_groups_in_object_stores(
    save: Saving, other: Saving, *, ours: bool, tmp_path: Path
) -> None:
    """They are replaced in the same way, and other objects are as foreign there."""
    bucket = parse_url(f"memory://{uuid4()}")
    source, target = save(tmp_path / "a.zarr"), f"{bucket}/b.zarr"
    old = other(tmp_path / "old.zarr")
    if ours:
        dask_io.resplit(old, target, chunks=CHUNKS)
    else:
        for name, each in snapshot(old).items():
            obstore.put(bucket.store, f"b.zarr/{name}", bytes(each))  # type: ignore[arg-type]
    obstore.put(bucket.store, "b.zarr/t/notes.txt", b"mine")
    with pytest.raises(UsageError, match=r"not part of a group: t/notes\.txt; move them away"):
        dask_io.resplit(source, target, chunks=CHUNKS, overwrite=True)
    obstore.delete(bucket.store, "b.zarr/t/notes.txt")

    dask_io.resplit(source, target, chunks=CHUNKS, overwrite=True, verify=True)
    dask_io.resplit(source, f"{bucket}/fresh.zarr", chunks=CHUNKS)

    def keys(name: str) -> set[str]:
        listed = obstore.list(bucket.store, prefix=name).collect()
        found = {each["path"].removeprefix(name) for each in listed}
        return {key for key in found if "/.dask-io/" not in key}

    assert keys("b.zarr") == keys("fresh.zarr")
    assert dask_io.verify(source, target)
    document = json.loads(bytes(obstore.get(bucket.store, "b.zarr/zarr.json").bytes()))
    assert "other" not in document["consolidated_metadata"]["metadata"]


def test_what_the_source_links_to_is_not_removed(save: Saving, tmp_path: Path) -> None:
    """A source may have its chunks in the group that is to be replaced."""
    source, target = save(tmp_path / "a.zarr"), save(tmp_path / "b.zarr")
    shutil.rmtree(source / "t/c")
    (source / "t/c").symlink_to(target / "t/c")
    before = snapshot(tmp_path)

    with pytest.raises(SamePlaceError, match=r"b\.zarr contains source .*a\.zarr/t/c"):
        dask_io.resplit(source, target, overwrite=True, **PLAIN)

    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_that_another_describes_is_not_replaced(
    version: Literal[2, 3], save: Saving, other: Saving, tmp_path: Path
) -> None:
    """Readers of the outer one would take what is gone for arrays of nothing but fill values."""
    source, outer = save(tmp_path / "a.zarr", version), tmp_path / "b.zarr"
    zarr.create_group(outer, zarr_format=version)
    zarr.create_group(outer / "middle", zarr_format=version)
    target = other(outer / "middle/inner", version)
    bare = shutil.copytree(outer, tmp_path / "bare.zarr")
    with quiet():
        zarr.consolidate_metadata(outer)
    before = snapshot(outer)

    with pytest.raises(UsageError, match=r"by the consolidated metadata of .*b\.zarr, which"):
        dask_io.resplit(source, target, overwrite=True, **PLAIN)

    assert snapshot(outer) == before
    target = bare / "middle/inner"
    dask_io.resplit(source, target, overwrite=True, **PLAIN)
    xr.testing.assert_identical(load(target), load(source))


def test_a_group_that_is_gone_is_known_as_unfinished(tmp_path: Path) -> None:
    """A run that fails before it has written an array can be gone on with once it is possible."""
    source, target = tmp_path / "a.zarr", tmp_path / "b.zarr"
    for place in (source, target):
        zarr.create_group(place).create_array("x", shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    chunk = source / "x" / "c" / "0"
    content = chunk.read_bytes()
    found = chunk.stat()
    chunk.write_bytes(bytes(len(content)))
    os.utime(chunk, ns=(found.st_atime_ns, found.st_mtime_ns))

    with pytest.raises(DataError, match="cannot be decoded"):
        dask_io.resplit(source, target, chunks=4, overwrite=True)

    with pytest.raises(DataError, match="unfinished"):
        dask_io.verify(target)
    chunk.write_bytes(content)
    os.utime(chunk, ns=(found.st_atime_ns, found.st_mtime_ns))
    dask_io.resume(target)
    assert np.asarray(dask_io.open(f"{target}::/x")).tolist() == [1] * 4


def test_an_array_in_the_place_of_a_group_is_refused_at_once(tmp_path: Path, save: Saving) -> None:
    """`overwrite` is not advised, because it would be refused."""
    source, target = save(tmp_path / "a.zarr"), tmp_path / "b.zarr"
    np.save(tmp_path / "a.npy", np.arange(4))
    dask_io.resplit(tmp_path / "a.npy", target, chunks=2)

    for overwrite in (False, True):
        with pytest.raises(UsageError, match=r"is an array, but .*; remove the array, or choose"):
            dask_io.resplit(source, target, overwrite=overwrite, **PLAIN)
    assert dask_io.verify(target)
