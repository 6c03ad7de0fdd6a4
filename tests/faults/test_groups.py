"""A fault at every call of a run that makes a group: it is complete, or can be completed."""

from __future__ import annotations

import errno
import json
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import zarr

import dask_io
from dask_io.errors import StorageError
from dask_io.formats.zarr.quiet import quiet
from dask_io.journal.journal import is_unfinished
from dask_io.testing.faults import Faults, Killed, Loss, Synced, inject

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

PLAIN: dict[str, Any] = {"workers": 1, "strategy": "naive", "device": "ssd"}
VALUES = np.arange(1, 13, dtype="<i2").reshape(4, 3)
# What goes wrong: killed, without power, or with a call that fails.
FAULTS: list[tuple[int | None, Loss | None]] = [
    (None, None),
    (None, Loss.NOTHING),
    (errno.EIO, None),
    (None, Loss.NAMES),
    (errno.ENOSPC, None),
]


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


def make_file(place: Path) -> None:
    """Make a file that holds the same."""
    with h5py.File(place, "w") as file:
        file.attrs["title"] = "T"
        file["y"] = np.arange(4)
        file["y"].make_scale()
        file["a"], file["inner/b"], file["one"] = VALUES, VALUES + 100, 7
        for name in ("a", "inner/b"):
            file[name].dims[0].attach_scale(file["y"])
            file[name].dims[1].label = "x"


def content(place: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a group or a file, by path, as their libraries read them."""
    if place.is_file():
        with h5py.File(place) as file:
            return {name: file[name][()] for name in ("a", "inner/b", "y", "one")}
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
    shutil.rmtree(folder / "case", ignore_errors=True)
    shutil.copytree(folder / "template", folder / "case")
    (source,) = (folder / "case").glob("in.*")
    target = folder / "case/out.zarr"
    synced = Synced(folder / "case") if loss is not None else None

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
    left = [path for path in (folder / "case").rglob(".*") if not path.name.endswith(".dask-io")]
    assert not left, "temporary files are left"


def make_old(place: Path, *, ours: bool) -> None:
    """Make a group that is to be replaced: other arrays, and some of the same names."""
    made = place.with_name("made.zarr") if ours else place
    with quiet():
        group = zarr.create_group(made, attributes={"title": "T"}, zarr_format=3)
        for path in ("a", "deep/er/z", "y"):
            group.create_array(
                path, shape=(5, 4), chunks=(2, 2), dtype="i4", dimension_names=("y", "x")
            )[...] = 1 + np.arange(20).reshape(5, 4)
        zarr.consolidate_metadata(made)
    if ours:
        # A file that Dask IO has put there is its to remove.
        (made / "deep/notes.txt").write_text("notes")
        dask_io.resplit(made, place, chunks={"x": 3}, **PLAIN)
        shutil.rmtree(made)


def files_in(place: Path) -> set[str]:
    """The paths of all files in a directory, and of directories that hold nothing."""
    found = (path for path in place.rglob("*") if path.is_file() or not any(path.iterdir()))
    return {str(path.relative_to(place)) for path in found}


def is_same(found: dict[str, NDArray[Any]], expected: dict[str, NDArray[Any]]) -> bool:
    """Tell whether two groups hold the same."""
    is_alike = all(np.array_equal(found[name], expected[name]) for name in found.keys() & expected)
    return found.keys() == expected.keys() and is_alike


def arrays_in(place: Path) -> dict[str, NDArray[Any]]:
    """All that a reader takes for an array, be it in a group or not."""
    found = {}
    with quiet():
        for path in place.rglob("zarr.json"):
            if json.loads(path.read_text())["node_type"] == "array":
                array = zarr.open_array(path.parent, mode="r")
                found[str(path.parent.relative_to(place))] = np.asarray(array[...])
    return found


class Replacing(NamedTuple):
    """A group that is replaced by another, in a folder: what it holds before and afterwards."""

    folder: Path
    old: dict[str, NDArray[Any]]
    new: dict[str, NDArray[Any]]
    files: set[str]
    """Those of the new group."""

    @classmethod
    def prepare(cls, folder: Path, *, ours: bool) -> Replacing:
        """Make both, the old one by Dask IO or by other tools."""
        template, fresh = folder / "template", folder / "fresh.zarr"
        template.mkdir()
        make(template / "in.zarr")
        make_old(template / "out.zarr", ours=ours)
        dask_io.resplit(template / "in.zarr", fresh, chunks={"y": 3}, **PLAIN)
        old, new = content(template / "out.zarr"), content(template / "in.zarr")
        return cls(folder, old, new, files_in(fresh))

    @property
    def target(self) -> Path:
        """Where the old group is."""
        return self.folder / "case/out.zarr"

    def run(self) -> None:
        """Replace it."""
        source = self.folder / "case/in.zarr"
        dask_io.resplit(source, self.target, chunks={"y": 3}, overwrite=True, **PLAIN)

    def survive(self, faults: Faults, loss: Loss | None, *, resumes: bool) -> None:
        """Replace it until a fault, look at what is there, and complete it or begin again."""
        case = self.folder / "case"
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(self.folder / "template", case)
        synced = Synced(case) if loss is not None else None
        try:
            with inject(faults, synced):
                self.run()
        except (Killed, StorageError):
            pass
        if synced is not None and loss is not None:
            synced.lose(loss)
        unfinished = is_unfinished(self.target / ".dask-io")
        self.check_left(unfinished=unfinished)
        with inject(Faults()):
            if unfinished and resumes:
                dask_io.resume(self.target, **PLAIN)
            else:
                self.run()
        assert is_same(content(self.target), self.new)
        assert dask_io.verify(self.target)
        assert files_in(self.target) == self.files, "something is left"
        assert not list(case.glob(".*")), "something is left beside it"

    def check_left(self, *, unfinished: bool) -> None:
        """Check that it is the old group, or the new one, or unfinished, and all arrays whole."""
        if (self.target / "zarr.json").exists():
            found = content(self.target)
            assert is_same(found, self.old) or is_same(found, self.new)
        else:
            assert unfinished or not any(self.target.iterdir()), "it can be gone on with"
        for name, array in arrays_in(self.target).items():
            known = [each[name] for each in (self.old, self.new) if name in each]
            assert any(np.array_equal(array, each) for each in known), f"{name} is not whole"

    def survive_all(self, *, step: int, kinds: int) -> None:
        """Survive faults where the old group goes, at every moment or some, and where others are.

        Of each moment so many kinds of faults, in turn.
        """
        counted = Faults()
        self.survive(counted, None, resumes=True)
        calls = [call.partition("case/")[2] for call in counted.log]
        first = next(number for number, call in enumerate(calls) if ".dask-io" in call)
        last = len(calls) - calls[::-1].index("out.zarr/deep/er")
        assert last - first > 50
        moments = [*range(first, last + 12, step), *range(last + 12, len(calls), 20 * step)]
        for number, at in enumerate(moments):
            for kind in range(number, number + kinds):
                error, loss = FAULTS[kind % len(FAULTS)]
                faults = Faults(at, error)
                try:
                    self.survive(faults, loss, resumes=number % 2 == 0)
                except BaseException as problem:
                    problem.add_note(f"{error}, {loss} at {at}: " + "\n".join(faults.log[-8:]))
                    raise


@pytest.mark.parametrize("ours", [True, False])
def test_a_fault_while_a_group_is_replaced(*, ours: bool, tmp_path: Path) -> None:
    """It is the old one, or the new one, or can be resumed; or it is replaced once more."""
    Replacing.prepare(tmp_path, ours=ours).survive_all(step=29, kinds=1)


def test_what_is_durable_of_a_group_that_goes(tmp_path: Path) -> None:
    """That it is none any more, before chunks go; that all is gone, before anything comes."""
    replacing, counted = Replacing.prepare(tmp_path, ours=True), Faults()
    replacing.survive(counted, None, resumes=True)
    calls = [call.replace(f"{tmp_path}/case/out.zarr", "G") for call in counted.log]
    own, inner, arrays = (
        calls.index(f"unlink G/{name}") for name in ("zarr.json", "deep/zarr.json", "a/zarr.json")
    )
    chunk, come = calls.index("unlink G/a/c/0/0"), calls.index("mkdir G/a")
    assert own < calls.index("open G", own) < inner < arrays
    for folder in ("deep", "deep/er", "deep/er/z", "a", "y"):
        assert arrays < calls.index(f"open G/{folder}", arrays) < chunk < come

    replacing.survive(Faults(come + 1), Loss.NOTHING, resumes=True)


def test_a_lock_of_the_group_that_stays(tmp_path: Path) -> None:
    """The old group is what it was, and the next run takes the lock away."""
    replacing, counted = Replacing.prepare(tmp_path, ours=False), Faults()
    replacing.survive(counted, None, resumes=True)
    lock = counted.log.index(f"unlink {replacing.target}/.dask-io/lock")
    for error in (errno.EIO, None):
        replacing.survive(Faults(lock + 1, error), None, resumes=True)


@pytest.mark.slow
@pytest.mark.parametrize("ours", [True, False])
def test_every_fault_while_a_group_is_replaced(*, ours: bool, tmp_path: Path) -> None:
    """Each kind of fault at every moment at which the old one goes."""
    Replacing.prepare(tmp_path, ours=ours).survive_all(step=1, kinds=len(FAULTS))


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("in.zarr", 19),
        ("in.h5", 43),
        pytest.param("in.zarr", 1, marks=pytest.mark.slow),
        pytest.param("in.h5", 1, marks=pytest.mark.slow),
    ],
)
def test_a_fault_at_every_call(name: str, step: int, tmp_path: Path) -> None:
    """Killed, without power, or with a call that fails: one kind of fault at each call or some."""
    (tmp_path / "template").mkdir()
    (make if name == "in.zarr" else make_file)(tmp_path / "template" / name)
    counted = Faults()
    survive(tmp_path, counted, None)
    assert counted.n_calls > 100
    for number, at in enumerate(range(1, counted.n_calls + 1, step)):
        error, loss = FAULTS[number % len(FAULTS)]
        faults = Faults(at, error)
        try:
            survive(tmp_path, faults, loss)
        except BaseException as problem:
            problem.add_note(f"{error}, {loss} at call {at}: " + "\n".join(faults.log[-8:]))
            raise
