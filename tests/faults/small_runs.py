"""Small runs whose calls or requests come in one order, so that each can be made to fail."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import dask_io
from dask_io.errors import DaskIOError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ARRAY = np.arange(5 * 4, dtype="<i2").reshape(5, 4)
# One block of the target holds nothing else.
ARRAY[3:, 2:] = 0
# One thread makes the calls come in one order; a plan is found fast.
PLAIN: dict[str, Any] = {"workers": 1, "strategy": "naive", "device": "ssd"}


@dataclass(frozen=True)
class Case:
    """A run: a verb, what it writes, and with which options."""

    verb: str
    target: str
    options: dict[str, Any]
    is_there: bool = False
    source: str = "in"

    def __str__(self) -> str:
        options = [f"{name}={value}" for name, value in self.options.items()]
        over = ["over"] if self.is_there else []
        return "-".join([self.verb, self.source, self.target, *options, *over])

    @property
    def is_zarr(self) -> bool:
        """Whether it writes a Zarr array."""
        return self.target.endswith(".zarr")

    def complete(self, place: object, run: Callable[[], object], *, is_begun: bool) -> None:
        """Resume what a fault left, or run again if it left nothing new."""
        if not is_begun or (self.is_there and is_the_old_one(place)):
            run()
        else:
            dask_io.resume(str(place), consume=self.options.get("consume", False), **PLAIN)


def is_the_old_one(place: object) -> bool:
    """Tell whether the array that was there before is still there, whole."""
    try:
        return np.array_equal(dask_io.open(str(place))[:, :], -ARRAY)
    except DaskIOError:
        return False


def check_block(found: Any, numbers: Iterable[str], chunks: Iterable[int], name: object) -> None:
    """Check that what looks like a complete block is one."""
    inside = tuple(
        slice(int(i) * n, (int(i) + 1) * n) for i, n in zip(numbers, chunks, strict=True)
    )
    expected = ARRAY[inside]
    part = found[tuple(map(slice, expected.shape))]
    assert np.array_equal(part, expected), f"{name} is wrong"


@contextmanager
def with_log(faults: Any) -> Iterator[None]:
    """Add the last calls or requests of a run to an error."""
    try:
        yield
    except BaseException as error:
        error.add_note("\n".join(faults.log[-12:]))
        raise


def survive_all(case: Case, faults: Iterable[tuple[str, Callable[[], None]]]) -> dict[str, int]:
    """Survive faults, each a kind and what to survive; return how many there were of each kind."""
    survived: Counter[str] = Counter()
    for number, (kind, survive) in enumerate(faults, 1):
        try:
            survive()
        except BaseException as error:
            error.add_note(f"{case}: {kind}, fault {number}")
            raise
        survived[kind] += 1
    return dict(survived)
