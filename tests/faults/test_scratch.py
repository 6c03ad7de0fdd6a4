"""Runs in two passes, through scratch blocks, that are cut short or complete another run."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.conftest import Sample, Tool


@pytest.mark.parametrize(
    "strategy",
    [
        "spill",
        "naive",
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


def cut_short(sample: Sample, tool: Tool, *options: str) -> Path:
    """Begin to merge into one file, and stop when a part of it is durable."""
    target = sample.folder / "merged.npy"
    merge = ["merge", sample.blocks, target, "--workers", 1, "--strategy", "naive"]
    run = tool.hold(*merge, *options)
    run.send_signal(signal.SIGTERM)
    tool.release(run)
    return target


def test_a_file_of_which_a_part_is_durable_is_completed_through_scratch_blocks(
    sample: Sample, tool: Tool
) -> None:
    """The rest of it is written."""
    target = cut_short(sample, tool)
    tool.run("resume", target, "--strategy", "spill")
    sample.check_complete(target)


def test_what_has_been_consumed_is_not_read_again(sample: Sample, tool: Tool) -> None:
    """Two passes would ask for source blocks that are gone; one does not."""
    target = cut_short(sample, tool, "--consume")
    told = tool.fail("resume", target, "--strategy", "spill", code=2)
    assert "choose another strategy" in told
    tool.run("resume", target, "--consume")
    sample.check_complete(target)
