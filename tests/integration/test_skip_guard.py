"""The guard of ``tests/conftest.py`` against tests skipped unseen on CI."""

from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
SKIPPED = """
import pytest

def test_passes():
    pass

@pytest.mark.skip(reason="no disk")
def test_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_expected_to_fail():
    assert False
"""
SKIPPED_MODULE = """
import pytest

pytest.skip("no module", allow_module_level=True)
"""


LISTED = "test_some.py::test_skipped  # no disk there\ntest_none.py  # no module there\n"


def run(pytester: pytest.Pytester, *args: str, allowed: str = "") -> pytest.RunResult:
    """Run a suite with a skipped test and a skipped module under the guard."""
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.path.joinpath("allowed-skips.txt").write_text(allowed, encoding="utf-8")
    pytester.makepyfile(test_some=SKIPPED, test_none=SKIPPED_MODULE)
    # The guard's module has fixtures from another one.
    project = f"pythonpath={CONFTEST.parents[1]}"
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-o", project, *args)


@pytest.fixture(autouse=True)
def _on_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.mark.parametrize(
    "args", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "two workers"]
)
def test_unlisted_skip_fails(pytester: pytest.Pytester, args: tuple[str, ...]) -> None:
    """A skip that is not on the list fails the session and is named, with and without xdist."""
    result = run(pytester, *args)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["test_none.py  # no module", "test_some.py::test_skipped  # no disk"]
    )


def test_listed_skip_passes(pytester: pytest.Pytester) -> None:
    """A skip that is on the list with its reason passes, and so does an expected failure."""
    assert run(pytester, allowed=LISTED).ret == pytest.ExitCode.OK


def test_reason_is_required(pytester: pytest.Pytester) -> None:
    """A line of the list without a reason is an error that shows it."""
    result = run(pytester, allowed="test_some.py::test_skipped\n")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*expected 'nodeid  # reason'*"])


def test_skip_passes_elsewhere(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a developer's machine a skip is only a skip."""
    monkeypatch.delenv("CI")

    assert run(pytester).ret == pytest.ExitCode.OK
