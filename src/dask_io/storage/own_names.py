"""Names that Dask IO reserves for itself, which listings of a user's files leave out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

JOURNAL = ".dask-io"
"""Directory of a target's journal, or the suffix of one next to a one-file target."""
LOCK = "lock"
"""Name of the lock in a journal's directory."""
PARTS = "parts"
"""Name of the directory with the journals of parts, in a journal's directory."""
SCRATCH = ".scratch"
"""Suffix of a folder with scratch blocks, after eight random characters."""
# The pattern of `mkdtemp`, so that the blocks of `out.v2` do not match `out`.
SCRATCH_TOKEN = "[a-z0-9_]" * 8
"""Matches the random characters in the name of a scratch folder."""
_SCRATCH = re.compile(rf"\..+\.{SCRATCH_TOKEN}{re.escape(SCRATCH)}", re.DOTALL)
_TEMPORARY = re.compile(r"\.(?P<name>.+?)(?P<mark>\.~[0-9a-f]{12})?\.part", re.DOTALL)


def temporary_name(name: str, mark: str = "") -> str:
    """Return the name of a file until it is complete.

    With a `mark` of 12 hexadecimal digits, several processes can write the same file, each under
    a name of its own.

    Examples
    --------
    >>> temporary_name("b_0.npy"), temporary_name("b_0.npy", "0123456789ab")
    ('.b_0.npy.part', '.b_0.npy.~0123456789ab.part')
    """
    return f".{name}.~{mark}.part" if mark else f".{name}.part"


def sidecar_name(journal: str) -> str:
    """Return the name of the file that is left of a journal next to a complete one-file target.

    Examples
    --------
    >>> sidecar_name("merged.npy.dask-io")
    '.merged.npy.dask-io'
    """
    return f".{journal}"


def target_of(name: str) -> str:
    """Return the name of the one-file target to which a file or directory belongs, if it is ours.

    Examples
    --------
    >>> [target_of(name) for name in ("x.npy.dask-io", ".x.npy.dask-io", ".x.npy", ".dask-io")]
    ['x.npy', 'x.npy', '.x.npy', '']
    """
    found = name.removesuffix(JOURNAL)
    return found.removeprefix(".") if found != name else name


def whole_name(name: str) -> str:
    """Return the final name of a file that may still have a temporary name.

    Examples
    --------
    >>> [whole_name(name) for name in (".0.1.part", ".0.1.~0123456789ab.part", "0.1")]
    ['0.1', '0.1', '0.1']
    """
    found = _TEMPORARY.fullmatch(name)
    return found["name"] if found else name


def is_scratch(name: str) -> bool:
    """Tell whether a name is that of a folder with scratch blocks.

    Examples
    --------
    >>> [is_scratch(name) for name in (".out.npy.9zvr12sy.scratch", "out.scratch", ".out")]
    [True, False, False]
    """
    return _SCRATCH.fullmatch(name) is not None


def is_temporary(name: str) -> bool:
    """Tell whether a name is the temporary name of a file."""
    return _TEMPORARY.fullmatch(name) is not None


def is_marked(name: str) -> bool:
    """Tell whether a name is a temporary name that no other process uses.

    Examples
    --------
    >>> [is_marked(name) for name in (".0.1.~0123456789ab.part", ".0.1.part", "0.1")]
    [True, False, False]
    """
    found = _TEMPORARY.fullmatch(name)
    return found is not None and found["mark"] is not None


def is_unfinished_journal(entry: os.DirEntry[str]) -> bool:
    """Tell whether a directory entry is a journal that a killed run left unfinished."""
    name = entry.name
    return name.startswith(f"{JOURNAL}.") and name.endswith(".part") and entry.is_dir()
