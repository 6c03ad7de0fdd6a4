"""A cluster that the tests of a module share: it takes seconds to start."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from tests.cluster.processes import Processes, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

distributed: Any = import_module("distributed")

ARRAY: NDArray[np.int32] = np.random.default_rng(0).integers(0, 2**31, (96, 80, 40), dtype="<i4")


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """A scheduler and two workers with one thread each.

    The scheduler gives up a task as soon as one worker dies under it.
    """
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    made = Processes(tmp_path_factory.mktemp("cluster"), settings)
    try:
        made.start_scheduler()
        made.start_worker("one")
        made.start_worker("two")
        yield made
    finally:
        made.close()


@pytest.fixture
def client(processes: Processes) -> Iterator[Any]:
    """A client of the cluster, with both workers."""
    with distributed.Client(processes.address, set_as_default=False) as made:
        wait_until(lambda: len(made.nthreads()) == 2, "two workers are there")
        yield made


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    """An array of 1.2 MB in 24 blocks."""
    np.save(tmp_path / "whole.npy", ARRAY)
    dask_io.split(tmp_path / "whole.npy", tmp_path / "in", chunks=(16, 40, 20), device="ssd")
    (tmp_path / "whole.npy").unlink()
    return tmp_path / "in"


def check(target: Path) -> None:
    """Check that a target is complete and correct, and that the run alone leaves nothing else."""
    # An attempt whose result is not needed any more ends soon after the run, by itself.
    with suppress(AssertionError):
        wait_until(lambda: not find_left(target), "nothing is left")
    assert find_left(target) == []
    assert np.array_equal(dask_io.open(target)[:, :, :], ARRAY)
    assert dask_io.verify(target)


def find_left(target: Path) -> list[str]:
    """Return the temporary files in a target and next to it."""
    left = [str(path) for path in target.rglob("*.part")]
    left += [str(path) for path in target.rglob("parts")]
    for pattern in (f".{target.name}*", ".dask-io-*"):
        left += [str(path) for path in target.parent.glob(pattern)]
    known = {".dask-io", ".zattrs"}
    return left + [path.name for path in target.glob(".*") if path.name not in known]
