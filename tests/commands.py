"""The command line, run in the tests' own process: starting an interpreter takes a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from dask_io.cli import commands
from tests.notices import without_notices

if TYPE_CHECKING:
    from click.testing import Result


def invoke(*arguments: object) -> Result:
    """Run a command, whatever comes of it."""
    return CliRunner().invoke(commands, list(map(str, arguments)), prog_name="dask-io")


def run(*arguments: object) -> str:
    """Run a command that succeeds without a warning, and return what it prints."""
    done = invoke(*arguments)
    assert (done.exit_code, without_notices(done.stderr)) == (0, ""), done.output
    return done.stdout


def fail(*arguments: object, code: int) -> str:
    """Run a command that fails with this exit code, and return its only line."""
    done = invoke(*arguments)
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    return only_line(done.stderr)


def only_line(stderr: str) -> str:
    """Return the only line of an error, after the notices of the run."""
    line = without_notices(stderr)
    assert line.startswith("dask-io: ")
    assert line.count("\n") == 1
    return line.strip()
