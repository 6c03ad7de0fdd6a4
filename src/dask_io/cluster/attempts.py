"""The parts of a run on a cluster, and the attempts to run each."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from time import monotonic
from typing import TYPE_CHECKING, Any

from dask_io.cluster.part_task import ENDED, STARTED
from dask_io.engine.run import Progress
from dask_io.engine.series import add_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A part that takes this many times as long as it should is run a second time elsewhere. Parts of
# less than a few seconds are not worth it.
_SLOW, _FEWEST_SECONDS = 2.0, 5.0
# How often workers may die under a part that writes nothing: if nothing else is written, and if
# other parts are. Each time, Dask has already seen several workers die (`allowed-failures`).
_FEW_KILLED, _MOST_KILLED = 2, 5


@dataclass(eq=False)
class Attempt:
    """One task that runs a part. Its worker is unknown until it starts."""

    part: int
    number: int
    submitted: float = field(default_factory=monotonic)
    future: Any = None
    worker: str = ""
    started: float | None = None
    is_running: bool = False
    is_dropped: bool = False

    def take_note(self, event: Mapping[str, Any]) -> None:
        """Take note that it starts, perhaps again on another worker, or ends."""
        if event["kind"] == STARTED:
            self.worker, self.started, self.is_running = event["worker"], monotonic(), True
        elif event["kind"] == ENDED and event["worker"] == self.worker:
            self.is_running = False

    @property
    def seconds(self) -> float:
        """Seconds since it started; since it was submitted if it has not."""
        return monotonic() - (self.submitted if self.started is None else self.started)


@dataclass(eq=False)
class PartState:
    """A part with its attempts. The first attempt that finishes completes it."""

    number: int
    predicted: float
    attempts: list[Attempt] = field(default_factory=list)
    is_done: bool = False
    n_bytes: int = 0
    n_blocks: int = 0
    n_bytes_skipped: int | None = None
    n_failures: int = 0
    n_killed: int = 0
    n_bytes_when_killed: int = -1
    failed_on: set[str] = field(default_factory=set)

    @property
    def live(self) -> list[Attempt]:
        """The attempts whose results are still wanted."""
        return [each for each in self.attempts if not each.is_dropped]

    @property
    def progress(self) -> Progress:
        """The progress of the part, by whichever attempts."""
        skipped = self.n_bytes_skipped or 0
        return Progress(self.n_bytes, 0, self.n_blocks, 0, n_bytes_skipped=skipped)

    def new_attempt(self) -> Attempt:
        """Add an attempt."""
        attempt = Attempt(self.number, len(self.attempts))
        self.attempts.append(attempt)
        return attempt

    def count_killed(self) -> int:
        """Count the times that all workers under it died while it wrote nothing new."""
        if self.n_bytes > self.n_bytes_when_killed:
            self.n_killed = 0
        self.n_bytes_when_killed = self.n_bytes
        self.n_killed += 1
        return self.n_killed


@dataclass(eq=False)
class Parts:
    """All parts of a run, and their progress together."""

    states: Sequence[PartState]
    total: Progress
    seconds_done: dict[int, float] = field(default_factory=dict)
    n_bytes_when_killed: int = -1

    @property
    def unfinished(self) -> list[PartState]:
        """The parts that are not done."""
        return [state for state in self.states if not state.is_done]

    @property
    def running(self) -> list[Attempt]:
        """The attempts that have started and not ended."""
        return [each for state in self.states for each in state.attempts if each.is_running]

    def take_note(self, event: Mapping[str, Any]) -> bool:
        """Take note of an event; return whether there is progress."""
        state = self.states[event["part"]]
        state.attempts[event["attempt"]].take_note(event)
        before = state.n_bytes, state.n_blocks
        # Two attempts report independently, and a repeated one begins with what is durable.
        state.n_bytes = max(state.n_bytes, event.get("bytes", 0))
        state.n_blocks = max(state.n_blocks, event.get("blocks", 0))
        if state.n_bytes_skipped is None:
            state.n_bytes_skipped = event.get("skipped")
        return before != (state.n_bytes, state.n_blocks)

    def finish(self, attempt: Attempt) -> list[Attempt]:
        """Complete a part; return its other attempts, which are no longer needed."""
        state = self.states[attempt.part]
        state.is_done = True
        self.seconds_done[state.number] = attempt.seconds
        return [each for each in state.live if each is not attempt]

    def is_killer(self, attempt: Attempt, worker: str) -> bool:
        """Tell whether a part under which workers died, the last one `worker`, is the reason.

        It may only have waited there. Workers may also be killed from outside, faster than parts
        finish; then other parts write something meanwhile.
        """
        state, has_run = self.states[attempt.part], attempt.worker == worker
        n_killed = state.count_killed()
        n_bytes = sum(each.n_bytes for each in self.states)
        is_stuck, self.n_bytes_when_killed = n_bytes <= self.n_bytes_when_killed, n_bytes
        return n_killed >= (_FEW_KILLED if is_stuck and has_run else _MOST_KILLED)

    def progress(self) -> Progress:
        """Return the progress of all parts together."""
        return add_up([state.progress for state in self.states], self.total)

    def complete(self) -> None:
        """Count everything as written."""
        first, *others = self.states
        first.n_bytes, first.n_blocks = self.total.n_bytes, self.total.n_blocks
        for state in others:
            state.n_bytes = state.n_blocks = 0

    def find_slow(self) -> list[PartState]:
        """Return the parts that should be done already, and run once only; the slowest first.

        The time of a part is predicted from the parts that are done, if there are any.
        """
        factors = [
            seconds / state.predicted
            for state in self.states
            if (seconds := self.seconds_done.get(state.number)) is not None and state.predicted > 0
        ]
        factor = median(factors) if factors else 1.0
        late = []
        for state in self.unfinished:
            live = state.live
            if len(live) != 1:
                continue
            allowed = max(_FEWEST_SECONDS, _SLOW * factor * state.predicted)
            # A worker is idle, so a part that waits was assigned to one that does not answer.
            if live[0].started is None:
                allowed = _FEWEST_SECONDS
            if live[0].seconds > allowed:
                late.append((live[0].seconds / allowed, state.number, state))
        return [state for *_, state in sorted(late, reverse=True)]
