"""A fault at every call of a repair: the target is as damaged as before, or less.

As in `test_every_call`, but what is damaged before is known. Whatever happens, blocks that were
right stay right, those that were damaged are as they were or right, and another repair makes the
target what it was in the first place.
"""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import StorageError
from dask_io.jobs.planning import plan_rest
from dask_io.testing.faults import Faults, Killed, Loss, Synced, inject
from tests.faults.test_every_call import every_fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dask_io.jobs.settings import Settings
    from dask_io.journal.ledger import Ledger
    from dask_io.stores.store import Source, Target

ARRAY = np.arange(1, 21, dtype="<i2").reshape(5, 4)
ARRAY[3:, 2:] = 0


@dataclass(frozen=True)
class Case:
    """A target, and which of its files are damaged."""

    target: str
    options: dict[str, Any]
    removed: tuple[str, ...] = ()
    truncated: tuple[str, ...] = ()
    changed: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.target}-{self.options.get('codec', 'as it is')}"


CASES = [
    Case("out", {"chunks": (3, 2)}, ("dask-io.json",), ("b_1_0.npy",), ("b_0_1.npy",)),
    Case("out.zarr", {"chunks": (3, 2), "codec": "zstd:1"}, ("c/0/0",), ("c/0/1",), ("zarr.json",)),
    Case("out.npy", {"chunks": -1}, changed=("",)),
    Case("out.h5", {"chunks": (3, 2), "codec": "gzip:1"}, truncated=("",)),
]


@pytest.fixture(autouse=True)
def quick_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan as fast as possible: it is done hundreds of times."""

    def plan_naively(
        source: Source, target: Target, ledger: Ledger, settings: Settings
    ) -> dask_io.Job:
        quick = replace(settings, strategy="naive", device="ssd")
        return plan_rest(source, target, ledger, quick)

    monkeypatch.setattr("dask_io.jobs.repair.plan_rest", plan_naively)


def make(folder: Path, case: Case) -> tuple[Callable[[], dask_io.Repair], dict[str, bytes]]:
    """Make a damaged target; return how it is repaired, and what it was before."""
    template = folder.with_name("template")
    if not template.exists():
        template.mkdir()
        np.save(template / "whole.npy", ARRAY)
        with inject(Faults()):
            dask_io.resplit(template / "whole.npy", template / case.target, **case.options)
        shutil.copytree(template, folder.with_name("right"))
        damage(template / case.target, case)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    # The source has been moved, too.
    repair = partial(dask_io.repair, folder / case.target, folder / "whole.npy", workers=1)
    return repair, snapshot(folder.with_name("right"))


def damage(place: Path, case: Case) -> None:
    """Damage files of a target."""
    for name in case.removed:
        (place / name).unlink()
    for name in case.truncated:
        os.truncate(place / name, 7)
    for name in case.changed:
        content = (place / name).read_bytes()
        (place / name).write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return all files, but for locks; whoever takes a journal over ends its last line first."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {
        str(path.relative_to(folder)): path.read_bytes().rstrip(b"\n")
        for path in files
        if "/repair/" not in str(path)
    }


def survive(folder: Path, case: Case, faults: Faults, loss: Loss | None) -> None:
    """Repair until a fault, look at what is left, and repair again."""
    repair, right = make(folder, case)
    damaged = snapshot(folder)
    synced = Synced(folder) if loss is not None else None
    try:
        with inject(faults, synced):
            repair()
    except (Killed, StorageError):
        pass
    if synced is not None and loss is not None:
        synced.lose(loss)
    left = snapshot(folder)
    in_the_making = {name for name in left if name.endswith(".part")}
    assert left.keys() - in_the_making <= right.keys()
    for name, content in right.items():
        if not name.endswith(".h5"):
            assert left.get(name) in {content, damaged.get(name)}, f"{name} is worse than before"
    with inject(Faults()):
        repair()
    check_repaired(folder, case, right)


def check_repaired(folder: Path, case: Case, right: dict[str, bytes]) -> None:
    """Check that the target is what it was, and nothing is left of repairs."""
    found = snapshot(folder)
    assert found.keys() == right.keys(), "temporary files are left"
    # HDF5 notes times, but its chunks are the same.
    assert all(found[name] == right[name] for name in right if not name.endswith(".h5"))
    assert np.array_equal(dask_io.open(folder / case.target)[:, :], ARRAY)
    assert dask_io.verify(folder / case.target)
    assert not list(folder.rglob("repair"))


def count_calls(folder: Path, case: Case) -> int:
    """Return how many calls a repair makes that nothing happens to."""
    repair, right = make(folder, case)
    with inject(faults := Faults()):
        repair()
    check_repaired(folder, case, right)
    return faults.n_calls


def survive_all(folder: Path, case: Case, *, thorough: bool) -> int:
    """Survive faults at all calls of a repair, and return how many calls there are."""
    n_calls = count_calls(folder, case)
    found = every_fault(n_calls, thorough=thorough)
    for kind, faults, loss in islice(found, 0, None, 1 if thorough else 2):
        try:
            survive(folder, case, faults, loss)
        except BaseException as error:
            error.add_note(
                "\n".join([f"{kind} at call {faults.at} of {n_calls}", *faults.log[-9:]])
            )
            raise
    return n_calls


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fault_at_every_call_of_a_repair(
    quick_path: Path, case: Case, record_property: Callable[[str, object], None]
) -> None:
    """One kind of fault at every fourth call; over all of them every kind comes."""
    record_property("calls", survive_all(quick_path / "case", case, thorough=False))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_fault_at_every_call_of_a_repair(
    quick_path: Path, case: Case, record_property: Callable[[str, object], None]
) -> None:
    """Every kind of fault at each call."""
    record_property("calls", survive_all(quick_path / "case", case, thorough=True))


def test_a_disk_that_cannot_be_read_is_damage(quick_path: Path) -> None:
    """A block in a bad sector is written again; one without permission is not."""
    repair, right = make(quick_path / "case", CASES[0])
    repair()
    with inject(counted := Faults()):
        repair()
    reads = [n for n, call in enumerate(counted.log, 1) if call.startswith("preadv")]
    with inject(Faults(reads[-1], errno.EIO)):
        assert repair().n_damaged == 1
    with pytest.raises(StorageError, match="permission"), inject(Faults(reads[-1], errno.EACCES)):
        repair()
    assert snapshot(quick_path / "case") == right
