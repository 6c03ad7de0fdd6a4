"""`read_through`: what lies between the runs that are needed is read where that is faster."""

from dataclasses import replace

import pytest
from hypothesis import given

from dask_io.geometry import Grid, Layout, Region
from dask_io.planning import (
    DEVICES,
    Plan,
    Problem,
    Side,
    Staging,
    plan_from_json,
    plan_keep,
    plan_naive,
    plan_to_json,
    plan_together,
    predict_seconds,
    read_through,
)
from dask_io.testing.strategies import plans

SHAPE = (512, 512, 512)


def extraction(region: Region, *, dtype: str = "int16", order: str = "C") -> Problem:
    """A region of one large file, to one file."""
    layout = Layout.named(order, 3)
    whole = Problem.regular(SHAPE, SHAPE, SHAPE, dtype=dtype, budget=2**28)
    source = Side(Grid.regular(SHAPE, SHAPE), layout, window=region)
    target = Side(Grid.regular(region.shape, region.shape), layout)
    return replace(whole, source=source, target=target)


@pytest.mark.parametrize("order", ["C", "F"])
def test_short_rows_of_a_file_are_read_whole(order: str) -> None:
    """64 planes with 64 rows each take one seek a plane, for eight times the bytes."""
    plan = plan_keep(extraction(Region((200,) * 3, (264,) * 3), order=order))
    assert (plan.seeks.read, plan.n_bytes_read) == (64 * 64, 2 * 64**3)

    found = read_through(plan, DEVICES["ssd"])

    assert (found.seeks.read, found.n_bytes_read) == (64, 2 * 64 * 64 * 512)
    assert found.n_bytes_in_gaps == 2 * 64 * 64 * (512 - 64)
    assert found.seeks.total == found.problem.lower_bound
    assert "3.50 MiB of it gaps, read through" in str(found)
    assert plan_from_json(plan_to_json(found)) == found


def test_where_a_request_takes_long_more_is_read() -> None:
    """An object is asked for once, and planes of it are read whole."""
    plan = plan_keep(extraction(Region((200,) * 3, (264,) * 3)))
    assert read_through(plan, DEVICES["s3"]).seeks.read == 1


def test_a_line_across_all_rows_is_read_element_by_element() -> None:
    """Where no seek is saved no gap is read."""
    plan = plan_keep(extraction(Region((0, 7, 9), (512, 8, 10))))
    assert read_through(plan, DEVICES["nvme"]) == plan


def test_whole_blocks_have_no_gaps() -> None:
    """A plan that cuts no block stays as it is."""
    plan = plan_keep(Problem.regular((100, 100), (10, 20), (20, 10), budget=10**6))
    assert read_through(plan, DEVICES["hdd"]) == plan


def test_what_takes_no_time_is_read_as_it_is() -> None:
    """A few runs of a small block are read, and nothing else."""
    small = Problem.regular((16, 16), (16, 16), (8, 8), budget=64)
    plan = plan_naive(small)
    assert plan.seeks.read > plan.read_openings
    assert read_through(plan, DEVICES["ssd"]) == plan
    assert read_through(plan, DEVICES["hdd"]).n_bytes_in_gaps


def test_regions_that_are_read_together_share_gaps() -> None:
    """Two windows of one block that lie side by side are read in the same rows."""
    side, layout = Grid.regular((64, 256), (64, 256)), Layout.c(2)
    problems = [
        Problem(
            Side(side, layout, window=Region((0, low), (64, low + 16))),
            Side(Grid.regular((64, 16), (64, 16)), layout),
            extraction(Region.whole(SHAPE)).dtype,
            10**6,
            Staging(),
        )
        for low in (0, 100)
    ]
    sweeps = plan_together(problems, plan_keep)
    assert sweeps.seeks.read == 2 * 64

    found = read_through(sweeps, DEVICES["hdd"])

    assert (found.seeks.read, found.n_bytes_read) == (1, 2 * 64 * 256)
    assert found.n_bytes_in_gaps == 2 * 64 * (256 - 2 * 16)
    assert "gaps, read through" in str(found)
    assert found.seeks.total == found.lower_bound


@given(plan=plans(windows=True))
def test_no_plan_becomes_slower(plan: Plan) -> None:
    """On no device is more time predicted than without gaps, and nothing else changes."""
    plain = plan.reading_through(0)
    for device in DEVICES.values():
        found = read_through(plan, device)
        assert predict_seconds(found, device) <= predict_seconds(plain, device) * (1 + 1e-12)
        assert found.reading_through(0) == plain


def test_a_target_is_not_written_through() -> None:
    """Between the runs of a target there is what others write."""
    problem = Problem.regular((10, 10), (5, 5), (5, 10), budget=1000)
    with pytest.raises(ValueError, match="cannot be written"):
        replace(problem, target=replace(problem.target, through=1))
    with pytest.raises(ValueError, match="cannot read through 2 of 2 axes"):
        problem.reading_through(2)
