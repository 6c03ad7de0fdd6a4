"""The progress of a run: as a bar on a terminal or in Jupyter, as lines, or as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dask_io.engine.machine import resident_bytes
from dask_io.engine.one_core import on_all_cores
from dask_io.errors import UsageError
from dask_io.units import count, format_bytes, format_seconds, format_speed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from dask_io.engine.run import Progress

KINDS = ("auto", "bar", "plain", "json", "none")
"""The ways to show progress; `auto` is a bar on a terminal, else plain lines."""

# Seconds between lines: often at first, seldom in a long log.
_FIRST, _LONGEST, _JSON = 10.0, 300.0, 1.0
_MOST_PERCENT = 99
# The part of the work after which its speed is known.
_STEADY = 0.05
# What a narrow terminal leaves out first; its bar, and the columns around it.
_LEAST_IMPORTANT = ("blocks", "bytes", "speed", "memory")
_BAR, _AROUND = 12, 2


class Lines(Protocol):
    """What takes lines: a stream or a log."""

    def write(self, text: str, /) -> object:
        """Write a line."""


@dataclass
class Watch:
    """The latest progress of a run, and what follows from it.

    `label` says what is done, `then` what is done after everything is written. If a `budget` is
    given, the memory that the process has taken since the beginning is compared with it.
    """

    label: str = ""
    then: str = ""
    unit: str = "block"
    budget: int | None = None
    clock: Callable[[], float] = time.monotonic
    latest: Progress | None = None
    is_done: bool = False
    """Whether the run has succeeded."""
    started: float = field(init=False)
    n_bytes_before: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.started, self.n_bytes_before = self.clock(), resident_bytes()
        self._first = (0.0, 0.0)

    def update(self, progress: Progress) -> None:
        """Take the progress of the run, from any thread."""
        before, self.latest = self.latest, progress
        # Arrays may be read back one after another, or before they are written.
        if before is None or progress.n_bytes_written < before.n_bytes_written:
            self._first = (self.fraction, self.seconds)

    @property
    def seconds(self) -> float:
        """The time since the beginning."""
        return self.clock() - self.started

    @property
    def phase(self) -> str:
        """What is being done."""
        now = self.latest
        if self.is_done:
            return "done"
        if now is not None and now.n_bytes_written >= now.n_bytes:
            return self.then or "finishing"
        return self.label

    @property
    def fraction(self) -> float:
        """How much of the work of this run is done: reading and writing count the same."""
        now = self.latest
        if now is None:
            return 0.0
        left = now.n_bytes - now.n_bytes_skipped
        if left <= 0:
            return 1.0
        # Data is read before it is written, so that written bytes alone would lag behind.
        read = now.n_bytes_read or now.n_bytes_written
        moved = read + now.n_bytes_written - 2 * now.n_bytes_skipped
        return max(0.0, min(1.0, moved / (2 * left)))

    @property
    def written(self) -> float:
        """The part of the target that is there, also from earlier runs."""
        now = self.latest
        if now is None:
            return 0.0
        return now.n_bytes_written / now.n_bytes if now.n_bytes else 1.0

    @property
    def percent(self) -> int:
        """The part of the target that is there; 100 only when everything is done."""
        return min(_MOST_PERCENT, int(100 * self.written))

    @property
    def seconds_left(self) -> float | None:
        """The time until everything is written, None if it is not known yet."""
        done, (first, then) = self.fraction, self._first
        if done > first + _STEADY:
            # What happens before the first block is written takes no longer for a larger array.
            return (self.seconds - then) * (1 - done) / (done - first)
        return self.seconds * (1 / done - 1) if done else None

    @property
    def memory(self) -> int | None:
        """The memory taken since the beginning, in bytes."""
        now = resident_bytes()
        if now is None or self.n_bytes_before is None:
            return None
        return max(0, now - self.n_bytes_before)

    def numbers(self, width: int | None = None) -> str:
        """Return the counts, rates, memory and time left, as far as they are known.

        The less important ones are left out as long as the text is longer than `width`.
        """
        now = self.latest
        if now is not None and self.is_done:
            moved, units = format_bytes(now.n_bytes), count(now.n_blocks, self.unit)
            return f"100%, {moved}, {units}, {format_seconds(self.seconds)}"
        if now is None or now.n_bytes_written >= now.n_bytes:
            return format_seconds(self.seconds)
        parts = {"percent": f"{self.percent}%"}
        if (left := self.seconds_left) is not None:
            parts["left"] = f"{format_seconds(left) if left < 1 else format_whole(left)} left"
        parts |= {
            "speed": format_speed(now.n_bytes_written - now.n_bytes_skipped, self.seconds),
            "bytes": format_part(now.n_bytes_written, now.n_bytes),
            "blocks": f"{now.n_blocks_written:,}/{now.n_blocks:,} {self.unit}s",
        }
        used = self.memory
        if self.budget is not None and used is not None:
            parts["memory"] = f"memory {format_part(used, self.budget)}"
        for name in _LEAST_IMPORTANT:
            if width is not None and len(", ".join(parts.values())) > width:
                parts.pop(name, None)
        return ", ".join(parts.values())

    def line(self) -> str:
        """Return the progress as one line."""
        return f"{self.phase}: {self.numbers()}" if self.phase else self.numbers()

    def json_line(self) -> str:
        """Return the progress as a JSON object in one line; unknown values are null."""
        now = self.latest
        left = self.seconds_left
        found = {
            "phase": self.phase,
            "seconds": round(self.seconds, 3),
            "seconds_left": None if left is None else round(left, 3),
            "bytes": {
                "read": now and now.n_bytes_read,
                "written": now and now.n_bytes_written,
                "skipped": now and now.n_bytes_skipped,
                "total": now and now.n_bytes,
            },
            "blocks": {"written": now and now.n_blocks_written, "total": now and now.n_blocks},
            "memory": {"used": self.memory, "budget": self.budget},
        }
        return json.dumps({"progress": found})


def format_whole(seconds: float) -> str:
    """Format a duration without fractions of seconds.

    Examples
    --------
    >>> format_whole(12.6), format_whole(75)
    ('13 s', '1 min 15 s')
    """
    return f"{round(seconds)} s" if round(seconds) < 60 else format_seconds(seconds)  # noqa: PLR2004  # a minute


def format_part(part: int, whole: int) -> str:
    """Format a part of a number of bytes.

    Examples
    --------
    >>> format_part(2**20, 2**21), format_part(2**20, 2**30)
    ('1.00 of 2.00 MiB', '1.00 MiB of 1.00 GiB')
    """
    first, last = format_bytes(part), format_bytes(whole)
    number, unit = first.split()
    return f"{number if last.endswith(f' {unit}') else first} of {last}"


@contextmanager
def showing(
    kind: str,
    watch: Watch,
    *,
    stream: TextIO | None = None,
    log: Lines | None = None,
    stays: bool = False,
) -> Iterator[Callable[[Progress], None] | None]:
    """Show the progress of a run while the context is open.

    Parameters
    ----------
    kind
        One of `KINDS`.
    watch
        What is shown.
    stream
        Where it is shown, by default stderr.
    log
        A file that also gets the plain lines.
    stays
        Whether the last state of a run that is done stays visible.

    Yields
    ------
    Callable[[Progress], None] | None
        The function that takes the progress, None if nothing is shown.
    """
    stream = stream or sys.stderr
    kind = _best(stream) if kind == "auto" else kind
    with ExitStack() as stack:
        if log is not None:
            stack.enter_context(_lines(watch.line, log, _FIRST))
        if kind == "bar":
            stack.enter_context(_bar(watch, stream, stays=stays))
        elif kind == "plain":
            stack.enter_context(_lines(watch.line, stream, _FIRST))
        elif kind == "json":
            stack.enter_context(_lines(watch.json_line, stream, _JSON))
        yield None if kind == "none" and log is None else watch.update
        if stays and watch.is_done and kind in {"plain", "json"}:
            last = watch.line() if kind == "plain" else watch.json_line()
            with suppress(OSError, ValueError):
                stream.write(f"{last}\n")


def _best(stream: TextIO) -> str:
    if _in_jupyter():
        return "bar" if find_spec("ipywidgets") else "plain"
    return "bar" if stream.isatty() and os.environ.get("TERM") != "dumb" else "plain"


def _in_jupyter() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


OnProgress: TypeAlias = "Callable[[Progress], None] | bool | str | None"
"""What Python programs give as `progress`: True or one of `KINDS` to show it, or a function."""


@contextmanager
def taking(progress: OnProgress, watch: Watch) -> Iterator[Callable[[Progress], None] | None]:
    """Show progress in one of `KINDS`, or yield the function that takes it, if there is one.

    Raises
    ------
    UsageError
        If it is neither.
    """
    kind = "auto" if progress is True else progress
    if isinstance(kind, str) and kind in KINDS:
        with showing(kind, watch, stays=True) as update:
            yield update
            watch.is_done = True
    elif isinstance(progress, str) or not (
        progress is None or progress is False or callable(progress)
    ):
        known = ", ".join(KINDS)
        raise UsageError(f"progress {progress!r} is not known; give True, a function or {known}")
    else:
        yield on_all_cores(progress) if progress else None


@contextmanager
def _lines(make_line: Callable[[], str], stream: Lines, pause: float) -> Iterator[None]:
    """Write a line now and then, from a thread of its own."""
    done = Event()

    def write() -> None:
        wait = pause
        while not done.wait(wait):
            # A closed stream must not end the run.
            with suppress(OSError, ValueError):
                stream.write(f"{make_line()}\n")
            if pause > _JSON:
                wait = min(_LONGEST, 2 * wait)

    thread = Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def _bar(watch: Watch, stream: TextIO, *, stays: bool) -> Iterator[None]:
    """Draw a bar, and erase it at the end, unless it stays and the run is done."""
    from rich.console import Console  # noqa: PLC0415  # takes 50 ms, only for a bar
    from rich.progress import (  # noqa: PLC0415  # takes 50 ms, only for a bar
        BarColumn,
        ProgressColumn,
        Task,
    )
    from rich.progress import Progress as Bar  # noqa: PLC0415  # takes 50 ms, only for a bar
    from rich.text import Text  # noqa: PLC0415  # takes 50 ms, only for a bar

    class Phase(ProgressColumn):
        def render(self, task: Task) -> Text:
            # Rendered first: the bar next to it shows what is known now.
            is_open = watch.written >= 1 and not watch.is_done
            task.completed, task.total = watch.written, None if is_open else 1.0
            return Text(watch.phase)

    class Numbers(ProgressColumn):
        def render(self, task: Task) -> Text:  # noqa: ARG002  # the latest progress counts
            width = console.width - len(watch.phase) - _BAR - _AROUND
            return Text(watch.numbers(width), overflow="ellipsis", no_wrap=True)

    console = Console() if _in_jupyter() else Console(file=stream)
    bar = Bar(Phase(), BarColumn(bar_width=_BAR), Numbers(), console=console, transient=True)
    bar.add_task("", total=1.0)
    with bar:
        yield
        bar.live.transient = not (stays and watch.is_done)
