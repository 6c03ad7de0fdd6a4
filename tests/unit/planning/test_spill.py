"""Scratch blocks of the spill strategy."""

from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Axis, count_segments
from dask_io.planning import Problem, find_candidates
from dask_io.planning.spill import _count_pieces


@given(st.integers(0, 200), st.integers(1, 60), st.integers(1, 60))
def test_scratch_blocks_between_regular_axes_are_those_counted(
    length: int, first: int, second: int
) -> None:
    """The closed form for two regular axes equals the general count."""
    axes = Axis.regular(length, first), Axis.regular(length, second)
    assert _count_pieces(*axes) == count_segments(*axes)


def test_too_many_scratch_blocks_leave_spill_out() -> None:
    """All other strategies are still compared."""
    problem = Problem.regular((10**7,) * 3, (7,) * 3, (5,) * 3, budget=4 * 10**9)
    found = {one.strategy for one in find_candidates(problem)}
    assert {"sweep", "keep", "naive"} <= found
    assert "spill" not in found
