"""A soak: a run is killed again and again, and resumed each time, until it is complete."""

from __future__ import annotations

import json
import math
import multiprocessing
import random
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.journal.journal import is_sealed
from dask_io.journal.logs import logs_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from tests.faults.conftest import Tool

ARRAY = np.random.default_rng(0).integers(0, 2**15, (200, 300), dtype="<i2")
KILLED = -9
# They have loaded what a run needs, so that most of their time is the run.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["dask_io.api"])


@dataclass(frozen=True)
class Case:
    """A run: what is written, and how."""

    verb: str
    consume: bool
    durability: str = "fsync"

    def __str__(self) -> str:
        return f"{self.verb}-{self.durability}{'-consume' * self.consume}"

    @property
    def target(self) -> str:
        """What is written."""
        return "out.npy" if self.verb == "merge" else "out"

    @property
    def options(self) -> dict[str, Any]:
        """What is asked for: many blocks, or one file in many cells."""
        cut = {"strategy": "naive"} if self.verb == "merge" else {"chunks": (10, 15)}
        return {**cut, "consume": self.consume, "durability": self.durability, "device": "ssd"}


SHORT = [
    Case("resplit", consume=True),
    Case("merge", consume=False),
    Case("split", consume=True),
]
LONG = [
    Case(verb, consume=consume, durability=durability)
    for verb in ("resplit", "merge", "split")
    for consume, durability in ((False, "fsync"), (False, "rename"), (True, "fsync"))
]


@dataclass
class Soak:
    """A run that is killed and resumed."""

    folder: Path
    case: Case
    chance: random.Random
    n_kills: int = 0

    def __post_init__(self) -> None:
        np.save(self.folder / "whole.npy", ARRAY)
        if self.case.verb != "split":
            dask_io.split(self.folder / "whole.npy", self.source, chunks=(7, 50), device="ssd")

    @property
    def source(self) -> Path:
        """What is read."""
        return self.folder / ("whole.npy" if self.case.verb == "split" else "in")

    @property
    def target(self) -> Path:
        """What is written."""
        return self.folder / self.case.target

    @property
    def journal(self) -> Path:
        """Where the run notes what is durable."""
        is_one_file = self.case.verb == "merge"
        return self.folder / "out.npy.dask-io" if is_one_file else self.target / ".dask-io"

    def n_noted(self) -> int:
        """Return how long the list is of what is durable."""
        try:
            return (self.journal / "journal").stat().st_size
        except FileNotFoundError:
            return 0

    def start(self) -> BaseProcess:
        """Begin, or go on if there is something to go on with, as another process."""
        begin: Callable[..., object] = getattr(dask_io, self.case.verb)
        call, places, options = begin, [self.source, self.target], dict(self.case.options)
        if logs_of(self.journal).exists(self.journal):
            call, places, options = dask_io.resume, [self.target], {"device": "ssd"}
            options["consume"] = self.case.consume
            options["memory"] = self.chance.choice(["64KiB", "1MiB", "16MiB"])
            options["strategy"] = self.chance.choice(["auto", "naive", "naive"])
        options["workers"] = self.chance.choice([1, 2, 4])
        run = PROCESSES.Process(target=call, args=places, kwargs=options)
        run.start()
        return run

    def kill_some_time(self, run: BaseProcess) -> None:
        """Kill a run after some time, or when some more is durable; it may end before."""
        if self.chance.random() < 0.3:
            run.join(self.chance.uniform(0, 0.1))
        else:
            enough = self.n_noted() + self.chance.randrange(1500)
            while run.is_alive() and self.n_noted() <= enough:
                time.sleep(0.0005)
        run.kill()
        run.join()
        assert run.exitcode in (0, KILLED), "it ended in an error"
        self.n_kills += run.exitcode == KILLED

    def check_blocks(self) -> None:
        """Check that what looks complete is right: a block, or the one file."""
        if self.target.is_file():
            assert np.array_equal(np.load(self.target), ARRAY)
        for path in self.target.glob("b_*.npy"):
            i, j = map(int, path.stem.split("_")[1:])
            block = ARRAY[10 * i : 10 * i + 10, 15 * j : 15 * j + 15]
            assert np.array_equal(np.load(path), block), f"{path.name} is wrong"

    def is_complete(self) -> bool:
        """Whether the run says so."""
        return logs_of(self.journal).exists(self.journal) and is_sealed(self.journal)

    def check_complete(self) -> None:
        """Check that all is there, and nothing else."""
        assert np.array_equal(dask_io.open(self.target)[:, :], ARRAY)
        assert dask_io.verify(self.target)
        assert self.source.exists() != self.case.consume
        left = [path.name for path in self.folder.rglob(".*") if not path.name.endswith(".dask-io")]
        assert left == [], "temporary files are left"

    def carry_out(self, most_kills: int) -> None:
        """Kill and resume, then let it end."""
        while self.n_kills < most_kills and not self.is_complete():
            self.kill_some_time(self.start())
            self.check_blocks()
        if not self.is_complete():
            run = self.start()
            run.join()
            assert run.exitcode == 0
        self.check_complete()


def test_the_one_file_is_written_in_many_cells(quick_path: Path, tool: Tool) -> None:
    """A merge is killed between two of them, not only before and after."""
    made = Soak(quick_path, Case("merge", consume=False), random.Random())
    plan = tool.run("plan", made.source, "--chunks", -1, "--strategy", "naive", "--json")
    counts = [sum(count for _, count in axis["write"]) for axis in json.loads(plan)["axes"]]
    assert math.prod(counts) > 100


def soak(folder: Path, case: Case, seed: int, kills: int) -> int:
    """Carry out one soak, and return how many kills it survived."""
    made = Soak(folder, case, random.Random(seed))
    try:
        made.carry_out(kills)
    except BaseException as error:
        error.add_note(f"{case}, seed {seed}, after {made.n_kills} kills")
        raise
    return made.n_kills


@pytest.mark.parametrize("case", SHORT, ids=str)
def test_a_run_survives_kills(
    quick_path: Path, case: Case, record_property: Callable[[str, object], None]
) -> None:
    """After a few kills at random moments all is there, and right."""
    n_kills, n_runs = 0, 0
    # A run that ends before it is killed says nothing.
    while not n_kills and n_runs < 20:
        folder = quick_path / str(n_runs)
        folder.mkdir()
        n_kills += soak(folder, case, seed=random.randrange(2**32), kills=5)
        n_runs += 1
    assert n_kills > 0
    record_property("survived", {"kill of the process": n_kills})


@pytest.mark.slow
@pytest.mark.parametrize("case", LONG, ids=str)
def test_runs_survive_many_kills(
    quick_path: Path, case: Case, record_property: Callable[[str, object], None]
) -> None:
    """The same again and again."""
    n_kills, seed = 0, random.randrange(2**32)
    for n in range(5):
        folder = quick_path / str(n)
        folder.mkdir()
        n_kills += soak(folder, case, seed=seed + n, kills=20)
        shutil.rmtree(folder)
    assert n_kills > 10
    record_property("survived", {"kill of the process": n_kills})
