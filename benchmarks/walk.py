"""Print the functions of `dask_io` that a command calls before it reads array data.

A newcomer who follows ``dask-io resplit`` from the command to the first byte reads these
functions. Those marked with ``>`` are still running when the byte is read: they are the call path,
first that of the main thread, then that of the thread that reads.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import dask_io
from dask_io import api  # noqa: F401  # loaded before the walk: definitions are not calls
from dask_io.cli.verbs import commands

if TYPE_CHECKING:
    from types import FrameType

_HOME = Path(dask_io.__file__).parent


class Walk:
    """The functions that are called until array data is read."""

    def __init__(self) -> None:
        self.functions: dict[str, None] = {}
        self.path: dict[str, None] = {}
        self._main = threading.get_ident()

    def watch(self, frame: FrameType, event: str, called: Any) -> None:
        """Record a call; this method is passed to `sys.setprofile`."""
        if self.path:
            return
        if event == "call":
            self.functions.update(_name_of(frame))
        elif event == "c_call" and called.__name__ == "preadv" and not _peeks(frame):
            for each in (sys._current_frames()[self._main], frame):  # noqa: SLF001 - documented
                self.path.update(reversed(_stack(each).items()))


def _name_of(frame: FrameType) -> dict[str, None]:
    """Return the function's name with its module; empty if it is not in `dask_io`."""
    code, file = frame.f_code, Path(frame.f_code.co_filename)
    if not file.is_relative_to(_HOME) or code.co_name.startswith("<"):
        return {}
    module = ".".join(file.relative_to(_HOME).with_suffix("").parts)
    return {f"{module}.{code.co_qualname}": None}


def _stack(frame: FrameType | None) -> dict[str, None]:
    """Return the functions of `dask_io` on a stack, innermost first."""
    found: dict[str, None] = {}
    while frame is not None:
        found |= _name_of(frame)
        frame = frame.f_back
    return found


def _peeks(frame: FrameType) -> bool:
    """Tell whether a header is being read, not data."""
    return any(name.endswith(".peek") for name in _stack(frame))


def main() -> None:
    """Run the command on a small array and print its walk."""
    walk = Walk()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "volume.npy"), Path(folder, "blocks")
        np.save(source, np.arange(4**3).reshape(4, 4, 4))
        command = ["resplit", str(source), str(target), "--chunks", "2", "--quiet"]
        threading.setprofile(walk.watch)
        sys.setprofile(walk.watch)
        try:
            commands.main(command, standalone_mode=False)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    for number, name in enumerate(walk.functions, 1):
        click.echo(f"{number:4} {'>' if name in walk.path else ' '} {name}")
    rooms = Counter(name.partition(".")[0] for name in walk.functions)
    counted = ", ".join(f"{room} {number}" for room, number in rooms.items())
    click.echo(f"{len(walk.functions)} functions ({counted}), {len(walk.path)} on the call path")


if __name__ == "__main__":
    main()
