"""Problems, plans, their cost, and the strategies that make plans. No I/O."""

from dask_io.planning.bundle import Bundle, SharedStep
from dask_io.planning.choose import (
    STRATEGIES,
    Candidate,
    Objective,
    check_strategy,
    find_candidates,
    parse_objective,
    plan_auto,
    plan_either,
    plan_with,
)
from dask_io.planning.copy import CopyPlan, plan_copy
from dask_io.planning.cost import naive_seeks, read_cost
from dask_io.planning.cut import (
    Cut,
    PartCost,
    best_grids,
    choose_counts,
    cost_cut,
    cut_problem,
    largest_count,
    plan_cut,
)
from dask_io.planning.describe import describe_plan
from dask_io.planning.describe_sweeps import sweeps_to_json
from dask_io.planning.device import DEVICES, Device, predict_seconds
from dask_io.planning.keep import plan_keep
from dask_io.planning.naive import plan_naive
from dask_io.planning.plan import Plan, Seeks, Step
from dask_io.planning.previous import plan_clustered, plan_multiple, stretch
from dask_io.planning.problem import Coding, Lag, Problem, Side, Staging
from dask_io.planning.reads import AxisPlan, Hold, ReadRun
from dask_io.planning.reread import plan_reread
from dask_io.planning.serial import plan_from_json, plan_to_json
from dask_io.planning.series import Series, series_to_json
from dask_io.planning.slabs import SlabRange, Slabs
from dask_io.planning.spill import AnyPlan, SpillPlan, plan_spill
from dask_io.planning.sweep import memory_for_lower_bound, plan_sweep
from dask_io.planning.through import read_through
from dask_io.planning.together import Sweeps, plan_together
from dask_io.planning.visits import explain_visits

__all__ = [
    "DEVICES",
    "STRATEGIES",
    "AnyPlan",
    "AxisPlan",
    "Bundle",
    "Candidate",
    "Coding",
    "CopyPlan",
    "Cut",
    "Device",
    "Hold",
    "Lag",
    "Objective",
    "PartCost",
    "Plan",
    "Problem",
    "ReadRun",
    "Seeks",
    "Series",
    "SharedStep",
    "Side",
    "SlabRange",
    "Slabs",
    "SpillPlan",
    "Staging",
    "Step",
    "Sweeps",
    "best_grids",
    "check_strategy",
    "choose_counts",
    "cost_cut",
    "cut_problem",
    "describe_plan",
    "explain_visits",
    "find_candidates",
    "largest_count",
    "memory_for_lower_bound",
    "naive_seeks",
    "parse_objective",
    "plan_auto",
    "plan_clustered",
    "plan_copy",
    "plan_cut",
    "plan_either",
    "plan_from_json",
    "plan_keep",
    "plan_multiple",
    "plan_naive",
    "plan_reread",
    "plan_spill",
    "plan_sweep",
    "plan_to_json",
    "plan_together",
    "plan_with",
    "predict_seconds",
    "read_cost",
    "read_through",
    "series_to_json",
    "stretch",
    "sweeps_to_json",
]
