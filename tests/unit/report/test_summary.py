"""The lines before a run."""

from __future__ import annotations

import re
from typing import Any

from dask_io.planning import DEVICES, Problem, plan_sweep
from dask_io.report.summary import Move, plan_summary, preview

PLAN = plan_sweep(Problem.regular((1200, 1200), (400, 400), (600, 600), budget=2**26))
HDD = DEVICES["hdd"]


def lines(**about: Any) -> list[str]:
    """What a run of the plan says first."""
    return list(preview(Move(PLAN, "a", "out/b.nii.gz")._replace(**about), HDD))


def test_a_run_that_continues_says_what_is_there() -> None:
    """In blocks, or in bytes of one block; only the rest takes time and space."""
    half = PLAN.problem.n_bytes // 2

    blocks, parts = lines(skipped=2, skipped_bytes=half), lines(skipped_bytes=half)

    assert blocks[1] == "continues a run: 2 blocks are already written"
    assert re.fullmatch(r"continues a run: [\d.]+ KiB are already written", parts[1])
    assert blocks[2:] == parts[2:]
    assert parts[-1].endswith("more of disk space")
    assert _seconds(parts) < 0.6 * _seconds(lines())


def test_a_file_that_starts_again_says_so() -> None:
    """Nothing of it counts."""
    found = lines(restarts=True)

    assert found[1] == "starts again: an incomplete b.nii.gz cannot be continued"
    assert [found[0], *found[2:]] == lines()


def test_the_codec_of_the_target_is_named() -> None:
    """In the first line, and in the plan."""
    assert lines(codec="zstd")[0].endswith("of 600 x 600, zstd)")
    assert re.search("target .*, C order, zstd\n", plan_summary(PLAN, codec="zstd"))
    assert "zstd" not in plan_summary(PLAN)


def _seconds(found: list[str]) -> float:
    match = re.search(r"about ([\d.]+) (m?s) on", found[-1])
    assert match is not None
    return float(match[1]) / (1000 if match[2] == "ms" else 1)
