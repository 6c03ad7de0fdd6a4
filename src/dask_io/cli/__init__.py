"""The command line: parse, call one verb, print one report."""

from __future__ import annotations

from dask_io.cli.verbs import commands

__all__ = ["commands", "main"]


def main() -> None:
    """Run ``dask-io``."""
    commands(prog_name="dask-io")
