"""The progress line."""

import io
from concurrent.futures import ThreadPoolExecutor

import pytest

from dask_io.engine.run import Progress
from dask_io.report.progress import ProgressLine


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


@pytest.fixture(autouse=True)
def _capable_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def at(n_bytes: int) -> Progress:
    """Progress of a run of 100 MB."""
    return Progress(n_bytes, 100_000_000, n_bytes // 10_000_000, 10)


def test_nothing_is_drawn_without_a_terminal() -> None:
    """A stream to a file stays empty, and the run need not report."""
    stream = io.StringIO()

    with ProgressLine(stream) as progress:
        assert progress.update is None

    assert stream.getvalue() == ""


@pytest.mark.parametrize("reason", ["quiet", "dumb"])
def test_nothing_is_drawn_where_it_is_unwanted(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quiet run, or a terminal that cannot erase a line, shows nothing."""
    if reason == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()

    with ProgressLine(stream, quiet=reason == "quiet") as progress:
        assert progress.update is None

    assert stream.getvalue() == ""


def test_a_line_tells_part_speed_and_time_left() -> None:
    """A quarter in two seconds leaves six."""
    stream, clock = Terminal(), Clock()

    with ProgressLine(stream, label="resplit", clock=clock) as progress:
        assert progress.update is not None
        clock.now += 2
        progress.update(at(25_000_000))

    line = stream.getvalue()
    for expected in ("resplit [", "#", " 25%", "2/10 blocks", "12.5 MB/s", "6.00 s left"):
        assert expected in line


def test_lines_are_at_least_a_tenth_of_a_second_apart() -> None:
    """A thousand reports within 50 ms are drawn once."""
    stream, clock = Terminal(), Clock()

    with ProgressLine(stream, clock=clock) as progress:
        assert progress.update is not None
        for n in range(1000):
            clock.now += 0.00005
            progress.update(at(n))

    assert stream.getvalue().count("blocks") == 1


def test_the_line_is_erased_at_the_end_and_stays_so() -> None:
    """What comes last is the erasing, even if a thread reports late."""
    stream, clock = Terminal(), Clock()

    with ProgressLine(stream, clock=clock) as progress:
        assert progress.update is not None
        progress.update(at(1))
    clock.now += 1
    progress.update(at(2))

    assert stream.getvalue().endswith("\r\x1b[K")


def test_a_finished_run_tells_what_follows() -> None:
    """Once everything is written, the line says what is done next."""
    stream = Terminal()

    with ProgressLine(stream, then="verifying", clock=Clock()) as progress:
        assert progress.update is not None
        progress.update(at(100_000_000))

    assert "verifying ..." in stream.getvalue()


def test_an_empty_array_is_done_at_once() -> None:
    """No bytes at all are all of them."""
    stream = Terminal()

    with ProgressLine(stream, clock=Clock()) as progress:
        assert progress.update is not None
        progress.update(Progress(0, 0, 0, 0))

    assert "100%" in stream.getvalue()


def test_threads_may_report_at_once() -> None:
    """Lines drawn by several threads do not mix."""
    stream, clock = Terminal(), Clock()

    with ProgressLine(stream, clock=clock) as progress, ThreadPoolExecutor(8) as pool:
        assert progress.update is not None
        list(pool.map(progress.update, [at(100_000_000)] * 200))

    first, *lines, last = stream.getvalue().split("\r\x1b[K")[1:]
    assert (first, len(lines), len(set(lines)), last) == ("...", 200, 1, "")


def test_a_terminal_that_has_gone_ends_nothing() -> None:
    """A failing stream is not the run's concern."""
    stream = Terminal()

    with ProgressLine(stream) as progress:
        stream.close()
        assert progress.update is not None
        progress.update(at(100_000_000))
