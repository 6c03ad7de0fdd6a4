"""The published figures, reproduced."""

from dataclasses import dataclass

import pytest

from dask_io.geometry import Axis
from dask_io.planning import Hold, Plan, Problem, ReadRun, naive_seeks, plan_keep, plan_naive

SHAPE = (3500, 3500, 3500)
Lengths = tuple[int, int, int]


@dataclass(frozen=True)
class Row:
    """One configuration and what is known of it."""

    source: Lengths
    target: Lengths
    lower_bound: int
    naive: int
    read: Lengths
    peak: int
    carried: int
    seeks: tuple[int, int]
    aggregate: Lengths
    plenty: int

    def problem(self, budget: int) -> Problem:
        """The configuration with a budget."""
        return Problem.regular(SHAPE, self.source, self.target, dtype="float16", budget=budget)


ROWS = [
    Row(
        source=(875, 875, 875),
        target=(875, 1750, 875),
        lower_bound=96,
        naive=56_064,
        read=(875, 1750, 875),
        peak=2_679_687_500,
        carried=0,
        seeks=(64, 32),
        aggregate=(875, 1750, 875),
        plenty=2_679_687_500,
    ),
    Row(
        source=(875, 875, 875),
        target=(700, 875, 700),
        lower_bound=164,
        naive=73_500_128,
        read=(700, 875, 875),
        peak=1_715_000_000,
        carried=643_125_000,
        seeks=(128, 100),
        aggregate=(875, 875, 875),
        plenty=14_577_500_000,
    ),
    Row(
        source=(350, 350, 350),
        target=(500, 500, 500),
        lower_bound=1343,
        naive=196_001_000,
        read=(500, 700, 700),
        peak=1_900_000_000,
        carried=1_410_000_000,
        seeks=(1600, 343),
        aggregate=(700, 700, 700),
        plenty=10_928_000_000,
    ),
    Row(
        source=(350, 350, 350),
        target=(250, 250, 250),
        lower_bound=3744,
        naive=196_337_792,
        read=(250, 350, 350),
        peak=412_500_000,
        carried=351_250_000,
        seeks=(2200, 2744),
        aggregate=(350, 350, 350),
        plenty=5_049_750_000,
    ),
    Row(
        source=(175, 175, 175),
        target=(250, 250, 250),
        lower_bound=10_744,
        naive=392_008_000,
        read=(250, 350, 350),
        peak=412_500_000,
        carried=351_250_000,
        seeks=(12_800, 2744),
        aggregate=(350, 350, 350),
        plenty=5_049_750_000,
    ),
    Row(
        source=(350, 875, 350),
        target=(500, 875, 500),
        lower_bound=596,
        naive=196_000_400,
        read=(500, 875, 700),
        peak=962_500_000,
        carried=350_000_000,
        seeks=(640, 196),
        aggregate=(700, 875, 700),
        plenty=10_675_000_000,
    ),
    Row(
        source=(350, 875, 350),
        target=(350, 500, 350),
        lower_bound=1100,
        naive=210_800,
        read=(350, 875, 350),
        peak=1_133_125_000,
        carried=918_750_000,
        seeks=(400, 700),
        aggregate=(350, 875, 350),
        plenty=1_133_125_000,
    ),
]
each_row = pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))


def published(row: Row, lengths: Lengths) -> Plan:
    """The published plan with this read shape: C order, everything kept, pieces held."""
    reads = tuple(
        tuple(ReadRun(*run, keep=True) for run in Axis.regular(extent, length).runs)
        for extent, length in zip(SHAPE, lengths, strict=True)
    )
    return Plan(row.problem(4 * 10**9), (0, 1, 2), reads, Hold.PIECES, "keep")


@each_row
def test_lower_bounds(row: Row) -> None:
    """The lower bound is the number of blocks on both sides."""
    assert row.problem(1).lower_bound == row.lower_bound


@each_row
def test_naive_seeks(row: Row) -> None:
    """Naive needs the published seeks, asked for alone or as a plan's."""
    problem = row.problem(4 * 10**9)
    assert naive_seeks(problem) == plan_naive(problem).seeks.total == row.naive


@each_row
def test_published_read_shapes_at_4_gb(row: Row) -> None:
    """Peak, carry and seeks of the published read shapes are the published ones."""
    plan = published(row, row.read)
    assert plan.held_bytes == row.peak
    assert plan.carried_bytes == row.carried
    assert (plan.seeks.read, plan.seeks.write) == row.seeks


@each_row
def test_aggregates_reach_the_lower_bound(row: Row) -> None:
    """The published shapes for plenty of memory touch every block once, at the known peak."""
    plan = published(row, row.aggregate)
    assert plan.held_bytes == row.plenty
    assert plan.seeks.total == plan.openings == row.lower_bound


@each_row
def test_keep_reaches_the_lower_bound_with_the_published_memory(row: Row) -> None:
    """`plan_keep` is at least as good as the publication where memory is plenty."""
    plan = plan_keep(row.problem(row.plenty))
    assert plan.seeks.total == row.lower_bound
    assert plan.fits


@each_row
def test_keep_at_4_gb_needs_no_more_seeks_than_published(row: Row) -> None:
    """`plan_keep` is at least as good as the publication at 4 GB."""
    assert plan_keep(row.problem(4 * 10**9)).seeks.total <= sum(row.seeks)


def test_an_overlap_along_the_fastest_axis_costs_a_seek_per_row() -> None:
    """A block cut along its fastest axis costs a run for every row of the others."""
    problem = Problem.regular((4, 5, 6), (4, 5, 3), (4, 5, 6), budget=1000)
    plan = plan_naive(problem)
    assert (plan.seeks.read, plan.seeks.write) == (2, 2 * 4 * 5)
