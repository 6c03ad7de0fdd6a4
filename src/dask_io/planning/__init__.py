"""Problem, plan, cost and strategies: decided without doing, no I/O."""

from dask_io.planning.choose import (
    STRATEGIES,
    Candidate,
    Objective,
    find_candidates,
    parse_objective,
    plan_auto,
    plan_with,
)
from dask_io.planning.cost import naive_seeks
from dask_io.planning.describe import describe_plan
from dask_io.planning.device import DEVICES, Device, predict_seconds
from dask_io.planning.keep import plan_keep
from dask_io.planning.naive import plan_naive
from dask_io.planning.plan import AxisPlan, Hold, Plan, ReadRun, Seeks, Step
from dask_io.planning.previous import plan_clustered, plan_multiple
from dask_io.planning.problem import Problem, Side, Staging
from dask_io.planning.serial import plan_from_json, plan_to_json

__all__ = [
    "DEVICES",
    "STRATEGIES",
    "AxisPlan",
    "Candidate",
    "Device",
    "Hold",
    "Objective",
    "Plan",
    "Problem",
    "ReadRun",
    "Seeks",
    "Side",
    "Staging",
    "Step",
    "describe_plan",
    "find_candidates",
    "naive_seeks",
    "parse_objective",
    "plan_auto",
    "plan_clustered",
    "plan_from_json",
    "plan_keep",
    "plan_multiple",
    "plan_naive",
    "plan_to_json",
    "plan_with",
    "predict_seconds",
]
