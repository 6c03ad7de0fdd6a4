"""Split, merge and resplit arrays larger than memory, each block read once and written once."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dask_io.api import (
        BlockArray,
        Damage,
        GroupInfo,
        Info,
        Job,
        JointJob,
        Part,
        PartedJob,
        Progress,
        Repair,
        RunResult,
        SeriesJob,
        Suggestion,
        Verification,
        extract,
        finish,
        info,
        info_group,
        merge,
        open,  # noqa: A004  # the public name, as in `h5py` or `zarr`
        plan,
        plan_extract,
        plan_parts,
        plan_shape,
        repair,
        resplit,
        resume,
        run_part,
        split,
        suggest,
        verify,
    )
    from dask_io.graph.arrays import from_blocks, store
    from dask_io.graph.explaining import Explanation, explain
    from dask_io.graph.optimizer import MismatchWarning, disable, enable, optimize

__version__ = "0.1.0"

__all__ = [
    "BlockArray",
    "Damage",
    "Explanation",
    "GroupInfo",
    "Info",
    "Job",
    "JointJob",
    "MismatchWarning",
    "Part",
    "PartedJob",
    "Progress",
    "Repair",
    "RunResult",
    "SeriesJob",
    "Suggestion",
    "Verification",
    "disable",
    "enable",
    "explain",
    "extract",
    "finish",
    "from_blocks",
    "info",
    "info_group",
    "merge",
    "open",
    "optimize",
    "plan",
    "plan_extract",
    "plan_parts",
    "plan_shape",
    "repair",
    "resplit",
    "resume",
    "run_part",
    "split",
    "store",
    "suggest",
    "verify",
]
# Modules of the names that need Dask; all others are in `api`.
_MODULES = {
    "Explanation": "graph.explaining",
    "MismatchWarning": "graph.optimizer",
    "disable": "graph.optimizer",
    "enable": "graph.optimizer",
    "explain": "graph.explaining",
    "from_blocks": "graph.arrays",
    "optimize": "graph.optimizer",
    "store": "graph.arrays",
}


def why_unsupported() -> str:
    """Return why Dask IO does not run on this system; empty if it does."""
    if sys.platform not in {"linux", "darwin"}:
        return f"Dask IO runs on Linux and macOS, not on {sys.platform}"
    return ""


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing the package is fast."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    found = getattr(import_module(f"dask_io.{_MODULES.get(name, 'api')}"), name)
    if not isinstance(found, type):
        found = import_module("dask_io.surface").public(found)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
