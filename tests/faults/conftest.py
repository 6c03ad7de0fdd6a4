"""What tests on the real system share: a place, an array, the command line, a run held midway."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

import dask_io
from tests.commands import fail, only_line, run
from tests.notices import without_notices

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

# The command line, but a run stops when half of the array is written: it says so and waits for a
# file to appear, or for the test to be gone.
HELD = """
import os, sys, time
from contextlib import contextmanager
from dask_io.cli import main
from dask_io.report import progress

parent, go = os.getppid(), sys.argv.pop(1)
is_midway = False

def hold(now):
    global is_midway
    if not is_midway and 2 * now.n_bytes_written >= now.n_bytes:
        is_midway = True
        print("midway", flush=True)
        while os.getppid() == parent and not os.path.exists(go):
            time.sleep(0.01)

@contextmanager
def holding(*arguments, **options):
    yield hold

progress.showing = holding
main()
"""


@dataclass
class Tool:
    """The command line."""

    folder: Path
    held: list[subprocess.Popen[str]] = field(default_factory=list)

    run = staticmethod(run)
    fail = staticmethod(fail)
    only_line = staticmethod(only_line)

    def hold(self, *arguments: object, under: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start a run in a process of its own, and return when it waits midway.

        `under` is a command that runs it, with limits, for instance.
        """
        held = [sys.executable, "-c", HELD, str(self.folder / "go")]
        run = subprocess.Popen(
            [*under, *held, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.held.append(run)
        assert run.stdout is not None
        if run.stdout.readline() != "midway\n":
            pytest.fail(f"it ended before it was midway: {run.communicate()[1]}")
        return run

    def release(self, run: subprocess.Popen[str]) -> str:
        """Let a run go on that is held, and return what it says on stderr after its notices."""
        (self.folder / "go").touch()
        return without_notices(run.communicate(timeout=60)[1])

    def kill(self, run: subprocess.Popen[str]) -> None:
        """Kill a run."""
        run.kill()
        run.communicate()


@dataclass(frozen=True)
class Sample:
    """An array, as one file and as blocks, and what is to become of it."""

    folder: Path
    array: NDArray[np.int32]
    out: Path
    # So many blocks that some are durable when half of the array is written.
    chunks: tuple[int, int] = (4, 3)

    @property
    def whole(self) -> Path:
        """The array as one file."""
        return self.folder / "whole.npy"

    @property
    def blocks(self) -> Path:
        """The array as blocks."""
        return self.folder / "in"

    @property
    def resplit(self) -> list[str]:
        """The command that makes other blocks of the blocks; one thread writes them in order."""
        chunks = ",".join(map(str, self.chunks))
        plain = ["--workers", "1", "--device", "ssd"]
        return ["resplit", str(self.blocks), str(self.out), "--chunks", chunks, *plain]

    def check_blocks(self) -> int:
        """Check that what looks like a complete block is one, and return how many there are."""
        paths = list(self.out.glob("b_*.npy"))
        for path in paths:
            index = map(int, path.stem.split("_")[1:])
            part = tuple(slice(i * c, i * c + c) for i, c in zip(index, self.chunks, strict=True))
            assert np.array_equal(np.load(path), self.array[part]), f"{path.name} is wrong"
        return len(paths)

    def check_complete(self, place: Path | None = None) -> None:
        """Check that all of the array is there, as it was written, and nothing in the making."""
        place = place or self.out
        assert np.array_equal(dask_io.open(place)[:, :], self.array)
        assert dask_io.verify(place)
        left = [path.name for path in self.folder.rglob(".*") if not path.name.endswith(".dask-io")]
        assert left == [], "temporary files are left"


@pytest.fixture
def sample(quick_path: Path) -> Sample:
    """An array of 24 x 20, in 8 blocks, to become 42."""
    array = np.arange(24 * 20, dtype="<i4").reshape(24, 20)
    made = Sample(quick_path, array, quick_path / "out")
    np.save(made.whole, array)
    made.blocks.mkdir()
    for i in range(8):
        np.save(made.blocks / f"b_{i}_0.npy", array[3 * i : 3 * i + 3])
    return made


@pytest.fixture
def tool(quick_path: Path) -> Iterator[Tool]:
    """The command line; what it still runs when the test ends is killed."""
    made = Tool(quick_path)
    yield made
    for held in made.held:
        with suppress(ProcessLookupError):
            made.kill(held)
