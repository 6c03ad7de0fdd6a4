"""The comparison of other projects' tests finds what it is there to find."""

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from tests.peers.comparing import Comparison, Part, Run, compare, run_part

SUITE = """
    import dask
    import dask.array as da
    import pytest
    import zarr


    def test_goes_by_plan(tmp_path):
        source = zarr.create_array(tmp_path / "in.zarr", shape=(4, 4), chunks=(1, 4), dtype="i4")
        target = zarr.create_array(tmp_path / "out.zarr", shape=(4, 4), chunks=(4, 1), dtype="i4")
        source[:] = 1
        da.from_array(source).rechunk((4, 1)).store(target)
        assert target[:].sum() == 16


    def test_fails_both_ways():
        assert False


    def test_sees_dask_io():
        assert "array_optimize" not in dask.config.config


    @pytest.fixture
    def broken():
        raise RuntimeError


    def test_cannot_begin(broken):
        pass
"""


# `make test` itself runs suites both ways.
@pytest.mark.slow
def test_a_suite_is_run_both_ways(tmp_path: Path) -> None:
    """Outcomes of all phases are there, and graphs are counted where Dask IO is enabled."""
    (tmp_path / "test_suite.py").write_text(dedent(SUITE))
    part = Part(("test_suite.py",), least_matched=1, options=("-n", "0"), root=tmp_path)

    plain, enabled = run_part(part, enabled=False), run_part(part, enabled=True)

    assert plain.outcomes == {
        "test_suite.py::test_goes_by_plan": "passed",
        "test_suite.py::test_fails_both_ways": "failed",
        "test_suite.py::test_sees_dask_io": "passed",
        "test_suite.py::test_cannot_begin": "error",
    }
    assert enabled.outcomes == {**plain.outcomes, "test_suite.py::test_sees_dask_io": "failed"}
    assert enabled.total("matched") == 1
    assert not plain.counts


def compare_runs(*outcomes: str, least_matched: int = 0) -> Comparison:
    """Compare runs of one test: without Dask IO, with it, without it and so on."""
    left = [Run({"a.py::test": outcome}, {}, 1.0) for outcome in outcomes]
    found = compare(Part(("a.py",), least_matched), lambda *_, **__: left.pop(0))
    assert not left, "all were run"
    return found


def test_a_difference_is_one_that_comes_again() -> None:
    """A test that ends differently is run up to twice more; one that then agrees is reported."""
    assert compare_runs("failed", "failed").is_passed

    different = compare_runs("passed", "failed", "passed", "passed", "passed", "failed")
    assert not different.is_passed
    assert "DIFFERENT a.py::test: passed without, failed with Dask IO" in str(different)
    assert compare_runs("passed", "failed", "passed", "failed").different == ["a.py::test"]

    unstable = compare_runs("failed", "passed", "passed", "passed", "passed", "passed")
    assert unstable.is_passed
    assert unstable.unstable == ["a.py::test"]


def test_a_result_that_shows_nothing_fails() -> None:
    """Graphs have to go by plan, and Dask IO must not fail on any of them."""
    assert not compare_runs("passed", "passed", least_matched=1).is_passed
    count = {"seen": 1, "matched": 1, "errors": ["KeyError('x')"]}
    failing = replace(compare_runs("passed", "passed"), enabled=Run({}, {"a.py::test": count}, 1.0))
    assert not failing.is_passed
    assert "KeyError" in str(failing)
