"""The command line: parse, call one verb, print one report."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from dask_io.cli.verbs import commands

__all__ = ["commands", "main"]


def main() -> None:
    """Run ``dask-io``, and exit the process."""
    _open_closed_streams()
    try:
        commands(prog_name="dask-io")
    except SystemExit as ended:
        # Threads of libraries, such as icechunk's, may abort the process while the interpreter
        # shuts down, so that a successful run would seem to have failed. If the output cannot be
        # flushed, Python reports it.
        if ended.code is None or isinstance(ended.code, int):
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(ended.code or 0)
        raise


def _open_closed_streams() -> None:
    """Open standard streams that are closed, as in ``dask-io ... >&-``.

    Otherwise, the next file that is opened, such as a target, could get what libraries print.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # This takes the lowest number that is free.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: PTH123, SIM115 - until the process ends
