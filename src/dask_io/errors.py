"""The error tree of Dask IO, with the exit code of each branch.

::

    DaskIOError
    ├── DataError                   1  blocks are missing, extra, truncated or do not match
    ├── UsageError                  2  a bad or unsupported option, or a combination of them
    │   ├── BudgetTooSmallError        the smallest unit of work does not fit in the budget
    │   ├── MissingLibraryError        a format needs a library that is not installed
    │   ├── TargetExistsError          the target already exists
    │   └── SamePlaceError             source and target are the same, or one contains the other
    ├── StorageError                3  a path does not exist, permission is denied, the disk is full
    │   └── LockedError                another run is writing to the target
    └── InterruptedRunError         4  the run was stopped from outside

A message is one line: what was requested, what was found, what to do next. Errors keep their
arguments as attributes. All arguments are positional, so that errors can be pickled.
"""

from __future__ import annotations

from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, ClassVar

from dask_io.units import at_least, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def printable(text: str) -> str:
    r"""Escape control characters, so that a name cannot manipulate a terminal.

    Examples
    --------
    >>> print(printable("b_\x1b[2J.npy"))
    b_\x1b[2J.npy
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


MOST_NAMES = 20
"""The number of names that a message lists, unless it sets its own limit."""


def list_names(names: Iterable[str], most: int = MOST_NAMES) -> str:
    """Join names for a message, and shorten a long list.

    Examples
    --------
    >>> list_names(["a", "b"]), list_names(["a", "b", "c"], most=2)
    ('a, b', 'a, b and more')
    """
    first = list(islice(names, most + 1))
    return ", ".join(first[:most]) + (" and more" if len(first) > most else "")


def in_words(names: Sequence[str]) -> str:
    """Join a few names as in a sentence.

    Examples
    --------
    >>> in_words(["z"]), in_words(["z", "y", "x"])
    ('z', 'z, y and x')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


# Nobody reads a longer list in one line.
_MOST_SHOWN = 3


OTHER_WORDS = {
    "force": "overwrite",
    "replace": "overwrite",
    "compression": "codec",
    "compressor": "codec",
    "threads": "workers",
    "jobs": "workers",
    "mem": "memory",
    "chunk": "chunks",
    "chunk_size": "chunks",
    "chunksize": "chunks",
    "roi": "region",
    "silent": "quiet",
}
"""Names that options have in other programs."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a clause for an error that names the most similar word; empty if none is similar.

    Examples
    --------
    >>> did_you_mean("memroy", ["memory", "merge"]), did_you_mean("x", ["memory"])
    ('; did you mean memory?', '')
    """
    from difflib import get_close_matches  # noqa: PLC0415  # only for an error

    found = get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


class DaskIOError(Exception):
    """Base class of all errors that Dask IO raises on purpose.

    Names in a message may come from untrusted files. The text is therefore printable: control
    characters and line breaks are escaped. Subclasses define `_message`.
    """

    exit_code: ClassVar[int] = 3

    def __str__(self) -> str:
        return printable(self._message())

    def _message(self) -> str:
        return super().__str__()


class DataError(DaskIOError):
    """The data is wrong: blocks are missing, extra, truncated or do not match."""

    exit_code = 1

    def __init__(
        self, place: str, problems: Sequence[str], advice: str = "", n_found: int = 0
    ) -> None:
        super().__init__(place, tuple(problems), advice, n_found)
        self.place, self.problems, self.advice = place, tuple(problems), advice
        self.n_found = max(n_found, len(self.problems))

    def _message(self) -> str:
        shown = self.problems[:_MOST_SHOWN]
        rest = self.n_found - len(shown)
        listed = "; ".join([*shown, *([f"and {rest} more"] if rest else [])])
        return f"{self.place}: {listed}" + (f"; {self.advice}" if self.advice else "")


class UsageError(DaskIOError):
    """The request is invalid or not supported."""

    exit_code = 2


class BudgetTooSmallError(UsageError):
    """The smallest unit of work does not fit in the memory budget."""

    def __init__(self, required: int, budget: int, unit: str) -> None:
        super().__init__(required, budget, unit)
        self.required, self.budget, self.unit = required, budget, unit

    def _message(self) -> str:
        # With room for a single element, moving a gigabyte would take days.
        slow = self.unit.startswith("element")
        smaller = "smaller --chunks or --shards, or " if self.unit == "target block" else ""
        return (
            f"one {self.unit} needs {format_bytes(self.required)}, "
            f"but the memory budget is {format_bytes(self.budget)}; use {smaller}at least "
            f"--memory {at_least(self.required)}{', preferably a few MiB more' if slow else ''}"
        )


class MissingLibraryError(UsageError):
    """A format needs a library that is not installed."""


class TargetExistsError(UsageError):
    """The target already exists, complete or not."""

    def __init__(self, target: str, unfinished: bool = False) -> None:  # noqa: FBT001, FBT002 - arguments are positional
        super().__init__(target, unfinished)
        self.target, self.unfinished = target, unfinished

    def _message(self) -> str:
        if self.unfinished:
            return (
                f"{self.target} already exists and is unfinished; complete it with "
                f"dask-io resume {quote(self.target)}, or replace it with --overwrite"
            )
        return (
            f"{self.target} already exists; choose another target, or replace it with --overwrite"
        )


class SamePlaceError(UsageError):
    """Source and target are the same, or one contains the other."""

    def __init__(self, source: str, target: str, contains: str = "") -> None:
        super().__init__(source, target, contains)
        self.source, self.target, self.contains = source, target, contains

    def _message(self) -> str:
        if self.contains == "target":
            return (
                f"target {self.target} contains source {self.source}, but must be a folder of its "
                "own; choose another one, such as out/ or 'out/b_{0}.npy'"
            )
        if self.contains == "source":
            return f"target {self.target} lies in source {self.source}; choose another target"
        return f"source {self.source} and target {self.target} are the same; choose another target"


class StorageError(DaskIOError):
    """The environment prevents the operation: a missing path, no permission, a full disk."""

    exit_code = 3

    def __init__(self, path: str, reason: str, advice: str = "") -> None:
        super().__init__(path, reason, advice)
        self.path, self.reason, self.advice = path, reason, advice

    @property
    def is_absent(self) -> bool:
        """Whether the path does not exist."""
        return self.reason == "no such file or directory"

    def _message(self) -> str:
        return f"{self.path}: {self.reason}" + (f"; {self.advice}" if self.advice else "")


class LockedError(StorageError):
    """Another run is writing to the target."""


class InterruptedRunError(DaskIOError):
    """The run was interrupted."""

    exit_code = 4

    def __init__(self, target: str, resumable: bool = True, verb: str = "resume") -> None:  # noqa: FBT001, FBT002 - arguments are positional
        super().__init__(target, resumable, verb)
        self.target, self.resumable, self.verb = target, resumable, verb

    def _message(self) -> str:
        if self.resumable:
            return f"interrupted; continue with: dask-io {self.verb} {self.target}"
        return f"interrupted before anything was written to {self.target}; start the run again"


class DaskIOWarning(UserWarning):
    """Base class of all warnings of Dask IO. The command line prints each as one line."""

    def __str__(self) -> str:
        return printable(super().__str__())


class RoomWarning(DaskIOWarning):
    """The disk may be too small, which only the run can show."""


class KeptWarning(DaskIOWarning):
    """Source blocks are kept that the interrupted run would have removed."""


class SpacingWarning(DaskIOWarning):
    """The spacing that the user gives contradicts what the source says."""
