"""What workers do in tests in place of moving data: it fails, hangs or dies on purpose."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.engine.run import Progress
from dask_io.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask_io.cluster.part_task import Limit

BLOCKS = 5


@dataclass(frozen=True)
class Steps:
    """Reports some steps of progress, and returns twice the part.

    In part 0, the first attempts do what `first` says, before the last step. Every attempt creates
    a file in the folder, named after its process and what became of it.
    """

    folder: str
    first: str = ""
    n_first: int = 1
    seconds: float = 0.02
    n_steps: int = BLOCKS

    def __call__(self, part: int, *, limit: Limit, on_progress: Callable[[Progress], None]) -> int:
        """Do it."""
        assert limit.threads
        try:
            for step in range(1, self.n_steps + 1):
                time.sleep(self.seconds)
                on_progress(Progress(step, self.n_steps, step, self.n_steps))
                if step == self.n_steps - 1 and part == 0:
                    self.act(on_progress)
        except BaseException as error:
            self.note(f"{type(error).__name__}")
            raise
        self.note("done")
        return 2 * part

    def note(self, what: str) -> None:
        """Leave a file."""
        Path(self.folder, f"{what}-{os.getpid()}-{time.monotonic_ns()}").touch()

    def act(self, on_progress: Callable[[Progress], None]) -> None:
        """Do what only the first attempts do."""
        n_before = len(list(Path(self.folder).glob("acted-*")))
        if not self.first or n_before >= self.n_first:
            return
        self.note("acted")
        match self.first:
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                while True:
                    time.sleep(0.05)
                    on_progress(Progress(1, self.n_steps, 1, self.n_steps))
            case "fail":
                raise OSError(28, "No space left on device")
            case "bad data":
                raise DataError("in.npy", ["the block is truncated"])
            case _:
                raise NotImplementedError(self.first)
