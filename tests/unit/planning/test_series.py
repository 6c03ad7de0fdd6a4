"""Plans for several arrays."""

from dask_io.planning import Problem, plan_naive
from dask_io.planning.series import Series


def test_every_array_is_one_line_of_plain_text() -> None:
    """Whatever its name does to a terminal is shown as an escape."""
    plan = plan_naive(Problem.regular((10, 6), (4, 3), (5, 6), budget=1000))
    head, one, two, last = str(Series({"né": plan, "a\n\x1b[2J": plan})).splitlines()
    assert head.startswith("array")
    assert one.startswith("né ")
    assert two.startswith(r"a\n\x1b[2J ")
    assert last.startswith("in all 2 arrays")
