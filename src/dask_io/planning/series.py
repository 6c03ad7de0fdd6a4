"""A series of plans, each for one array, that run one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.notebook import Displayed
from dask_io.planning.describe import absent_of, table
from dask_io.planning.device import predict_seconds
from dask_io.planning.plan import Seeks
from dask_io.planning.serial import plan_to_json
from dask_io.units import count, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dask_io.planning.device import Device
    from dask_io.planning.spill import AnyPlan


@dataclass(frozen=True, repr=False)
class Series(Displayed):
    """The plans of several arrays by name, in order. Costs add up; memory is the maximum."""

    plans: Mapping[str, AnyPlan]
    strategy: str = "series"

    @property
    def seeks(self) -> Seeks:
        """Number of seeks."""
        return sum((plan.seeks for plan in self.plans.values()), Seeks(0, 0))

    @property
    def lower_bound(self) -> int:
        """The fewest possible seeks."""
        return sum(plan.problem.lower_bound for plan in self.plans.values())

    @property
    def openings(self) -> int:
        """Visits to blocks."""
        return sum(plan.openings for plan in self.plans.values())

    @property
    def n_placements(self) -> int:
        """Number of copies within memory."""
        return sum(plan.n_placements for plan in self.plans.values())

    @property
    def coding_seconds(self) -> float:
        """Estimated seconds to decode and encode."""
        return sum(plan.coding_seconds for plan in self.plans.values())

    @property
    def n_steps(self) -> int:
        """Number of steps of all plans."""
        return sum(plan.n_steps for plan in self.plans.values())

    @property
    def n_bytes_read(self) -> int:
        """Bytes of decoded source blocks that are read."""
        return sum(plan.n_bytes_read for plan in self.plans.values())

    @property
    def n_bytes_written(self) -> int:
        """Bytes of target blocks that are written, before encoding."""
        return sum(plan.n_bytes_written for plan in self.plans.values())

    @property
    def held_bytes(self) -> int:
        """The most bytes of array data held at any moment."""
        return max((plan.held_bytes for plan in self.plans.values()), default=0)

    @property
    def peak_bytes(self) -> int:
        """Peak memory of the run, in bytes."""
        return max((plan.peak_bytes for plan in self.plans.values()), default=0)

    @property
    def scratch_bytes(self) -> int:
        """Peak scratch space in bytes; each plan removes its scratch blocks at the end."""
        return max((plan.scratch_bytes for plan in self.plans.values()), default=0)

    def _facts(self) -> Iterator[str]:
        n_bytes = sum(plan.problem.n_bytes for plan in self.plans.values())
        yield count(len(self.plans), "array")
        yield count(self.seeks.total, "seek")
        yield format_bytes(n_bytes)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "seeks", f"{self.seeks.read:,} read + {self.seeks.write:,} write"
        yield "memory", format_bytes(self.peak_bytes)
        for name, plan in self.plans.items():
            size, *blocks, strategy, seeks, _ = _row(name, plan)[1:]
            yield name, f"{size}, blocks of {' to '.join(blocks)}, {strategy}, {seeks} seeks"

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("array", "size", "source blocks", "target blocks", "plan", "seeks", "memory")
        ]
        rows += [_row(name, plan) for name, plan in self.plans.items()]
        scratch = f", {format_bytes(self.scratch_bytes)} of scratch" if self.scratch_bytes else ""
        formats = " and ".join(sorted({each.problem.target.format for each in self.plans.values()}))
        total = (
            f"in all {len(self.plans):,} arrays, {self.seeks.total:,} seeks (lower bound "
            f"{self.lower_bound:,}), {format_bytes(self.n_bytes_read)} read, "
            f"{format_bytes(self.n_bytes_written)} written as {formats}, at most "
            f"{format_bytes(self.peak_bytes)} of memory{scratch}"
        )
        absent = absent_of(*(plan.problem.source for plan in self.plans.values()))
        total += absent.replace("; ", "; of all source blocks ", 1)
        return f"{table(rows)}\n{total}"


def _row(name: str, plan: AnyPlan) -> tuple[str, ...]:
    sides = plan.problem.source, plan.problem.target
    blocks = (f"{side.grid.n_blocks:,} of {side.stored}" for side in sides)
    size, memory = format_bytes(plan.problem.n_bytes), format_bytes(plan.peak_bytes)
    escaped = name if name.isprintable() else ascii(name)[1:-1]
    return escaped, size, *blocks, plan.strategy, f"{plan.seeks.total:,}", memory


def series_to_json(series: Series, device: Device | None = None) -> dict[str, Any]:
    """Return a series as the ``"plan"`` object of the command line: the totals and all plans."""
    arrays = {name: plan_to_json(plan, device) for name, plan in series.plans.items()}
    enough = max((plan["memory"]["for_lower_bound"] for plan in arrays.values()), default=0)
    return {
        "strategy": series.strategy,
        "steps": series.n_steps,
        "seeks": {
            "read": series.seeks.read,
            "write": series.seeks.write,
            "total": series.seeks.total,
            "lower_bound": series.lower_bound,
        },
        "openings": series.openings,
        "bytes": {
            "read": series.n_bytes_read,
            "written": series.n_bytes_written,
            "scratch": series.scratch_bytes,
        },
        "seconds": device and predict_seconds(series, device),
        "device": device and device.name,
        "memory": {
            "peak": series.peak_bytes,
            "held": series.held_bytes,
            "for_lower_bound": enough,
        },
        "arrays": arrays,
    }
