"""A run keeps its budget as the system sees it, not only as the engine counts."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dask_io
from benchmarks.engine.workloads import WORKLOADS
from benchmarks.engine.workloads import make_source as make_workload

pytestmark = pytest.mark.linux

MIB = 2**20
# What a run may take besides its budget: threads, plans, names of files.
CONSTANT = 24 * MIB
STATUS = """
import sys
from pathlib import Path

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
"""
INFO = f"""{STATUS}
from dask_io.cli import commands

try:
    commands(["info", "--json", sys.argv[1]])
finally:
    print(status("VmHWM"), file=sys.stderr)
"""
RUN = f"""{STATUS}
import json, resource, threading
from dataclasses import replace
import dask_io
from dask_io.planning import Hold

source, target, options, (hold, room) = *sys.argv[1:3], *map(json.loads, sys.argv[3:5])
job = dask_io.plan(source, target, order="F", **options)
if hold:
    job = replace(job, plan=replace(job.plan, hold=Hold(hold)))
assert job.plan.fits, job.plan
if room:
    # Address space that a thread reserves for its stack is no memory, but counts as such here.
    threading.stack_size(256 * 1024)
    limit = status("VmData") + room
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
result = job.run()
assert result.held == job.plan.held_bytes
print(json.dumps([status("VmHWM"), result.peak_memory]))
"""
WORKLOAD = """
import json, sys
import dask_io

source, target, options = *sys.argv[1:3], json.loads(sys.argv[3])
dask_io.info(source)
job = dask_io.plan(source, target, **options)
print(json.dumps([job.plan.peak_bytes, job.run().peak_memory]))
"""
SOURCES = {
    "4 MiB": ((64, 128, 128), (32, 32, 32)),
    "64 MiB": ((256, 256, 256), (32, 32, 32)),
    "256 MiB": ((256, 512, 512), (64, 128, 128)),
}
TINY = ("4 MiB", 200_000, "auto", (40, 50, 60))
SMALL = ("64 MiB", 4 * MIB, "keep", (48, 48, 48))
MEDIUM = ("64 MiB", 16 * MIB, "keep", (48, 48, 48))
LARGE = ("256 MiB", 64 * MIB, "keep", (100, 128, 96))
# Of its one block so much is written at once that another thread takes the checksum.
MERGE = ("256 MiB", 64 * MIB, "auto", (256, 512, 512))
Case = tuple[str, int, str, tuple[int, int, int]]


def make_source(folder: Path, shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    """Write blocks with NumPy, one after another."""
    folder.mkdir(parents=True)
    block = np.random.default_rng(0).random(chunks, np.float32)
    for index in product(*(range(n // chunk) for n, chunk in zip(shape, chunks, strict=True))):
        np.save(folder / f"b_{'_'.join(map(str, index))}.npy", block)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time go on."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_child(
    script: str, *arguments: str, begin: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own; `begin` is called there before it starts."""
    command = [sys.executable, "-c", script, *arguments]
    # A few threads of the linear algebra library would weigh more than a small budget.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
        preexec_fn=begin,
    )


@pytest.fixture(scope="session")
def source_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Make an array the first time it is asked for, by whichever process that is."""
    common = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        common = common.parent

    def source(name: str) -> Path:
        folder = common / f"array of {name}"
        with locked(common / "arrays.lock"):
            if not folder.exists():
                making = common / "array in the making"
                make_source(making, *SOURCES[name])
                making.rename(folder)
        return folder

    return source


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """A target that is removed at once: pytest would keep it for a while."""
    yield tmp_path / "target"
    shutil.rmtree(tmp_path / "target", ignore_errors=True)


def run(source: Path, target: Path, case: Case, **how: Any) -> subprocess.CompletedProcess[str]:
    """Resplit in a process of its own."""
    _, budget, strategy, chunks = case
    options = {"memory": budget, "strategy": strategy, "chunks": chunks, "workers": how["workers"]}
    more = [how["hold"], how.get("room", 0)]
    done = run_child(RUN, str(source), str(target), json.dumps(options), json.dumps(more))
    assert done.returncode == 0, done.stderr
    return done


HELD: list[tuple[Case, str | None]] = [
    (TINY, None),
    (SMALL, "pieces"),
    (SMALL, "blocks"),
    (MEDIUM, "pieces"),
    (LARGE, "pieces"),
    (LARGE, "blocks"),
    (MERGE, None),
]


# One number of workers each with every run, the other one on demand.
@pytest.mark.parametrize(
    ("case", "hold", "workers"),
    [
        pytest.param(*held, workers, marks=pytest.mark.slow if (n + workers) % 2 else ())
        for n, held in enumerate(HELD)
        for workers in (1, 12)
    ],
    ids=lambda value: f"{value[1]} of {value[0]}" if isinstance(value, tuple) else str(value),
)
def test_resident_growth_stays_within_the_budget(
    source_of: Callable[[str], Path], target: Path, case: Case, hold: str | None, workers: int
) -> None:
    """The process grows by no more than 1.02 budgets and 24 MiB over `info` of the same source."""
    name, budget, *_ = case
    source = source_of(name)
    before = int(run_child(INFO, str(source)).stderr.split()[-1])

    peak, measured = json.loads(run(source, target, case, hold=hold, workers=workers).stdout)

    assert peak - before <= 1.02 * budget + CONSTANT
    assert measured <= 1.02 * budget + CONSTANT


@pytest.mark.parametrize(
    ("case", "hold"),
    [
        (TINY, None),
        (SMALL, "pieces"),
        (SMALL, "blocks"),
        (LARGE, "pieces"),
        (LARGE, "blocks"),
        (MERGE, None),
    ],
    ids=lambda value: value if isinstance(value, str | None) else f"{value[1]} of {value[0]}",
)
def test_a_run_ends_well_under_a_hard_limit(
    source_of: Callable[[str], Path], target: Path, case: Case, hold: str | None
) -> None:
    """With as many threads as move at the most, all writable memory fits in it and 24 MiB."""
    name, budget, *_ = case

    run(source_of(name), target, case, hold=hold, workers=12, room=budget + CONSTANT)


@pytest.mark.parametrize(
    ("shards", "budget"),
    [(None, 96 * MIB), (None, 32 * MIB), ((128, 256, 128), 80 * MIB)],
    ids=["chunks", "chunks in pieces", "shards"],
)
def test_codecs_are_within_the_budget(
    source_of: Callable[[str], Path], target: Path, shards: tuple[int, ...] | None, budget: int
) -> None:
    """From compressed to compressed chunks, what four threads decode and encode is counted."""
    source = target.with_name("source.zarr")
    kind: dict[str, Any] = {"codec": "zstd:1", "workers": 4}
    dask_io.resplit(source_of("256 MiB"), source, chunks=(64, 128, 128), **kind)
    options = {
        **kind,
        "memory": budget,
        "format": "zarr",
        "chunks": (128, 128, 128),
        "shards": shards,
    }
    try:
        planned: Any = dask_io.plan(dask_io.open(source), target, **options).target
        done = run_child(WORKLOAD, str(source), str(target), json.dumps(options))
    finally:
        shutil.rmtree(source)
    assert planned.in_pieces == (budget < 64 * MIB)
    assert done.returncode == 0, done.stderr
    predicted, measured = json.loads(done.stdout)

    assert predicted <= budget
    # Without the codecs' share, both would take a quarter more than their budget.
    assert measured <= 1.02 * budget


def test_a_hard_limit_would_be_felt(source_of: Callable[[str], Path], target: Path) -> None:
    """The limit does limit: half of what is held is not enough."""
    _, budget, strategy, chunks = LARGE
    options = {"memory": budget, "strategy": strategy, "chunks": chunks, "workers": 4}
    arguments = [str(source_of("256 MiB")), str(target), json.dumps(options)]

    done = run_child(RUN, *arguments, json.dumps(["blocks", budget // 2]))

    assert done.returncode != 0
    assert "Cannot allocate memory" in done.stderr or "MemoryError" in done.stderr


@pytest.fixture
def limited_group() -> Iterator[Callable[[int], Callable[[], None]]]:
    """A way to limit the memory of a process, by a control group of its own."""
    group = Path(f"/sys/fs/cgroup/memory/dask-io-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no memory control group can be made here: {error}")

    def limit(n_bytes: int) -> Callable[[], None]:
        (group / "memory.limit_in_bytes").write_text(str(n_bytes))

        def enter() -> None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

        return enter

    yield limit
    group.rmdir()


@pytest.mark.parametrize("hold", ["pieces", "blocks"])
def test_a_run_ends_well_in_a_control_group(
    source_of: Callable[[str], Path],
    target: Path,
    limited_group: Callable[[int], Callable[[], None]],
    hold: str,
) -> None:
    """All memory that the system charges to the process, baseline included, is what is promised."""
    name, budget, strategy, chunks = LARGE
    source = source_of(name)
    before = int(run_child(INFO, str(source)).stderr.split()[-1])
    options = {"memory": budget, "strategy": strategy, "chunks": chunks, "workers": 4}
    arguments = [str(source), str(target), json.dumps(options), json.dumps([hold, 0])]

    begin = limited_group(before + int(1.02 * budget) + CONSTANT)
    done = run_child(RUN, *arguments, begin=begin)
    assert done.returncode == 0, done.stderr

    shutil.rmtree(target)
    killed = run_child(RUN, *arguments, begin=limited_group(before // 2 + budget // 4))
    assert killed.returncode == -9


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_predicted_peak_is_tight(tmp_path: Path, target: Path, name: str) -> None:
    """A run that uses its budget takes at least 70 % of the memory that its plan predicts."""
    workload = WORKLOADS[name]
    before, after = workload.grids(192 * MIB)
    source = tmp_path / "source"
    if before.n_blocks == 1:
        source = source.with_suffix(".npy")
    place = target.with_suffix(".npy") if after.n_blocks == 1 else target
    make_workload(source, before, workload.dtype)
    options = {"chunks": after.longest, "memory": 48 * MIB, "order": workload.order, "workers": 4}

    done = run_child(WORKLOAD, str(source), str(place), json.dumps(options))

    assert done.returncode == 0, done.stderr
    predicted, measured = json.loads(done.stdout)
    assert measured >= 0.7 * predicted
    assert measured <= 1.02 * 48 * MIB + CONSTANT
