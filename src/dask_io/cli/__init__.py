"""The command line: parse, call one verb, print one report."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from dask_io.cli.verbs import commands

__all__ = ["commands", "main"]


def main() -> None:
    """Run ``dask-io``, and exit the process."""
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
