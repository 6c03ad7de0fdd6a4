"""Split, merge and resplit arrays larger than memory, each block read once and written once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dask_io.api import (
        BlockArray,
        GroupInfo,
        GroupJob,
        Info,
        Job,
        JointJob,
        Progress,
        RunResult,
        Verification,
        extract,
        info,
        info_group,
        merge,
        open,  # noqa: A004  # the public name, as in `h5py` or `zarr`
        plan,
        plan_extract,
        plan_group,
        plan_shape,
        resplit,
        resume,
        split,
        verify,
    )

__version__ = "0.1.0"

__all__ = [
    "BlockArray",
    "GroupInfo",
    "GroupJob",
    "Info",
    "Job",
    "JointJob",
    "Progress",
    "RunResult",
    "Verification",
    "extract",
    "info",
    "info_group",
    "merge",
    "open",
    "plan",
    "plan_extract",
    "plan_group",
    "plan_shape",
    "resplit",
    "resume",
    "split",
    "verify",
]


def why_not_here() -> str:
    """Say why Dask IO does not run on this system; empty if it does."""
    if sys.platform not in {"linux", "darwin"}:
        return f"Dask IO runs on Linux and macOS, not on {sys.platform}"
    return ""


def __getattr__(name: str) -> Any:
    """Load the verbs when one of them is first used, so that importing is fast."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from dask_io import api  # noqa: PLC0415  # on first use

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
