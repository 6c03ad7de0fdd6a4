"""Parts on the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

import dask_io
from dask_io.cluster import series
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


@pytest.mark.parametrize(("chunks", "count", "made"), [("12,10", 3, 2), ("12,10", 6, 4)])
def test_a_job_array_may_have_more_tasks_than_parts(
    source: Path, tmp_path: Path, chunks: str, count: int, made: int
) -> None:
    """Tasks without a part succeed at once, in any order, and the plan says how many there are."""
    target = tmp_path / "out"
    command = ["resplit", source, target, "--chunks", chunks]
    plan = run("plan", source, "--chunks", chunks, "--parts", count)
    assert f"; 2 x 2 blocks cannot be divided into {count}" in plan
    assert f"--array=1-{made}" in plan
    for number in range(count, 0, -1):
        text = run(*command, "--part", f"{number}/{count}")
        assert ("empty, because" in text) == (number > made)
    assert "is complete: 4 blocks" in run("finish", target)
    assert np.array_equal(dask_io.open(target)[:, :], ARRAY)


def test_an_array_without_elements_is_written_in_parts(tmp_path: Path) -> None:
    """All parts are empty, and the target is complete all the same."""
    np.save(tmp_path / "a.npy", ARRAY[:0])
    target = tmp_path / "out.zarr"
    plan = run("plan", tmp_path / "a.npy", target, "--chunks", "5,7", "--parts", 2)
    assert "parts     none, because the target has no blocks" in plan
    assert "sbatch" not in plan
    for part in ("1/2", "2/2"):
        run("resplit", tmp_path / "a.npy", target, "--chunks", "5,7", "--part", part)
    run("finish", target)
    assert dask_io.open(target).shape == (0, 20)
    run("resplit", tmp_path / "a.npy", tmp_path / "b.zarr", "--chunks", "5,7", "--processes", "2")
    assert dask_io.open(tmp_path / "b.zarr").shape == (0, 20)


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


SBATCH = """#!/bin/sh
# Run each task of a job array at once, in place of SLURM; task $LOST is lost.
script=$(mktemp)
cat > "$script"
case "$*" in
*--array=1-*) last=${*##*--array=1-}; last=${last%% *};;
*) last=0;;
esac
if [ "$last" = 0 ]; then sh "$script"; exit; fi
for SLURM_ARRAY_TASK_ID in $(seq "$last"); do
    export SLURM_ARRAY_TASK_ID
    [ "$SLURM_ARRAY_TASK_ID" = "$LOST" ] || sh "$script" >&2
done
echo 4711
"""


def test_the_script_for_slurm_works(tmp_path: Path) -> None:
    """As a batch system runs it, it names a part that was lost; executed again, it completes."""
    folder = tmp_path / "with space"
    (folder / "bin").mkdir(parents=True)
    np.save(folder / "a.npy", ARRAY)
    made = {"sbatch": SBATCH, "dask-io": f'#!/bin/sh\nexec {sys.executable} -m dask_io.cli "$@"\n'}
    for name, content in made.items():
        (folder / "bin" / name).write_text(content)
        (folder / "bin" / name).chmod(0o755)
    command = ["plan", folder / "a.npy", folder / "out.zarr", "--chunks", "5,7", "--parts", 2]
    script = json.loads(run(*command, "--json"))["parts"]["script"]
    paths = os.pathsep.join(filter(None, sys.path))
    bins = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])

    def submit(lost: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": bins, "PYTHONPATH": paths, "LOST": lost},
        )

    first, second = submit("2"), submit("")

    assert first.returncode == 1
    assert "1 of 2 parts missing: part 2" in first.stderr
    assert (second.returncode, "is complete" in second.stdout) == (0, True), second.stderr
    assert np.array_equal(dask_io.open(folder / "out.zarr")[:, :], ARRAY)


def test_a_plan_in_parts_refuses_what_its_tasks_would_refuse(source: Path, tmp_path: Path) -> None:
    """No script is printed for a target that only one process can write."""
    for name, *options in (("out.h5",), ("out.zarr", "--durability", "none")):
        command = ["plan", source, tmp_path / name, "--chunks", "5,7", "--parts", 2, *options]
        fail(*command, code=2)


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
    ],
)
def test_what_cannot_be_shared_is_refused(
    source: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    """The error is one line with exit code 2, and nothing is created."""
    verb, name, *options = arguments
    assert message in fail(verb, source, tmp_path / name, *options, code=2)
    assert not (tmp_path / name).exists()


def test_several_arrays_or_regions_are_refused_with_an_alternative(
    source: Path, tmp_path: Path
) -> None:
    """The array that the message gives as an example can be written in parts."""
    group = zarr.create_group(tmp_path / "year.zarr")
    for name in ("rain", "snow"):
        group.create_array(name, data=ARRAY, chunks=(6, 20), dimension_names=("y", "x"))
    days, chunks = tmp_path / "days.zarr", ["--chunks", "y=24,x=5"]
    command = ["resplit", tmp_path / "year.zarr", days, *chunks]
    message = fail(*command, "--part", "1/2", code=2)
    assert "use --processes or --scheduler to write all of them in parts" in message
    one = message.partition("as in ")[2].strip()
    name = one.rpartition("/")[2]
    for part in ("1/2", "2/2"):
        run("resplit", one, f"{days}::/{name}", *chunks, "--part", part)
    run("finish", f"{days}::/{name}")
    assert np.array_equal(dask_io.open(f"{days}::/{name}")[:, :], ARRAY)
    regions = ["--region", "0:5,:", "--region", "5:9,:"]
    message = fail("extract", source, tmp_path / "r", *regions, "--processes", 2, code=2)
    assert "write one region after another" in message


def test_figures_of_the_whole_and_of_parts_are_told_apart(source: Path, tmp_path: Path) -> None:
    """What is said before a run is of the whole --memory, and plans say what is of one process."""
    command = ["resplit", source, tmp_path / "out", "--chunks", "5,7", "--memory", "32MiB"]
    for option, text in [
        (("--processes", 2), "each of 2 processes takes up to "),
        (("--part", "1/4"), "writes part 1 of 4 of this; one process for all of it would take up "),
    ]:
        planned = run(*command, *option, "--dry-run")
        assert planned.startswith("As one process with")
        assert "In parts:" in planned
        assert text in invoke(*map(str, [*command, *option, "--overwrite"])).stderr


def test_the_parts_of_a_group_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run and the result list the parts of each large array."""
    monkeypatch.setattr(series, "_SMALL", 200)
    group = zarr.create_group(tmp_path / "year.zarr")
    group.create_array("rain", data=ARRAY, chunks=(6, 20), dimension_names=("y", "x"))
    group.create_array("x", data=np.arange(20), dimension_names=("x",))
    days = tmp_path / "days.zarr"
    command = ["resplit", tmp_path / "year.zarr", days, "--chunks", "y=24,x=5", "--processes", 2]

    assert "2 of rain, 1 small array is written by this process" in run(*command, "--dry-run")
    planned = json.loads(run(*command, "--dry-run", "--json"))
    assert (planned["parts"]["count"], [*planned["parts"]["arrays"]]) == (2, ["rain"])
    assert "2 parts, 2 processes" in run(*command)
    assert run("verify", days)
    done = json.loads(run(*command, "--overwrite", "--json"))
    assert done["parts"]["arrays"]["rain"]["count"] == 2


def test_a_complete_target_of_the_same_run_is_overwritten(source: Path, tmp_path: Path) -> None:
    """Several processes write all blocks again, among them one that was damaged."""
    target = tmp_path / "out.zarr"
    command = ["resplit", source, target, "--chunks", "5,7", "--codec", "none", "--processes", 2]
    run(*command)
    with (target / "c/0/0").open("r+b") as block:
        block.write(b"damage")
    done = json.loads(run(*command, "--overwrite", "--json"))["result"]
    assert (done["blocks_written"], done["blocks_skipped"]) == (15, 0)
    assert run("verify", target)


def test_a_late_part_replaces_nothing(source: Path, tmp_path: Path) -> None:
    """A task of a job array that starts after the target is complete says so."""
    target = tmp_path / "out"
    command = ["resplit", source, target, "--chunks", "5,7", "--overwrite"]
    for part in ("1/2", "2/2"):
        assert "already complete" not in run(*command, "--part", part)
    run("finish", target)
    late = run(*command, "--part", "2/2")
    assert "part 2 of 2: the target is already complete; nothing is replaced" in late


def test_finish_refuses_other_targets(source: Path, tmp_path: Path) -> None:
    """A target that one process writes is completed by `resume`, and a missing one is missing."""
    run("resplit", source, tmp_path / "out", "--chunks", "5,7")
    assert "has not been written in parts" in fail("finish", tmp_path / "out", code=2)
    assert invoke("finish", tmp_path / "missing").exit_code == 3


def test_a_shared_run_plans_no_scratch_files(tmp_path: Path) -> None:
    """Parts have none, so what is said before the run does not count on them."""
    place = tmp_path / "maps.zarr"
    zarr.create_array(place, shape=(200, 128, 128), chunks=(1, 128, 128), dtype="f4")
    command = ("resplit", place, tmp_path / "a.zarr", "--chunks", "200,16,16", "--dry-run")
    strategies = [
        json.loads(run(*command, "--codec", "zstd", "--json", *options))["strategy"]
        for options in (("--memory", "4MiB"), ("--memory", "8MiB", "--processes", "2"))
    ]
    assert strategies[0] == "spill"
    assert strategies[1] != "spill"
