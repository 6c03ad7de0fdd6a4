"""What all commands have in common."""

import os
import re
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from dask_io.cli import commands, options
from dask_io.cli.group import Verbs
from dask_io.errors import (
    DataError,
    InterruptedRunError,
    StorageError,
    TargetExistsError,
    UsageError,
)
from dask_io.python_errors import raises_for_python


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


def test_errors_of_jobs_are_in_the_words_of_the_command_line() -> None:
    """What `job.run` says to Python is shown as it was raised, also where it was raised."""
    unfinished = TargetExistsError("out", True)  # noqa: FBT003 - arguments are positional

    @raises_for_python
    def run() -> None:
        raise unfinished

    with pytest.raises(TargetExistsError) as caught:
        run()
    result = CliRunner().invoke(group_that_raises(caught.value), ["fail", "--debug"])

    assert result.stderr.splitlines()[-1] == f"dask-io: {unfinished}"
    assert "in run\n" in result.stderr
    assert "overwrite=True" not in result.stderr


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
    listed = re.findall(r"^  (\w+) {2,}[A-Z]", shown.stdout, re.MULTILINE)
    assert listed == [
        "info",
        "plan",
        "suggest",
        "resplit",
        "split",
        "merge",
        "extract",
        "verify",
        "repair",
        "resume",
        "finish",
        "demo",
        "completion",
    ]


@pytest.mark.parametrize("verb", list(commands.commands))
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    """Help says how a command is used."""
    shown = CliRunner().invoke(commands, [verb, "--help"]).stdout

    assert f"dask-io {verb} " in shown.split("Example")[1]


def test_an_interrupt_while_a_library_defines_its_classes_is_an_interrupt() -> None:
    """Python 3.11 raises it as a RuntimeError."""
    error = RuntimeError("Error calling __set_name__")
    error.__cause__ = KeyboardInterrupt()

    result = CliRunner().invoke(group_that_raises(error), ["fail"], prog_name="io")

    assert (result.exit_code, result.stderr) == (4, "dask-io: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["resplit", "a", "b", "--memroy", "3"], "--memroy; did you mean --memory?"),
        (["resplit", "a", "b", "--force"], "--force; did you mean --overwrite?"),
        (["resplit", "a", "b", "--compression", "x"], "--compression; did you mean --codec?"),
        (["info", "scna"], "did you mean scan?"),
        (["plan", "scan", "--chunks", "1", "--strategy", "swep"], "'swep'; did you mean sweep?"),
        (["plan", "scan", "--chunks", "1", "--format", "zar"], "did you mean zarr?"),
        (["split", "scan/b_0.npy", "o.zar", "--chunks", "1"], "did you mean .zarr?"),
        (["extract", "scan", "o", "--region", "1;2"], "'1;2' is not a range"),
        (["info", "scan/b_0.npy", "scan/b_1.npy"], "in quotes, such as 'scan/*.npy'"),
    ],
)
def test_a_mistake_is_answered_with_the_right_word(
    arguments: list[str], meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options, names of other programs, paths, strategies, formats, suffixes, regions, patterns."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scan").mkdir()
    for i in range(2):
        np.save(f"scan/b_{i}.npy", np.zeros(3))

    result = CliRunner().invoke(commands, arguments, prog_name="dask-io")

    assert result.exit_code in {2, 3}
    assert meant in result.stderr
    assert result.stderr.count("\n") == 1


def test_help_fits_on_two_screens_and_shows_groups() -> None:
    """Every option is in exactly one group."""
    for name, command in commands.commands.items():
        shown = CliRunner().invoke(commands, [name, "--help"], prog_name="dask-io").stdout
        assert len(shown.splitlines()) <= 100, name
        for param in command.params:
            if isinstance(param, click.Option):
                lines = [
                    line for line in shown.splitlines() if line.startswith(f"  {param.opts[0]}")
                ]
                assert lines, (name, param.opts)
    headings = ("What to move:", "Target:", "Memory and speed:", "Safety:", "Source:", "Output:")
    shown = CliRunner().invoke(commands, ["resplit", "--help"], prog_name="dask-io").stdout
    assert sorted(headings, key=shown.index) == list(headings)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str) -> None:
    """The script asks the command itself, which answers."""
    script = CliRunner().invoke(commands, ["completion", shell], prog_name="dask-io").stdout
    assert f"_DASK_IO_COMPLETE={shell}_complete" in script

    asked = {
        "_DASK_IO_COMPLETE": "bash_complete",
        "COMP_WORDS": "dask-io resplit --over",
        "COMP_CWORD": "2",
    }
    answer = CliRunner().invoke(commands, [], prog_name="dask-io", env=asked)
    assert answer.stdout == "plain,--overwrite\n"


def test_completion_creates_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options are completed after the name of a log, which is not opened."""
    monkeypatch.chdir(tmp_path)
    asked = {
        "_DASK_IO_COMPLETE": "bash_complete",
        "COMP_WORDS": "dask-io resplit --log run.log --over",
        "COMP_CWORD": "4",
    }
    answer = CliRunner().invoke(commands, [], prog_name="dask-io", env=asked)
    assert answer.stdout == "plain,--overwrite\n"
    assert not Path("run.log").exists()


def test_a_log_keeps_what_was_said_with_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages and results are appended; a log that cannot be written is an error."""
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.zeros((4, 4)))
    split = ["split", "a.npy", "b", "--chunks", "2", "--overwrite"]

    for _ in range(2):
        result = CliRunner().invoke(commands, [*split, "--log", "run.log"], prog_name="dask-io")
        assert result.exit_code == 0
    refused = CliRunner().invoke(commands, [*split, "--log", "no/run.log"], prog_name="dask-io")

    lines = (tmp_path / "run.log").read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line) for line in lines)
    assert sum("dask-io: copies 128 B" in line for line in lines) == 2
    assert sum("b: wrote 4 blocks" in line for line in lines) == 2
    assert refused.exit_code == 3


@pytest.mark.parametrize("kind", ["data", "link", "pipe"])
def test_a_log_is_only_appended_to_logs(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source, or a file that a link leads to, stays as it is, and a pipe is not waited for."""
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.zeros((4, 4)))
    before, log = Path("a.npy").read_bytes(), Path("run.log")
    if kind == "data":
        log = Path("a.npy")
    elif kind == "link":
        log.symlink_to("a.npy")
    else:
        os.mkfifo(log)
    split = ["split", "a.npy", "b", "--chunks", "2", "--log", str(log)]

    refused = CliRunner().invoke(commands, split, prog_name="dask-io")

    assert refused.exit_code == (2 if kind == "data" else 3)
    assert "not a" in refused.stderr
    assert Path("a.npy").read_bytes() == before
    assert not Path("b").exists()


@pytest.mark.parametrize("extra", ["", ".", "/", "x" * 300])
def test_any_extra_path_is_reported_in_one_line(extra: str) -> None:
    """A path without a name, or with one that is too long, is not an example of a pattern."""
    result = CliRunner().invoke(commands, ["info", "a.npy", extra], prog_name="dask-io")

    assert result.exit_code == 2
    assert result.stderr.startswith("dask-io: got unexpected extra argument")
    assert result.stderr.count("\n") == 1
