"""The commands, run as users run them: exit codes, one line per error, interrupts."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import fail, invoke, run
from tests.notices import without_notices

VALUES = np.arange(12 * 10, dtype="<i4").reshape(12, 10)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Four blocks of 6 x 5."""
    folder = tmp_path / "source"
    folder.mkdir()
    for i, j in np.ndindex(2, 2):
        np.save(folder / f"b_{i}_{j}.npy", VALUES[6 * i : 6 * i + 6, 5 * j : 5 * j + 5])
    return folder


def test_a_missing_source_is_the_environment(tmp_path: Path) -> None:
    """Exit code 3, for every verb."""
    absent, target = tmp_path / "absent", tmp_path / "target"
    for arguments in (
        ["resplit", absent, target, "--chunks", "3"],
        ["info", absent],
        ["plan", absent, "--chunks", "3"],
        ["verify", absent, target],
    ):
        assert str(absent) in fail(*arguments, code=3)
    assert not target.exists()


def test_a_file_is_no_folder(source: Path, tmp_path: Path) -> None:
    """Exit code 3, and what to look at."""
    file = tmp_path / "file"
    file.write_bytes(b"")
    said = fail("resplit", source, file / "target", "--chunks", "3", code=3)
    assert said.endswith("a part of the path is a file, not a folder; check the path")


def test_an_existing_target_is_refused(source: Path, tmp_path: Path) -> None:
    """Exit code 2, before anything is announced; what is there stays as it is."""
    target = tmp_path / "target"
    target.mkdir()
    (target / "mine.txt").write_text("mine")

    done = invoke("resplit", source, target, "--chunks", "4")
    (line,) = done.stderr.splitlines()

    assert done.exit_code == 2
    assert "exists" in line
    assert "--overwrite" in line
    assert [path.name for path in target.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("inside", ["", "deeper", ".."])
def test_source_and_target_in_one_place_are_refused(source: Path, inside: str) -> None:
    """Exit code 2, also if one lies in the other, with or without --overwrite."""
    target = source / inside if inside else source
    expected = {"": "are the same", "deeper": "lies in source", "..": "contains source"}[inside]

    for more in ([], ["--overwrite"]):
        line = fail("resplit", source, target, "--chunks", "4", *more, code=2)
        assert expected in line
    assert len(list(source.iterdir())) == 4


def test_a_budget_too_small_names_one_that_works(tmp_path: Path) -> None:
    """Exit code 2; following the advice succeeds."""
    whole, target = tmp_path / "whole.npy", tmp_path / "target"
    np.save(whole, np.zeros((30, 30)))

    line = fail("split", whole, target, "--chunks", "30,15", "--memory", "1kB", code=2)

    named = re.search(r"--memory ([\w.]+)", line)
    assert named is not None
    assert not target.exists()
    run("split", whole, target, "--chunks", "30,15", "--memory", named[1])


def test_all_missing_blocks_are_named(source: Path, tmp_path: Path) -> None:
    """Exit code 1, before anything is written."""
    run("resplit", source, tmp_path / "blocks", "--chunks", "3")
    for name in ("b_1_2.npy", "b_3_0.npy"):
        (tmp_path / "blocks" / name).unlink()

    line = fail("merge", tmp_path / "blocks", tmp_path / "whole.npy", code=1)

    assert "b_1_2.npy" in line
    assert "b_3_0.npy" in line
    assert not (tmp_path / "whole.npy").exists()


def test_a_difference_is_named_by_its_region(source: Path, tmp_path: Path) -> None:
    """Exit code 1."""
    other = VALUES.copy()
    other[7, 3] += 1
    np.save(tmp_path / "other.npy", other)

    line = fail("verify", source, tmp_path / "other.npy", code=1)

    assert "1 of 120 elements differ, first in region 7:8,3:4" in line


def test_a_difference_in_json_is_still_an_object(source: Path, tmp_path: Path) -> None:
    """The object goes to stdout, the line to stderr."""
    np.save(tmp_path / "other.npy", VALUES + 1)

    found, line = fail_in_json("verify", source, tmp_path / "other.npy", code=1)

    assert (found["equal"], found["n_differing"]) == (False, VALUES.size)
    assert line.startswith("dask-io: ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["verify", "SRC", "SRC/b_0_0.npy"], 1),
        (["resplit", "SRC", "out", "--chunks", "x"], 2),
        (["resplit", "SRC", "--chunks", "3"], 2),
        (["info", "nowhere"], 3),
    ],
)
def test_errors_in_json_are_objects_too(arguments: list[str], code: int, source: Path) -> None:
    """They hold the line and the exit code."""
    given = [word.replace("SRC", str(source)) for word in arguments]

    found, line = fail_in_json(*given, code=code)

    assert found == {"error": {"message": line.removeprefix("dask-io: "), "exit_code": code}}


def fail_in_json(*arguments: str | Path, code: int) -> tuple[dict[str, Any], str]:
    """Run a command that fails, and return the one object on stdout and the line on stderr."""
    done = invoke(*arguments, "--json")
    assert done.exit_code == code
    found: dict[str, Any] = json.loads(done.stdout)
    return found, without_notices(done.stderr).rstrip("\n")


def test_other_shapes_are_other_data(source: Path, tmp_path: Path) -> None:
    """Exit code 1."""
    np.save(tmp_path / "other.npy", VALUES[:5])

    assert "shape" in fail("verify", source, tmp_path / "other.npy", code=1)


@pytest.mark.parametrize("chunks", ["0", "x", "3,3,3", "(5,5),5", "-2", ""])
def test_bad_chunks_are_usage(chunks: str, source: Path, tmp_path: Path) -> None:
    """Exit code 2; nothing is made."""
    line = fail("resplit", source, tmp_path / "target", "--chunks", chunks, code=2)

    assert "chunks" in line
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--strategy", "magic"], "magic"),
        (["--format", "magic"], "magic"),
        (["--memory", "lots"], "lots"),
        (["--workers", "0"], "worker"),
        (["--magic"], "--magic"),
    ],
)
def test_bad_options_are_usage(
    arguments: list[str], expected: str, source: Path, tmp_path: Path
) -> None:
    """Exit code 2; the line quotes them."""
    target = tmp_path / "target"

    assert expected in fail("resplit", source, target, "--chunks", "4", *arguments, code=2)
    assert not target.exists()


def test_split_takes_one_file(source: Path, tmp_path: Path) -> None:
    """Exit code 2, and the way to go instead."""
    assert "use resplit" in fail("split", source, tmp_path / "x", "--chunks", "4", code=2)


def test_a_name_cannot_break_the_line(tmp_path: Path) -> None:
    """Control characters are shown as escapes."""
    line = fail("info", tmp_path / "a\nb\x1b[2J.npy", code=3)

    assert "a\\nb\\x1b[2J.npy" in line


def test_the_errors_are_the_same_through_dask(tmp_path: Path) -> None:
    """``dask io`` ends with the same code and line."""
    done = subprocess.run(
        [sys.executable, "-m", "dask", "io", "info", tmp_path / "absent"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 3
    assert done.stderr.startswith("dask-io: ")
    assert done.stderr.count("\n") == 1


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    """The line comes last."""
    done = subprocess.run(
        [sys.executable, "-m", "dask_io.cli", "info", tmp_path / "absent", "--debug"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 3
    assert done.stderr.startswith("Traceback")
    assert done.stderr.splitlines()[-1].startswith("dask-io: ")


@pytest.mark.linux
def test_a_result_that_cannot_be_written_is_an_error(source: Path) -> None:
    """A full disk behind stdout is the environment, exit code 3."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dask_io.cli", "info", source],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 3
    assert done.stderr.startswith("dask-io: OSError")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_only_whole_blocks(tmp_path: Path, sent: signal.Signals) -> None:
    """Exit code 4; blocks that are there are right, and the target does not pass for complete."""
    values = np.random.default_rng(0).integers(0, 255, (150, 300, 300), np.uint8)
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for i in range(75):
        np.save(source / f"b_{i}_0_0.npy", values[2 * i : 2 * i + 2])
    arguments = ["--chunks", "3,300,7", "--strategy", "naive", "--workers", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "dask_io.cli", "resplit", source, target, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        # Far from done, as 50 times 43 blocks are to be written in 2 million pieces.
        wait_for(lambda: len(list(target.glob("b_*.npy"))) > 43, process)
        process.send_signal(sent)
        told, said = process.communicate(timeout=60)

    line = without_notices(said)
    assert (process.returncode, told) == (4, "")
    assert line.startswith("dask-io: interrupted")
    assert line.count("\n") == 1
    blocks = list(target.glob("b_*.npy"))
    assert 43 < len(blocks) < 50 * 43
    for path in blocks:
        i, _, k = map(int, path.stem.split("_")[1:])
        assert np.array_equal(np.load(path), values[3 * i : 3 * i + 3, :, 7 * k : 7 * k + 7])
    # Besides them there are only the journal, and blocks of which a part is durable.
    others = {path.name for path in target.iterdir()} - {path.name for path in blocks}
    assert all(name == ".dask-io" or name.endswith(".npy.part") for name in others)
    assert line == f"dask-io: interrupted; continue with: dask-io resume {target}\n"
    fail("verify", source, target, code=1)


def test_an_interrupted_demo_cleans_up(tmp_path: Path) -> None:
    """Exit code 4, and no files left."""
    with subprocess.Popen(
        [sys.executable, "-m", "dask_io.cli", "demo", "--size", "64MiB", "--dir", tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for(lambda: any(tmp_path.glob("*/*/b_*.npy")), process)
        process.send_signal(signal.SIGINT)
        _, line = process.communicate(timeout=60)

    assert (process.returncode, line) == (4, "dask-io: interrupted\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--size", "x"], 2, "'x' is not a size"),
        (["--size", "1kB"], 2, "give --size 1MiB"),
        (["--memory", "x"], 2, "'x' is not a size"),
        (["--size", "1000PB"], 3, "are free"),
    ],
)
def test_a_demo_that_cannot_be_says_why(
    tmp_path: Path, arguments: list[str], code: int, expected: str
) -> None:
    """Before anything is made."""
    assert expected in fail("demo", "--dir", tmp_path, *arguments, code=code)
    assert not list(tmp_path.iterdir())


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until something is so; the process must still be at work."""
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_other_systems_are_refused_in_one_line() -> None:
    """Every command says which systems there are; exit code 3."""
    code = "import click, sys; sys.platform = 'win32'; from dask_io.cli import main; main()"
    for arguments in (["plan", "absent"], ["--help"], []):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        expected = "dask-io: Dask IO runs on Linux and macOS, not on win32\n"
        assert (done.returncode, done.stdout, done.stderr) == (3, "", expected)


def test_a_strategy_that_writes_one_target(source: Path, tmp_path: Path) -> None:
    """Asked for with several regions, it is not replaced by another one in silence."""
    regions = ["--region", "0:4", "--region", "2:6"]
    told = fail("extract", source, tmp_path / "x", *regions, "--strategy", "spill", code=2)
    assert "strategy spill writes one target, but several are requested" in told


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(source: Path, tmp_path: Path, closed: str) -> None:
    """The run succeeds, and says so; no file that it opens takes the place of a stream."""
    command = [sys.executable, "-m", "dask_io.cli", "resplit", str(source)]
    shell = [
        "sh",
        "-c",
        f'exec "$@" {closed}',
        "sh",
        *command,
        str(tmp_path / "target"),
        "--chunks",
        "4",
    ]

    assert subprocess.run(shell, check=False, timeout=120).returncode == 0
    run("verify", source, tmp_path / "target")
