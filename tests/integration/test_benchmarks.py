"""The benchmarks run, at sizes too small to measure anything, so that they keep running."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import (
    budgets,
    copies,
    processes,
    slices,
    small_blocks,
    study_planning_time,
    volumes,
)
from benchmarks.cluster import simulate
from benchmarks.compare import __main__ as compare
from benchmarks.compare import trees
from benchmarks.compare.results import Round, Row
from benchmarks.compare.workloads import WORKLOADS as COMPARED
from benchmarks.engine.disks import BufferedDisk, SlowDisk
from benchmarks.engine.measuring import Timing
from benchmarks.experiments.__main__ import EXPERIMENTS
from benchmarks.experiments.__main__ import main as run_experiments
from benchmarks.peers import __main__ as peers
from benchmarks.peers import results as peers_results
from benchmarks.peers.workloads import WORKLOADS as PEERS

ROOT = Path(__file__).parents[2]


def test_every_benchmark_runs_here() -> None:
    """No benchmark is left out of this file."""
    here = Path(__file__).read_text(encoding="utf-8")
    scripts = {path.stem for path in ROOT.glob("benchmarks/*.py")}
    packages = {path.parent.name for path in ROOT.glob("benchmarks/*/__main__.py")}
    calls = ("benchmarks.{}", "benchmarks/{}.py", "{}.main(", "{}.lines(")

    assert {"zarr", "engine"} <= scripts | packages
    for name in scripts | packages:
        assert any(f"{call.format(name)}" in here for call in calls), name


def run_engine_benchmark(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the benchmark of the engine on tiny arrays, leaving the machine's caches alone."""
    tiny = ("--size", "1MiB", "--repeats", "1", "--warm", "--dir", str(folder))
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.engine", *tiny, *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workloads", ["c,f", pytest.param("c,d,e,f,g", marks=pytest.mark.slow)])
def test_engine_benchmark_measures_every_kind_of_workload(tmp_path: Path, workloads: str) -> None:
    """Each workload is run beside `cp -r` and the floor, counted as planned, and cleaned up."""
    found, place = tmp_path / "found.json", tmp_path / "work"

    done = run_engine_benchmark(
        place, "--budgets", "4MiB", "--workloads", workloads, "--json", str(found)
    )

    assert done.returncode == 0, done.stderr
    assert "not those predicted" not in done.stdout
    rows = json.loads(found.read_text(encoding="utf-8"))["rows"]
    assert [row["workload"] for row in rows] == workloads.split(",")
    for row in rows:
        assert row["failure"] is None
        assert f"{row['workload']}: at most" in done.stdout
        assert {"cp", "ours", "floor"} == row["rounds"][0].keys()
    assert not any(place.iterdir())


def test_engine_benchmark_reports_a_workload_that_fails(tmp_path: Path) -> None:
    """A budget that is too small shows in the results and does not end the benchmark."""
    done = run_engine_benchmark(tmp_path, "--budgets", "1KiB,4MiB", "--workloads", "f")

    assert done.returncode == 0, done.stderr
    assert "f at 1 KiB: " in done.stdout
    assert "missed at 1 KiB (failed)" in done.stdout
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "ways", ["plan,tasks", pytest.param("plan,tasks,p2p", marks=pytest.mark.slow)]
)
def test_graph_benchmark_measures_every_way(tmp_path: Path, ways: str) -> None:
    """The program runs in every way, and ours is what others are compared to."""
    tiny = ("--size", "1MiB", "--memory", "8MiB", "--repeats", "1", "--dir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.graph", "--formats", "hdf5", "--methods", ways, *tiny],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [row[:2] for row in rows] == [["hdf5", way] for way in ways.split(",")]
    assert all(row[2].endswith("(1.00)") for row in rows if row[1] == "plan")


def test_optimality_study_prints_the_table_of_the_documents() -> None:
    """A small study prints the rows of the documented table, and comes to the same conclusion."""
    done = subprocess.run(
        [sys.executable, "benchmarks/study_optimality.py", "60"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    head, rule, *rows = done.stdout.split("\n\n", maxsplit=1)[0].splitlines()
    document = (ROOT / "docs/explanation/optimality.md").read_text(encoding="utf-8")

    assert f"{head}\n{rule}\n" in document
    assert "bound <= optimum <= sweep in all of them: True" in done.stdout
    for row in rows:
        n_axes, _, optimal, *_ = (cell.strip() for cell in row.strip("|").split("|"))
        assert n_axes in {"1", "2", "3"}
        assert float(optimal.rstrip("%")) > 90


def test_zarr_benchmark_measures_both_kinds(tmp_path: Path) -> None:
    """With a codec beside the codec alone, without one beside `cp -r`; all is cleaned up."""
    tiny = ("--size", "1MiB", "--budgets", "4MiB", "--repeats", "1", "--warm")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.zarr", *tiny, "--dir", str(tmp_path / "work")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "codec zstd:3 in 4MiB: " in done.stdout
    assert "codec none in 4MiB: " in done.stdout
    assert not any((tmp_path / "work").iterdir())


def test_hdf5_benchmark_measures_all_kinds(tmp_path: Path) -> None:
    """Filters beside h5py and the codec alone, `.nii.gz` beside nibabel; all is cleaned up."""
    tiny = ("--size", "256KiB", "--memory", "16MiB", "--repeats", "1", "--warm")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.hdf5", *tiny, "--dir", str(tmp_path / "work")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = dict(line.split(": ", 1) for line in done.stdout.splitlines()[1:])
    assert all("of h5py" in found[name] for name in ("shuffle+gzip:1", "gzip:6", "none"))
    assert ["of the codec alone" in each for each in found.values()] == [True, True, False, False]
    assert "of nibabel" in found["nii.gz"]
    assert not any((tmp_path / "work").iterdir())


def test_climate_benchmark_compares_results(tmp_path: Path) -> None:
    """Both contestants yield the same array, and what they took is told."""
    tiny = ("--scale", "0.05", "--memory", "4000000", "--warm", "--dir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.climate", *tiny],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("ours", "dask"))]
    assert len(lines) == 2
    assert all(line.endswith("equal") and "chunk reads" in line for line in lines)
    assert not any(tmp_path.iterdir())


def test_the_walk_ends_where_data_is_read() -> None:
    """It goes from the command through the rooms, and counts what it lists."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.walk"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    *functions, summary = done.stdout.splitlines()
    path = [line.split()[-1] for line in functions if " > " in line]
    assert summary.startswith(f"{len(functions)} functions (cli ")
    assert summary.endswith(f", {len(path)} on the call path")
    assert path[:2] == ["cli.group.Verbs.invoke", "cli.verbs.resplit"]
    assert path[-1].startswith("storage.")


def test_copies_benchmark_compares_orders(capsys: pytest.CaptureFixture[str]) -> None:
    """Every shape and type gets a line with the speed of both orders."""
    copies.main(["--shapes", "20,20,20;20,400", "--dtypes", "u1,<f8", "--repeats", "1"])

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        f"{shape} of {dtype}"
        for shape in ("20 x 20 x 20", "20 x 400")
        for dtype in ("uint8", "float64")
    ]
    assert all("of C to C" in line for line in lines)


def test_volumes_benchmark_brings_the_volume_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A volume many times larger than the budget goes to Zarr and comes back bit-identical."""
    tiny = ["--size", "4MiB", "--memory", "200KiB", "--chunks", "16", "--warm"]
    volumes.main([*tiny, "--dir", str(tmp_path)])

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "the volume that came back is bit-identical"
    assert [line.partition(":")[0] for line in lines[1:4]] == [
        "copy of the file",
        "NIfTI to Zarr",
        "Zarr to NIfTI",
    ]
    assert not any(tmp_path.iterdir())


def test_slices_benchmark_compares_with_a_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both contestants write equal images, and the last line has the ratio of their times."""
    tiny = ["--size", "1MiB", "--memory", "1MiB", "--chunks", "8", "--shards", "16", "--warm"]
    slices.main([*tiny, "--repeats", "1", "--dir", str(tmp_path)])

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[1:3]] == ["ours", "loop"]
    assert lines[3].endswith("both images are equal")
    assert not any(tmp_path.iterdir())


def test_processes_benchmark_compares_both_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each kind has a line with both times and their ratio."""
    tiny = ["--size", "64KiB", "--before", "16", "--after", "25", "--warm", "--repeats", "1"]
    processes.main([*tiny, "--kinds", "npy,zstd", "--dir", str(tmp_path)])

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["npy", "zstd"]
    assert all("one process" in line and "2 processes" in line for line in lines)
    assert not any(tmp_path.iterdir())


def test_budgets_benchmark_compares_neighbours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each case runs with each budget, compared with the next smaller one."""
    tiny = ("--size", "1MiB", "--repeats", "1", "--warm", "--dir", str(tmp_path))

    budgets.main([*tiny, "--budgets", "4MiB,8MiB"])

    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [line[:2] for line in lines] == [
        [case, budget] for case in ("npy", "zarr-zstd") for budget in ("4MiB", "8MiB")
    ]
    assert ["to" in line for line in lines] == [False, True] * 2
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "workloads",
    ["zarr-zstd,npy-u1", pytest.param(",".join(small_blocks.WORKLOADS), marks=pytest.mark.slow)],
)
def test_small_blocks_benchmark_compares_with_peers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workloads: str
) -> None:
    """Each workload has our row and that of its peer, with a ratio."""
    tiny = ("--size", "1MiB", "--repeats", "1", "--warm", "--dir", str(tmp_path))

    small_blocks.main([*tiny, "--workloads", workloads, "--only", "ours,tensorstore,memmap"])

    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [line[:2] for line in lines] == [
        [workload, contestant]
        for workload in workloads.split(",")
        for contestant in ("ours", "memmap" if workload == "npy-u1" else "tensorstore")
    ]
    assert ["to" in line for line in lines] == [False, True] * (len(lines) // 2)
    assert not any(tmp_path.iterdir())


def test_planning_study_measures_every_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a line for each problem and number of blocks."""
    monkeypatch.setattr(study_planning_time, "COUNTS", (5, 10))

    head, *lines = study_planning_time.lines()

    assert head.split()[0] == "problem"
    assert len(lines) == 2 * len(study_planning_time.CASES)


@pytest.mark.parametrize(
    "workloads",
    [
        "split,extract,group,plan",
        pytest.param(",".join(COMPARED), marks=pytest.mark.slow),
    ],
)
def test_comparison_of_a_tree_with_itself_finds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workloads: str
) -> None:
    """Both trees make the same seeks, move the same bytes, and leave nothing behind."""
    tiny = ("--size", "256KiB", "--repeats", "1", "--warm", "--threshold", "1000")
    found, place = tmp_path / "found.json", tmp_path / "work"

    places = ("--base", str(ROOT), "--dir", str(place), "--json", str(found))
    compare.main([*tiny, *places, "--workloads", workloads])

    rows = json.loads(found.read_text(encoding="utf-8"))["rows"]
    assert [row["workload"] for row in rows] == workloads.split(",")
    assert all(row["findings"] == [] and row["failures"] == {} for row in rows)
    assert capsys.readouterr().out.count(" equal ") >= 4
    assert not any(place.iterdir())


def test_comparison_reports_what_the_base_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A workload that an earlier commit cannot run is named, and is no failure."""
    package = tmp_path / "base" / "src" / "dask_io"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()

    compare.main(
        ["--base", str(tmp_path / "base"), "--workloads", "version", "--dir", str(tmp_path)]
    )

    told = capsys.readouterr().out
    assert "not in base: " in told
    assert "No module named dask_io.cli" in told


def test_comparison_ends_with_1_if_something_is_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other seeks than those of the base are shown, and decide the exit code."""

    def run(_kind: str, _prepare: object, *, tree: Path, **_options: object) -> Timing:
        return timing(seeks=8 if tree.name == "current" else 7)

    monkeypatch.setattr(compare, "run_contestant", run)
    monkeypatch.setattr(compare, "take_current", lambda _: "current")
    monkeypatch.setattr(compare, "take_base", lambda *_: "base")

    with pytest.raises(SystemExit, match="worse than the base: plan") as ended:
        compare.main(["--workloads", "plan", "--warm", "--dir", str(tmp_path)])

    assert ended.value.code
    assert "seeks to read: 7 before, 8 now" in capsys.readouterr().out


def timing(
    seconds: float = 1, memory: int = 2**30, seeks: int = 7, other_cores: float = 0
) -> Timing:
    """Return what a run could have taken."""
    counted = {"seeks": {"read": seeks, "write": 3}, "bytes": {"read": 10, "written": 10}}
    report = {"plan": {**counted, "decodes": seeks}, "resident_growth": memory}
    return Timing(seconds, 1, report, other_cores)


@pytest.mark.parametrize(
    ("now", "findings"),
    [
        ([timing(), timing(0.5)], []),
        ([timing(1.3), timing(1.2)], ["more seconds"]),
        ([timing(1.3), timing(1.05)], []),
        ([timing(1.3), timing(1.05, other_cores=1)], ["more seconds"]),
        ([timing(1.3, other_cores=1), timing(1.3, other_cores=1)], []),
        ([timing(memory=2**31, other_cores=1)] * 2, ["more memory"]),
        ([timing(), timing(seeks=9)], ["seeks to read: 7 before, 7 or 9 now"]),
    ],
)
def test_comparison_finds_what_is_worse_in_every_round(
    now: list[Timing], findings: list[str]
) -> None:
    """More time counts if no round contradicts it; disturbed rounds do not count."""
    row = Row("x", [Round(timing(), one) for one in now], {})

    assert [each for each in row.findings(1.1) if "decodes" not in each] == findings
    assert ("not judged" in row.remark) == all(one.is_disturbed for one in now)


def test_comparison_takes_the_commit_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base is where the branch left main, the newest tag, or the parent of the commit."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    monkeypatch.setattr(trees, "ROOT", root)

    def git(*words: str) -> None:
        person = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *person, *words], cwd=root, capture_output=True, check=True)

    def base(number: int) -> str:
        told = trees.take_base(None, tmp_path / f"base{number}")
        assert told.endswith((tmp_path / f"base{number}/src/a.py").read_text("utf-8"))
        return told.split()[-1]

    git("init", "--initial-branch", "main")
    for name in ("one", "two", "three"):
        (root / "src/a.py").write_text(name)
        git("add", ".")
        git("commit", "--message", name)
    assert base(1) == "two"
    git("tag", "v1", "HEAD~2")
    assert base(2) == "one"
    git("checkout", "-b", "branch")
    (root / "src/a.py").write_text("four")
    git("commit", "--all", "--message", "four")
    assert base(3) == "three"
    assert trees.take_current(tmp_path / "current").endswith("four")


@pytest.mark.parametrize("ways", ["ours", pytest.param("ours,p2p,tasks", marks=pytest.mark.slow)])
def test_cluster_benchmark_measures_every_way(tmp_path: Path, ways: str) -> None:
    """Every way runs on a cluster of its own, and the result is checked."""
    tiny = ("--size", "4MiB", "--repeats", "1", "--warm", "--dir", str(tmp_path))
    less = ("--cases", "series", "--workers", "2", "--ways", ways)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cluster", *less, *tiny],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    rows = [line.strip("| ").split(" | ") for line in lines[1:]]
    assert [row[2] for row in rows] == ways.split(",")
    assert "failed" not in done.stdout


@pytest.mark.parametrize(
    ("workloads", "only"),
    [
        ("blocks,hdf5-gzip", "ours,memmap,rechunkit,h5py"),
        pytest.param(
            ",".join(PEERS), "ours,memmap,tensorstore,dask,h5py,nibabel", marks=pytest.mark.slow
        ),
    ],
)
def test_peers_benchmark_shows_every_contestant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workloads: str, only: str
) -> None:
    """All results are right, missing peers are named, and the pages follow from the data."""
    place, found = tmp_path / "work", tmp_path / "found"
    tiny = ["--size", "1MiB", "--budgets", "4MiB", "--repeats", "1", "--warm"]

    peers.main(
        [*tiny, "--workloads", workloads, "--only", only, "--dir", str(place), "--out", str(found)]
    )

    document = json.loads((found / "peers.json").read_text("utf-8"))
    assert [row["workload"] for row in document["rows"]] == workloads.split(",")
    for row in document["rows"]:
        chosen = {name for name in PEERS[row["workload"]].peers if name in only.split(",")}
        assert {"ours", "cp", *chosen} - {"rechunkit"} <= row["results"].keys()
        assert row["failures"].keys() <= {"rechunkit"}
    assert peers_results.verdict(document) in capsys.readouterr().out
    for name, text in peers_results.pages(document).items():
        assert (found / name).read_text("utf-8") == text
    assert not any(place.iterdir())


def test_clusters_are_simulated() -> None:
    """A small simulation has a row for each number of workers, and can be drawn."""
    rows = [
        simulate.simulate(2**30, workers, compressed=compressed)
        for compressed in (True, False)
        for workers in (2, 8)
    ]

    assert [row.workers for row in rows] == [2, 8, 2, 8]
    assert all(0 < row.balance <= 1 for row in rows)
    assert rows[0].redundant < rows[1].redundant
    assert simulate.draw(rows).count("<polyline") == 4
    assert len(simulate.table(rows).splitlines()) == 6


def test_a_slow_disk_takes_time_for_seeks_and_bytes(tmp_path: Path) -> None:
    """A transfer that starts where the last one ended only takes the time of its bytes."""
    naps: list[float] = []
    disk = SlowDisk(1.0, 4.0, clock=lambda: sum(naps), sleep=naps.append)
    file, other = (disk.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in "ab")

    disk.pwrite(file, b"abcd", 0)
    disk.pwritev(file, [b"ef", b"gh"], 4)
    disk.pwrite(file, b"i", 20000)
    disk.pwrite(other, b"j", 20001)
    disk.preadv(file, [bytearray(9)], 0)
    disk.close(file)
    reopened = disk.open(tmp_path / "a", os.O_RDONLY)
    disk.preadv(reopened, [buffer := bytearray(4)], 4)
    disk.close(reopened)
    disk.close(other)

    assert naps == [2, 1, 1.25, 1.25, 3.25, 2]
    assert disk.n_seeks == 5
    assert buffer == b"efgh"


@pytest.mark.linux
def test_a_buffered_disk_never_uses_direct_io(tmp_path: Path) -> None:
    """Neither a file that is opened for it, nor one that is set to it, uses direct I/O."""
    disk = BufferedDisk()
    file = disk.open(tmp_path / "a", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    disk.set_flags(file, os.O_DIRECT)

    assert not fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DIRECT
    disk.close(file)


@pytest.mark.parametrize(
    ("names", "scale"),
    [
        ("model orders strategies", 0.04),
        ("cache growth", 0.02),
        pytest.param("cluster memory split-merge", 0.04, marks=pytest.mark.slow),
    ],
)
def test_experiments_write_data_and_pictures(tmp_path: Path, names: str, scale: float) -> None:
    """Each experiment is recorded with its conditions, and nothing else stays behind."""
    tiny = ["--scale", str(scale), "--repeats", "1", "--cases", "9", "--warm"]
    tiny += [
        "--configurations",
        "0",
        "--blocks",
        "1000",
        "--workers",
        "1",
        "--powers",
        "28",
        "--delays",
        "0.01",
    ]
    found, place = tmp_path / "found", tmp_path / "work"
    run_experiments([*names.split(), *tiny, "--out", str(found), "--dir", str(place)])

    records = {path.stem: json.loads(path.read_text("utf-8")) for path in found.glob("*.json")}
    assert sorted(records) == sorted(names.split())
    for name, record in records.items():
        assert {"date", "versions", "machine", "caches_dropped"} <= record.keys()
        assert "<circle" in (found / f"{name}.svg").read_text(encoding="utf-8")
    assert not any(place.iterdir())


def test_the_report_shows_what_was_found() -> None:
    """Its pictures are those of the recorded data, which agrees with the model and the papers."""
    folder = ROOT / "docs/experiments"
    report = (ROOT / "docs/report.md").read_text(encoding="utf-8")
    found = {}
    for name, experiment in EXPERIMENTS.items():
        found[name] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["found"]
        picture = (folder / f"{name}.svg").read_text(encoding="utf-8")

        assert picture == experiment.picture(found[name])
        assert f"(experiments/{name}.svg)" in report
    assert found["model"]["differences"] == 0
    assert found["split-merge"]["reproduced"]
