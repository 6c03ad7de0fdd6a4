"""A progress line on a terminal."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from dask_io.report.text import format_seconds, format_speed

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self, TextIO

    from dask_io.engine.run import Progress

_PAUSE = 0.1
_ERASE = "\r\x1b[K"
_WIDEST = 100


class ProgressLine:
    """Draws progress on a terminal, at most ten times a second, and erases it at the end.

    If the stream is not a terminal, `update` is None, so that the run does not report progress in
    vain. Updates may come from any thread.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        label: str = "",
        then: str = "",
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._label, self._then = stream, label, then
        self._clock, self._lock = clock, Lock()
        self._started = self._next = clock()
        self._open = not quiet and stream.isatty() and os.environ.get("TERM") != "dumb"
        self.update = self._update if self._open else None

    def __enter__(self) -> Self:
        if self._open:
            self._draw(f"{self._label} ..." if self._label else "...")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            if self._open:
                self._open = False
                self._write(_ERASE)

    def _update(self, progress: Progress) -> None:
        """Redraw the line if it is due."""
        now, done = self._clock(), progress.n_bytes_written >= progress.n_bytes
        if now < self._next and not done:
            return
        # If another thread is drawing, skip this update. The last one is never skipped.
        if not self._lock.acquire(blocking=done):
            return
        try:
            if self._open:
                self._next = now + _PAUSE
                self._draw(self._line(progress, now - self._started))
        finally:
            self._lock.release()

    def _line(self, progress: Progress, seconds: float) -> str:
        written, n_bytes = progress.n_bytes_written, progress.n_bytes
        if written >= n_bytes and self._then:
            return f"{self._then} ..."
        part = min(1.0, written / n_bytes) if n_bytes else 1.0
        left = format_seconds(seconds / part - seconds) if part else "?"
        numbers = (
            f"{part:4.0%}  {progress.n_blocks_written:,}/{progress.n_blocks:,} blocks  "
            f"{format_speed(written, seconds)}  {left} left"
        )
        label = f"{self._label} " if self._label else ""
        room = min(40, self._width() - len(label) - len(numbers) - 4)
        if room < 5:  # noqa: PLR2004  # a shorter bar is useless
            return f"{label}{numbers}"
        full = int(part * room)
        return f"{label}[{'#' * full}{'.' * (room - full)}] {numbers}"

    def _width(self) -> int:
        with suppress(OSError, ValueError):
            return min(_WIDEST, os.get_terminal_size(self._stream.fileno()).columns or _WIDEST)
        return 80

    def _draw(self, line: str) -> None:
        self._write(_ERASE + line[: self._width() - 1])

    def _write(self, text: str) -> None:
        # A closed terminal must not end the run.
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()
