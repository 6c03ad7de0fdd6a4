"""The progress of a run, as numbers, lines, JSON and a bar."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import dask_io
from dask_io.engine.run import Progress
from dask_io.errors import UsageError
from dask_io.report import progress as module
from dask_io.report.progress import Watch, showing, taking

MB = 1_000_000


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


def at(n_bytes: int, *, read: int = 0, skipped: int = 0) -> Progress:
    """Progress of a run of 100 MB in 10 blocks."""
    return Progress(n_bytes, 100 * MB, n_bytes // (10 * MB), 10, read, skipped)


def test_numbers_tell_part_speed_blocks_and_time_left() -> None:
    """A quarter in two seconds leaves six."""
    clock = Clock()
    watch = Watch("resplit", clock=clock)
    clock.now += 1
    watch.update(at(0, read=0))
    clock.now += 1
    watch.update(at(20 * MB, read=30 * MB))

    assert watch.line().startswith("resplit: 20%, 3 s left, 10.0 MB/s, ")
    assert "2/10 blocks" in watch.line()


def test_time_left_counts_what_is_read_and_not_what_was_there() -> None:
    """A disk moves 2 MB/s; a run that resumes at 60 MB first reads 10 MB ahead."""
    clock = Clock()
    watch = Watch(clock=clock)
    for second in range(1, 40):
        clock.now += 1
        read = 2 * second if second <= 5 else second + 5
        watch.update(
            at(
                (60 + 2 * second - min(40, read)) * MB,
                read=(60 + min(40, read)) * MB,
                skipped=60 * MB,
            )
        )
        if second >= 4:
            assert watch.seconds_left == pytest.approx(40 - second, rel=0.01)


def test_a_hundred_percent_is_never_shown_before_the_end() -> None:
    """The last blocks may be incomplete, and what follows is said instead."""
    watch = Watch("resplit", then="verifying")
    watch.update(Progress(100 * MB - 1, 100 * MB, 400, 545))
    assert "99%" in watch.line()

    watch.update(Progress(100 * MB, 100 * MB, 400, 545))

    assert watch.line().startswith("verifying: ")
    assert "%" not in watch.line()
    assert "/545" not in watch.line()


def test_an_empty_array_is_done_at_once() -> None:
    """No bytes at all are all of them."""
    watch = Watch("merge")
    watch.update(Progress(0, 0, 0, 0))

    assert watch.fraction == watch.written == 1
    assert watch.line().startswith("finishing: ")


def test_memory_is_compared_with_the_budget() -> None:
    """What the process took since the beginning, not what it had."""
    with patch.object(module, "resident_bytes", side_effect=[5 * 2**20, 7 * 2**20]):
        watch = Watch(budget=4 * 2**20)
        watch.update(at(MB))
        assert "memory 2.00 of 4.00 MiB" in watch.line()


def test_a_narrow_terminal_leaves_out_what_matters_less() -> None:
    """The memory is seen on 80 columns, and lines, which need not fit, have everything."""
    clock, stream = Clock(), Terminal()
    with (
        patch.object(module, "resident_bytes", return_value=5 * 2**20),
        patch.dict("os.environ", {"COLUMNS": "80"}),
    ):
        watch = Watch("resplit", budget=2**30, clock=clock)
        with showing("bar", watch, stream=stream) as update:
            assert update is not None
            update(at(0))
            clock.now += 100
            update(at(20 * MB, read=30 * MB))
            while "20%" not in stream.getvalue():
                pass
            last = watch.numbers(60)
            every = watch.numbers()
    drawn = stream.getvalue()
    assert "memory 0 B of 1.00 GiB" in drawn
    assert "2/10 blocks" not in drawn
    assert last == "20%, 5 min 0 s left, 0.2 MB/s, memory 0 B of 1.00 GiB"
    assert "2/10 blocks" in every
    assert watch.numbers(3) == "20%, 5 min 0 s left"


def test_json_has_a_line_for_programs() -> None:
    """Every line is one object; unknown values are null."""
    watch = Watch("split", budget=10)
    assert json.loads(watch.json_line())["progress"]["bytes"]["written"] is None

    watch.update(at(50 * MB, read=60 * MB))

    found = json.loads(watch.json_line())["progress"]
    assert found["phase"] == "split"
    assert found["bytes"] == {
        "read": 60 * MB,
        "written": 50 * MB,
        "skipped": 0,
        "total": 100 * MB,
    }
    assert found["blocks"] == {"written": 5, "total": 10}
    assert found["memory"]["budget"] == 10


@pytest.mark.parametrize("kind", ["auto", "plain"])
def test_lines_are_written_where_there_is_no_terminal(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log gets whole lines, and no control characters."""
    monkeypatch.setattr(module, "_FIRST", 0.01)
    stream = io.StringIO()

    with showing(kind, Watch("resplit"), stream=stream) as update:
        assert update is not None
        update(at(30 * MB))
        while "30%" not in stream.getvalue():
            pass

    *_, last = (each for each in stream.getvalue().splitlines() if "30%" in each)
    assert last.startswith("resplit: 30%")
    assert stream.getvalue().replace("\n", "").isprintable()


def test_nothing_is_shown_on_request_and_the_log_still_gets_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a log, the run need not even report."""
    monkeypatch.setattr(module, "_FIRST", 0.01)
    stream, log = Terminal(), io.StringIO()
    with showing("none", Watch(), stream=stream) as update:
        assert update is None

    with showing("none", Watch("merge"), stream=stream, log=log) as update:
        assert update is not None
        while "\n" not in log.getvalue():
            pass

    assert stream.getvalue() == ""
    assert log.getvalue().startswith("merge: ")


def test_a_bar_is_drawn_on_a_terminal_and_erased() -> None:
    """It shows the label and the numbers; threads may report at once."""
    stream = Terminal()

    with (
        showing("auto", Watch("resplit"), stream=stream) as update,
        ThreadPoolExecutor(8) as pool,
    ):
        assert update is not None
        list(pool.map(update, [at(40 * MB)] * 200))
        while "40%" not in stream.getvalue():
            pass

    assert "resplit" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that cannot erase a line gets no bar."""
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()

    with showing("auto", Watch("resplit"), stream=stream) as update:
        assert update is not None
        update(at(40 * MB))

    assert stream.getvalue() == ""


def test_a_stream_that_is_closed_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing stream is not the run's concern."""
    monkeypatch.setattr(module, "_FIRST", 0.001)
    stream = io.StringIO()

    with showing("plain", Watch(), stream=stream) as update:
        stream.close()
        assert update is not None
        for _ in range(100):
            update(at(100 * MB))


@pytest.mark.parametrize("kind", ["bar", "plain", "json"])
def test_python_sees_the_last_state_of_a_short_run(
    kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It stays visible, as nothing else says that the run has ended, unless the run fails."""
    np.save(tmp_path / "x.npy", np.arange(8))
    dask_io.split(tmp_path / "x.npy", tmp_path / "out", chunks=4, progress=kind)

    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert "done" in last
    assert ("100%, 64 B, 2 blocks" in last) is (kind != "json")
    with (
        pytest.raises(ZeroDivisionError),
        taking(kind, Watch("writing")),
    ):
        _ = 1 / 0
    assert "done" not in capsys.readouterr().err


def test_progress_takes_the_names_of_the_option(tmp_path: Path) -> None:
    """Names choose how it is shown; others are refused before anything is written."""
    np.save(tmp_path / "x.npy", np.arange(8))
    for number, kind in enumerate(["bar", "plain", "json", "none", "auto"]):
        dask_io.split(tmp_path / "x.npy", tmp_path / f"out{number}", chunks=4, progress=kind)
    with pytest.raises(UsageError, match="progress 'bars' is not known; give True"):
        dask_io.split(tmp_path / "x.npy", tmp_path / "out", chunks=4, progress="bars")
    assert not (tmp_path / "out").exists()
