"""A pytest plugin that writes the outcome of every test, with Dask IO enabled or not.

It runs within the tests of other projects, so it changes nothing else. Each worker of xdist counts
for itself, and its counts travel with the reports of the tests.
"""

from __future__ import annotations

import json
import logging
from functools import wraps
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.graph import optimizer

if TYPE_CHECKING:
    from collections.abc import Iterator

_COUNTS = "graphs of Dask IO"
_PASSED = "passed"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the runner say where outcomes go, and whether Dask IO is enabled."""
    parser.addoption("--outcomes", required=True, help="JSON file to write")
    parser.addoption("--enable-dask-io", action="store_true")
    parser.addoption("--store-arrays", action="store_true", help="read NumPy arrays from files")


def pytest_configure(config: pytest.Config) -> None:
    """Record in the main process, and enable Dask IO where tests run."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(config.getoption("outcomes"))))
    if config.getoption("store_arrays"):
        store_arrays()
    if config.getoption("enable_dask_io"):
        config.pluginmanager.register(Enabler())


def store_arrays() -> None:
    """Have `from_array` save NumPy arrays and read them from there.

    Most tests compute on arrays in memory, which Dask IO leaves to Dask.
    """
    module = import_module("dask.array.core")
    from_array = module.from_array
    folder = Path(mkdtemp())
    numbers = count()

    @wraps(from_array)
    def from_stored(x: Any, *args: Any, **kwargs: Any) -> Any:
        if type(x) is np.ndarray and x.size and x.ndim and x.dtype.kind in "biufc":
            path = folder / f"{next(numbers)}.npy"
            np.save(path, x)
            x = dask_io.open(path)
        return from_array(x, *args, **kwargs)

    module.from_array = import_module("dask.array").from_array = from_stored  # type: ignore[attr-defined]


class Enabler:
    """Enables Dask IO around every test, and counts the graphs that it sees and matches."""

    def __init__(self) -> None:
        self.n_seen = self.n_matched = 0
        self.errors: list[str] = []
        self._count_graphs()
        self._collect_errors()

    def _count_graphs(self) -> None:
        rewrite = optimizer.Optimizer.rewrite

        def counted(this: optimizer.Optimizer, dsk: Any, keys: Any) -> Any:
            rewritten = rewrite(this, dsk, keys)
            self.n_seen += 1
            self.n_matched += rewritten is not dsk
            return rewritten

        optimizer.Optimizer.rewrite = counted  # type: ignore[assignment,method-assign]

    def _collect_errors(self) -> None:
        """Notice graphs that are left to Dask because looking at them failed."""
        handler = logging.Handler(logging.ERROR)

        def keep(record: logging.LogRecord) -> bool:
            self.errors.append(repr(record.exc_info and record.exc_info[1]))
            return False

        handler.addFilter(keep)
        logging.getLogger(optimizer.__name__).addHandler(handler)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Run one test with Dask IO."""
        self.n_seen, self.n_matched, self.errors = 0, 0, []
        dask_io.enable()
        try:
            return (yield)
        finally:
            dask_io.disable()
            counts = {"seen": self.n_seen, "matched": self.n_matched, "errors": self.errors}
            item.user_properties.append((_COUNTS, counts))


class Recorder:
    """Collects the outcomes of all workers, and writes them when all tests have run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, str] = {}
        self.counts: dict[str, Any] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note files that cannot be loaded, or skip themselves."""
        if not report.passed:
            self.outcomes[report.nodeid] = f"{report.outcome} while loading"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what became of one phase of a test."""
        outcome = _describe(report)
        if self.outcomes.get(report.nodeid, _PASSED) == _PASSED:
            self.outcomes[report.nodeid] = outcome
        counts = dict(report.user_properties).get(_COUNTS)
        if counts:
            self.counts[report.nodeid] = counts

    def pytest_sessionfinish(self) -> None:
        """Write everything."""
        found = {"outcomes": self.outcomes, "counts": self.counts}
        self.path.write_text(json.dumps(found), encoding="utf-8")


def _describe(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "failed as expected" if report.skipped else "passed unexpectedly"
    return report.outcome if report.when == "call" or not report.failed else "error"
