"""A scheduler and workers in processes of their own, started as a user starts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE = 90
# Workers import the tests, and the package as it is imported here.
_PATHS = os.pathsep.join(path for path in sys.path if path)


def wait_until(is_so: Any, what: str) -> None:
    """Wait for a condition; starting processes may take long on a busy machine."""
    deadline = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


@dataclass
class Processes:
    """``dask scheduler`` and ``dask worker``, on this machine only."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    scheduler: subprocess.Popen[bytes] | None = None
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """The scheduler file, by which workers and clients find the scheduler."""
        return self.folder / "scheduler.json"

    @property
    def address(self) -> str:
        """The scheduler's address."""
        return str(json.loads(self.file.read_text())["address"])

    def _start(self, name: str, *arguments: str, settings: dict[str, str]) -> Any:
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": _PATHS, **self.settings, **settings},
                start_new_session=True,
            )

    def start_scheduler(self) -> None:
        """Start the scheduler, and wait for its file."""
        self.file.unlink(missing_ok=True)
        self.scheduler = self._start(
            "scheduler",
            *("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"),
            *("--scheduler-file", str(self.file)),
            settings={},
        )
        wait_until(self._is_written, "the scheduler has written its file")

    def _is_written(self) -> bool:
        with suppress(FileNotFoundError, json.JSONDecodeError):
            return bool(self.address)
        return False

    def start_worker(
        self,
        name: str,
        *options: str,
        threads: int = 1,
        memory: str = "512MiB",
        settings: dict[str, str] | None = None,
    ) -> None:
        """Start a worker, with its nanny."""
        local = self.folder / f"local-{name}"
        self.workers[name] = self._start(
            name,
            *("worker", "--scheduler-file", str(self.file), "--name", name, "--no-dashboard"),
            *("--host", "127.0.0.1", "--nthreads", str(threads), "--memory-limit", memory),
            *("--local-directory", str(local), *options),
            settings=settings or {},
        )

    def log_of(self, name: str) -> str:
        """Return everything that a process has logged."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def end(self, name: str) -> None:
        """Kill a worker with its nanny."""
        _kill_group(self.workers.pop(name))

    def kill_scheduler(self) -> None:
        """Kill the scheduler."""
        if self.scheduler is not None:
            _kill_group(self.scheduler)
            self.scheduler = None

    def close(self) -> None:
        """Kill everything that was started here."""
        for name in list(self.workers):
            self.end(name)
        self.kill_scheduler()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children, which are in a session of their own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
