"""Plan several targets from one source: in one sweep if memory allows, otherwise in a few."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, count, permutations
from math import prod
from typing import TYPE_CHECKING

from dask_io.errors import BudgetTooSmallError
from dask_io.geometry import Axis
from dask_io.planning.bundle import Bundle, box_around, window_of
from dask_io.planning.cost import count_cuts, fewest_runs, naive_seeks
from dask_io.planning.describe_sweeps import describe_sweeps
from dask_io.planning.plan import Plan, Seeks
from dask_io.planning.reads import Hold, ReadRun
from dask_io.planning.shared import count_shared_reads
from dask_io.planning.sweep import memory_for_lower_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from dask_io.geometry import Region
    from dask_io.planning.problem import Problem
    from dask_io.planning.shared import SharedReads

# The most steps of a sweep. The search walks the steps of many sweeps to find their memory.
_MOST_STEPS = 2**16
# With at least this many axes, not every order and every set of flushed axes is tried.
_MANY_AXES = 4
# How many finer read cells are tried after the coarsest that fit.
_FINER_CUTS = 2
# Within this factor of the fewest possible seeks, the search stops.
_NEARLY = 1.01

Reads = tuple[tuple[ReadRun, ...], ...]


@dataclass(frozen=True)
class Sweeps:
    """Bundles that write all targets, one sweep after another, and their cost.

    `groups` has for each bundle the numbers of the problems that its members solve. Source data
    that several bundles need is read again by each of them.
    """

    bundles: tuple[Bundle, ...]
    groups: tuple[tuple[int, ...], ...]
    strategy: str = "bundle"

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """The problem of each target, in the order given."""
        found = {
            number: member.problem
            for bundle, group in zip(self.bundles, self.groups, strict=True)
            for number, member in zip(group, bundle.members, strict=True)
        }
        return tuple(found[number] for number in sorted(found))

    @property
    def budget(self) -> int:
        """Memory budget in bytes."""
        return self.problems[0].budget

    @property
    def seeks(self) -> Seeks:
        """Number of seeks."""
        found = [bundle.seeks for bundle in self.bundles]
        return Seeks(sum(seeks.read for seeks in found), sum(seeks.write for seeks in found))

    @cached_property
    def _needed(self) -> SharedReads:
        """The cost of reading the needed part of the source once."""
        whole = Bundle.sharing(
            self.problems,
            self.bundles[0].order,
            _keep(_uncut(_box_of(self.problems).shape)),
            Hold.PIECES,
        )
        return count_shared_reads(whole.source, whole.ends, whole.windows)

    @property
    def n_source_blocks(self) -> int:
        """Number of source blocks that are needed, in whole or in part."""
        return self._needed.visits

    @cached_property
    def memory_for_lower_bound(self) -> int:
        """A budget with which one sweep touches every block once."""
        if len(self.problems) == 1:
            return memory_for_lower_bound(self.problems[0])
        ends = next(_cuts(self.problems))
        orders = _orders(_cut_axes(self.problems, ends), len(ends))
        found = (Bundle.sharing(self.problems, each, _keep(ends), Hold.PIECES) for each in orders)
        return self.problems[0].staging.budget_for(min(bundle.held_bytes for bundle in found))

    @property
    def lower_bound(self) -> int:
        """The fewest possible seeks: the needed part of every block is touched once."""
        return self._needed.runs + sum(fewest_runs(problem.target) for problem in self.problems)

    @property
    def naive_seeks(self) -> int:
        """The seeks of the naive strategy for each target separately."""
        return sum(map(naive_seeks, self.problems))

    @property
    def n_placements(self) -> int:
        """Number of copies from source blocks to write cells."""
        return sum(plan.n_placements for bundle in self.bundles for plan in bundle.members)

    @property
    def coding_seconds(self) -> float:
        """Estimated seconds to encode, and to decode once for all members of a bundle."""
        seconds = self.problems[0].source.coding.decode * self.n_bytes_read
        seconds += sum(each.n_bytes * each.target.coding.encode for each in self.problems)
        return seconds and seconds * self.problems[0].staging.slowdown(self.staging_bytes)

    @property
    def openings(self) -> int:
        """Visits to blocks."""
        return self.read_openings + self.write_openings

    @property
    def read_openings(self) -> int:
        """Visits to source blocks."""
        return sum(bundle.read_openings for bundle in self.bundles)

    @property
    def write_openings(self) -> int:
        """Visits to target blocks."""
        return sum(bundle.write_openings for bundle in self.bundles)

    @property
    def n_bytes_read(self) -> int:
        """Bytes read."""
        return sum(bundle.n_bytes_read for bundle in self.bundles)

    @property
    def n_bytes_in_gaps(self) -> int:
        """Bytes that are read only because they are between needed runs."""
        return self.n_bytes_read - self.reading_through(0).n_bytes_read

    @property
    def n_bytes_read_again(self) -> int:
        """Bytes that are read more than once because one sweep does not fit in memory."""
        if len(self.bundles) == 1:
            return 0
        return self.n_bytes_read - self._needed.n_elements * self.problems[0].source_itemsize

    @property
    def n_bytes_written(self) -> int:
        """Bytes written."""
        return sum(bundle.n_bytes_written for bundle in self.bundles)

    @property
    def n_steps(self) -> int:
        """Number of steps of all sweeps."""
        return sum(bundle.n_steps for bundle in self.bundles)

    @property
    def held_bytes(self) -> int:
        """The most bytes of array data held at any moment."""
        return max(bundle.held_bytes for bundle in self.bundles)

    @property
    def staging_bytes(self) -> int:
        """Bytes of staging at peak memory."""
        return self.peak_bytes - max(
            bundle.held_bytes for bundle in self.bundles if bundle.peak_bytes == self.peak_bytes
        )

    @property
    def peak_bytes(self) -> int:
        """Peak memory of the run, in bytes."""
        return max(bundle.peak_bytes for bundle in self.bundles)

    @property
    def fits(self) -> bool:
        """Whether every sweep fits in the budget."""
        return all(bundle.fits for bundle in self.bundles)

    def reading_through(self, n_axes: int) -> Self:
        """Return these sweeps with source blocks read whole along the `n_axes` fastest axes."""
        return replace(self, bundles=tuple(each.reading_through(n_axes) for each in self.bundles))

    def __str__(self) -> str:
        return describe_sweeps(self)


def plan_together(
    problems: Sequence[Problem], plan_alone: Callable[[Problem], Plan], *, apart: bool = False
) -> Sweeps:
    """Plan several targets from one source so that little is read twice.

    If it fits in the budget, one sweep writes all targets: it reads source block by source block
    and keeps everything until it is complete, or it has smaller reads and flushed ends. If two
    sweeps, each for half of the targets, need fewer seeks, the targets are divided. A single
    target is planned with `plan_alone`.

    Parameters
    ----------
    problems
        Problems with the same source, dtype, budget and staging; windows may differ.
    plan_alone
        Plans a single target.
    apart
        Plan every target separately.

    Raises
    ------
    BudgetTooSmallError
        If a target does not fit even alone. It contains a budget that suffices for all.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_io.geometry import Grid, Layout, Region
    >>> from dask_io.planning import Problem, Side, plan_keep
    >>> grid, layout = Grid.regular((8, 8), (4, 8)), Layout.c(2)
    >>> problems = [
    ...     Problem(
    ...         Side(grid, layout, window=Region((low, 0), (low + 4, 8))),
    ...         Side(Grid.regular((4, 8), (4, 8)), layout),
    ...         np.dtype("uint8"),
    ...         1000,
    ...     )
    ...     for low in (0, 2, 4)
    ... ]
    >>> sweeps = plan_together(problems, plan_keep)
    >>> sweeps.seeks, sweeps.held_bytes, len(sweeps.bundles)
    (Seeks(read=2, write=3), 64, 1)
    """
    numbers = sorted(
        range(len(problems)), key=lambda number: window_of(problems[number].source).start
    )
    groups_found = [(n,) for n in numbers] if apart else [tuple(numbers)]
    found = [each for group in groups_found for each in _plan_group(problems, group, plan_alone)]
    bundles, groups = zip(*found, strict=True)
    return Sweeps(bundles, groups)


def _plan_group(
    problems: Sequence[Problem], group: tuple[int, ...], plan_alone: Callable[[Problem], Plan]
) -> list[tuple[Bundle, tuple[int, ...]]]:
    if len(group) == 1:
        return [(Bundle.of(plan_alone(problems[group[0]])), group)]
    bundle = _find_bundle([problems[number] for number in group])
    if bundle is not None and _is_good(bundle):
        return [(bundle, group)]
    halves: list[tuple[Bundle, tuple[int, ...]]] = []
    errors: list[BudgetTooSmallError] = []
    for half in (group[: len(group) // 2], group[len(group) // 2 :]):
        try:
            halves += _plan_group(problems, half, plan_alone)
        except BudgetTooSmallError as error:
            errors.append(error)
    apart = sum(each.seeks.total for each, _ in halves)
    if bundle is not None and (errors or bundle.seeks.total <= apart):
        return [(bundle, group)]
    if errors:
        raise max(errors, key=lambda error: error.required)
    return halves


def _is_good(bundle: Bundle) -> bool:
    return bundle.seeks.total <= bundle.lower_bound * _NEARLY


def _find_bundle(problems: Sequence[Problem]) -> Bundle | None:
    """Return the bundle with the fewest seeks that fits; None if no bundle fits."""
    best: Bundle | None = None
    n_finer = 0
    for ends in _cuts(problems):
        found = _flushed_where_needed(problems, ends)
        if found is not None and (best is None or found.seeks.total < best.seeks.total):
            best = found
        if best is not None:
            n_finer += 1
            if n_finer > _FINER_CUTS or _is_good(best):
                break
    return best


def _cuts(problems: Sequence[Problem]) -> Iterator[tuple[Axis, ...]]:
    """Yield read cells, from source blocks to finer cells, cut along the slowest axes first.

    If there are too many steps, several blocks are read at once.
    """
    source, box = problems[0].source, _box_of(problems)
    ends = list(source.stored.clipped(box).axes)
    windows = [window_of(problem.source).relative_to(box.start) for problem in problems]
    while (most := _longest(ends)) is not None and _count_steps(ends, windows) > _MOST_STEPS:
        ends[most] = ends[most].grouped(2)
    yield tuple(ends)
    if not all(axis.length for axis in ends):
        return
    for axis in source.layout.axes:
        whole = ends[axis]
        for power in count(1):
            longest = -(-whole.longest // 2**power)
            ends[axis] = _cut_evenly(whole, longest)
            if _count_steps(ends, windows) > _MOST_STEPS:
                return
            if whole.longest > 1:
                yield tuple(ends)
            if longest <= 1:
                break


def _longest(ends: Sequence[Axis]) -> int | None:
    """Return the axis with the most read cells; None if every axis has only one."""
    most = max(range(len(ends)), key=lambda axis: ends[axis].n_blocks)
    return most if ends[most].n_blocks > 1 else None


def _count_steps(ends: Sequence[Axis], windows: Sequence[Region]) -> int:
    return sum(_count_cells(ends, window) for window in windows if window.size)


def _count_cells(ends: Sequence[Axis], window: Region) -> int:
    bounds = zip(ends, window.bounds, strict=True)
    return prod(1 + axis.index_at(high - 1) - axis.index_at(low) for axis, (low, high) in bounds)


def _cut_evenly(axis: Axis, longest: int) -> Axis:
    """Divide the blocks of an axis into parts of at most this length."""
    runs: list[tuple[int, int]] = []
    for length, n_blocks in axis.runs:
        parts = Axis.regular(length, longest).runs
        runs += parts * n_blocks if len(parts) > 1 else [(parts[0][0], parts[0][1] * n_blocks)]
    return Axis(tuple(runs))


def _flushed_where_needed(problems: Sequence[Problem], ends: tuple[Axis, ...]) -> Bundle | None:
    """Return the bundle with the fewest seeks that fits by flushing along some axes."""
    if _largest_cell(problems, ends) * problems[0].itemsize > problems[0].holdable:
        return None
    several = _cut_axes(problems, ends)
    orders = list(_orders(several, len(ends)))
    candidates: list[tuple[int, int, Reads]] = []
    for flushed in _subsets([axis for axis in several if _may_flush(problems, ends, axis)]):
        reads = tuple(
            tuple(ReadRun(*run, keep=axis not in flushed) for run in ends[axis].runs)
            for axis in range(len(ends))
        )
        bundle = Bundle.sharing(problems, orders[0], reads, Hold.PIECES)
        candidates.append((bundle.seeks.total, len(candidates), reads))
    for _, _, reads in sorted(candidates):
        found = _best_order(problems, reads, orders)
        if found is not None:
            return found
    return None


def _cut_axes(problems: Sequence[Problem], ends: Sequence[Axis]) -> list[int]:
    """Return the axes with several read cells, slowest first."""
    return [axis for axis in problems[0].source.layout.axes if ends[axis].n_blocks > 1]


def _may_flush(problems: Sequence[Problem], ends: Sequence[Axis], axis: int) -> bool:
    """Whether no read cell ends inside an atomic target block, which must be written whole."""
    corner = _box_of(problems).start
    for problem in problems:
        if problem.target.atomic:
            window = window_of(problem.source).relative_to(corner)
            cuts = ends[axis].clipped(*window.bounds[axis])
            if count_cuts(problem.target.grid.axes[axis], cuts).pieces:
                return False
    return True


def _largest_cell(problems: Sequence[Problem], ends: Sequence[Axis]) -> int:
    """Return the most elements of one read cell that one target needs."""
    corner = _box_of(problems).start
    windows = [window_of(problem.source).relative_to(corner) for problem in problems]
    return max(
        prod(
            axis.clipped(*bounds).longest for axis, bounds in zip(ends, window.bounds, strict=True)
        )
        for window in windows
    )


def _best_order(
    problems: Sequence[Problem], reads: Reads, orders: Sequence[tuple[int, ...]]
) -> Bundle | None:
    """Return the order with the least memory; hold blocks if they fit, which saves a copy."""
    for hold in (Hold.BLOCKS, Hold.PIECES):
        bundles = [Bundle.sharing(problems, order, reads, hold) for order in orders]
        best = min(bundles, key=lambda bundle: bundle.held_bytes)
        if best.fits:
            return best
    return None


def _orders(several: Sequence[int], n_axes: int) -> Iterator[tuple[int, ...]]:
    """Yield orders of the axes; the position of axes with one read cell does not matter."""
    rest = tuple(axis for axis in range(n_axes) if axis not in several)
    if len(several) < _MANY_AXES:
        yield from ((*order, *rest) for order in permutations(several))
        return
    for inner in several:
        yield (*(axis for axis in several if axis != inner), inner, *rest)


def _subsets(axes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield sets of axes to flush, smallest first; with many axes only the slowest axes."""
    for size in range(len(axes) + 1):
        if len(axes) < _MANY_AXES:
            yield from combinations(axes, size)
        else:
            yield tuple(axes[:size])


def _box_of(problems: Sequence[Problem]) -> Region:
    return box_around([window_of(problem.source) for problem in problems])


def _uncut(shape: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(Axis(((length, 1),) if length else ()) for length in shape)


def _keep(ends: Sequence[Axis]) -> Reads:
    return tuple(tuple(ReadRun(*run, keep=True) for run in axis.runs) for axis in ends)
