"""Runs, stores and comparisons as values for JSON. Keys may be added but never removed."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dask_io.planning import (
    Series,
    Sweeps,
    plan_to_json,
    predict_seconds,
    series_to_json,
    sweeps_to_json,
)
from dask_io.report.space import space_to_json
from dask_io.stores.dtypes import dtype_to_json
from dask_io.stores.space import Space
from dask_io.stores.spec import SPACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.engine.run import RunResult
    from dask_io.engine.verify import Verification
    from dask_io.geometry import Axis, Grid
    from dask_io.planning import AnyPlan, Device
    from dask_io.planning.suggest import AccessCost, Suggestion
    from dask_io.report.explain import Explanation


class Described(Protocol):
    """Description of a store, as `dask_io.info` returns it."""

    @property
    def place(self) -> str:
        """Path of the store."""

    @property
    def format(self) -> str:
        """Format of its blocks."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""

    @property
    def grid(self) -> Grid:
        """Grid of its blocks."""

    @property
    def order(self) -> str:
        """Order of the elements in each block."""

    @property
    def n_bytes(self) -> int:
        """Size of the array in bytes."""

    @property
    def n_bytes_on_disk(self) -> int:
        """Size of its files in bytes."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata that the format stores with the array."""

    @property
    def pattern(self) -> str | None:
        """Pattern of the names of its block files."""

    @property
    def inferred(self) -> str | None:
        """Meaning of the numbers in file names, if the pattern was inferred from them."""

    @property
    def n_files(self) -> int | None:
        """Number of files, if each is decoded in several slabs."""


class DescribedGroup(Protocol):
    """Description of a group, as `dask_io.info_group` returns it."""

    @property
    def place(self) -> str:
        """Path of the group."""

    @property
    def format(self) -> str:
        """Format of its arrays."""

    @property
    def arrays(self) -> Mapping[str, Described]:
        """Descriptions of its arrays, by path."""

    @property
    def others(self) -> Mapping[str, str]:
        """Arrays that are not supported, each with the reason."""

    @property
    def uncopied(self) -> frozenset[str]:
        """Names of those that cannot be copied verbatim either."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes of the group."""


class DamagedArray(Protocol):
    """Damage to one array, as `dask_io.repair` finds it."""

    @property
    def place(self) -> str:
        """Path of the array."""

    @property
    def n_blocks(self) -> int:
        """Number of its blocks."""

    @property
    def n_damaged(self) -> int:
        """Number of damaged blocks."""

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the first damaged blocks."""

    @property
    def others(self) -> tuple[str, ...]:
        """Other damage, such as to metadata."""

    @property
    def needs_whole_file(self) -> bool:
        """Whether all blocks must be rewritten."""


class Repaired(Protocol):
    """Result of `dask_io.repair`."""

    @property
    def damaged(self) -> Sequence[DamagedArray]:
        """The damaged arrays."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks that were checked."""

    @property
    def n_damaged(self) -> int:
        """Number of damaged blocks."""

    @property
    def result(self) -> RunResult:
        """Result of the run that rewrote them."""


def any_plan_to_json(
    plan: AnyPlan | Sweeps | Series, device: Device | None = None
) -> dict[str, Any]:
    """Return a plan of any kind, with its predicted time on a device if one is given."""
    if isinstance(plan, Sweeps):
        return sweeps_to_json(plan, device)
    if isinstance(plan, Series):
        return series_to_json(plan, device)
    return plan_to_json(plan, device)


def run_to_json(
    plan: AnyPlan | Sweeps | Series | None,
    result: RunResult,
    device: Device | None = None,
    *,
    inferred: str = "",
) -> dict[str, Any]:
    """Return a plan, with its predicted time on a device if one is given, and its run's result.

    The plan is None if there was nothing to do. As in a dry run, it includes what was inferred
    from file names.
    """
    planned = None
    if plan is not None:
        planned = {**any_plan_to_json(plan, device), "inferred": inferred or None}
    return {"plan": planned, "result": result_to_json(result)}


def result_to_json(result: RunResult) -> dict[str, Any]:
    """Return the result of a run."""
    return {
        "seconds": result.seconds,
        "seeks": {"read": result.seeks.read, "write": result.seeks.write},
        "bytes": {"read": result.n_bytes_read, "written": result.n_bytes_written},
        "peak_memory": result.peak_memory,
        "held": result.held,
        "blocks_written": result.blocks_written,
        "blocks_left_out": result.blocks_left_out,
        "blocks_skipped": result.blocks_skipped,
        "verified": result.verified,
        "not_kept": list(result.not_kept),
    }


def repair_to_json(repair: Repaired) -> dict[str, Any]:
    """Return the damage of each array, and the run that repaired it."""
    return {
        "plan": None,
        "result": result_to_json(repair.result),
        "blocks": repair.n_blocks,
        "blocks_damaged": repair.n_damaged,
        "damaged": [
            {
                "place": each.place,
                "blocks_damaged": each.n_damaged,
                "blocks": [list(index) for index in each.blocks],
                "others": list(each.others),
                "needs_whole_file": each.needs_whole_file,
            }
            for each in repair.damaged
        ],
    }


def info_to_json(info: Described) -> dict[str, Any]:
    """Return the description of a store."""
    return {
        "place": info.place,
        "format": info.format,
        "shape": list(info.shape),
        "dtype": dtype_to_json(info.dtype),
        "chunks": [_chunks(axis) for axis in info.grid.axes],
        "blocks": info.grid.n_blocks,
        "order": info.order,
        "n_bytes": info.n_bytes,
        "n_bytes_on_disk": info.n_bytes_on_disk,
        "compression_ratio": compression_ratio(info),
        "metadata": _plain(dict(info.metadata)),
        "pattern": info.pattern,
        "inferred": info.inferred,
        "space": space_to_json(info.metadata.get(SPACE)),
    }


def group_to_json(group: DescribedGroup) -> dict[str, Any]:
    """Return the description of a group, with its arrays by path."""
    return {
        "place": group.place,
        "format": group.format,
        "arrays": {name: info_to_json(each) for name, each in group.arrays.items()},
        "others": dict(group.others),
        "attributes": _plain(dict(group.attributes)),
    }


def compression_ratio(info: Described) -> float | None:
    """Return the ratio of the array's size to its size on disk, None without a codec."""
    if not info.metadata.get("codecs") or not info.n_bytes_on_disk:
        return None
    return info.n_bytes / info.n_bytes_on_disk


def _plain(value: object) -> object:
    """Convert a value for JSON; values that JSON cannot hold, such as dates, become text."""
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case Space():
            return value.to_json()
        case np.generic() if value.dtype.kind not in "mM" and value.dtype.char not in "gG":
            return _plain(value.item())
        case float():
            return value if isfinite(value) else str(value)
        case _:
            return value if isinstance(value, int | str | None) else str(value)


def verification_to_json(found: Verification) -> dict[str, Any]:
    """Return whether two arrays are equal, and where they first differ."""
    region = found.first_difference
    return {
        "equal": found.equal,
        "n_elements": found.n_elements,
        "n_differing": found.n_differing,
        "first_difference": region
        and [list(bounds) for bounds in zip(region.start, region.stop, strict=True)],
        "place": found.place,
    }


def suggestion_to_json(found: Suggestion) -> dict[str, Any]:
    """Return suggested chunks, and the cost of each access before and after."""

    def cost(one: AccessCost) -> dict[str, float]:
        return {"requests": one.requests, "bytes": one.n_bytes, "seconds": one.seconds}

    return {
        "chunks": list(found.chunks),
        "shards": found.shards and list(found.shards),
        "array": found.array or None,
        "dimensions": list(found.dimensions),
        "accesses": [
            {
                "access": access.name,
                "extent": list(access.extent),
                "before": cost(before),
                "after": cost(after),
            }
            for access, before, after in zip(found.accesses, found.before, found.after, strict=True)
        ],
        "cubes": [
            {"chunks": list(each.chunks), "costs": [cost(one) for one in each.costs]}
            for each in found.cubes
        ],
    }


def explained_series_to_json(
    series: Series, arrays: Mapping[str, Explanation], device: Device
) -> dict[str, Any]:
    """Return the plans of several arrays, each as `explained_to_json` does."""
    explained = {name: explained_to_json(each) for name, each in arrays.items()}
    return {**series_to_json(series, device), "arrays": explained}


def explained_to_json(explanation: Explanation) -> dict[str, Any]:
    """Return a plan, the costs of every strategy, and why the plan was chosen."""
    plan, device = explanation.plan, explanation.device
    return {
        **plan_to_json(plan, device),
        "objective": str(explanation.objective),
        "reason": explanation.reason,
        "candidates": [
            {
                "strategy": one.strategy,
                "chosen": one.plan == plan,
                "seeks": one.plan and one.plan.seeks.total,
                "openings": one.plan and one.plan.openings,
                "memory": one.plan and one.plan.peak_bytes,
                "held": one.plan and one.plan.held_bytes,
                "steps": one.plan and one.plan.n_steps,
                "seconds": one.plan and predict_seconds(one.plan, device),
                "why_not": one.why_not and str(one.why_not),
            }
            for one in explanation.candidates
        ],
    }


def _chunks(axis: Axis) -> int | list[int]:
    """Return the block length of a regular axis, or all lengths of an uneven one."""
    return axis.chunk or list(axis.lengths())
