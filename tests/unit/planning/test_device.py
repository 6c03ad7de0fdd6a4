"""`Device` and `predict_seconds`."""

from dataclasses import asdict
from typing import Any

import pytest

from dask_io.planning import DEVICES, Device, Problem, plan_keep, plan_naive, predict_seconds
from dask_io.planning.device import SECONDS_PER_OPENING, SECONDS_PER_PLACEMENT, SECONDS_PER_RUN

PROBLEM = Problem.regular((100, 100), (10, 100), (100, 10), budget=1000)
PLAIN = Device(
    "plain",
    seek_seconds=3,
    read_bandwidth=100,
    write_bandwidth=50,
    request_latency=2,
    concurrency=4,
)


def test_seconds_are_waiting_and_moving_added_up() -> None:
    """Seeks and openings wait, some at once, and take work; bytes move, read and written."""
    plan = plan_naive(PROBLEM)
    assert (plan.seeks.total, plan.openings) == (10 + 100, 110)
    waiting = (110 * (3 + 2) + 110 * 2) / 4
    working = 110 * SECONDS_PER_RUN + 110 * SECONDS_PER_OPENING
    working += plan.n_placements * SECONDS_PER_PLACEMENT
    assert predict_seconds(plan, PLAIN) == waiting + working + (10_000 / 100 + 10_000 / 50)


@pytest.mark.parametrize("device", DEVICES.values(), ids=str)
def test_fewer_seeks_take_less_time(device: Device) -> None:
    """On every preset a plan with fewer seeks and openings is faster."""
    naive, keep = plan_naive(PROBLEM), plan_keep(PROBLEM.within(10**6))
    assert keep.seeks.total < naive.seeks.total
    assert predict_seconds(keep, device) < predict_seconds(naive, device)


def test_presets_carry_their_names() -> None:
    """A preset is found by the name it has."""
    assert list(DEVICES) == ["hdd", "ssd", "nvme", "nfs", "s3"]
    assert all(device.name == name for name, device in DEVICES.items())


def test_numbers_of_any_size_are_predicted() -> None:
    """More seeks than a float can count are no trouble."""
    shape = (10**12, 10**12)
    plan = plan_naive(Problem.regular(shape, (10, 10**12), (10**12, 10), budget=10**14))
    assert predict_seconds(plan, DEVICES["hdd"]) > 10**20


def test_an_empty_array_takes_no_time() -> None:
    """Nothing is touched, nothing moved."""
    plan = plan_naive(Problem.regular((0, 3), (1, 1), (1, 1), budget=10))
    assert predict_seconds(plan, PLAIN) == 0


@pytest.mark.parametrize("change", ["seek_seconds", "read_bandwidth", "concurrency"])
def test_impossible_devices_are_refused(change: str) -> None:
    """A negative time or a bandwidth of nothing is a mistake."""
    values: Any = asdict(PLAIN) | {change: -1}
    with pytest.raises(ValueError, match="times must not be negative"):
        Device(**values)
