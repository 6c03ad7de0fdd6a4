"""The commands, run as users run them: what they do and print when all is well."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.commands import fail, invoke, run

VALUES = np.arange(10 * 12 * 8, dtype="<i2").reshape(10, 12, 8)

PLAN_KEYS = {
    "shape": None,
    "dtype": None,
    "strategy": None,
    "order": None,
    "hold": None,
    "source": {"format", "chunks", "blocks"},
    "target": {"format", "chunks", "blocks"},
    "axes": None,
    "read_chunks": None,
    "steps": None,
    "seeks": {"read", "write", "total", "lower_bound", "naive"},
    "openings": None,
    "bytes": {"read", "written", "scratch"},
    "decodes": None,
    "seconds": None,
    "memory": {"budget", "peak", "held", "staging", "for_lower_bound"},
    "disk": {"peak"},
}


def save_blocks(folder: Path, values: NDArray[np.int16], chunks: tuple[int, ...]) -> Path:
    """Save an array as a directory of ``.npy`` blocks."""
    folder.mkdir()
    counts = [-(-n // c) for n, c in zip(values.shape, chunks, strict=True)]
    for index in np.ndindex(*counts):
        part = tuple(slice(i * c, i * c + c) for i, c in zip(index, chunks, strict=True))
        np.save(folder / f"b_{'_'.join(map(str, index))}.npy", values[part])
    return folder


def load_blocks(folder: Path, shape: tuple[int, ...], chunks: tuple[int, ...]) -> NDArray[np.int16]:
    """Put an array together from a directory of ``.npy`` blocks."""
    values = np.zeros(shape, VALUES.dtype)
    for path in folder.glob("b_*.npy"):
        index = map(int, path.stem.split("_")[1:])
        part = tuple(slice(i * c, i * c + c) for i, c in zip(index, chunks, strict=True))
        values[part] = np.load(path)
    return values


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory of blocks."""
    return save_blocks(tmp_path / "source", VALUES, (4, 5, 3))


def check_plan_keys(plan: dict[str, object]) -> None:
    """Check the keys that users rely on."""
    for key, inner in PLAN_KEYS.items():
        assert key in plan
        if inner is not None:
            value = plan[key]
            assert isinstance(value, dict)
            assert inner <= value.keys()


def test_resplit_makes_the_blocks_that_were_asked_for(source: Path, tmp_path: Path) -> None:
    """The array is the same, in blocks of the new shape; the run is reported."""
    target = tmp_path / "target"

    told = run("resplit", source, target, "--chunks", "5,4,-1", "--memory", "1MiB", "--verify")

    assert np.array_equal(load_blocks(target, VALUES.shape, (5, 4, 8)), VALUES)
    assert f"{target}: wrote 6 blocks" in told
    assert "; verified" in told


@pytest.mark.parametrize("name", ["b.zarr", "b.h5"])
def test_blocks_that_are_not_stored_are_not_counted_as_written(name: str, tmp_path: Path) -> None:
    """They contain only the fill value; their seeks are not missing from the prediction."""
    array = np.arange(1, 401, dtype="i4").reshape(20, 20)
    array[10:, 10:] = 0
    np.save(tmp_path / "a.npy", array)
    words = ["resplit", tmp_path / "a.npy", tmp_path / name, "--chunks", "5,5", "--codec", "gzip"]
    told = run(*words)
    assert "wrote 12 blocks" in told
    assert "; 4 have only the fill value and are not stored" in told
    assert "1 read and 12 write seeks, as predicted for the blocks that are stored" in told
    result = json.loads(run(*words, "--overwrite", "--json"))["result"]
    assert (result["blocks_written"], result["blocks_left_out"]) == (16, 4)


def test_a_run_in_json_is_one_object(source: Path, tmp_path: Path) -> None:
    """Counted seeks are the predicted ones."""
    told = run("resplit", source, tmp_path / "x", "--chunks", "5,4,8", "--json", "--verify")

    value = json.loads(told)
    assert value.keys() == {"plan", "result"}
    check_plan_keys(value["plan"])
    seeks, counted = value["plan"]["seeks"], value["result"]["seeks"]
    assert counted == {"read": seeks["read"], "write": seeks["write"]}
    assert value["result"]["bytes"] == {"read": VALUES.nbytes, "written": VALUES.nbytes}
    assert value["result"]["blocks_written"] == 6
    assert value["result"]["verified"] is True


def test_split_and_merge_undo_each_other(tmp_path: Path) -> None:
    """One file to many and back."""
    whole, again = tmp_path / "whole.npy", tmp_path / "again.npy"
    np.save(whole, VALUES)

    run("split", whole, tmp_path / "blocks", "--chunks", "3,12,5", "--memory", "100kB")
    run("merge", tmp_path / "blocks", again, "--memory", "100kB", "--strategy", "naive")

    assert np.array_equal(np.load(again), VALUES)


def test_options_of_the_target_are_passed_on(source: Path, tmp_path: Path) -> None:
    """Format, order and replacing."""
    target = tmp_path / "target.raw"

    run("merge", source, target, "--format", "raw", "--order", "f", "--workers", 1, "--check")
    run("merge", source, target, "--format=raw", "--order=F", "--overwrite")

    assert target.read_bytes() == VALUES.tobytes(order="F")


def test_a_merge_needs_the_name_of_a_file(source: Path, tmp_path: Path) -> None:
    """A name without a suffix would be a directory, and is refused."""
    fail("merge", source, tmp_path / "target", code=2)

    assert not (tmp_path / "target").exists()


def test_a_raw_source_is_described_by_options(tmp_path: Path) -> None:
    """Every verb that opens a source takes them."""
    raw, target = tmp_path / "volume.img", tmp_path / "target"
    raw.write_bytes(VALUES.tobytes(order="F"))
    said = ["--source-shape", "10,12,8", "--source-dtype", "<i2", "--source-order", "F"]
    said += ["--source-format", "raw"]

    assert json.loads(run("info", raw, *said, "--json"))["shape"] == [10, 12, 8]
    assert "F order" in run("plan", raw, *said, "--chunks", "5")
    run("split", raw, target, "--chunks", "5,6,4", "--format", "npy", "--order", "C", *said)
    run("verify", raw, target, *said)

    assert np.array_equal(load_blocks(target, VALUES.shape, (5, 6, 4)), VALUES)


@pytest.mark.parametrize("verb", ["resplit", "merge"])
def test_a_dry_run_shows_the_plan_and_touches_nothing(
    verb: str, source: Path, tmp_path: Path
) -> None:
    """As text, or as the plan's JSON."""
    rest = ["target.npy"] if verb == "merge" else ["target.d", "--chunks", "5"]
    rest[0] = str(tmp_path / rest[0])
    arguments = [verb, source, *rest, "--format", "npy", "--dry-run"]
    before = sorted(tmp_path.rglob("*"))

    told, value = run(*arguments), json.loads(run(*arguments, "--json"))

    assert "seeks" in told
    check_plan_keys(value)
    assert sorted(tmp_path.rglob("*")) == before


def test_quiet_prints_nothing(source: Path, tmp_path: Path) -> None:
    """Only the exit code tells."""
    assert run("resplit", source, tmp_path / "x", "--chunks", "5", "--quiet") == ""
    assert run("verify", source, tmp_path / "x", "--quiet") == ""


def test_a_run_says_first_what_it_takes_for_granted(source: Path, tmp_path: Path) -> None:
    """The pattern of the names, and how often blocks are touched; unless it is to be quiet."""
    inferred = "b_{0}_{1}_{2}.npy (block numbers along axes 0, 1, 2)"
    shown = run("plan", source, "--chunks", "5", "--memory", 16500)
    assert f"names     {inferred}, inferred from the file names" in shown
    assert json.loads(run("plan", source, "--chunks", "5", "--json"))["inferred"] == inferred

    command = ["resplit", source, "--chunks", "5", "--memory", "16500"]
    done, quiet = invoke(*command, tmp_path / "x"), invoke(*command, tmp_path / "y", "--quiet")

    assert (done.exit_code, quiet.exit_code) == (0, 0)
    names, moves, visits, takes = done.stderr.splitlines()
    assert names == f"dask-io: file names are taken as {inferred}"
    assert f"to {tmp_path / 'x'} (12 npy blocks of 5 x 5 x 5)" in moves
    assert "16.09 KiB of memory and 1.87 KiB of disk space" in takes
    assert visits.startswith("dask-io: each block is ")
    assert "because the memory budget of 16.11 KiB is too small" in visits
    assert f"visits    {visits.removeprefix('dask-io: ')}" in shown
    assert quiet.stderr == ""


def test_info_tells_what_a_source_holds(source: Path) -> None:
    """As text and as JSON."""
    assert "shape     10 x 12 x 8" in run("info", source)
    value = json.loads(run("info", source, "--json"))
    files = list(source.iterdir())
    assert value == {
        "place": str(source),
        "format": "npy",
        "shape": [10, 12, 8],
        "dtype": "<i2",
        "chunks": [4, 5, 3],
        "blocks": len(files),
        "order": "C",
        "n_bytes": VALUES.nbytes,
        "n_bytes_on_disk": sum(path.stat().st_size for path in files),
        "compression_ratio": None,
        "metadata": {},
        "pattern": "b_{0}_{1}_{2}.npy",
        "inferred": "block numbers along axes 0, 1, 2",
        "space": None,
    }


def test_verify_compares_whatever_the_blocks_are(source: Path, tmp_path: Path) -> None:
    """Equal arrays in other blocks are equal."""
    other = save_blocks(tmp_path / "other", VALUES, (10, 3, 8))

    assert run("verify", source, other, "--memory", "100kB") == "equal: 960 elements compared\n"
    assert json.loads(run("verify", source, other, "--json"))["equal"] is True


def test_plan_with_data_and_without_agree(source: Path) -> None:
    """The same grids cost the same."""
    with_data = json.loads(run("plan", source, "--chunks", "5,4,8", "--memory=1MB", "--json"))
    shape = ["--shape", "10,12,8", "--dtype", "int16", "--from", "4,5,3", "--to", "5,4,8"]
    without = json.loads(run("plan", *shape, "--memory", "1MB", "--json"))

    check_plan_keys(with_data)
    assert with_data["seeks"] == without["seeks"]
    assert with_data["axes"] == without["axes"]


def test_a_billion_blocks_are_planned_and_explained() -> None:
    """Every strategy is listed, and one of them is the chosen one; so it is in words, of fewer."""
    shape = ["--shape=1000000,1000000,1000000", "--dtype=u1", "--from=1000", "--to=1001"]
    fewer = ["--shape=10000,10000,10000", "--dtype=u1", "--from=1000", "--to=1001"]

    value = json.loads(run("plan", *shape, "--memory", "4TB", "--explain", "--json"))
    told = run("plan", *fewer, "--memory", "4GB", "--explain")

    assert {"keep", "naive"} <= {one["strategy"] for one in value["candidates"]}
    assert [one["strategy"] for one in value["candidates"] if one["chosen"]] == [value["strategy"]]
    assert {"keep", "naive"} <= {line.split()[0] for line in told.splitlines() if line}


@pytest.mark.parametrize("command", [["dask_io.cli"], ["dask", "io"]], ids=" ".join)
def test_help_lists_the_verbs(command: list[str]) -> None:
    """Both as a command of its own and as one of Dask's."""
    done = subprocess.run(
        [sys.executable, "-m", *command, "--help"], capture_output=True, text=True, check=True
    )

    for verb in ("info", "plan", "resplit", "split", "merge", "verify", "demo"):
        assert f"\n  {verb} " in done.stdout


def test_the_version_is_told() -> None:
    """With the name of the command."""
    assert run("--version").startswith("dask-io, version ")


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("dask_io", {"numpy", "dask", "click"}),
        ("dask_io.cli", {"numpy", "dask", "rich"}),
        ("dask_io.api", {"dask", "rich"}),
    ],
)
def test_importing_is_light(module: str, unwanted: set[str]) -> None:
    """What is not needed yet is not loaded."""
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not unwanted & set(done.stdout.split())


def test_progress_is_drawn_on_a_terminal_and_erased(source: Path, tmp_path: Path) -> None:
    """Progress goes to stderr; the result alone goes to stdout."""
    ours, theirs = pty.openpty()
    arguments = ["resplit", str(source), str(tmp_path / "target"), "--chunks", "5", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "dask_io.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        assert process.stdout is not None
        told = process.stdout.read()
    os.close(theirs)
    drawn = b""
    try:
        while chunk := os.read(ours, 4096):
            drawn += chunk
    except OSError:
        # Linux says so when nobody holds the other end any more.
        pass
    os.close(ours)

    assert json.loads(told)["result"]["blocks_written"] == 12
    assert b"blocks" in drawn
    assert drawn.endswith(b"\x1b[2K")


def test_a_poor_encoding_is_no_error() -> None:
    """What stdout has no sign for is written as an escape."""
    shape = ["--shape=10", "--dtype=u1", "--from=2", "--to=5"]

    done = subprocess.run(
        [sys.executable, "-m", "dask_io.cli", "plan", *shape],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert done.stdout.isascii()


def test_a_reader_that_leaves_is_no_error() -> None:
    """As with ``dask-io plan ... | head -1``."""
    reading, writing = os.pipe()
    os.close(reading)
    shape = ["--shape=10", "--dtype=u1", "--from=2", "--to=5"]

    done = subprocess.run(
        [sys.executable, "-m", "dask_io.cli", "plan", *shape],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)

    assert (done.returncode, done.stderr) == (0, b"")


def test_the_demo_shows_everything_and_cleans_up(tmp_path: Path) -> None:
    """Plan, result, verification and comparison; then the files are gone."""
    told = run("demo", "--size", "16MiB", "--dir", tmp_path)

    for expected in ("strategy  sweep", "; verified", "predicted", "blocks reopened"):
        assert expected in told
    assert not list(tmp_path.iterdir())


def test_the_demo_may_leave_its_files(tmp_path: Path) -> None:
    """Where they are is said last."""
    told = run("demo", "--size=1MiB", "--dir", tmp_path, "--keep-files", "--memory=400kB")

    (place,) = tmp_path.iterdir()
    assert told.endswith(f"The arrays are in {place}\n")
    assert (place / "source").is_dir()


ABORTING = """
import atexit, os
from dask_io.cli import main

atexit.register(os.abort)
main()
"""


@pytest.mark.parametrize(("verb", "code"), [("info", 0), ("nonsense", 2)])
def test_a_command_ends_before_the_interpreter_does(verb: str, code: int, tmp_path: Path) -> None:
    """What goes wrong while that is taken down, in a library, is no failure of the command."""
    np.save(tmp_path / "x.npy", VALUES)
    command = [sys.executable, "-c", ABORTING, verb, str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code
    assert (done.stdout + done.stderr).endswith("\n")
    if verb == "info":
        assert done.stdout == run("info", tmp_path / "x.npy")


def test_a_plan_takes_a_target_and_the_options_of_resplit(source: Path, tmp_path: Path) -> None:
    """It equals the plan of a dry run, and fits on a screen without unexplained words."""
    target, chosen = (
        tmp_path / "x.zarr",
        ["--chunks", "2", "--shards", "6", "--axes", "z,y,x", "--memory", "1GiB"],
    )

    shown = run("plan", source, target, *chosen)

    assert shown == run("resplit", source, target, *chosen, "--dry-run")
    assert "of 6 x 6 x 6" in shown
    assert "each block is read once and written once" in shown
    assert len(shown.splitlines()) < 24
    for word in ("held", "staging", "swept"):
        assert word not in shown
        assert f"\n  {word} " in run("plan", source, target, *chosen, "--explain")
    assert not target.exists()
