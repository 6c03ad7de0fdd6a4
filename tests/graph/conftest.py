"""What tests of graphs share: something to read, and a cluster whose workers are processes."""

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.graph.shapes import make_inputs

distributed: Any = import_module("distributed")


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that programs read."""
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two workers, each a process of its own, on this machine only."""
    # What it sets for its workers is not meant for the processes that other tests start.
    with patch.dict(os.environ):
        made = distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=2,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit="512MiB",
        )
    with made:
        yield made


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    """What computes on the cluster, as long as the test runs."""
    with distributed.Client(cluster, set_as_default=True) as made:
        yield made
