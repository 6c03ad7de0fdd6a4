"""Parts on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

import dask_io
from tests.commands import fail, invoke, run

ARRAY = np.arange(24 * 20, dtype="u2").reshape(24, 20)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An array in one file."""
    np.save(tmp_path / "a.npy", ARRAY)
    return tmp_path / "a.npy"


def test_a_job_array_writes_a_target(source: Path, tmp_path: Path) -> None:
    """Each task writes a part; a missing part is reported with the command that writes it."""
    target = tmp_path / "out"
    command = ["resplit", source, target, "--chunks", "5,7", "--memory", "16MiB"]
    for part in ("2/3", "3/3"):
        assert "when all parts are done, run: dask-io finish" in run(*command, "--part", part)
    message = fail("finish", target, code=1)
    assert "1 of 3 parts missing: part 1 (0 of" in message
    line = " ".join(map(str, ["dask-io", *command, "--part", "1/3"]))
    assert f"run: {line};" in message
    assert json.loads(run(*command, "--part", "1/3", "--json"))["parts"] == {"part": 1, "count": 3}
    assert "is complete: 15 blocks; verified" in run("finish", target, "--verify")
    assert json.loads(run("finish", target, "--json"))["result"]["blocks_skipped"] == 15
    assert np.array_equal(dask_io.open(target)[:, :], ARRAY)


def test_a_plan_shows_its_parts_and_a_script(source: Path) -> None:
    """The script for SLURM has a task for each part, and completes the target afterwards."""
    command = ["plan", source, "--chunks", "5,7", "--memory", "16MiB", "--parts", 5]
    text = run(*command)
    assert "parts     5 (5 x 1), balance" in text
    assert f"dask-io resplit {source} DST --chunks 5,7 --memory 16MiB --part" in text
    assert "--array=1-5" in text
    assert "dask-io finish DST" in text
    parts = json.loads(run(*command, "--json"))["parts"]
    assert (parts["count"], parts["along"], parts["exact"]) == (5, [5, 1], True)
    assert parts["redundant"] == {"bytes": 0, "seeks": 4}
    assert parts["script"] in text


def test_processes_share_a_run(source: Path, tmp_path: Path) -> None:
    """The plan divides the memory, and the run reports its parts."""
    command = ["split", source, tmp_path / "out", "--chunks", "5,7", "--processes", 2]
    assert "of 8.00 MiB" in run(*command, "--memory", "16MiB", "--dry-run")
    assert not (tmp_path / "out").exists()
    found = json.loads(run(*command, "--memory", "16MiB", "--json"))
    assert found["parts"]["processes"] == 2
    assert found["result"]["blocks_written"] == 15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resplit", "out.h5", "--chunks", "5,7", "--part", "1/2"], "only one process can write"),
        (["merge", "out.npy", "--processes", "2"], "merge writes one file"),
        (["resplit", "out", "--chunks", "5,7", "--part", "0/2"], "part 0/2 does not exist"),
        (["resplit", "out", "--chunks", "5,7", "--part", "1/2", "--verify"], "finish --verify"),
        (["resplit", "out", "--chunks", "5,7", "--part", "1/99"], "15 blocks, too few for 99"),
    ],
)
def test_what_cannot_be_shared_is_refused(
    source: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    """The error is one line with exit code 2, and nothing is created."""
    verb, name, *options = arguments
    assert message in fail(verb, source, tmp_path / name, *options, code=2)
    assert not (tmp_path / name).exists()


def test_finish_refuses_other_targets(source: Path, tmp_path: Path) -> None:
    """A target that one process writes is completed by `resume`, and a missing one is missing."""
    run("resplit", source, tmp_path / "out", "--chunks", "5,7")
    assert "has not been written in parts" in fail("finish", tmp_path / "out", code=2)
    assert invoke("finish", tmp_path / "missing").exit_code == 3
