"""Convert plans to JSON and back.

The JSON has the keys that users rely on, and those needed to restore the same plan. Integers are
exact at any size. Derived values are written, but ignored when a plan is read.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from numpy.lib.format import descr_to_dtype

from dask_io.geometry import Axis, Grid, Layout, Region, cut_axis
from dask_io.planning.copy import CopyPlan, plan_copy
from dask_io.planning.cost import naive_seeks
from dask_io.planning.describe import describe_plan, mark
from dask_io.planning.device import predict_seconds
from dask_io.planning.plan import Plan
from dask_io.planning.problem import NO_CODING, Coding, Lag, Problem, Side, Staging
from dask_io.planning.reads import AxisPlan, Hold, ReadRun
from dask_io.planning.slabs import SlabRange, Slabs
from dask_io.planning.spill import SpillPlan
from dask_io.planning.sweep import memory_for_lower_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from dask_io.planning.device import Device
    from dask_io.planning.spill import AnyPlan

__all__ = ["describe_plan", "plan_from_json", "plan_to_json"]

_STAGING = [field.name for field in fields(Staging)]
# Longer lists are omitted, because nobody reads them.
_LONGEST_LIST = 4096
# JSON integers may exceed the range of floats.
_MOST_SECONDS = 1e300


def plan_to_json(plan: AnyPlan, device: Device | None = None) -> dict[str, Any]:
    """Return a plan as the ``"plan"`` object of the command line; unknown values are None.

    With a device, the object includes the predicted time.

    Examples
    --------
    >>> from dask_io.planning import plan_naive
    >>> plan = plan_naive(Problem.regular((10, 6), (4, 3), (5, 6), budget=1000))
    >>> found = plan_to_json(plan)
    >>> found["axes"][0]["read"], found["seeks"]["total"]
    ([[4, 2, 'flush'], [2, 1, 'flush']], 26)
    >>> plan_from_json(found) == plan
    True
    """
    if isinstance(plan, SpillPlan):
        passes = [plan_to_json(each, device) for each in plan.passes]
        return {**passes[0], **_costs_to_json(plan, device), "passes": passes}
    if isinstance(plan, CopyPlan):
        chunks = [axis.longest for axis in plan.problem.target.grid.axes]
        unknown = dict.fromkeys(("order", "hold", "streams", "axes", "slabs"))
        return {**_costs_to_json(plan, device), **unknown, "read_chunks": chunks}
    return {
        **_costs_to_json(plan, device),
        "order": list(plan.order),
        "hold": str(plan.hold),
        "streams": plan.streams,
        "axes": [_axis_to_json(axis) for axis in plan.axes],
        "slabs": plan.slabs and _slabs_to_json(plan.slabs),
        "read_chunks": list(plan.longest_reads),
    }


def _costs_to_json(plan: AnyPlan, device: Device | None) -> dict[str, Any]:
    problem = plan.problem
    return {
        "shape": list(problem.shape),
        "dtype": _dtype_to_json(problem.dtype),
        "converted": problem.converted and _dtype_to_json(problem.converted),
        "strategy": plan.strategy,
        "source": _side_to_json(problem.source),
        "target": _side_to_json(problem.target),
        "steps": plan.n_steps,
        "seeks": {
            "read": plan.seeks.read,
            "write": plan.seeks.write,
            "total": plan.seeks.total,
            "lower_bound": problem.lower_bound,
            "naive": naive_seeks(problem),
        },
        "openings": plan.openings,
        "bytes": {
            "read": plan.n_bytes_read,
            "written": plan.n_bytes_written,
            "scratch": plan.scratch_bytes,
        },
        "decodes": plan.decodes,
        "seconds": device and predict_seconds(plan, device),
        "device": device and device.name,
        "memory": {
            "budget": problem.budget,
            "peak": plan.peak_bytes,
            "held": plan.held_bytes,
            "staging": plan.staging_bytes,
            "for_lower_bound": memory_for_lower_bound(problem),
            "staging_rule": asdict(problem.staging),
            "copy_rule": problem.copied and asdict(problem.copied),
            "piecewise_rule": problem.piecewise and asdict(problem.piecewise),
        },
        "disk": {"peak": plan.disk_bytes, "lag": problem.consumed and list(problem.consumed)},
    }


def _side_to_json(side: Side) -> dict[str, Any]:
    return {
        "format": side.format,
        "chunks": [_chunks(axis) for axis in side.grid.axes],
        "blocks": side.grid.n_blocks,
        "absent": side.absent,
        "grid": [[list(run) for run in axis.runs] for axis in side.stored.axes],
        "layout": list(side.layout.axes),
        "atomic": side.atomic,
        "codec_bytes": side.codec_bytes,
        "coding": list(side.coding),
        "reused_bytes": side.reused_bytes,
        "grain": side.grain,
        "sequential": side.sequential,
        "chunks_in_blocks": side.chunks_in_blocks and list(side.chunks_in_blocks),
        "through": side.through,
        "window": side.window and [list(bounds) for bounds in side.window.bounds],
    }


def _chunks(axis: Axis) -> int | list[int] | None:
    if axis.chunk is not None:
        return axis.chunk
    return list(axis.lengths()) if axis.n_blocks <= _LONGEST_LIST else None


def _axis_to_json(axis: AxisPlan) -> dict[str, Any]:
    return {
        "read": _reads_to_json(axis.reads),
        "write": _write_runs(axis),
        "backwards": axis.backwards,
    }


def _reads_to_json(reads: Sequence[ReadRun]) -> list[list[Any]]:
    return [[run.length, run.n_cells, mark(run)] for run in reads]


def _slabs_to_json(slabs: Slabs) -> dict[str, Any]:
    return {
        "outer": slabs.outer,
        "inner": slabs.inner,
        "stretches": [
            {"start": start, "stop": stop, "read": _reads_to_json(reads)}
            for start, stop, reads in slabs.ranges
        ],
    }


def _write_runs(axis: AxisPlan) -> list[list[int]] | None:
    try:
        runs = cut_axis(axis.target, axis.flushes).runs
    except OverflowError:
        return None
    return [list(run) for run in runs] if len(runs) <= _LONGEST_LIST else None


def _dtype_to_json(dtype: np.dtype[Any]) -> Any:
    return _listed(dtype.descr) if dtype.names else dtype.str


def _listed(descr: Any) -> Any:
    return [_listed(each) for each in descr] if isinstance(descr, (list, tuple)) else descr


def plan_from_json(obj: object) -> AnyPlan:
    """Restore the plan that `plan_to_json` wrote.

    Raises
    ------
    ValueError
        If a value is missing, has the wrong type, is negative, or contradicts another value.
    """
    plan = _Node(obj, "plan")
    if "copy_rule" in plan["memory"] and plan["strategy"].text() == "copy":
        return plan_copy(_problem_from_json(plan))
    if "passes" not in plan:
        return _one_pass(plan)
    first, second = map(_one_pass, plan["passes"].items(2))
    return SpillPlan(_problem_from_json(plan), first, second, plan["strategy"].text())


def _problem_from_json(plan: _Node) -> Problem:
    source, target = (_side_from_json(plan[side]) for side in ("source", "target"))
    memory = plan["memory"]
    return Problem(
        source,
        target,
        _dtype_from_json(plan["dtype"]),
        memory["budget"].number(),
        _staging_from_json(memory["staging_rule"]),
        _lag_from_json(plan["disk"]),
        _converted_from_json(plan),
        _rule_from_json(memory, "copy_rule"),
        _rule_from_json(memory, "piecewise_rule"),
    )


def _staging_from_json(rule: _Node) -> Staging:
    # Plans of earlier versions have no threads or coders.
    known = (key for key in _STAGING if key in rule or key not in {"threads", "coders"})
    return Staging(**{key: rule[key].number() for key in known})


def _rule_from_json(memory: _Node, name: str) -> Staging | None:
    # Plans of earlier versions do not have all rules.
    return None if name not in memory or memory[name].is_null else _staging_from_json(memory[name])


def _converted_from_json(plan: _Node) -> np.dtype[Any] | None:
    # Plans of earlier versions do not have this key.
    if "converted" not in plan or plan["converted"].is_null:
        return None
    return _dtype_from_json(plan["converted"])


def _lag_from_json(disk: _Node) -> Lag | None:
    # Plans of earlier versions do not have this key.
    if "lag" not in disk or disk["lag"].is_null:
        return None
    return Lag(*(number.number() for number in disk["lag"].items(2)))


def _one_pass(plan: _Node) -> Plan:
    problem = _problem_from_json(plan)
    shape = tuple(length.number() for length in plan["shape"].items())
    if shape != problem.shape:
        raise ValueError(f"plan.shape is {list(shape)}, but its grids are {list(problem.shape)}")
    axes = plan["axes"].items()
    if len(axes) != len(shape):
        raise ValueError(f"plan.axes has {len(axes)} entries for {len(shape)} axes")
    return Plan(
        problem,
        order=tuple(axis.number() for axis in plan["order"].items()),
        reads=tuple(_reads_from_json(axis["read"]) for axis in axes),
        hold=Hold(plan["hold"].choice([str(hold) for hold in Hold])),
        strategy=plan["strategy"].text(),
        # Plans of earlier versions do not have these keys.
        slabs=_slabs_from_json(plan["slabs"]) if "slabs" in plan else None,
        backwards=frozenset(
            number
            for number, axis in enumerate(axes)
            if "backwards" in axis and axis["backwards"].truth()
        ),
        streams="streams" in plan and plan["streams"].truth(),
    )


def _slabs_from_json(slabs: _Node) -> Slabs | None:
    if slabs.is_null:
        return None
    ranges = (
        SlabRange(each["start"].number(), each["stop"].number(), _reads_from_json(each["read"]))
        for each in slabs["stretches"].items()
    )
    return Slabs(slabs["outer"].number(), slabs["inner"].number(), tuple(ranges))


def _side_from_json(side: _Node) -> Side:
    grid = Grid(
        tuple(Axis(tuple(_run(run) for run in axis.items())) for axis in side["grid"].items())
    )
    layout = Layout(tuple(axis.number() for axis in side["layout"].items()))
    window = _window_from_json(side["window"])
    atomic, codec_bytes = side["atomic"].truth(), side["codec_bytes"].number()
    indivisible = side["grain"].text() == "container"
    described = (grid, layout, side["format"].text(), window, atomic, codec_bytes)
    # Plans of earlier versions do not have these keys.
    through, reused_bytes = (
        side[name].number() if name in side else 0 for name in ("through", "reused_bytes")
    )
    coding = NO_CODING
    if "coding" in side:
        coding = Coding(*(each.seconds() for each in side["coding"].items(2)))
    absent = _absent_from_json(side)
    sequential = "sequential" in side and side["sequential"].truth()
    chunks = None
    if "chunks_in_blocks" in side and not side["chunks_in_blocks"].is_null:
        chunks = tuple(
            length.number(1) for length in side["chunks_in_blocks"].items(len(grid.axes))
        )
    return Side(*described, indivisible, through, reused_bytes, coding, absent, sequential, chunks)


def _absent_from_json(side: _Node) -> int | None:
    # Plans of earlier versions do not have this key.
    if "absent" not in side:
        return 0
    return None if side["absent"].is_null else side["absent"].number()


def _window_from_json(window: _Node) -> Region | None:
    if window.is_null:
        return None
    pairs = (bounds.items(2) for bounds in window.items())
    return Region.of((low.number(), high.number()) for low, high in pairs)


def _run(node: _Node) -> tuple[int, int]:
    length, count = node.items(2)
    return length.number(1), count.number(1)


def _reads_from_json(reads: _Node) -> tuple[ReadRun, ...]:
    return tuple(map(_read_run, reads.items()))


def _read_run(node: _Node) -> ReadRun:
    length, count, word = node.items(3)
    return ReadRun(length.number(1), count.number(1), word.choice(["keep", "flush"]) == "keep")


def _dtype_from_json(node: _Node) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = descr_to_dtype(_described(node.value))
    except (TypeError, ValueError, KeyError, IndexError, SyntaxError, OverflowError) as error:
        raise ValueError(f"{node.path} is not a data type: {_shorten(node.value)}") from error
    if dtype.hasobject or not dtype.itemsize or dtype.subdtype:
        raise ValueError(f"{node.path} is not a data type of fixed size: {_shorten(node.value)}")
    return dtype


def _described(value: object) -> Any:
    """Turn lists back into the tuples that NumPy expects inside a structured type."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(field, list) for field in value):
        raise TypeError(value)
    return [_field(*field) for field in value]


def _field(name: object, kind: object, shape: Sequence[int] = ()) -> tuple[Any, ...]:
    title_and_name = tuple(name) if isinstance(name, list) else name
    described = _described(kind)
    return (title_and_name, described, tuple(shape)) if shape else (title_and_name, described)


class _Node:
    """One value of the parsed JSON, and its path for error messages."""

    def __init__(self, value: object, path: str) -> None:
        self.value, self.path = value, path

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def __getitem__(self, key: str) -> _Node:
        if not isinstance(self.value, dict):
            raise self._wrong("an object")
        if key not in self.value:
            raise ValueError(f"{self.path}.{key} is missing")
        return _Node(self.value[key], f"{self.path}.{key}")

    @property
    def is_null(self) -> bool:
        """Whether the value is null."""
        return self.value is None

    def items(self, n_items: int | None = None) -> list[_Node]:
        """Return the items of a list; if `n_items` is given, it must have this length."""
        if not isinstance(self.value, (list, tuple)):
            raise self._wrong("a list")
        if n_items is not None and len(self.value) != n_items:
            raise self._wrong(f"a list of {n_items}")
        return [_Node(item, f"{self.path}[{at}]") for at, item in enumerate(self.value)]

    def number(self, least: int = 0) -> int:
        """Return an integer of at least `least`."""
        # In Python, a bool is an int.
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < least:
            raise self._wrong(f"an integer of at least {least}")
        return self.value

    def seconds(self) -> float:
        """Return a number of at least 0 as a float."""
        value = self.value
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not 0 <= value < _MOST_SECONDS
        ):
            raise self._wrong("a number of seconds")
        return float(value)

    def truth(self) -> bool:
        """Return a boolean."""
        if not isinstance(self.value, bool):
            raise self._wrong("true or false")
        return self.value

    def text(self) -> str:
        """Return a string."""
        if not isinstance(self.value, str):
            raise self._wrong("a string")
        return self.value

    def choice(self, words: Sequence[str]) -> str:
        """Return a string that is one of these words."""
        if self.value not in words:
            raise self._wrong(" or ".join(words))
        return str(self.value)

    def _wrong(self, expected: str) -> ValueError:
        return ValueError(f"{self.path} should be {expected}, found {_shorten(self.value)}")


def _shorten(value: object) -> str:
    """Return a value as one short line."""
    text, longest = repr(value), 60
    return text if len(text) <= longest else f"{text[:longest]}..."
