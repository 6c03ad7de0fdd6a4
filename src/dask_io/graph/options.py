"""Options of plans in graphs: they travel with a graph, which may be optimized elsewhere."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from dask_io.config import configured
from dask_io.errors import UsageError
from dask_io.jobs.settings import Settings
from dask_io.planning import Objective

if TYPE_CHECKING:
    from typing import Unpack

    from dask_io.jobs.settings import Options

# Others are said by the calls of a program itself.
_KNOWN = frozenset({"memory", "workers", "strategy", "objective", "device"})


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
    """What holds for every plan in a graph.

    `memory` and `workers`, which are threads, are those of each process. A plan is cut into
    `parts`, each a task, so that several processes can share it.
    """

    memory: int
    workers: int
    strategy: str = "auto"
    objective: Objective = Objective.TIME
    device: str | None = None
    parts: int = 1
    on_mismatch: OnMismatch = OnMismatch.IGNORE


def graph_options(
    *, on_mismatch: str | None = None, parts: int | None = None, **options: Unpack[Options]
) -> GraphOptions:
    """Read options, those that are left out from Dask's configuration.

    Raises
    ------
    UsageError
        If one of them is wrong, or none for graphs.
    """
    settings = Settings.of(**options)
    if options.keys() - _KNOWN:
        names = ", ".join(sorted(options.keys() - _KNOWN))
        raise UsageError(f"a program says {names} in its own calls; leave it out here")
    return GraphOptions(
        memory=settings.memory,
        workers=settings.n_threads(),
        strategy=settings.strategy,
        objective=settings.objective,
        device=settings.device,
        parts=_parse_parts(parts),
        on_mismatch=_parse_mismatch(on_mismatch),
    )


def _parse_mismatch(text: str | None) -> OnMismatch:
    text = text or configured("optimize.on-mismatch") or OnMismatch.IGNORE
    try:
        return OnMismatch(text)
    except ValueError:
        raise UsageError(f"on_mismatch {text!r} is none of {', '.join(OnMismatch)}") from None


def _parse_parts(parts: int | None) -> int:
    """Check a number of parts; by default one for each worker of a cluster, if there is one."""
    parts = parts or configured("optimize.parts") or _n_cluster_workers() or 1
    if not isinstance(parts, int) or parts < 1:
        raise UsageError(f"a plan has at least one part, not {parts}")
    return parts


def _n_cluster_workers() -> int:
    """Return how many workers the cluster has that computes by default; 0 without one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return 0
    try:
        client = distributed.default_client()
    except ValueError:
        return 0
    return len(client.ncores())
