"""Problem, plan, cost and strategies: decided without doing, no I/O."""

from dask_io.planning.keep import plan_keep
from dask_io.planning.naive import naive_seeks, plan_naive
from dask_io.planning.plan import AxisPlan, Hold, Plan, ReadRun, Seeks, Step
from dask_io.planning.problem import Problem, Side, Staging

__all__ = [
    "AxisPlan",
    "Hold",
    "Plan",
    "Problem",
    "ReadRun",
    "Seeks",
    "Side",
    "Staging",
    "Step",
    "naive_seeks",
    "plan_keep",
    "plan_naive",
]
