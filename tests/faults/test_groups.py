"""A fault at every call of a run that re-splits a group: it is complete, or can be completed."""

from __future__ import annotations

import errno
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

import dask_io
from dask_io.errors import StorageError
from dask_io.stores.zarr.documents import quiet
from dask_io.testing.faults import Faults, Killed, Loss, Synced, inject

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

PLAIN: dict[str, Any] = {"workers": 1, "strategy": "naive", "device": "ssd"}
VALUES = np.arange(1, 13, dtype="<i2").reshape(4, 3)


def make(place: Path) -> None:
    """Make a group with a group in it, consolidated, and an array that is copied file by file."""
    with quiet():
        group = zarr.create_group(place, attributes={"title": "T"}, zarr_format=3)
        for path, array, names in [
            ("a", VALUES, ("y", "x")),
            ("inner/b", VALUES + 100, ("y", "x")),
            ("y", np.arange(4), ("y",)),
            ("one", np.array(7), ()),
        ]:
            made = group.create_array(
                path,
                shape=array.shape,
                chunks=(2,) * array.ndim,
                dtype=array.dtype,
                dimension_names=names,
            )
            made[...] = array
        zarr.consolidate_metadata(place)


def content(place: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a group, by path, as zarr-python reads them."""
    with quiet():
        group = zarr.open_group(place, mode="r")
        assert group.attrs["title"] == "T"
        assert group.metadata.consolidated_metadata is not None
        return {
            name: np.asarray(array[...])
            for name, array in group.members(max_depth=None)
            if isinstance(array, zarr.Array)
        }


def survive(folder: Path, faults: Faults, loss: Loss | None) -> None:
    """Run until a fault; what looks like a group is one, and what is left can be completed."""
    shutil.rmtree(folder / "work", ignore_errors=True)
    shutil.copytree(folder / "template", folder / "work")
    source, target = folder / "work/in.zarr", folder / "work/out.zarr"
    synced = Synced(folder / "work") if loss is not None else None

    def run() -> None:
        dask_io.resplit(source, target, chunks={"y": 3}, **PLAIN)

    try:
        with inject(faults, synced):
            run()
    except (Killed, StorageError):
        pass
    if synced is not None and loss is not None:
        synced.lose(loss)
    expected = content(source)
    if (target / "zarr.json").exists():
        found = content(target)
        assert all(np.array_equal(found[name], expected[name]) for name in expected)
    with inject(Faults()):
        if target.exists() and any(target.iterdir()):
            dask_io.resume(target, **PLAIN)
        else:
            run()
    found = content(target)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    assert dask_io.verify(target)
    left = [path for path in (folder / "work").rglob(".*") if path.name != ".dask-io"]
    assert not left, "temporary files are left"


def test_a_fault_at_every_call(tmp_path: Path) -> None:
    """Killed, without power, or with a call that fails: one kind of fault at each call."""
    (tmp_path / "template").mkdir()
    make(tmp_path / "template/in.zarr")
    counted = Faults()
    survive(tmp_path, counted, None)
    kinds = [
        (None, None),
        (None, Loss.NOTHING),
        (errno.EIO, None),
        (None, Loss.NAMES),
        (errno.ENOSPC, None),
    ]
    assert counted.n_calls > 100
    for number, at in enumerate(range(1, counted.n_calls + 1, 7)):
        error, loss = kinds[number % len(kinds)]
        faults = Faults(at, error)
        try:
            survive(tmp_path, faults, loss)
        except BaseException as problem:
            problem.add_note(f"{error}, {loss} at call {at}: " + "\n".join(faults.log[-8:]))
            raise
