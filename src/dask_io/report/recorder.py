"""Record the progress of a run, to draw it afterwards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask_io.engine.run import Progress

_MOST_SAMPLES = 600
_FIRST_PAUSE = 0.001


class Sample(NamedTuple):
    """The progress of a run at one time; the memory is the most since the previous sample."""

    seconds: float
    n_bytes_read: int
    n_bytes_written: int
    n_bytes_held: int
    n_bytes: int


class Recorder:
    """Keeps samples of a run's progress: few at first, and never more than a fixed number.

    Most updates only compare two numbers. When there are too many samples, every second one is
    dropped, and later ones are taken half as often.

    Examples
    --------
    >>> from dask_io.engine.run import Progress
    >>> recorder = Recorder(clock=iter([0.0, 1.0, 2.0]).__next__)
    >>> recorder.update(Progress(0, 8, 0, 1, 8, n_bytes_held=8))
    >>> recorder.update(Progress(8, 8, 1, 1, 8))
    >>> [(each.seconds, each.n_bytes_held) for each in recorder.samples]
    [(1.0, 8), (2.0, 0)]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._started = clock, clock()
        self._samples: list[Sample] = []
        self._next, self._pause, self._most_held = 0.0, _FIRST_PAUSE, 0
        self._latest: tuple[float, Progress] | None = None

    def update(self, progress: Progress) -> None:
        """Take a sample if it is due."""
        now = self._clock() - self._started
        self._latest = now, progress
        self._most_held = max(self._most_held, progress.n_bytes_held)
        if now >= self._next:
            self._take(now, progress)

    def _take(self, now: float, progress: Progress) -> None:
        read, written = progress.n_bytes_read, progress.n_bytes_written
        self._samples.append(Sample(now, read, written, self._most_held, progress.n_bytes))
        self._most_held, self._latest = 0, None
        if len(self._samples) > _MOST_SAMPLES:
            pairs = zip(self._samples[::2], self._samples[1::2], strict=False)
            self._samples = [
                second._replace(n_bytes_held=max(first.n_bytes_held, second.n_bytes_held))
                for first, second in pairs
            ]
            self._pause *= 2
        self._next = now + self._pause

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples, with the latest progress."""
        if self._latest is not None:
            self._take(*self._latest)
        return tuple(self._samples)
