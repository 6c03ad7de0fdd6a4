"""Problem, plan, cost and strategies: decided without doing, no I/O."""

from dask_io.planning.choose import STRATEGIES, plan_auto, plan_with
from dask_io.planning.cost import naive_seeks
from dask_io.planning.describe import describe_plan
from dask_io.planning.keep import plan_keep
from dask_io.planning.naive import plan_naive
from dask_io.planning.plan import AxisPlan, Hold, Plan, ReadRun, Seeks, Step
from dask_io.planning.problem import Problem, Side, Staging
from dask_io.planning.serial import plan_from_json, plan_to_json

__all__ = [
    "STRATEGIES",
    "AxisPlan",
    "Hold",
    "Plan",
    "Problem",
    "ReadRun",
    "Seeks",
    "Side",
    "Staging",
    "Step",
    "describe_plan",
    "naive_seeks",
    "plan_auto",
    "plan_from_json",
    "plan_keep",
    "plan_naive",
    "plan_to_json",
    "plan_with",
]
