"""The sweep strategy reaches the published figures, and does well on other shapes."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from dask_io.errors import BudgetTooSmallError
from dask_io.geometry import Axis, Grid, Layout
from dask_io.planning import Hold, Plan, Problem, Side, Staging, plan_keep, plan_naive
from dask_io.planning.slabs import SlabRange, Slabs
from dask_io.planning.sweep import memory_for_lower_bound, plan_sweep
from dask_io.testing import walk

SHAPE = (3500, 3500, 3500)
GB = 10**9
# What a run may hold besides the data that the table counts.
ALLOWANCE = 64 * 10**6
Lengths = tuple[int, int, int]


@dataclass(frozen=True)
class Row:
    """One configuration of the published table and the figures known to be reachable."""

    source: Lengths
    target: Lengths
    memory: int
    seeks: dict[int, int]

    def problem(self, budget: int) -> Problem:
        """The configuration with a budget."""
        return Problem.regular(SHAPE, self.source, self.target, dtype="float16", budget=budget)


ROWS = [
    Row((875, 875, 875), (875, 1750, 875), 2_679_687_500, {1: 288, 2: 192, 4: 96}),
    Row((875, 875, 875), (700, 875, 700), 4_930_625_000, {1: 392, 2: 228, 4: 180}),
    Row((350, 350, 350), (500, 500, 500), 4_819_500_000, {1: 1784, 2: 1539, 4: 1392}),
    Row((350, 350, 350), (250, 250, 250), 2_228_500_000, {1: 4144, 2: 3804, 4: 3744}),
    Row((175, 175, 175), (250, 250, 250), 1_466_500_000, {1: 11136, 2: 10744, 4: 10744}),
    Row((350, 875, 350), (500, 875, 500), 2_257_500_000, {1: 708, 2: 620, 4: 596}),
    Row((350, 875, 350), (350, 500, 350), 306_250_000, {1: 1100, 2: 1100, 4: 1100}),
]
each_row = pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))


@each_row
def test_the_lower_bound_takes_no_more_memory_than_the_table_says(row: Row) -> None:
    """Every block is touched once in the table's memory, and not with a byte less."""
    problem = row.problem(GB)
    memory = memory_for_lower_bound(problem)
    assert memory <= row.memory
    plan = plan_sweep(problem.within(memory))
    assert plan.seeks.total == problem.lower_bound
    assert plan.held_bytes == memory
    assert plan_sweep(problem.within(memory - 1)).seeks.total > problem.lower_bound


@each_row
def test_seeks_are_no_more_than_the_table_says(row: Row) -> None:
    """At 1, 2 and 4 GB, with the allowance for staging, seeks are those of the table or fewer."""
    for gigabytes, seeks in row.seeks.items():
        plan = plan_sweep(row.problem(gigabytes * GB + ALLOWANCE))
        assert plan.seeks.total <= seeks
        assert plan.fits


def regular(shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...]) -> Problem:
    """A problem of 4-byte elements with one gigabyte."""
    return Problem.regular(shape, source, target, dtype="float32", budget=GB)


def test_slabs_are_cut_only_where_they_need_to_be() -> None:
    """Ends that differ from slab to slab save seeks, and cost what they are predicted to."""
    problem = Problem.regular((70, 70), (7, 7), (10, 10), budget=471)
    plan = plan_sweep(problem)
    assert plan.slabs is not None
    assert plan.seeks.total == problem.lower_bound + 6
    walked = walk(plan)
    assert (walked.seeks, walked.held_bytes, walked.n_steps, walked.array_is_rebuilt) == (
        plan.seeks,
        plan.held_bytes,
        plan.n_steps,
        True,
    )


def test_common_multiples_make_memory_tiny() -> None:
    """In a large cube of small blocks, sweeping between common boundaries takes 0.05 of 864 GB."""
    problem = regular((6000, 6000, 6000), (60, 60, 60), (100, 100, 100))
    assert memory_for_lower_bound(problem) <= 51 * 10**6
    assert plan_sweep(problem).seeks.total == problem.lower_bound


def test_slabs_to_columns_cut_two_axes() -> None:
    """A year of hourly maps to time series: less than half of the seeks of keep in a gigabyte."""
    problem = regular((8760, 721, 1440), (24, 721, 1440), (8760, 15, 15))
    assert plan_sweep(problem).seeks.total <= 81_432
    assert plan_keep(problem).seeks.total > 2 * 81_432


def test_a_mosaic_in_little_memory() -> None:
    """Ten gigabytes of tiles are retiled, each touched once, in a thirtieth of a gigabyte."""
    problem = regular((100_000, 100_000), (512, 512), (1000, 1000))
    assert memory_for_lower_bound(problem) <= 136 * 10**6


def test_four_axes() -> None:
    """Every block of a 4-D array is touched once in a twentieth of its size."""
    problem = regular((300, 64, 1000, 1000), (7, 64, 300, 300), (50, 16, 128, 128))
    assert memory_for_lower_bound(problem) <= problem.n_bytes // 20


def test_prime_sizes() -> None:
    """Sizes without a common multiple cost little more than the table's."""
    problem = regular((3511, 3517, 3527), (347, 353, 359), (499, 503, 509))
    assert memory_for_lower_bound(problem) <= 2 * 4_819_500_000
    assert plan_sweep(problem.within(2 * GB)).seeks.total <= 1982


@pytest.mark.parametrize(
    ("source", "target"), [((3500,) * 3, (500,) * 3), ((500,) * 3, (3500,) * 3)]
)
def test_split_and_merge(source: Lengths, target: Lengths) -> None:
    """One file to many and back is a stream, a layer of the small blocks at a time."""
    problem = regular(SHAPE, source, target)
    layer = problem.n_bytes // 7
    assert memory_for_lower_bound(problem) == layer
    plan = plan_sweep(problem.within(25 * GB))
    assert (plan.seeks.total, plan.openings, plan.n_steps) == (343 + 1, 343 + 1, 7)
    assert plan.held_bytes == layer
    # With less, every part of a layer is a visit of its own to the file and to its blocks.
    assert plan_sweep(problem.within(layer - 1)).seeks.total == 2 * 343 + 8


def test_what_is_stacked_is_a_stream_only_if_that_saves_memory() -> None:
    """Blocks that take little memory are read and written whole."""
    few, many = (3000, 40), (3000, 40_000)
    small, large = (plan_sweep(regular(shape, shape, (500, shape[1]))) for shape in (few, many))
    assert (small.streams, small.seeks.total, small.held_bytes) == (False, 7, 3000 * 40 * 4)
    assert (large.streams, large.seeks.total, large.held_bytes) == (True, 7, 500 * 40_000 * 4)
    least = plan_sweep(small.problem.within(500 * 40 * 4))
    assert (least.streams, least.seeks.total) == (True, 7)


def test_streams_are_not_swept_backwards_nor_slab_by_slab() -> None:
    """Backwards, every step is a visit of its own; slabs of their own are refused."""
    plan = plan_sweep(regular((3000, 40_000), (3000, 40_000), (500, 40_000)))
    assert replace(plan, backwards=frozenset({0})).seeks.total == 12
    with pytest.raises(ValueError, match="cannot be a stream"):
        replace(plan, slabs=Slabs(0, 1, (SlabRange(0, 500, plan.reads[1]),)))


def test_c_to_f_order_cuts_the_axis_that_is_slowest_in_the_target() -> None:
    """With two storage orders, seeks are no more than with one: each side has a slowest axis."""
    axes = Grid.regular(SHAPE, (350, 350, 350)), Grid.regular(SHAPE, (500, 500, 500))
    sides = Side(axes[0], Layout.c(3)), Side(axes[1], Layout.f(3))
    problem = Problem(*sides, np.dtype("float16"), GB)
    assert plan_sweep(problem).seeks.total <= 1784
    assert plan_keep(problem).seeks.total > 10**6


def test_irregular_blocks() -> None:
    """Blocks of any lengths are planned, and cost no more than keep."""
    lengths = [31 + 7 * (i % 5) for i in range(200)]
    axis, other = Axis.of(lengths), Axis.regular(sum(lengths), 64)
    sides = Side(Grid((axis, axis)), Layout.c(2)), Side(Grid((other, other)), Layout.c(2))
    problem = Problem(*sides, np.dtype("uint8"), 10**6)
    assert plan_sweep(problem).seeks.total < plan_keep(problem).seeks.total


@pytest.mark.parametrize("budget", [10, 10**3, 10**6, 10**9, 10**12])
@pytest.mark.parametrize(
    ("shape", "source", "target"),
    [
        ((7 * 10**9,), (7,), (5,)),
        ((1009 * 10**9,), (1009,), (1013,)),
        ((7 * 10**9, 1000), (7, 300), (5, 400)),
        ((1000, 7 * 10**9), (300, 7), (400, 5)),
        ((350_000,) * 3, (350,) * 3, (500,) * 3),
    ],
)
def test_a_billion_blocks(
    shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...], budget: int
) -> None:
    """However many blocks there are, a plan is found and is short to write down."""
    plan = plan_sweep(Problem.regular(shape, source, target, budget=budget))
    assert plan.fits
    assert sum(map(len, plan.reads)) < 10_000


def test_more_elements_than_64_bits_count() -> None:
    """Nothing overflows."""
    problem = Problem.regular((7 * 10**9,) * 3, (7,) * 3, (5,) * 3, budget=10**9)
    assert plan_sweep(problem).fits


@pytest.mark.parametrize("n_axes", [5, 6])
def test_many_axes(n_axes: int) -> None:
    """Five and six axes are planned, with plenty of memory and with little."""
    shape, source, target = (tuple(range(n, n + n_axes)) for n in (20, 5, 7))
    problem = Problem.regular(shape, source, target, budget=1)
    assert memory_for_lower_bound(problem) < problem.n_bytes // 4
    for budget in (1, 1000, 10**5):
        plan = plan_sweep(problem.within(budget))
        assert plan.fits
        assert plan.seeks.total <= plan_keep(problem.within(budget)).seeks.total


@pytest.mark.parametrize("n_short", [9, 28])
def test_as_many_axes_as_an_array_can_have(n_short: int) -> None:
    """Axes of one element change nothing, and are planned as if they were not there."""
    few = regular((12, 12, 12, 12), (4, 3, 4, 3), (3, 4, 3, 4))
    ones = (1,) * n_short
    many = regular((12, 12, *ones, 12, 12), (4, 3, *ones, 4, 3), (3, 4, *ones, 3, 4))

    memory = memory_for_lower_bound(many)

    assert memory == memory_for_lower_bound(few)
    assert plan_sweep(many.within(memory)).seeks.total == few.lower_bound


def test_any_budget_does_that_holds_one_element() -> None:
    """One element and the least staging are enough; a byte less is too little."""
    problem = Problem.regular(
        (10, 6), (4, 3), (5, 6), dtype="int16", budget=12, staging=Staging(10, 100)
    )
    assert plan_sweep(problem).fits
    with pytest.raises(BudgetTooSmallError) as caught:
        plan_sweep(problem.within(11))
    assert caught.value.required == 12


def test_an_empty_array_needs_nothing() -> None:
    """An array without elements has a plan without steps."""
    problem = Problem.regular((0, 6), (4, 3), (5, 6), budget=0)
    plan: Plan = plan_sweep(problem)
    assert (plan.n_steps, plan.seeks.total, memory_for_lower_bound(problem)) == (0, 0, 0)


def test_blocks_are_held_where_they_take_no_more_memory() -> None:
    """With equal grids nothing is carried, so whole blocks are held and no copy is made."""
    plan = plan_sweep(Problem.regular((100, 100), (10, 10), (10, 10), budget=1000))
    assert (plan.hold, plan.held_bytes, plan.seeks.total) == (Hold.BLOCKS, 100, 200)


@pytest.mark.parametrize(("rows", "hold"), [(6, Hold.PIECES), (60, Hold.BLOCKS)])
def test_blocks_are_held_where_that_pays(rows: int, hold: Hold) -> None:
    """What they hold more is touched once, whatever the length; the copy saved is of all rows."""
    plan = plan_sweep(Problem.regular((rows, 100), (2, 100), (3, 100), budget=10_000))
    assert (plan.hold, plan.seeks.total) == (hold, rows // 2 + rows // 3)


def test_blocks_are_held_in_the_least_memory() -> None:
    """Reading up to common boundaries along the outermost axis begins few blocks in vain."""
    problem = Problem.regular((1120,) * 3, (112,) * 3, (80,) * 3, dtype="int16", budget=2**28)
    plan = plan_sweep(problem)
    in_pieces = memory_for_lower_bound(problem)

    assert (plan.hold, plan.seeks.total) == (Hold.BLOCKS, problem.lower_bound)
    assert (plan.held_bytes, in_pieces) == (143_360_000, 73_023_488)
    assert [axis.ends.longest for axis in plan.axes] == [560, 112, 112]


def test_the_same_plan_every_time() -> None:
    """Planning is a function of the problem alone, whatever was planned before."""
    problem = ROWS[2].problem(GB)
    first = plan_sweep(problem)
    plan_sweep(problem.within(3 * GB))
    assert plan_sweep(problem) == first
    assert plan_naive(problem).seeks.total > first.seeks.total
