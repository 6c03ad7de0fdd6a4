"""The parts of a job as text, as values for JSON, and as a script for a batch system."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from dask_io.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.planning import AnyPlan, Cut, Series

# Memory of the interpreter and its libraries, which the budget does not include.
_BASE_MEMORY = 512 * 2**20
_MIB = 2**20
# A task may take this many times its predicted time, and at least some minutes.
_PATIENCE, _SHORTEST_MINUTES = 3, 15


def parts_text(
    cut: Cut, plan: AnyPlan, *, processes: int | None = None, requested: int | None = None
) -> str:
    """Describe parts and their costs, compared with the plan of one process.

    There may be fewer parts than `requested`.
    """
    if not cut.count:
        return "  parts     none, because the target has no blocks"
    more = cut.redundant(plan)
    about = "" if cut.is_exact else "about "
    shape = " x ".join(map(str, cut.grid.counts))
    redundant = (
        f"{about}{format_bytes(more.n_bytes)} and {more.seeks:,} seeks more than one process reads"
    )
    workers = processes or cut.count
    fewer = ""
    if requested is not None and requested > cut.count:
        blocks = " x ".join(map(str, plan.problem.target.grid.counts))
        fewer = f"; {blocks} blocks cannot be divided into {requested:,}"
    together = format_seconds(cut.predict_seconds(workers))
    rows = [
        ("parts", f"{cut.count:,} ({shape}), balance {cut.balance:.0%}{fewer}"),
        ("redundant", redundant if more.n_bytes or more.seeks else "nothing is read twice"),
        ("per part", f"{format_bytes(cut.memory)} memory, {_range_text(cut)}"),
        ("together", f"{together} with {workers:,} processes, if the storage keeps up"),
    ]
    return "\n".join(f"  {word:<9} {text}" for word, text in rows)


def _range_text(cut: Cut) -> str:
    seconds = [cost.seconds for cost, _ in cut.counted]
    low, high = format_seconds(min(seconds)), format_seconds(max(seconds))
    return f"{low} predicted" if low == high else f"{low} to {high} predicted"


def parts_to_json(cut: Cut, plan: AnyPlan, *, script: str | None = None) -> dict[str, Any]:
    """Return parts and their costs, compared with the plan of one process."""
    more = cut.redundant(plan)
    return {
        "count": cut.count,
        "along": list(cut.grid.counts),
        "balance": cut.balance,
        "exact": cut.is_exact,
        "redundant": {"bytes": more.n_bytes, "seeks": more.seeks},
        "memory": cut.memory,
        "seconds": {
            "longest": cut.longest,
            "mean": cut.seconds / max(1, cut.count),
            "total": cut.seconds,
        },
        "seeks": {"read": cut.seeks.read, "write": cut.seeks.write},
        "bytes": {"read": cut.n_bytes_read, "written": plan.n_bytes_written},
        "script": script,
    }


def parts_of_arrays_text(cuts: Mapping[str, Cut], series: Series) -> str:
    """Describe the parts of the large arrays of a group."""
    found = [f"{cut.count:,} of {name}" for name, cut in cuts.items()]
    n_small = len(series.plans) - len(cuts)
    if n_small:
        is_one = n_small == 1
        found.append(
            f"{n_small:,} small {'array is' if is_one else 'arrays are'} written by this process"
        )
    return f"  parts     {', '.join(found)}"


def parts_of_arrays_to_json(cuts: Mapping[str, Cut], series: Series) -> dict[str, Any]:
    """Return the parts of the large arrays of a group."""
    return {
        "count": sum(cut.count for cut in cuts.values()),
        "arrays": {name: parts_to_json(cut, series.plans[name]) for name, cut in cuts.items()},
    }


def slurm_script(cut: Cut, command: str, target: str, *, memory: int, threads: int) -> str:
    """Return a shell script that submits the parts as a job array, and then `dask-io finish`.

    Parameters
    ----------
    cut
        The parts.
    command
        The command that writes a part, without the option for the part.
    target
        The target, quoted for a shell.
    memory
        The memory budget of a part, in bytes.
    threads
        The number of threads of a part.
    """
    minutes = max(_SHORTEST_MINUTES, ceil(cut.longest * _PATIENCE / 60))
    mebibytes = ceil((memory + _BASE_MEMORY) / _MIB)
    time = f"{minutes // 60:02}:{minutes % 60:02}:00"
    options = (
        f"--array=1-{cut.count} --cpus-per-task={threads} --mem={mebibytes}M --time={time} "
        "--job-name=dask-io"
    )
    return "\n".join(
        [
            "#!/bin/bash",
            "# The last task completes the target, or reports the parts that are missing.",
            "# A task that fails can be submitted again: what is done is skipped.",
            f"array=$(sbatch --parsable {options} <<'TASK'",
            "#!/bin/bash",
            f'{command} --part "$SLURM_ARRAY_TASK_ID/{cut.count}"',
            "TASK",
            ")",
            "sbatch --dependency=\"afterany:$array\" --job-name=dask-io-finish <<'TASK'",
            "#!/bin/bash",
            f"dask-io finish {target}",
            "TASK",
        ]
    )
