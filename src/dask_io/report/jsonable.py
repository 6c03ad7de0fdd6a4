"""A run, a store and a comparison as values that go to JSON; keys are only ever added."""

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
from dask_io.stores.dtypes import dtype_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.engine.run import RunResult
    from dask_io.engine.verify import Verification
    from dask_io.geometry import Axis, Grid
    from dask_io.planning import AnyPlan, Device
    from dask_io.report.explain import Explanation


class Described(Protocol):
    """What a store says about itself, as `dask_io.info` returns it."""

    @property
    def place(self) -> str:
        """Where it is."""

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
        """The blocks."""

    @property
    def order(self) -> str:
        """How elements lie in each block."""

    @property
    def n_bytes(self) -> int:
        """Bytes of the array."""

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes of its files."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What else it says."""


class DescribedGroup(Protocol):
    """What a group says about itself, as `dask_io.info_group` returns it."""

    @property
    def place(self) -> str:
        """Where it is."""

    @property
    def format(self) -> str:
        """Format of its arrays."""

    @property
    def arrays(self) -> Mapping[str, Described]:
        """What its arrays say, by their paths."""

    @property
    def others(self) -> Mapping[str, str]:
        """What is wrong with arrays that are not understood."""

    @property
    def uncopied(self) -> frozenset[str]:
        """Those of them that cannot even be copied as they are."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What it says besides."""


def any_plan_to_json(
    plan: AnyPlan | Sweeps | Series, device: Device | None = None
) -> dict[str, Any]:
    """Return a plan for one target or for several, with its time on a device if one is given."""
    if isinstance(plan, Sweeps):
        return sweeps_to_json(plan, device)
    if isinstance(plan, Series):
        return series_to_json(plan, device)
    return plan_to_json(plan, device)


def run_to_json(
    plan: AnyPlan | Sweeps | Series | None, result: RunResult, device: Device | None = None
) -> dict[str, Any]:
    """Return a plan, with its time on a device if one is given, and what came of it.

    Where there was nothing to do there is no plan.
    """
    return {
        "plan": None if plan is None else any_plan_to_json(plan, device),
        "result": {
            "seconds": result.seconds,
            "seeks": {"read": result.seeks.read, "write": result.seeks.write},
            "bytes": {"read": result.n_bytes_read, "written": result.n_bytes_written},
            "peak_memory": result.peak_memory,
            "held": result.held,
            "blocks_written": result.blocks_written,
            "blocks_skipped": result.blocks_skipped,
            "verified": result.verified,
            "not_kept": list(result.not_kept),
        },
    }


def info_to_json(info: Described) -> dict[str, Any]:
    """Return what a store says about itself."""
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
    }


def group_to_json(group: DescribedGroup) -> dict[str, Any]:
    """Return what a group says about itself, and its arrays by their paths."""
    return {
        "place": group.place,
        "format": group.format,
        "arrays": {name: info_to_json(each) for name, each in group.arrays.items()},
        "others": dict(group.others),
        "attributes": _plain(dict(group.attributes)),
    }


def compression_ratio(info: Described) -> float | None:
    """Return how many bytes of the array there are for one on disk, None without a codec."""
    if not info.metadata.get("codecs") or not info.n_bytes_on_disk:
        return None
    return info.n_bytes / info.n_bytes_on_disk


def _plain(value: object) -> object:
    """Return what JSON can hold of a value; of others, such as dates, how they are written."""
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case np.generic() if value.dtype.kind not in "mM" and value.dtype.char not in "gG":
            return _plain(value.item())
        case float():
            return value if isfinite(value) else str(value)
        case _:
            return value if isinstance(value, int | str | None) else str(value)


def verification_to_json(found: Verification) -> dict[str, Any]:
    """Return whether two arrays agree, and where they first differ."""
    region = found.first_difference
    return {
        "equal": found.equal,
        "n_elements": found.n_elements,
        "n_differing": found.n_differing,
        "first_difference": region
        and [list(bounds) for bounds in zip(region.start, region.stop, strict=True)],
        "place": found.place,
    }


def explained_series_to_json(
    series: Series, arrays: Mapping[str, Explanation], device: Device
) -> dict[str, Any]:
    """Return the plans of several arrays, each as `explained_to_json` does."""
    told = {name: explained_to_json(each) for name, each in arrays.items()}
    return {**series_to_json(series, device), "arrays": told}


def explained_to_json(explanation: Explanation) -> dict[str, Any]:
    """Return a plan and, beside it, what every strategy would have cost, and why it was chosen."""
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
    """Return the one block length of a regular axis, or all of them."""
    return axis.chunk or list(axis.lengths())
