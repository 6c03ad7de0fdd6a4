"""Everything that can go wrong, as one tree, with the exit code of each branch.

::

    DaskIOError
    ├── DataError                   1  blocks are missing, extra, truncated or do not match
    ├── UsageError                  2  a bad or unsupported option, or a combination of them
    │   ├── BudgetTooSmallError        the smallest unit of work does not fit in the budget
    │   ├── TargetExistsError          the target is there already
    │   └── SamePlaceError             source and target are one place, or one is in the other
    ├── StorageError                3  a path is absent, permission is missing, the disk is full
    │   └── LockedError                another run is writing there
    └── InterruptedRunError         4  the run was stopped from outside

Messages are one line: what was asked, what was found, what to do next. Facts are attributes,
and arguments are positional, so that errors travel between processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dask_io.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence


def printable(text: str) -> str:
    r"""Write a name so that it cannot move a terminal's cursor.

    Examples
    --------
    >>> print(printable("b_\x1b[2J.npy"))
    b_\x1b[2J.npy
    """
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


class DaskIOError(Exception):
    """Root of all errors that Dask IO raises on purpose."""

    exit_code: ClassVar[int] = 3


class DataError(DaskIOError):
    """The data is wrong: blocks are missing, extra, truncated or do not match."""

    exit_code = 1

    def __init__(self, place: str, problems: Sequence[str], advice: str = "") -> None:
        super().__init__(place, tuple(problems), advice)
        self.place, self.problems, self.advice = place, tuple(problems), advice

    def __str__(self) -> str:
        listed = "; ".join(self.problems)
        return f"{self.place}: {listed}" + (f"; {self.advice}" if self.advice else "")


class UsageError(DaskIOError):
    """What was asked for cannot be done that way."""

    exit_code = 2


class BudgetTooSmallError(UsageError):
    """The smallest unit of work does not fit in the memory budget."""

    def __init__(self, required: int, budget: int, unit: str) -> None:
        super().__init__(required, budget, unit)
        self.required, self.budget, self.unit = required, budget, unit

    def __str__(self) -> str:
        # What holds one element moves one at a time: of a gigabyte that takes days.
        slow = self.unit.startswith("element")
        return (
            f"{format_bytes(self.required)} ({self.required} bytes) are needed for one "
            f"{self.unit}, but the memory budget is {format_bytes(self.budget)}; "
            f"give at least --memory {self.required}{', better some MiB more' if slow else ''}"
        )


class TargetExistsError(UsageError):
    """The target is there already, complete or not."""

    def __init__(self, target: str, unfinished: bool = False) -> None:  # noqa: FBT001, FBT002 - arguments are positional
        super().__init__(target, unfinished)
        self.target, self.unfinished = target, unfinished

    def __str__(self) -> str:
        if self.unfinished:
            return (
                f"{self.target} exists and is unfinished; complete it with "
                f"dask-io resume {self.target}, or replace it with --overwrite"
            )
        return f"{self.target} exists; choose another target, or replace it with --overwrite"


class SamePlaceError(UsageError):
    """Source and target are one place, or one lies in the other."""

    def __init__(self, source: str, target: str) -> None:
        super().__init__(source, target)
        self.source, self.target = source, target

    def __str__(self) -> str:
        return (
            f"source {self.source} and target {self.target} are one place, or one lies in the "
            "other; choose a target elsewhere"
        )


class StorageError(DaskIOError):
    """The environment is in the way: an absent path, permission, a full disk."""

    exit_code = 3

    def __init__(self, path: str, reason: str, advice: str = "") -> None:
        super().__init__(path, reason, advice)
        self.path, self.reason, self.advice = path, reason, advice

    @property
    def is_absent(self) -> bool:
        """Whether what was asked for does not exist."""
        return self.reason == "no such file or directory"

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" + (f"; {self.advice}" if self.advice else "")


class LockedError(StorageError):
    """Another run is writing there."""


class InterruptedRunError(DaskIOError):
    """The run was stopped from outside."""

    exit_code = 4

    def __init__(self, target: str, resumable: bool = True, verb: str = "resume") -> None:  # noqa: FBT001, FBT002 - arguments are positional
        super().__init__(target, resumable, verb)
        self.target, self.resumable, self.verb = target, resumable, verb

    def __str__(self) -> str:
        if self.resumable:
            return f"interrupted; go on with: dask-io {self.verb} {self.target}"
        return f"interrupted before anything was written to {self.target}; run it again"


class DaskIOWarning(UserWarning):
    """Root of all warnings that Dask IO gives; on the command line each is one line."""


class RoomWarning(DaskIOWarning):
    """A disk may turn out to be too small; it is not known beforehand."""


class KeptWarning(DaskIOWarning):
    """Source blocks are kept although the first run was to remove them."""
