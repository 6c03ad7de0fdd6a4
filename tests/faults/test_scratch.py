"""Runs in two passes, through scratch blocks, that are cut short or complete another run."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.faults.conftest import Sample, Tool


@pytest.mark.parametrize(
    "strategy",
    [
        "spill",
        pytest.param(
            "naive",
            marks=pytest.mark.xfail(
                reason="only another run through scratch blocks removes them", strict=True
            ),
        ),
    ],
)
def test_scratch_blocks_of_a_killed_run_are_removed(
    sample: Sample, tool: Tool, strategy: str
) -> None:
    """Whatever the strategy is that completes the target."""
    tool.kill(tool.hold(*sample.resplit, "--strategy", "spill"))
    assert list(sample.folder.glob(".out.*.scratch"))

    tool.run("resume", sample.out, "--strategy", strategy)
    sample.check_complete()


@pytest.mark.xfail(reason="the second pass does not keep to what is durable", strict=True)
@pytest.mark.parametrize("options", [[], ["--consume"]], ids=["", "consume"])
def test_a_file_of_which_a_part_is_durable_is_completed_through_scratch_blocks(
    sample: Sample, tool: Tool, options: list[str]
) -> None:
    """The rest of it is written, and source blocks that are gone are not asked for."""
    target = sample.folder / "merged.npy"
    merge = ["merge", sample.blocks, target, "--workers", 1, "--strategy", "naive"]
    run = tool.hold(*merge, *options)
    run.send_signal(signal.SIGTERM)
    tool.release(run)

    tool.run("resume", target, "--strategy", "spill")
    sample.check_complete(target)
