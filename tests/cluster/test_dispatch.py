"""Parts on a real scheduler and workers: they die, hang, fail and are interrupted."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from dask_io.cluster import attempts, dispatch
from dask_io.cluster.dispatch import Request, run_parts
from dask_io.engine.run import Progress
from dask_io.errors import DataError, StorageError
from tests.cluster.processes import wait_until
from tests.cluster.works import BLOCKS, Steps

if TYPE_CHECKING:
    from pathlib import Path

distributed: Any = import_module("distributed")


def requested(work: Steps, n_parts: int = 4, seconds: float = 0.1) -> Request[int, int]:
    """Return a request for some parts of equal size."""
    n_blocks = n_parts * BLOCKS
    total = Progress(0, n_blocks, 0, n_blocks)
    return Request(work, range(n_parts), [seconds] * n_parts, total, n_slots=2)


def found(folder: Path, what: str) -> int:
    """Return how many attempts ended like this."""
    return len(list(folder.glob(f"{what}-*")))


def test_results_come_in_order_with_progress(client: Any, tmp_path: Path) -> None:
    """All parts run, their results keep the order, and progress grows to the total."""
    seen: list[Progress] = []

    results = run_parts(client, requested(Steps(str(tmp_path)), 6), seen.append)

    assert results == [0, 2, 4, 6, 8, 10]
    assert seen[-1] == Progress(30, 30, 30, 30)
    assert [each.n_bytes_written for each in seen] == sorted(each.n_bytes_written for each in seen)


def test_predicted_times_are_published(client: Any, tmp_path: Path) -> None:
    """The scheduler knows how long parts take before the first one is done."""
    known: list[float] = []

    def find(dask_scheduler: Any) -> float:
        return float(dask_scheduler.task_prefixes["dask-io-published"].duration_average)

    def look(progress: Progress) -> None:
        if not known and progress.n_bytes_written < BLOCKS:
            known.append(client.run_on_scheduler(find))

    request = replace(requested(Steps(str(tmp_path)), 2, seconds=321.0), label="published")
    run_parts(client, request, look)

    assert known == [321.0]


def test_a_run_is_a_span_on_the_dashboard(client: Any, tmp_path: Path) -> None:
    """All parts of a run belong to one span, named after the verb."""
    run_parts(client, replace(requested(Steps(str(tmp_path)), 3), label="spanned"))

    def count(dask_scheduler: Any) -> list[int]:
        found = dask_scheduler.extensions["spans"].spans_search_by_name["dask-io", "spanned"]
        return [
            sum(group.states["released"] + group.states["forgotten"] for group in each.groups)
            for each in found
        ]

    # The scheduler learns a moment after the run that nobody needs the last result.
    wait_until(lambda: client.run_on_scheduler(count) == [3], "all parts are in the span")


def test_events_are_rate_limited(client: Any, tmp_path: Path) -> None:
    """Thousands of reports of progress become a few events, fewer than a topic keeps."""
    work = Steps(str(tmp_path), n_steps=3000, seconds=0.0)
    kinds: list[str] = []
    subscribe = client.subscribe_topic

    def noted(topic: str, handler: Any) -> None:
        def handle(event: Any) -> None:
            kinds.append(event[1]["kind"])
            handler(event)

        subscribe(topic, handle)

    client.subscribe_topic = noted

    run_parts(client, requested(work))

    assert kinds.count("started") == 4
    assert kinds.count("moved") < 400


@pytest.mark.parametrize("first", ["", "bad data"])
def test_the_scheduler_keeps_no_events_of_a_run(first: str, client: Any, tmp_path: Path) -> None:
    """A scheduler that runs for months would keep a thousand of each run."""

    def count(dask_scheduler: Any) -> list[int]:
        topics = dask_scheduler._broker._topics  # noqa: SLF001  # there is no public way
        return [len(topic.events) for name, topic in topics.items() if "dask-io-kept" in name]

    request = replace(requested(Steps(str(tmp_path), first=first)), label=f"kept-{first[:3]}")
    with pytest.raises(DataError) if first else nullcontext():
        run_parts(client, request)

    # One that was stopped may still report its end.
    assert max(client.run_on_scheduler(count)) <= (2 if first else 0)


def test_a_part_runs_again_when_its_worker_dies(client: Any, tmp_path: Path) -> None:
    """A part is not given up because Dask gave up its task."""
    work = Steps(str(tmp_path), first="die")

    assert run_parts(client, requested(work)) == [0, 2, 4, 6]
    assert found(tmp_path, "acted") == 1


def test_a_part_that_always_kills_its_worker_is_an_error(client: Any, tmp_path: Path) -> None:
    """A part that kills every worker before it writes anything new ends the run, in one line."""
    work = Steps(str(tmp_path), first="die", n_first=99)

    with pytest.raises(StorageError, match=r"part 0 was running on \d+ workers when they died"):
        run_parts(client, requested(work))


def test_a_part_that_fails_runs_on_another_worker(client: Any, tmp_path: Path) -> None:
    """A full disk of one worker does not end the run."""
    work = Steps(str(tmp_path), first="fail")

    assert run_parts(client, requested(work)) == [0, 2, 4, 6]
    assert found(tmp_path, "OSError") == 1


def test_a_part_that_fails_on_the_last_worker_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other worker, which would have run it again, has left; it does not fail forever."""
    monkeypatch.setattr(attempts, "_FEWEST_SECONDS", 0.5)
    monkeypatch.setattr(dispatch, "_TICK_SECONDS", 0.2)
    left: list[str] = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):

        def retire_other(_: Progress) -> None:
            keys = {key: worker for worker, each in client.processing().items() for key in each}
            other = [worker for key, worker in keys.items() if key[1:] == (0, 1)]
            if other and not left:
                left.extend(other)
                client.retire_workers(other)

        work = Steps(str(tmp_path), first="fail", n_first=9, seconds=0.1)
        with pytest.raises(OSError, match="No space left"):
            run_parts(client, requested(work), retire_other)
    assert left
    assert found(tmp_path, "OSError") == 3


def test_wrong_data_is_not_tried_again(client: Any, tmp_path: Path) -> None:
    """An error of the data is the same on every worker, so it ends the run at once."""
    with pytest.raises(DataError, match="truncated"):
        run_parts(client, requested(Steps(str(tmp_path), first="bad data", n_first=9)))

    assert found(tmp_path, "acted") == 1


def test_a_slow_part_runs_a_second_time(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second attempt wins on an idle worker, and the first one is stopped."""
    monkeypatch.setattr(attempts, "_FEWEST_SECONDS", 0.5)
    monkeypatch.setattr(dispatch, "_TICK_SECONDS", 0.2)

    assert run_parts(client, requested(Steps(str(tmp_path), first="hang"))) == [0, 2, 4, 6]

    wait_until(lambda: found(tmp_path, "PartStoppedError") == 1, "the first attempt is stopped")


def test_an_interrupt_stops_all_parts(client: Any, tmp_path: Path) -> None:
    """Parts that run have ended when the interrupt is reported, and no task is left."""

    def interrupt(progress: Progress) -> None:
        if progress.n_bytes_written:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_parts(client, requested(Steps(str(tmp_path), n_steps=999)), interrupt)

    assert found(tmp_path, "PartStoppedError") == found(tmp_path, "*") > 0
    wait_until(lambda: not any(client.processing().values()), "no task is left")
