"""A cluster that the tests of a module share."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.processes import Processes, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

distributed: Any = import_module("distributed")


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """A scheduler and two workers with one thread each."""
    made = Processes(tmp_path_factory.mktemp("cluster"))
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
        wait_until(lambda: len(made.nthreads()) >= 2, "two workers are there")
        yield made
