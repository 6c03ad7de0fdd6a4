"""Options for plans in graphs, kept with the optimizer because a scheduler may run it elsewhere."""

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

# The program's own calls decide everything else.
_ALLOWED = frozenset({"memory", "workers", "strategy", "objective", "device"})


class OnMismatch(StrEnum):
    """What happens if a graph stores an array that cannot be stored by plan."""

    IGNORE = "ignore"
    """Dask stores it."""
    WARN = "warn"
    """Dask stores it, and a warning gives the reason."""
    RAISE = "raise"
    """An error gives the reason."""


@dataclass(frozen=True)
class GraphOptions:
    """Options that apply to every plan in a graph.

    `memory` and `workers` (threads) are per process. A plan is divided into `parts`, one task
    each, so that several processes can share it.
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
    """Check options, and take missing ones from Dask's configuration.

    Raises
    ------
    UsageError
        If an option is invalid or does not apply to graphs.
    """
    settings = Settings.of(**options)
    if options.keys() - _ALLOWED:
        names = ", ".join(sorted(options.keys() - _ALLOWED))
        raise UsageError(f"{names} cannot be set for graphs; set it in the program's own calls")
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
        raise UsageError(f"on_mismatch {text!r} is not one of {', '.join(OnMismatch)}") from None


def _parse_parts(parts: int | None) -> int:
    """Check a number of parts; by default one per worker of a cluster, or one without a cluster."""
    parts = parts or configured("optimize.parts") or _n_cluster_workers() or 1
    if not isinstance(parts, int) or parts < 1:
        raise UsageError(f"a plan has at least one part, not {parts}")
    return parts


def _n_cluster_workers() -> int:
    """Return the number of workers of Dask's default cluster; 0 without one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return 0
    try:
        client = distributed.default_client()
    except ValueError:
        return 0
    return len(client.ncores())
