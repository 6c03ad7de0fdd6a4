"""A run that is stopped and resumed, each time by another plan, writes everything once."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dask_io
from dask_io.errors import BudgetTooSmallError, InterruptedRunError
from tests.places import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dask_io.engine.run import Progress

# What the engine needs besides what it holds, with one thread.
STAGING = 16 * 2**10
EXAMPLES = settings().max_examples


class Attempt(NamedTuple):
    """How a run is planned, and after how many cells it is stopped."""

    strategy: str
    n_held: int
    n_cells: int
    device: str = "ssd"

    @property
    def options(self) -> dict[str, Any]:
        """What the run is asked for."""
        memory = STAGING + 2 * self.n_held
        return {"strategy": self.strategy, "memory": memory, "workers": 1, "device": self.device}


attempts = st.builds(
    Attempt,
    strategy=st.sampled_from(["naive", "keep", "sweep", "spill", "auto"]),
    n_held=st.integers(1, 150),
    n_cells=st.integers(1, 20),
    # On a slow device gaps are read through, of so small an array too.
    device=st.sampled_from(["ssd", "hdd"]),
)


def stop_after(n_cells: float) -> Callable[[Progress], None]:
    """Return what is to be told of progress, so that a run ends after some cells."""
    n_told = 0

    def look(now: Progress) -> None:
        nonlocal n_told
        n_told += 1
        assert now.n_bytes_written <= now.n_bytes, "something has been written twice"
        if n_told >= n_cells:
            raise KeyboardInterrupt

    return look


def save_blocks(folder: Path, array: np.ndarray[Any, Any], chunks: tuple[int, int]) -> None:
    """Save an array as blocks."""
    folder.mkdir()
    counts = [math.ceil(n / c) for n, c in zip(array.shape, chunks, strict=True)]
    for index in np.ndindex(*counts):
        part = tuple(slice(i * c, i * c + c) for i, c in zip(index, chunks, strict=True))
        np.save(folder / f"b_{index[0]}_{index[1]}.npy", array[part])


@settings(max_examples=EXAMPLES // 3)
@given(
    source=st.tuples(st.integers(2, 12), st.integers(2, 12)),
    target=st.tuples(st.integers(3, 12), st.integers(3, 12)),
    tried=st.lists(attempts, min_size=1, max_size=4),
    consume=st.booleans(),
    order=st.sampled_from("CF"),
)
def test_plans_may_change_from_run_to_run(
    source: tuple[int, int],
    target: tuple[int, int],
    tried: list[Attempt],
    *,
    consume: bool,
    order: str,
) -> None:
    """Whatever was durable, the next plan neither reads for it nor writes it again."""
    # Two passes are refused where source blocks may be gone.
    assume(not (consume and any(attempt.strategy == "spill" for attempt in tried)))
    array = np.arange(12 * 12, dtype="<i2").reshape(12, 12)
    with temporary_folder() as folder:
        save_blocks(folder / "in", array, source)
        out = folder / "out"
        given_once: dict[str, Any] = {
            "chunks": target,
            "consume": consume,
            "order": order,
            "durability": "fsync" if consume else "rename",
        }
        for attempt in [*tried, Attempt("naive", 150, 10**6)]:
            options = {**attempt.options, "progress": stop_after(attempt.n_cells)}
            with suppress(InterruptedRunError, BudgetTooSmallError):
                if out.exists():
                    dask_io.resume(out, consume=consume, **options)
                else:
                    dask_io.resplit(folder / "in", out, **given_once, **options)

        assert np.array_equal(dask_io.open(out)[:, :], array)
        assert dask_io.verify(out)
        assert (folder / "in").exists() != consume
