"""What all commands have in common."""

import click
import pytest
from click.testing import CliRunner

from dask_io.cli import commands, options
from dask_io.cli.group import Verbs
from dask_io.errors import DataError, InterruptedRunError, StorageError, UsageError


def group_that_raises(error: BaseException) -> Verbs:
    """Make a group with one command, which fails."""
    group = Verbs("io")

    @group.command()
    @options.debug
    def fail() -> None:
        raise error

    return group


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (DataError("x", ["b_1 is missing"]), 1, "x: b_1 is missing"),
        (UsageError("no"), 2, "no"),
        (click.UsageError("Bad\nthing."), 2, "bad thing; try io fail --help"),
        (click.FileError("x", "gone"), 2, "could not open file 'x': gone"),
        (StorageError("x", "no space"), 3, "x: no space"),
        (InterruptedRunError("x"), 4, str(InterruptedRunError("x"))),
        (KeyboardInterrupt(), 4, "interrupted"),
        (click.Abort(), 4, "interrupted"),
        (PermissionError(13, "Permission denied", "/x"), 3, "/x: Permission denied"),
        (OSError("odd"), 3, "OSError: odd; run again with --debug for the traceback"),
        (MemoryError(), 3, "MemoryError; run again with --debug for the traceback"),
        (UsageError("a\nb\x1b[2J"), 2, "a\\nb\\x1b[2J"),
    ],
)
def test_every_error_is_one_line_and_a_code(error: BaseException, code: int, line: str) -> None:
    """The line goes to stderr; stdout stays empty."""
    if isinstance(error, click.UsageError):
        error.ctx = click.Context(click.Command("fail"), info_name="io fail")

    result = CliRunner().invoke(group_that_raises(error), ["fail"], prog_name="io")

    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == f"dask-io: {line}\n"


@pytest.mark.parametrize("error", [ValueError("odd"), UsageError("no"), KeyboardInterrupt()])
def test_debug_shows_the_traceback_too(error: BaseException) -> None:
    """The line is still the last one."""
    result = CliRunner().invoke(group_that_raises(error), ["fail", "--debug"])

    assert result.stderr.startswith("Traceback")
    assert result.stderr.splitlines()[-1].startswith("dask-io: ")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--bogus"], "no such option"),
        (["bogus"], "no such command 'bogus'"),
        (["resplit", "a", "b"], "missing option '--chunks'"),
        (["resplit", "a", "b.nrrd"], "b.nrrd is one file; add --chunks -1, or use dask-io merge"),
        (["resplit", "a"], "missing argument 'DST'"),
        (["resplit", "a", "b", "--chunks", "1", "--workers", "x"], "'--workers'"),
        (["resplit", "a", "b", "--chunks", "1", "--order", "x"], "'--order'"),
        (["plan"], "missing --shape, --dtype, --from, --to"),
        (["plan", "a", "--shape", "3"], "--shape describe an array without data"),
        (["plan", "a"], "missing option '--chunks'"),
        (["plan", "--shape", "3", "--dtype", "u1", "--from", "1"], "missing --to"),
        (
            ["plan", "--shape=3", "--dtype=u1", "--from=1", "--to=3", "--chunks=1"],
            "--chunks need SRC",
        ),
    ],
)
def test_what_was_typed_wrongly_is_one_line_with_a_hint(arguments: list[str], line: str) -> None:
    """Click's own errors end like ours."""
    result = CliRunner().invoke(commands, arguments, prog_name="dask-io")

    assert (result.exit_code, result.stdout) == (2, "")
    assert line in result.stderr
    assert result.stderr.count("\n") == 1
    assert "; try dask-io" in result.stderr
    assert result.stderr.endswith("--help\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--shape=3,x", "--dtype=u1", "--from=1", "--to=3"], "--shape '3,x' is not a shape"),
        (["--shape=-3", "--dtype=u1", "--from=1", "--to=3"], "--shape '-3' is not a shape"),
        (["--shape=3", "--dtype=nope", "--from=1", "--to=3"], "dtype 'nope' is not known to NumPy"),
        (["--shape=3", "--dtype=O", "--from=1", "--to=3"], "dtype 'O' means Python objects"),
        (["--shape=3", "--dtype=u1", "--from=a", "--to=3"], "chunks 'a' are invalid"),
        (["--shape=3", "--dtype=u1", "--from=1", "--to=3", "--memory=x"], "'x' is not a size"),
        (["--shape=3", "--dtype=u1", "--from=1", "--to=3", "--workers=0"], "at least one worker"),
        (["--shape=3", "--dtype=u1", "--from=1", "--to=3", "--strategy=x"], "unknown strategy 'x'"),
    ],
)
def test_values_that_make_no_sense_are_usage_errors(arguments: list[str], line: str) -> None:
    """Exit code 2, and the line quotes what was given."""
    result = CliRunner().invoke(commands, ["plan", *arguments])

    assert (result.exit_code, result.stdout) == (2, "")
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


def test_help_shows_the_verbs_in_the_order_of_use() -> None:
    """Without arguments, too, there is help."""
    runner = CliRunner()

    shown = runner.invoke(commands, [])

    assert shown.exit_code == 0
    assert shown.stdout == runner.invoke(commands, ["--help"]).stdout
    listed = [line.split()[0] for line in shown.stdout.split("Commands:")[1].splitlines() if line]
    verbs = [
        "info",
        "plan",
        "resplit",
        "split",
        "merge",
        "extract",
        "resume",
        "finish",
        "verify",
        "repair",
        "demo",
    ]
    assert listed[: len(verbs)] == verbs


@pytest.mark.parametrize("verb", list(commands.commands))
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    """Help says how a command is used."""
    shown = CliRunner().invoke(commands, [verb, "--help"]).stdout

    assert f"dask-io {verb} " in shown.split("Example")[1]
