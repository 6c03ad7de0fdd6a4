"""Hypothesis profiles, the guard against tests skipped unseen, and the count of faults survived."""

import copy
import gc
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask
import pytest
from hypothesis import settings

from tests.places import quick_path
from tests.server import running_server, server

__all__ = ["quick_path", "running_server", "server"]

ALLOWED_SKIPS = Path(__file__).parent / "allowed-skips.txt"
ON_CI = os.environ.get("CI") == "true"

# Examples differ widely in size, so a deadline per example would only measure the machine.
settings.register_profile("default", deadline=None, max_examples=40)
settings.register_profile(
    "ci", deadline=None, max_examples=20, derandomize=True, print_blob=True, database=None
)
settings.register_profile("thorough", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if ON_CI else "default"))


@pytest.fixture(autouse=True)
def own_configuration() -> Iterator[None]:
    """Give the environment and Dask's configuration back: no test runs with another's options."""
    before = copy.deepcopy(dask.config.config)
    with patch.dict(os.environ):
        yield
    if dask.config.config != before:
        # What is imported meanwhile adds options of its own, which stay.
        dask.config.refresh()


def read_allowed_skips(path: Path) -> set[str]:
    """The ids of the tests that may be skipped; a line without a reason is an error."""
    allowed = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        nodeid, separator, reason = line.rpartition("  # ")
        if not (separator and nodeid.strip() and reason.strip()):
            raise pytest.UsageError(f"{path.name}: expected 'nodeid  # reason', found {line!r}")
        allowed.add(nodeid.strip())
    return allowed


class SkipGuard:
    """Fails the session if a test was skipped that is not on the list.

    Under xdist each worker sees its own skips, those of whole modules included,
    and hands them to the controller, which alone decides.
    """

    def __init__(self, config: pytest.Config, allowed: set[str]) -> None:
        self.config = config
        self.allowed = allowed
        self.skipped: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a skipped test; pytest also reports an expected failure as such, which may pass."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that was skipped as a whole."""
        if report.skipped:
            self.note(report)

    def note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Keep the reason of a skip that is not on the list."""
        if report.nodeid not in self.allowed:
            longrepr = report.longrepr
            reason = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
            self.skipped[report.nodeid] = reason.removeprefix("Skipped: ")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker noted."""
        self.skipped.update(getattr(node, "workeroutput", {}).get("skipped", {}))

    # xdist stops its workers, and so delivers their notes, in this hook of its own.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand the notes to the controller, or fail."""
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["skipped"] = self.skipped
        elif self.skipped and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the tests and their reasons."""
        if not self.skipped:
            return
        terminalreporter.section("skipped, but not listed in tests/allowed-skips.txt", red=True)
        for nodeid, reason in sorted(self.skipped.items()):
            terminalreporter.line(f"{nodeid}  # {reason}")


def pytest_collection_finish() -> None:
    """Keep what was collected out of the garbage collector, which thousands of tests slow down."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Put the guard up on CI."""
    if ON_CI:
        guard = SkipGuard(config, read_allowed_skips(ALLOWED_SKIPS))
        config.pluginmanager.register(guard, "skip-guard")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how many faults were survived, of each kind, in whatever processes the tests ran."""
    survived: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "survived":
                survived.update(value)
    if survived:
        listed = ", ".join(f"{count:,} of {kind}" for kind, count in sorted(survived.items()))
        terminalreporter.write_line(f"{survived.total():,} faults survived: {listed}")
