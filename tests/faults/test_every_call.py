"""A fault at every call of a small run: it can be resumed, and nothing was ever wrong.

In the manner of SQLite's tests: the calls by which a run reads and changes files come in
one order. At the Nth of them the process is killed, the power fails, or the call fails, for
every N. Afterwards every block that looks complete is right, and `resume` yields the array.
"""

from __future__ import annotations

import errno
import re
import shutil
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import h5py  # type: ignore[import-untyped]
import nibabel as nib
import numpy as np
import pytest
import tifffile
import zarr
from numcodecs import Zstd  # type: ignore[import-untyped]

import dask_io
from dask_io.engine import commit
from dask_io.errors import DaskIOError, StorageError, UsageError
from dask_io.formats.zarr.target import ZarrTarget
from dask_io.testing.faults import Faults, Killed, Loss, Synced, inject
from tests.faults.small_runs import (
    ARRAY,
    PLAIN,
    Case,
    check_block,
    is_the_old_one,
    survive_all,
    with_log,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def cases(*, thorough: bool) -> Iterator[Case]:
    """Yield runs; more of them if there is time."""
    # So little memory that blocks, and the one file, are written in several cells.
    little = {"memory": 16 * 2**10 + 8192 + 16}
    yield Case("resplit", "out", {"chunks": (3, 2)})
    yield Case("resplit", "out", {"chunks": (3, 2), "consume": True})
    yield Case("split", "out", {"chunks": (3, 2), "consume": True}, source="whole.npy")
    yield Case("merge", "out.npy", {**little, "consume": True})
    yield Case("resplit", "out", {"chunks": (3, 2), "overwrite": True}, is_there=True)
    # Chunks in directories of their own, with a codec; one that holds only the fill value.
    nested = {"chunks": (3, 2), "codec": "zstd:1", "fill_value": 0}
    yield Case("resplit", "out.zarr", nested)
    # The same chunk in two cells, of which one may be durable alone.
    yield Case("resplit", "out.zarr", {**nested, "codec": "none", "consume": True})
    yield Case("resplit", "out.n5", {"chunks": (3, 2), "codec": "gzip:1"})
    # One file of many blocks, which is gone on with; and one that counts only as a whole.
    yield Case("resplit", "out.h5", {"chunks": (3, 2), "codec": "none", "consume": True})
    yield Case("resplit", "out.h5", {"chunks": (3, 2), "codec": "gzip:1"})
    # Files that are compressed as a whole: one for each block, and one that counts only as a whole.
    yield Case("resplit", "out/b_{0}_{1}.nii.gz", {"chunks": (3, 2)})
    yield Case("merge", "out.nii.gz", {"codec": "gzip:1"})
    # One TIFF file whose elements follow its header, and one that counts only as a whole.
    yield Case("merge", "out.tif", {**little, "consume": True})
    yield Case("resplit", "out.tif", {"chunks": (3, 4), "codec": "zlib:1"})
    # A header in a file of its own, and an image whose metadata comes last.
    yield Case("merge", "out.img", {"consume": True})
    yield Case("resplit", "out.zarr", {"chunks": (3, 2), "format": "ome-zarr", "codec": "zstd:1"})
    # Every file of the source holds four chunks.
    yield Case("resplit", "out", {"chunks": (3, 4), "consume": True}, source="sharded.zarr")
    if thorough:
        shards = {"chunks": (3, 2), "shards": (3, 4), "codec": "zstd:1"}
        yield Case("resplit", "out.zarr", shards)
        yield Case("resplit", "out.zarr", {**shards, "overwrite": True}, is_there=True)
        yield Case("resplit", "out.zarr", {**nested, "overwrite": True}, is_there=True)
        one = {"chunks": ARRAY.shape, "codec": "none", "consume": True}
        yield Case("resplit", "out.zarr", {**one, **little})
        for durability in ("rename", "none"):
            yield Case("resplit", "out.zarr", {**nested, "durability": durability})
        for codec in ("none", "gzip:1"):
            hdf5 = {"chunks": (3, 2), "codec": codec}
            yield Case("resplit", "out.h5", {**hdf5, "overwrite": True}, is_there=True)
            for durability in ("rename", "none"):
                yield Case("resplit", "out.h5", {**hdf5, "durability": durability})
        yield Case("resplit", "out.h5", {"chunks": ARRAY.shape, "codec": "none", **little})
        yield Case("split", "out", {"chunks": (3, 2)}, source="whole.npy")
        yield Case("merge", "out.npy", {"consume": True})
        yield Case("merge", "out.npy", little)
        yield Case("resplit", "out", {"chunks": (2, 3), **little})
        yield Case("merge", "out.npy", {"overwrite": True}, is_there=True)
        for durability in ("rename", "none"):
            yield Case("resplit", "out", {"chunks": (3, 2), "durability": durability})
            yield Case("merge", "out.npy", {**little, "durability": durability})


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit often, so that runs are cut short between commits."""
    monkeypatch.setattr(commit, "MOST_CELLS", 3)


def make(folder: Path, case: Case) -> Callable[[], object]:
    """Make a source, and a target if one is to be replaced; return what is to be done."""
    template = folder.with_name("template")
    if not template.exists():
        template.mkdir()
        with inject(Faults()):
            fill(template, case)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    run = getattr(dask_io, case.verb)
    return partial(run, folder / case.source, folder / case.target, **{**PLAIN, **case.options})


def fill(folder: Path, case: Case) -> None:
    """Fill an empty folder with what is there before a run."""
    np.save(folder / "whole.npy", ARRAY)
    if case.source == "in":
        dask_io.split(folder / "whole.npy", folder / "in", chunks=(2, 4))
    elif case.source == "sharded.zarr":
        dask_io.split(
            folder / "whole.npy", folder / case.source, chunks=(1, 2), shards=(2, 4), codec="zstd:1"
        )
    if case.is_there and case.verb == "merge":
        np.save(folder / case.target, -ARRAY)
    elif case.is_there:
        np.save(folder / "old.npy", -ARRAY)
        # More blocks than the new target has, so that some have to go.
        dask_io.split(folder / "old.npy", folder / case.target, chunks=(1, 3))


def count_calls(folder: Path, case: Case) -> int:
    """Return how many calls a run makes that nothing happens to."""
    run, faults = make(folder, case), Faults()
    with inject(faults):
        run()
    return faults.n_calls


def place_of(folder: Path, case: Case) -> Path:
    """Return the file or the directory that a run writes."""
    target = folder / case.target
    return target.parent if "{" in target.name else target


def check_blocks(place: Path, case: Case) -> None:
    """Check that what looks like a complete block is one."""
    if case.options.get("durability") == "none" or case.is_there:
        return
    if case.is_zarr:
        check_chunks(place, case)
        return
    if place.suffix == ".h5":
        if place.exists():
            with h5py.File(place) as file:
                assert np.array_equal(file["data"][...], ARRAY)
        return
    if place.suffix == ".tif":
        if place.exists():
            assert np.array_equal(tifffile.imread(place), ARRAY)
        return
    if case.target.endswith((".nii.gz", ".img")):
        check_volumes(place, case)
        return
    chunks = case.options.get("chunks", ARRAY.shape)
    for path in [place] if place.is_file() else place.glob("b_*.npy"):
        numbers = path.stem.split("_")[1:] if place.is_dir() else ["0", "0"]
        check_block(np.load(path), numbers, chunks, path)


def check_volumes(place: Path, case: Case) -> None:
    """Check that what looks like a complete volume is one."""
    chunks = case.options.get("chunks", ARRAY.shape)
    for path in place.glob("b_*.nii.gz") if "chunks" in case.options else [place]:
        is_there = path.exists() and (path.suffix != ".img" or path.with_suffix(".hdr").exists())
        if is_there:
            numbers = re.findall("[0-9]+", path.name) or ["0", "0"]
            check_block(np.asarray(nib.load(path).dataobj), numbers, chunks, path)


def check_chunks(place: Path, case: Case) -> None:
    """Check that what looks like a complete array, or a chunk with a codec, is one."""
    is_complete = (place / "zarr.json").exists()
    place = place / "0" if case.options.get("format") == "ome-zarr" else place
    if is_complete:
        assert np.array_equal(np.asarray(zarr.open_array(place, mode="r")), ARRAY)
    if case.options["codec"] == "none" or "shards" in case.options:
        return
    chunks = case.options["chunks"]
    for path in place.glob("c/*/[0-9]"):
        found = np.frombuffer(Zstd().decode(path.read_bytes()), ARRAY.dtype).reshape(chunks)
        check_block(found, path.relative_to(place / "c").parts, chunks, path)


def complete(place: Path, case: Case, run: Callable[[], object]) -> None:
    """Resume what a fault left, or begin again if it left nothing."""
    files = (path for path in place.rglob("*") if path.is_file())
    # A journal that was not complete counts for nothing.
    is_begun = place.is_file() or any(".dask-io." not in path.parent.name for path in files)
    is_begun = is_begun or place.with_name(place.name + ".dask-io").exists()
    case.complete(place, run, is_begun=is_begun)


def check_complete(folder: Path, case: Case) -> None:
    """Check that all is there that should be, and nothing else."""
    place = place_of(folder, case)
    written = dask_io.open(place)
    assert np.array_equal(written[:, :], ARRAY)
    assert dask_io.verify(place)
    left = {path.name for path in folder.rglob(".*") if not path.name.endswith(".dask-io")}
    assert not left, "temporary files are left"
    expected = {"whole.npy", case.source, "old.npy", place.name}
    expected |= {"out.hdr"} if place.suffix == ".img" else set()
    if case.options.get("consume"):
        expected -= {case.source}
    found = {path.name for path in folder.iterdir() if not path.name.endswith(".dask-io")}
    assert found <= expected, "more is left than there should be"


def survive(folder: Path, case: Case, faults: Faults, loss: Loss | None = None) -> None:
    """Run until a fault, look at what is left, and complete it."""
    run = make(folder, case)
    synced = Synced(folder) if loss is not None else None
    with suppress(Killed, StorageError), inject(faults, synced):
        run()
    if synced is not None and loss is not None:
        synced.lose(loss)
    with with_log(faults):
        place = place_of(folder, case)
        check_blocks(place, case)
        with inject(Faults()):
            complete(place, case, run)
        check_complete(folder, case)


def every_fault(n_calls: int, *, thorough: bool) -> Iterator[tuple[str, Faults, Loss | None]]:
    """Yield faults at every call, of all kinds, or at every seventh call one of them in turn."""
    for number, at in enumerate(range(1, n_calls + 1, 1 if thorough else 7)):
        kinds: list[tuple[str, Faults, Loss | None]] = [
            ("kill", Faults(at), None),
            ("power", Faults(at), Loss.NOTHING),
            ("power, names left", Faults(at), Loss.NAMES),
            ("EIO", Faults(at, errno.EIO), None),
            ("ENOSPC", Faults(at, errno.ENOSPC), None),
        ]
        if thorough:
            yield from kinds
        else:
            yield kinds[number % len(kinds)]


def enumerate_faults(folder: Path, case: Case, *, thorough: bool) -> dict[str, int]:
    """Survive all faults of a run, and return how many there were of each kind."""
    is_synced = case.options.get("durability", "fsync") == "fsync"
    chosen = every_fault(count_calls(folder / "case", case), thorough=thorough)
    return survive_all(
        case,
        (
            (kind, partial(survive, folder / "case", case, faults, loss))
            for kind, faults, loss in chosen
            if loss is None or is_synced
        ),
    )


@pytest.mark.parametrize("case", list(cases(thorough=False)), ids=str)
def test_a_fault_at_every_call(
    tmp_path: Path, case: Case, record_property: Callable[[str, object], None]
) -> None:
    """One kind of fault at every seventh call, each kind in turn."""
    record_property("survived", enumerate_faults(tmp_path, case, thorough=False))


def test_a_fault_at_every_call_of_chunks_in_pieces(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """Chunks that are encoded and written piece by piece."""
    monkeypatch.setattr("dask_io.stores.chunked_target._PIECE", 4)
    # Whatever is planned, and nothing else can be done.
    monkeypatch.setattr(ZarrTarget, "in_pieces", property(lambda _: True, lambda *_: None))
    monkeypatch.setattr(ZarrTarget, "encode", None)
    case = next(each for each in cases(thorough=False) if each.is_zarr)
    record_property("survived", enumerate_faults(tmp_path, case, thorough=False))


@pytest.mark.slow
@pytest.mark.parametrize("case", list(cases(thorough=True)), ids=str)
def test_every_fault_at_every_call(
    tmp_path: Path, case: Case, record_property: Callable[[str, object], None]
) -> None:
    """Every kind of fault at each call."""
    record_property("survived", enumerate_faults(tmp_path, case, thorough=True))


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", [list(cases(thorough=False))[3]], ids=str)
def test_a_second_fault_while_resuming(tmp_path: Path, case: Case, step: int) -> None:
    """What the first fault left is gone on with twice: nothing is believed that was taken back."""
    folder = tmp_path / "case"
    n_calls = count_calls(folder, case)
    for at in range(1, n_calls, step):
        run, place = make(folder, case), folder / case.target
        with suppress(Killed, StorageError), inject(Faults(at, errno.EIO)):
            run()
        with suppress(Killed, StorageError, UsageError), inject(Faults(5 + 7 * at % n_calls)):
            dask_io.resume(place, consume=case.options.get("consume", False), **PLAIN)
        check_blocks(place, case)
        with inject(Faults()):
            complete(place, case, run)
        check_complete(folder, case)


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_file_that_is_not_replaced_keeps_its_checksums(tmp_path: Path, step: int) -> None:
    """Whatever fails before the new one has its name; what is known of the old one is true."""
    folder, place = tmp_path / "case", tmp_path / "case" / "out.h5"
    options = {"chunks": (3, 2), "codec": "gzip:1", "overwrite": True}
    case, kept = Case("resplit", place.name, options, is_there=True), 0
    for at in range(1, count_calls(folder, case) + 1, step):
        run = make(folder, case)
        with suppress(StorageError), inject(Faults(at, errno.EIO)):
            run()
        if is_the_old_one(place):
            assert dask_io.verify(place)
            kept += 1
    assert kept


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_an_unfinished_target_is_overwritten_at_any_call(tmp_path: Path, step: int) -> None:
    """Half of an array is never taken for a smaller one."""
    case = Case("resplit", "out", {"chunks": (3, 2), "overwrite": True})
    folder = tmp_path / "case"

    def begin() -> Callable[[], object]:
        run = make(folder, case)
        with suppress(Killed), inject(Faults(100)):
            run()
        assert (folder / "out").exists()
        return run

    run, faults = begin(), Faults()
    with inject(faults):
        run()
    for at in range(1, faults.n_calls, step):
        run = begin()
        with suppress(Killed), inject(Faults(at)):
            run()
        with suppress(DaskIOError):
            assert dask_io.open(folder / "out").shape == ARRAY.shape
        with inject(Faults()):
            run()
        check_complete(folder, case)
