"""The moments of a run are those of its steps, with the memory that the plan predicts."""

from hypothesis import given

from dask_io.geometry import Region
from dask_io.planning import Plan, Problem, plan_sweep
from dask_io.planning.moments import moments_in_corner, sample_moments
from dask_io.testing.strategies import plans

ALL = 10**9


@given(plan=plans())
def test_all_moments_are_the_steps_of_the_plan(plan: Plan) -> None:
    """Cells, counts and memory at every step equal those of the steps, for any plan."""
    moments, itemsize = list(sample_moments(plan, ALL)), plan.problem.itemsize
    n_read = n_written = 0
    for moment, step in zip(moments, plan.steps(), strict=True):
        n_read, n_written = n_read + step.cell.size, n_written + step.done.size
        assert Region.of((each.start, each.stop) for each in moment.along) == step.cell
        assert Region.of((each.done_start, each.done_stop) for each in moment.along) == step.done
        assert (moment.n_read, moment.n_written) == (n_read, n_written)
    assert max((each.n_held for each in moments), default=0) * itemsize == plan.held_bytes
    assert max((each.n_carried for each in moments), default=0) * itemsize == plan.carried_bytes


@given(plan=plans())
def test_chosen_moments_are_some_of_all(plan: Plan) -> None:
    """A sample and a corner are exact: they leave steps out, but change none."""
    every = list(sample_moments(plan, ALL))
    corner = [min(length, 3) for length in plan.problem.shape]

    assert set(sample_moments(plan, 8)) <= set(every)
    reached = [
        moment
        for moment in every
        if all(
            length - each.stop < size if axis in plan.backwards else each.start < size
            for axis, (each, length, size) in enumerate(
                zip(moment.along, plan.problem.shape, corner, strict=True)
            )
        )
    ]
    assert list(moments_in_corner(plan, corner)) == reached


def test_a_billion_blocks_are_sampled() -> None:
    """The number of moments is limited, however many steps there are, and the peak is seen."""
    problem = Problem.regular((10**6,) * 3, (10**3,) * 3, (1500,) * 3, budget=10**13)
    plan = plan_sweep(problem)

    moments = list(sample_moments(plan, 600))

    assert plan.n_steps > 10**7
    assert 100 < len(moments) <= 1000
    assert moments[-1].n_written == problem.n_bytes
    assert max(each.n_held for each in moments) >= plan.held_bytes // 2
