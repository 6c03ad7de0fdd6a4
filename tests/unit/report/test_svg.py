"""Plans as pictures."""

from xml.etree import ElementTree as ET

import pytest

from dask_io.planning import Hold, Plan, Problem, ReadRun, SlabRange, Slabs, plan_keep, plan_naive
from dask_io.report.svg import plan_svg


def keep(shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...]) -> Plan:
    """Plan with memory for everything."""
    return plan_keep(Problem.regular(shape, source, target, budget=10**40))


def texts(svg: str) -> str:
    """All that can be read in a picture, which must be well-formed."""
    return "\n".join(ET.fromstring(svg).itertext())  # noqa: S314  # our own text


@pytest.mark.parametrize("n_axes", [1, 2, 3, 5])
def test_any_number_of_axes_can_be_drawn(n_axes: int) -> None:
    """The picture is well-formed and tells the costs, whatever the number of axes."""
    plan = keep((12,) * n_axes, (4,) * n_axes, (3,) * n_axes)

    shown = texts(plan_svg(plan))

    assert f"{plan.seeks.total:,} seeks" in shown
    assert f"{plan.problem.source.grid.n_blocks:,} blocks" in shown


def test_a_billion_blocks_are_drawn_with_few_lines() -> None:
    """The size of the picture does not grow with the number of blocks."""
    svg = plan_svg(keep((10**6,) * 3, (10**3,) * 3, (999,) * 3))

    assert len(svg) < 50_000
    assert "not every boundary is drawn" in texts(svg)


def test_marks_have_colours() -> None:
    """A naive plan flushes everywhere; a plan with enough memory keeps everywhere."""
    problem = Problem.regular((12, 12), (4, 4), (3, 6), budget=10_000)

    naive, kept = plan_svg(plan_naive(problem)), plan_svg(keep((12, 12), (4, 4), (3, 6)))

    flush, keep_colour = "#d1495b", "#2a8a4a"
    # One of each is in the legend.
    assert (naive.count(flush), naive.count(keep_colour)) == (5, 1)
    assert kept.count(flush) == 1


def test_slabs_are_drawn_with_their_own_ends() -> None:
    """An end that only some slabs have goes across these alone."""
    columns, rows = (ReadRun(12, 1, keep=True),), (ReadRun(6, 2, keep=True),)
    slabs = Slabs(0, 1, (SlabRange(6, 12, rows),))
    problem = Problem.regular((12, 12), (12, 12), (12, 12), budget=1000)
    plan = Plan(problem, (0, 1), (rows, columns), Hold.PIECES, "keep", slabs)

    svg = plan_svg(plan)

    assert "144.0v100.0" in svg.replace(" ", "")
    assert "v200.0" not in svg


def test_uncut_axes_give_way_to_cut_ones() -> None:
    """The axes shown are those along which something is cut."""
    shown = texts(plan_svg(keep((5, 12, 1, 12), (5, 4, 1, 4), (5, 3, 1, 6))))

    assert "axis 1" in shown
    assert "axis 3" in shown
    assert "axis 0" not in shown


def test_an_empty_array_can_be_drawn() -> None:
    """An axis of length 0 has no lines, and breaks nothing."""
    assert "0 blocks" in texts(plan_svg(keep((0, 4), (1, 2), (1, 4))))


def test_text_is_escaped() -> None:
    """The name of a type cannot bring markup into the picture."""
    problem = Problem.regular((4,), (2,), (4,), dtype="u1", budget=100)
    plan = plan_naive(problem)
    object.__setattr__(plan, "strategy", "<script>&")

    assert "<script>" not in plan_svg(plan)
    assert "<script>&" in texts(plan_svg(plan))
