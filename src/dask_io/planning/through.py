"""Decide by cost whether to read through the gaps between runs of source blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from dask_io.planning.together import Sweeps

if TYPE_CHECKING:
    from dask_io.planning.device import Device
    from dask_io.planning.plan import Plan
    from dask_io.planning.spill import AnyPlan

# The least seconds to be saved. Otherwise gaps are skipped.
_LEAST_SAVED = 0.01

Planned = TypeVar("Planned", bound="Plan | AnyPlan | Sweeps")


def read_through(planned: Planned, device: Device) -> Planned:
    """Return the plan that reads through gaps between runs, if this is faster.

    The runs of part of a block are often short, and reading a gap takes less time than a seek. The
    result reads whole blocks along the number of fastest axes, possibly none, for which seeks and
    bytes take the least time.

    Examples
    --------
    >>> from dask_io.planning import DEVICES, Problem, plan_naive
    >>> plan = plan_naive(Problem.regular((512,) * 3, (512,) * 3, (64,) * 3, budget=2**19))
    >>> plan.seeks.read, plan.n_bytes_read // 2**20
    (2097152, 128)
    >>> plan = read_through(plan, DEVICES["ssd"])
    >>> plan.seeks.read, plan.n_bytes_read // 2**20
    (32768, 1024)
    """

    def cost(each: Planned) -> float:
        seeking = each.seeks.read * device.seconds_per_seek
        return seeking + each.n_bytes_read / device.read_bandwidth

    problem = planned.problems[0] if isinstance(planned, Sweeps) else planned.problem
    # Each kind of plan returns its own kind, which a union type does not express.
    plain, *others = (
        cast("Planned", planned.reading_through(n_axes))
        for n_axes in range(max(1, len(problem.shape)))
    )
    fastest = min(others, key=cost, default=plain)
    return fastest if cost(plain) - cost(fastest) >= _LEAST_SAVED else plain
