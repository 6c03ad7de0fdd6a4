"""`Problem`: what it refuses, and what it derives."""

import numpy as np
import pytest

from dask_io.geometry import Grid, Layout
from dask_io.planning import Problem, Side, Staging


def test_source_and_target_have_one_shape() -> None:
    """Grids of different arrays are refused."""
    sides = [Side(Grid.regular((length,), (2,)), Layout.c(1)) for length in (4, 5)]
    with pytest.raises(ValueError, match="differ"):
        Problem(sides[0], sides[1], np.dtype("u1"), 10)


def test_a_layout_fits_its_grid() -> None:
    """A layout with another number of axes is refused."""
    with pytest.raises(ValueError, match="the layout has 2 axes, not 1"):
        Side(Grid.regular((4,), (2,)), Layout.c(2))


def test_derived_sizes() -> None:
    """Bytes, lower bound and what may be held follow from the parts."""
    problem = Problem.regular(
        (10, 6), (4, 3), (5, 6), dtype="f8", budget=100, staging=Staging(30, 60)
    )
    assert (problem.n_bytes, problem.lower_bound, problem.holdable) == (480, 8, 70)
    assert problem.within(50).holdable == 20
