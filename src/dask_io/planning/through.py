"""Whether gaps between runs of source blocks are read through: chosen by cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from dask_io.planning.together import Sweeps

if TYPE_CHECKING:
    from dask_io.planning.device import Device
    from dask_io.planning.plan import Plan
    from dask_io.planning.spill import AnyPlan

# Seconds that have to be saved: what takes no time anyway is read without anything else.
_NOTICEABLE = 0.01

Planned = TypeVar("Planned", bound="Plan | AnyPlan | Sweeps")


def read_through(planned: Planned, device: Device) -> Planned:
    """Return the same plan with gaps between runs read through, where that is faster.

    The runs of part of a block are often short, and a gap is read in less time than it takes to
    seek beyond it. Along how many of the fastest axes all of a block is read, none of them
    included, is what costs the least: the time of seeks and of bytes, all of which are counted.

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
        seeking = each.seeks.read * device.seconds_a_seek
        return seeking + each.n_bytes_read / device.read_bandwidth

    problem = planned.problems[0] if isinstance(planned, Sweeps) else planned.problem
    # Each kind of plan returns its own kind, which a union does not tell.
    plain, *others = (
        cast("Planned", planned.reading_through(n_axes))
        for n_axes in range(max(1, len(problem.shape)))
    )
    fastest = min(others, key=cost, default=plain)
    return fastest if cost(plain) - cost(fastest) >= _NOTICEABLE else plain
