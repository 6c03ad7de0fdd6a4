"""Options of plans in graphs: they travel with a graph, which may be optimized elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from dask_io.errors import UsageError
from dask_io.options import Options, check_options, parse_memory, parse_workers

if TYPE_CHECKING:
    from typing import Unpack


class OnMismatch(StrEnum):
    """What happens where a graph stores something, but not by plan."""

    IGNORE = "ignore"
    """Nothing: Dask does it."""
    WARN = "warn"
    """Dask does it, and a warning says why."""
    RAISE = "raise"
    """An error says why."""


@dataclass(frozen=True)
class GraphOptions:
    """What holds for every plan in a graph; `memory` is that of each process."""

    memory: int
    workers: int
    strategy: str = "auto"
    objective: str | None = None
    device: str | None = None
    on_mismatch: OnMismatch = OnMismatch.IGNORE

    @property
    def choice(self) -> Options:
        """What is said about the choice of a plan."""
        return Options(strategy=self.strategy, objective=self.objective)


def graph_options(*, on_mismatch: str | None = None, **options: Unpack[Options]) -> GraphOptions:
    """Read options, those that are left out from Dask's configuration.

    Raises
    ------
    UsageError
        If one of them is wrong, or none for graphs.
    """
    check_options(options)
    known = {"memory", "workers", "strategy", "objective", "device"}
    if options.keys() - known:
        names = ", ".join(sorted(options.keys() - known))
        raise UsageError(f"programs cannot be given {names}; their own calls say that")
    try:
        mismatch = OnMismatch(on_mismatch or OnMismatch.IGNORE)
    except ValueError:
        raise UsageError(
            f"on_mismatch {on_mismatch!r} is none of {', '.join(OnMismatch)}"
        ) from None
    return GraphOptions(
        memory=parse_memory(options.get("memory")),
        workers=parse_workers(options.get("workers")),
        strategy=options.get("strategy", "auto"),
        objective=options.get("objective"),
        device=options.get("device"),
        on_mismatch=mismatch,
    )
