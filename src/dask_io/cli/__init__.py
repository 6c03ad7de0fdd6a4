"""The command line: parse, call one verb, print one report."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from dask_io.cli.verbs import commands

__all__ = ["commands", "main"]


def main() -> None:
    """Run ``dask-io``, and end the process."""
    try:
        commands(prog_name="dask-io")
    except SystemExit as ended:
        # Threads of libraries, such as icechunk's, that want the interpreter while it is taken down
        # abort the process, and what went well would seem to have failed. What cannot be
        # printed is Python's to tell.
        if ended.code is None or isinstance(ended.code, int):
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(ended.code or 0)
        raise
