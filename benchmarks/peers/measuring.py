"""Run one contestant, and watch the memory, transfers and temporary files of all its processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread, Timer
from typing import TYPE_CHECKING, Any, Self

from benchmarks.engine.measuring import FailedError, Timing, cpu_of_all, cpu_of_children

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = Path(__file__).parents[2]
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SAMPLING_SECONDS = 0.01
_SAMPLES_PER_LOOK = 20


@dataclass(frozen=True, slots=True)
class Found:
    """What one run took.

    Attributes
    ----------
    seconds
        From the start of the work until the files are on the disk.
    memory
        Peak of the anonymous memory of all processes, without what they had before the work.
        Mapped files and the page cache do not count.
    read, written, calls
        Bytes and calls of reads and writes, as the kernel counts them; memory maps do not count.
    temporary
        Most bytes in the folder for temporary files.
    system_calls
        All system calls, if they were counted.
    """

    seconds: float
    cpu_seconds: float
    other_cores: float
    memory: int | None = None
    read: int | None = None
    written: int | None = None
    calls: int | None = None
    temporary: int = 0
    system_calls: int | None = None

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs used the machine meanwhile."""
        return Timing(self.seconds, self.cpu_seconds, {}, self.other_cores).is_disturbed

    def to_json(self) -> dict[str, Any]:
        """Return all figures."""
        return {**asdict(self), "disturbed": self.is_disturbed}


def measure(
    name: str,
    job: dict[str, Any],
    prepare: Callable[[], object],
    *,
    python: Path,
    timeout: float,
    trace: Path | None = None,
) -> Found:
    """Run a contestant in its own process, from the moment it is ready until a final sync.

    With `trace`, strace counts its system calls into that file, which makes it slower.
    """
    words = [str(python), "-m", "benchmarks.peers.contestants", name, json.dumps(job)]
    if trace is not None:
        words = ["strace", "-f", "-c", "-o", str(trace), *words]
    temporary = Path(job["temporary"])
    cpu_before = cpu_of_children()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(
            words,
            env={**os.environ, "PYTHONPATH": str(_ROOT), "TMPDIR": str(temporary)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            process_group=0,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        alarm = Timer(timeout, _kill, [process])
        alarm.start()
        try:
            cpu_before += float(process.stdout.readline() or 0)
            prepare()
            start, busy_before = time.perf_counter(), cpu_of_all()
            with _Watch(process.pid, temporary) as watch:
                with suppress(BrokenPipeError):
                    process.stdin.write("\n")
                    process.stdin.flush()
                report = process.stdout.readline()
                os.sync()
                seconds = time.perf_counter() - start
            is_late = not alarm.is_alive()
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
            cpu, busy = cpu_of_children() - cpu_before, cpu_of_all() - busy_before
        finally:
            alarm.cancel()
            _kill(process)
        if not report:
            errors.seek(0)
            lines = errors.read().strip().splitlines() or [f"exit code {process.returncode}"]
            raise FailedError(f"more than {timeout:.0f} s" if is_late else lines[-1])
    return Found(
        seconds=seconds,
        cpu_seconds=cpu,
        other_cores=max(0.0, busy - cpu) / seconds,
        memory=watch.peak - watch.before,
        read=watch.counted("rchar"),
        written=watch.counted("wchar"),
        calls=watch.counted("syscr") + watch.counted("syscw"),
        temporary=watch.temporary,
        system_calls=None if trace is None else _traced(trace),
    )


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _traced(summary: Path) -> int:
    """Return the total of a summary of strace."""
    *_, total = summary.read_text(encoding="utf-8").strip().splitlines()
    numbers = [word for word in total.split() if word.isdigit()]
    return int(numbers[1])


class _Watch:
    """Samples what the kernel says about a process and all its descendants."""

    def __init__(self, pid: int, temporary: Path) -> None:
        self._pid, self._folder = pid, temporary
        self._io: dict[tuple[int, str], int] = {}
        self.before = self.peak = self.temporary = 0
        self._is_over = Event()
        self._thread = Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self.before = self.peak = self._look()
        self._first = dict(self._io)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._look()

    def counted(self, name: str) -> int:
        """Return what all processes did since the start."""
        found = (n - self._first.get(key, 0) for key, n in self._io.items() if key[1] == name)
        return sum(found)

    def _sample(self) -> None:
        pids, n_samples = _tree(self._pid), 0
        while not self._is_over.wait(_SAMPLING_SECONDS):
            n_samples += 1
            if n_samples % _SAMPLES_PER_LOOK == 0:
                self._look()
                pids = _tree(self._pid)
            self.peak = max(self.peak, sum(map(_anonymous, pids)))

    def _look(self) -> int:
        """Count transfers and temporary files, and return the memory."""
        pids = _tree(self._pid)
        for pid in pids:
            with suppress(OSError):
                for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
                    name, _, number = line.partition(": ")
                    self._io[pid, name] = int(number)
        self.temporary = max(self.temporary, _size(self._folder))
        return sum(map(_anonymous, pids))


def _tree(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for each in found:
        with suppress(OSError):
            for task in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def _anonymous(pid: int) -> int:
    """Return the resident bytes of a process that do not belong to files."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            if path.is_file():
                total += path.stat().st_size
    return total
