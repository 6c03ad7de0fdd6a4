"""Jobs with several targets are durable as one: a fault at any call never makes them look complete.

A run is killed, the power fails, or a call fails, at every call. Afterwards nothing that is
incomplete is called complete. Either no journal exists and the same command simply runs again, or
`resume` of the folder, or of any target with a journal, completes all targets.
"""

from __future__ import annotations

import errno
import re
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import (
    DaskIOError,
    DataError,
    InterruptedRunError,
    LockedError,
    StorageError,
    TargetExistsError,
    UsageError,
)
from dask_io.formats.places import journal_at, targets_in
from dask_io.journal.logs import logs_of
from dask_io.testing.faults import Faults, Killed, Loss, Synced, inject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ARRAY = np.arange(1, 5 * 4 + 1, dtype="<i2").reshape(5, 4)
# The first region is not the first that is read.
REGIONS = ["2:4", "0:3", "1:5,0:2"]
PARTS = [ARRAY[2:4], ARRAY[0:3], ARRAY[1:5, 0:2]]
NAMED_JOURNAL = re.compile(r"rename .*\.dask-io\.[0-9a-f]{8}\.part")
PLAIN: dict[str, Any] = {"workers": 1, "device": "ssd"}


@dataclass(frozen=True)
class Case:
    """Targets in one folder, or each in a folder of its own, that are written from one read."""

    name: str
    source: str
    places: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()
    is_extract: bool = True

    def make_run(self, folder: Path, **options: Any) -> Callable[[], object]:
        """Return what writes the targets."""
        chosen: dict[str, Any] = {**PLAIN, **dict(self.options)}
        if self.is_extract:
            chosen = {**chosen, "regions": REGIONS, **options}
            return partial(dask_io.extract, folder / self.source, folder / "t", **chosen)
        targets = [folder / place for place in self.places]
        chosen = {**chosen, "chunks": [(3, 2), (2, 4), (5, 4)], **options}
        return partial(dask_io.resplit, folder / self.source, targets, **chosen)

    @property
    def expected(self) -> list[Any]:
        """What the targets hold in the end."""
        return PARTS if self.is_extract else [ARRAY] * len(self.places)


def regions_as(name: str, suffix: str, source: str, **options: Any) -> Case:
    """Return a case of three regions in one folder."""
    places = tuple(f"t/region_00{n}{suffix}" for n in range(3))
    return Case(name, source, places, tuple(options.items()))


CASES = [
    regions_as("files", ".npy", "whole.npy"),
    regions_as("folders", "", "whole.npy", chunks=(2, 2)),
    # Each target in a sweep of its own.
    regions_as("sweeps", ".npy", "whole.npy", strategy="naive"),
    regions_as("zarr", ".zarr", "whole.zarr"),
    regions_as("hdf5", ".h5", "whole.npy", format="hdf5"),
    Case("layouts", "whole.npy", ("t/a", "t/b", "t/c"), is_extract=False),
    Case("apart", "whole.npy", ("t/x/a", "t/y/a.zarr", "t/z/a.npy"), is_extract=False),
]


@pytest.fixture
def folder(quick_path: Path) -> Path:
    """A folder with the source, as a file and as a Zarr array; targets go to ``t``."""
    np.save(quick_path / "whole.npy", ARRAY)
    dask_io.resplit(quick_path / "whole.npy", quick_path / "whole.zarr", chunks=(2, 2))
    return quick_path


def clear(folder: Path) -> None:
    """Remove all targets."""
    shutil.rmtree(folder / "t", ignore_errors=True)
    (folder / "t").mkdir()


def count_calls(folder: Path, run: Callable[[], object]) -> tuple[int, int]:
    """Return how many calls an undisturbed run makes, until the last journal begins and in all."""
    clear(folder)
    with inject(counted := Faults()):
        run()
    # A journal is made in a folder of its own, which then gets its name.
    made = [n for n, call in enumerate(counted.log, 1) if NAMED_JOURNAL.fullmatch(call)]
    return max(made), counted.n_calls


def begun(folder: Path, case: Case) -> list[Path]:
    """Return the targets that have a journal."""
    return [folder / place for place in case.places if journal_at(folder / place) is not None]


def check_nothing_is_called_complete(folder: Path, case: Case) -> None:
    """Check that what opens or verifies is right, and that the job is complete if it says so."""
    places = [folder / place for place in case.places]
    is_right = []
    for place, part in zip(places, case.expected, strict=True):
        try:
            is_right.append(np.array_equal(dask_io.open(place)[:, :], part))
        except DaskIOError:
            is_right.append(False)
        else:
            assert is_right[-1], f"{place.name} opens and is wrong"
    for place in [*places, *({folder / "t"} if targets_in(folder / "t") else ())]:
        with suppress(DataError, UsageError, StorageError):
            assert not dask_io.verify(place) or all(is_right), f"verify of {place} says equal"


def check_complete(folder: Path, case: Case) -> None:
    """Check that every target is there, and nothing else."""
    for place, part in zip(case.places, case.expected, strict=True):
        assert np.array_equal(dask_io.open(folder / place)[:, :], part)
        assert dask_io.verify(folder / place)
    left = [path for path in folder.rglob(".*") if not path.name.endswith(".dask-io")]
    assert not left, "temporary files are left"


def survive(folder: Path, case: Case, faults: Faults, loss: Loss | None, turn: int) -> None:
    """Run until a fault, look at what is left, and complete it from one of the targets."""
    clear(folder)
    run = case.make_run(folder)
    synced = Synced(folder) if loss is not None else None
    with suppress(Killed, StorageError), inject(faults, synced):
        run()
    if synced is not None and loss is not None:
        synced.lose(loss)
    try:
        check_nothing_is_called_complete(folder, case)
        found = begun(folder, case)
        with inject(Faults()):
            if not found:
                run()
            else:
                # From any of them; a folder is one more way to name those that lie in it.
                ways = [*found, folder / "t"] if targets_in(folder / "t") else found
                dask_io.resume(ways[turn % len(ways)], **PLAIN)
        check_complete(folder, case)
    except BaseException as error:
        error.add_note("\n".join([f"{case.name}: call {faults.at}, {loss}", *faults.log[-12:]]))
        raise


def every_fault(
    n_first: int, n_calls: int, case: Case, *, thorough: bool
) -> Iterator[tuple[str, Faults, Loss | None]]:
    """Yield a kill at some of the first calls and fewer later ones, other faults at some, or all.

    The first case has a kill at every third of the first calls, the others at every seventh.
    """
    which = 0 if thorough else CASES.index(case)
    first = range(1 + which, n_first + 3, 1 if thorough else 7 if which else 3)
    later = range(n_first + 3 + which, n_calls + 1, 1 if thorough else 31)
    for number, at in enumerate((*first, *later)):
        others: list[tuple[str, Faults, Loss | None]] = [
            ("power", Faults(at), Loss.NOTHING),
            ("power, names left", Faults(at), Loss.NAMES),
            ("EIO", Faults(at, errno.EIO), None),
            ("ENOSPC", Faults(at, errno.ENOSPC), None),
        ]
        yield ("kill", Faults(at), None)
        if thorough:
            yield from others
        elif number % 3 == 0:
            yield others[number // 3 % 4]


def enumerate_faults(folder: Path, case: Case, *, thorough: bool) -> dict[str, int]:
    """Survive all faults of a run, and return how many there were of each kind."""
    survived: Counter[str] = Counter()
    counts = count_calls(folder, case.make_run(folder))
    for turn, (kind, faults, loss) in enumerate(every_fault(*counts, case, thorough=thorough)):
        survive(folder, case, faults, loss, turn)
        survived[kind] += 1
    return dict(survived)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.slow if case.name in {"folders", "sweeps"} else ())
        for case in CASES
    ],
    ids=lambda case: case.name,
)
def test_a_fault_at_every_call(
    folder: Path, case: Case, record_property: Callable[[str, object], None]
) -> None:
    """Kills at some calls until all journals exist, at fewer later ones; some other faults."""
    record_property("survived", enumerate_faults(folder, case, thorough=False))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_fault_at_every_call(
    folder: Path, case: Case, record_property: Callable[[str, object], None]
) -> None:
    """Every kind of fault at each call."""
    record_property("survived", enumerate_faults(folder, case, thorough=True))


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=lambda case: case.name)
def test_a_kill_while_others_are_replaced(folder: Path, case: Case, step: int) -> None:
    """Old targets that an interrupted run was to replace are never taken for new ones."""
    old = case.make_run(folder, regions=["0:2", "1:3", "2:5"])
    run, places = case.make_run(folder, overwrite=True), [folder / each for each in case.places]

    def begin(faults: Faults) -> None:
        clear(folder)
        old()
        with suppress(Killed), inject(faults):
            run()

    def is_old() -> bool:
        with suppress(DaskIOError):
            return np.array_equal(dask_io.open(places[0])[:, :], ARRAY[0:2])
        return False

    begin(counted := Faults())
    refused = 0
    for at in range(1, counted.n_calls, step):
        begin(Faults(at))
        with inject(Faults()):
            if is_old():
                run()
            try:
                dask_io.resume(folder / "t", **PLAIN)
            except UsageError as error:
                assert "contains other data" in str(error)  # noqa: PT017 - not always raised
                refused += 1
                run()
        check_complete(folder, case)
    assert refused


def test_the_same_command_says_what_to_do(folder: Path) -> None:
    """A folder with an unfinished job is refused with the way to complete it."""
    run = CASES[0].make_run(folder)
    _, n_calls = count_calls(folder, run)
    clear(folder)
    with suppress(Killed), inject(Faults(n_calls // 2)):
        run()

    with pytest.raises(TargetExistsError, match=r"is unfinished; complete it with dask_io\.resume"):
        run()


def remove(place: Path) -> None:
    """Remove a file with its journal."""
    place.unlink()
    place.with_name(f".{place.name}.dask-io").unlink()


def test_targets_of_a_complete_job_may_go_their_own_ways(folder: Path) -> None:
    """They can be removed or moved: the folder misses them, the others are still right."""
    clear(folder)
    CASES[0].make_run(folder)()
    first, second, third = (folder / place for place in CASES[0].places)
    remove(second)
    assert dask_io.verify(first)
    with pytest.raises(DataError, match=r"region_001.npy is missing"):
        dask_io.verify(folder / "t")
    dask_io.resume(folder / "t")
    assert not second.exists()
    assert dask_io.repair(folder / "t").n_damaged == 1
    check_complete(folder, CASES[0])
    remove(first)
    assert dask_io.verify(third)
    with pytest.raises(DataError, match=r"region_000.npy is missing"):
        dask_io.verify(folder / "t")


def test_a_repair_takes_no_targets_away_from_a_running_job(folder: Path) -> None:
    """The run has yet to begin most of them; the repair is refused, and writes nothing."""
    run = CASES[0].make_run(folder)
    clear(folder)
    with inject(counted := Faults()):
        run()
    named = [n for n, call in enumerate(counted.log, 1) if NAMED_JOURNAL.fullmatch(call)]
    clear(folder)
    with suppress(Killed), inject(Faults(min(named) + 1)):
        run()
    (leader,) = begun(folder, CASES[0])
    journal = journal_at(leader)
    assert journal is not None
    with logs_of(journal).holding(journal), pytest.raises(LockedError):
        dask_io.repair(folder / "t")
    assert begun(folder, CASES[0]) == [leader]
    dask_io.repair(folder / "t")
    check_complete(folder, CASES[0])


def test_a_lost_leading_target_does_not_keep_others_from_repair(folder: Path) -> None:
    """The rest of the folder is repaired first; then the error names the one that is lost."""
    clear(folder)
    CASES[0].make_run(folder)()
    first, second, third = (folder / place for place in CASES[0].places)
    remove(first)
    second.write_bytes(b"damaged")
    third.unlink()
    with pytest.raises(DataError, match=r"region_000.npy is missing; restore it"):
        dask_io.repair(folder / "t")
    assert np.array_equal(np.load(second), PARTS[1])
    assert np.array_equal(np.load(third), PARTS[2])


def test_blocks_of_lost_targets_count_once(folder: Path) -> None:
    """What has just been written again is not looked at as an ordinary target, too."""
    clear(folder)
    CASES[0].make_run(folder)()
    remove(folder / CASES[0].places[1])
    found = dask_io.repair(folder / "t", dry_run=True)
    done = dask_io.repair(folder / "t")
    assert (found.n_blocks, found.n_damaged) == (done.n_blocks, done.n_damaged) == (3, 1)


def test_writing_a_lost_target_is_interrupted_and_run_again(folder: Path) -> None:
    """The advice is to repair the folder, and that completes the target."""
    clear(folder)
    CASES[1].make_run(folder)()
    shutil.rmtree(folder / CASES[1].places[1])

    def stop(_: dask_io.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match=rf'dask_io\.repair\("{folder / "t"}"\)$'):
        dask_io.repair(folder / "t", progress=stop)
    dask_io.repair(folder / "t")
    check_complete(folder, CASES[1])


def test_an_orphan_of_an_unfinished_job_is_refused(folder: Path) -> None:
    """Without the journal that lists all targets nobody can say that the job is complete."""
    run = CASES[0].make_run(folder)
    _, n_calls = count_calls(folder, run)
    clear(folder)
    with suppress(Killed), inject(Faults(n_calls * 2 // 3)):
        run()
    first, second, _ = (folder / place for place in CASES[0].places)
    shutil.rmtree(first.with_name(f"{first.name}.dask-io"))

    with pytest.raises(DataError, match="that journal is gone: run the first command again"):
        dask_io.resume(second)
