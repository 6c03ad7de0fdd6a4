"""A limit to how fast bytes are moved, by a clock of the test's own."""

from hypothesis import given
from hypothesis import strategies as st

from dask_io.storage.pace import Pace


class Clock:
    """A clock that stands still unless someone sleeps."""

    def __init__(self) -> None:
        self.now = 5.0

    def read(self) -> float:
        """The time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds > 0
        self.now += seconds


@given(
    moves=st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 3)), min_size=1),
    rate=st.integers(1, 1000),
)
def test_no_more_is_moved_than_the_pace_allows(moves: list[tuple[int, float]], rate: int) -> None:
    """Between two moves passes at least the time that what is moved until the later is worth."""
    clock = Clock()
    pace = Pace(rate, clock=clock.read, sleep=clock.sleep)
    times = []
    for n_bytes, pause in moves:
        pace.wait_for(n_bytes)
        times.append(clock.now)
        clock.now += pause

    for first in range(len(moves)):
        moved = 0
        for later in range(first + 1, len(moves)):
            moved += moves[later - 1][0]
            assert times[later] - times[first] >= moved / rate - 1e-6 * (1 + times[later])


def test_no_time_is_lost() -> None:
    """Whoever is slower than the pace never waits, and nobody waits longer than needed."""
    clock = Clock()
    pace = Pace(100, clock=clock.read, sleep=clock.sleep)

    pace.wait_for(200)
    assert clock.now == 5.0
    clock.now = 20.0
    pace.wait_for(100)
    assert clock.now == 20.0
    pace.wait_for(50)
    pace.wait_for(1)
    assert clock.now == 21.5
