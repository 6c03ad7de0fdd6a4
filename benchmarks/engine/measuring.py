"""Time one process, from dropped caches until its files are on the disk."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CONTESTANT, _ROOT = "benchmarks.engine.contestant", Path(__file__).parents[2]
# A timing is disturbed if others used more than this part of a core.
_MOST_OTHER_CORES = 0.3
_TICKS_OF_PROCESSORS = Path("/proc/stat")
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of a process until its files were on the disk, and its own report.

    `others` is the CPU time of other processes, as a part of one core.
    """

    seconds: float
    cpu_seconds: float
    report: dict[str, Any] = field(default_factory=dict)
    other_cores: float = 0.0
    """Cores that other processes, or other virtual machines, used meanwhile."""

    @property
    def is_disturbed(self) -> bool:
        """Whether others used more of the machine than the kernel needs to write files."""
        return self.other_cores > _MOST_OTHER_CORES


class FailedError(Exception):
    """A timed process failed; the message is the last line of its stderr."""


def drop_caches() -> bool:
    """Sync and drop the caches; return False if this is not permitted."""
    os.sync()
    try:
        _DROP_CACHES.write_text("3")
    except OSError:
        return False
    return True


def copy(source: Path, target: Path, prepare: Callable[[], object]) -> Timing:
    """Time `cp -r`, the yardstick; `prepare` is called right before it."""
    command = ["cp", "-r", "--reflink=never", str(source), str(target)]
    return _time(command, prepare, waits=False)


def run_dask_io(
    words: Sequence[str], prepare: Callable[[], object], *, tree: Path | None = None
) -> Timing:
    """Time a command of Dask IO, its start and imports included.

    `tree` is a folder whose ``src`` is used instead of the package that is installed.
    """
    command = [sys.executable, "-m", "dask_io.cli", *words]
    return _time(command, prepare, waits=False, tree=tree)


def run_contestant(
    kind: str, prepare: Callable[[], object], *, tree: Path | None = None, **arguments: Any
) -> Timing:
    """Time a contestant from the moment it is ready, without its start and imports.

    `tree` is as for `run_dask_io`.
    """
    command = [sys.executable, "-m", _CONTESTANT, kind, json.dumps(arguments)]
    return _time(command, prepare, waits=True, tree=tree)


def remove(path: Path) -> None:
    """Remove a file, or a directory and its content."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def discard(path: Path, aside: Path) -> None:
    """Truncate a file, or all files of a directory, and move it aside, if it exists.

    For every new file, ext4 looks at all files that were deleted in the last minutes. Thousands of
    them would slow down the next run, so they are only removed at the end.
    """
    if not path.exists():
        return
    aside.mkdir(exist_ok=True)
    moved = path.rename(aside / str(len(list(aside.iterdir()))))
    for file in [moved, *moved.rglob("*")]:
        if file.is_file():
            os.truncate(file, 0)


def _time(
    command: list[str], prepare: Callable[[], object], *, waits: bool, tree: Path | None = None
) -> Timing:
    cpu_before, busy_before = cpu_of_children(), 0.0
    if not waits:
        prepare()
    tree_first = () if tree is None else (str(tree.resolve() / "src"),)
    paths = (*tree_first, str(_ROOT), os.environ.get("PYTHONPATH"))
    start, busy_before = time.perf_counter(), cpu_of_all()
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            if waits:
                assert process.stdout is not None
                cpu_before += float(process.stdout.readline() or 0)
                prepare()
                start, busy_before = time.perf_counter(), cpu_of_all()
            output, errors = process.communicate("\n")
        except BaseException:
            process.kill()
            raise
    os.sync()
    seconds, busy = time.perf_counter() - start, cpu_of_all() - busy_before
    if process.returncode:
        lines = errors.strip().splitlines() or [f"exit code {process.returncode}"]
        raise FailedError(lines[-1])
    report = json.loads(output) if waits else {}
    cpu = cpu_of_children() - cpu_before
    return Timing(seconds, cpu, report, max(0.0, busy - cpu) / seconds)


def cpu_of_all() -> float:
    """Return the CPU seconds of all processes and of stolen time since the start; 0 if unknown."""
    try:
        first = _TICKS_OF_PROCESSORS.read_text().partition("\n")[0]
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, soft_irq, stolen = map(int, first.split()[1:9])
    return (user + nice + system + irq + soft_irq + stolen) / os.sysconf("SC_CLK_TCK")


def cpu_of_children() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
