"""Names that Dask IO reserves for itself, which listings of a user's files leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

JOURNAL = ".dask-io"
"""Directory of a target's journal, or the suffix of one next to a one-file target."""
LOCK = "lock"
"""Name of the lock in a journal's directory."""


def is_unfinished_journal(entry: os.DirEntry[str]) -> bool:
    """Tell whether a directory entry is a journal that a killed run left unfinished."""
    name = entry.name
    return name.startswith(f"{JOURNAL}.") and name.endswith(".part") and entry.is_dir()
