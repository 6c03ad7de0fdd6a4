"""Compare arrays with each other, and targets with the checksums in their journals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.engine.checksums import verify_checksums
from dask_io.engine.problem import make_problem, side_of
from dask_io.engine.staging import comparison_slab
from dask_io.engine.verify import Verification, verify_plan
from dask_io.errors import BudgetTooSmallError, DataError, StorageError, UsageError
from dask_io.formats.changed import refuse_other_array
from dask_io.formats.places import (
    advise_repair,
    advising_repair,
    holder_of,
    is_absent,
    journal_at,
    refuse_unfinished,
)
from dask_io.formats.reopening import read_back, remake_target
from dask_io.jobs.record import JobRecord, is_tree
from dask_io.jobs.tree_record import TreeRecord
from dask_io.journal.journal import ArrayLines
from dask_io.planning import plan_sweep
from dask_io.storage.files import medium_of, pieces_of
from dask_io.storage.location import is_taken
from dask_io.storage.medium import Durability
from dask_io.stores.container import INSIDE, split_place
from dask_io.stores.store import Repairable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    import numpy as np

    from dask_io.engine.checksums import Lines
    from dask_io.engine.run import Progress
    from dask_io.hierarchy.container import DividedContainer, DividedTarget
    from dask_io.hierarchy.tree import Tree
    from dask_io.planning import Plan
    from dask_io.storage.location import Location
    from dask_io.storage.pace import Pace
    from dask_io.stores.store import Readback, Source, Store

    OnChecked: TypeAlias = Callable[[Progress], None] | None
    """What takes the progress of a comparison."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A plan to compare two arrays."""

    plan: Plan
    workers: int
    slab: int

    def run(self, a: Source, b: Source, on_progress: OnChecked = None) -> Verification:
        """Compare the arrays."""
        return verify_plan(
            self.plan, a, b, workers=self.workers, slab=self.slab, on_progress=on_progress
        )


def plan_comparison(a: Store, b: Store, memory: int, workers: int, *, at: Location) -> Comparison:
    """Plan a comparison within a budget, with one thread if there is too little for several.

    If the journal of the second array, which is at the place `at`, records that its elements were
    converted from the type of the first, the comparison converts them in the same way.

    Raises
    ------
    BudgetTooSmallError
        If no plan fits the memory; it names the smallest sufficient budget.
    """
    dtype = b.dtype if _is_converted_from(a.dtype, at) else a.dtype
    itemsize = max(dtype.itemsize, b.dtype.itemsize)

    def plan_with_slab(slab: int) -> Comparison:
        left = max(1, memory - workers * slab)
        problem = make_problem(
            side_of(a), side_of(b), dtype, memory=left, workers=workers, stored=a.dtype
        )
        return Comparison(plan_sweep(problem), workers, slab)

    try:
        return plan_with_slab(comparison_slab(memory, itemsize, workers))
    except BudgetTooSmallError as error:
        if workers > 1:
            return plan_comparison(a, b, memory, 1, at=at)
        # The plan gets the least memory it needs, and the slab a part of the rest.
        spare = memory - error.required
        slab = comparison_slab(spare, itemsize, workers)
        if slab > spare:
            raise BudgetTooSmallError(error.required + slab, memory, error.unit) from None
        return plan_with_slab(slab)


def _is_converted_from(dtype: np.dtype[Any], place: Location) -> bool:
    """Whether a journal records that a target's elements were converted from a type."""
    journal = journal_at(place)
    # Files with several arrays keep the types of their elements.
    if journal is None or is_tree(journal):
        return False
    stored = JobRecord.read(journal).converted
    # NumPy would convert None to a type.
    return stored is not None and stored == dtype


def check_again(
    places: Iterable[Location], memory: int, workers: int, *, pace: Pace | None = None
) -> None:
    """Compare complete targets with their checksums.

    Raises
    ------
    DataError
        If one differs.
    """
    for place in places:
        found = verify_sealed(place, memory, workers, pace=pace)
        if found.first_difference is not None:
            differs = f"differs from what was written, first in region {found.first_difference}"
            at = found.place or str(place)
            raise DataError(at, [differs], "the disk or the memory may be faulty")


def verify_sealed(
    place: Location,
    memory: int,
    workers: int,
    *,
    pace: Pace | None = None,
    on_progress: OnChecked = None,
) -> Verification:
    """Compare a target with the checksums in its journal.

    Raises
    ------
    StorageError
        If the target does not exist.
    UsageError
        If it has no journal.
    DataError
        If it is incomplete, or not the target that the journal describes.
    """
    journal = journal_at(place)
    if journal is None:
        if is_absent(place):
            raise StorageError(str(place), "no such file or directory", "check the path")
        raise UsageError(_without_checksums(place))
    refuse_unfinished(place)
    if is_absent(place):
        raise DataError(str(place), ["is missing"], advise_repair(place))
    with advising_repair(place):
        return _verify_all(place, journal, memory, workers, pace=pace, on_progress=on_progress)


def _verify_all(
    place: Location,
    journal: Location,
    memory: int,
    workers: int,
    *,
    pace: Pace | None,
    on_progress: OnChecked,
) -> Verification:
    """Compare everything that a journal describes."""
    if not is_tree(journal):
        described = JobRecord.read(journal).target
        refuse_other_array(described, place)
        written = read_back(described, at=place)
        target = remake_target(described, at=place, durability=Durability.FSYNC, reserve=True)
        if isinstance(target, Repairable) and not target.is_described():
            raise DataError(str(place), ["the metadata that describes it is missing or invalid"])
        written.tally.pace = pace
        return _verify_written(written, journal, memory, workers, on_progress=on_progress)
    record = TreeRecord.read(journal)
    found = Verification(0)
    refuse_other_arrays(place, record)
    if record.divided is not None:
        _check_group(place, record, record.divided)
        for name in record.arrays:
            one = verify_sealed(place / name, memory, workers, pace=pace, on_progress=on_progress)
            found = found.followed_by(one, str(place / name))
        return found
    arrays = {n: each["target"] for n, each in enumerate(record.arrays.values())}
    copies = record.copies
    if not place.exists():
        # The place is one array of the file.
        inside = split_place(str(place))[1]
        arrays = {n: each for n, each in arrays.items() if each.get("inside") == inside}
        copies = {name: each for name, each in copies.items() if name == inside}
    if not arrays and not copies:
        raise UsageError(_without_checksums(place))
    check_copies(holder_of(place), replace(record, copies=copies))
    lines = ArrayLines(journal)
    for number, described in arrays.items():
        written = read_back(described, at=place)
        written.tally.pace = pace
        one = _verify_written(
            written,
            journal,
            memory,
            workers,
            lines=partial(lines.read, number),
            on_progress=on_progress,
        )
        name = f"{place}::/{described.get('inside')}" if len(arrays) > 1 else ""
        found = found.followed_by(one, name)
    return found


def _check_group(place: Location, record: TreeRecord, container: DividedContainer) -> None:
    """Check everything in a group except the blocks of its arrays.

    Raises
    ------
    DataError
        If something is missing or damaged.
    """
    _refuse_missing(place, [*record.copies, *record.arrays])
    check_copies(place, record)
    for path in reopen_group(place, record, container).damaged_groups():
        problem = "the metadata of the group is missing or invalid"
        raise DataError(str(place / path), [problem])


def refuse_other_arrays(place: Location, record: TreeRecord) -> None:
    """Refuse a group or a file with an array that is intact, but not the one that was written.

    Raises
    ------
    DataError
        If there is one.
    """
    for name, each in record.arrays.items():
        at = holder_of(place) if record.divided is None else place / name
        refuse_other_array(each["target"], at)


def reopen_group(
    place: Location,
    record: TreeRecord,
    container: DividedContainer,
    *,
    durability: Durability = Durability.FSYNC,
    tree: Tree | None = None,
    copies: Iterable[str] = (),
) -> DividedTarget:
    """Describe the target of a group again, from its journal; see `reopen_tree`.

    Raises
    ------
    DataError
        If its record is broken.
    """
    try:
        return container.reopen_tree(
            place,
            record.described,
            [*record.arrays, *record.copies],
            durability=durability,
            tree=tree,
            copies=copies,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"its journal does not describe a group: {error}"
        raise DataError(str(place), [problem], "start again with --overwrite") from error


def check_copies(place: Location, record: TreeRecord) -> None:
    """Compare arrays that were copied verbatim with their checksums.

    Raises
    ------
    DataError
        If one differs.
    """
    found = record.container.digests(place, record.copies) if record.copies else {}
    for name in record.copies:
        if found[name] != record.copies[name]:
            raise DataError(f"{place}{INSIDE}/{name}", ["differs from what was written"])


def _refuse_missing(group: Location, arrays: Iterable[str]) -> None:
    gone = [f"array {name} is missing" for name in arrays if not is_taken(group / name)]
    if gone:
        raise DataError(str(group), gone)


def _without_checksums(place: Location) -> str:
    return (
        f"{place} has no checksums, because Dask IO has not written it, its .dask-io file was not "
        f"moved along, or --no-sidecar was given; compare it with its source: dask-io verify SRC "
        f"{quote(str(place))}"
    )


def _verify_written(
    written: Readback,
    journal: Location,
    memory: int,
    workers: int,
    *,
    lines: Lines | None = None,
    on_progress: OnChecked,
) -> Verification:
    share = share_memory(written, memory, workers)
    return verify_checksums(
        written, journal, **share._asdict(), lines=lines, on_progress=on_progress
    )


class Share(NamedTuple):
    """Number of threads that compare checksums, and the bytes of memory of each."""

    workers: int
    slab: int


def share_memory(written: Readback, memory: int, workers: int) -> Share:
    """Divide a budget among the threads that read a target back.

    There is only one thread if the budget is too small for several.

    Raises
    ------
    BudgetTooSmallError
        If it is too small for one thread.
    """
    slab = comparison_slab(memory, written.dtype.itemsize, workers)
    if slab > memory:
        raise BudgetTooSmallError(slab, memory, "element")
    return Share(workers if workers * slab <= memory else 1, slab)


def compare_files(a: Location, b: Location) -> None:
    """Compare the files in two directories byte by byte.

    Raises
    ------
    DataError
        If they differ.
    """
    files = [dict(medium_of(each).files(each)) for each in (a, b)]
    for name in sorted(files[0].keys() | files[1].keys()):
        found = [each[name].size if name in each else None for each in files]
        if found[0] != found[1] or not _are_same(a / name, b / name):
            problem = f"its file {name} differs from that of {a}"
            raise DataError(str(b), [problem])


def _are_same(a: Location, b: Location) -> bool:
    return all(map(bytes.__eq__, pieces_of(a), pieces_of(b)))
