"""Runs that are told to stop: they end tidily, or at once, and can be resumed."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from dask_io.geometry import Grid
from dask_io.journal.journal import read_lines
from dask_io.journal.ledger import Ledger

if TYPE_CHECKING:
    from tests.faults.conftest import Sample, Tool


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_stop_says_how_to_go_on(
    sample: Sample, tool: Tool, number: signal.Signals
) -> None:
    """Exit code 4 and one line; nothing in the making is left, and nothing is written twice."""
    run = tool.hold(*sample.resplit)
    run.send_signal(number)
    told = tool.release(run)

    assert run.returncode == 4
    assert tool.only_line(told).endswith(f"interrupted; continue with: dask-io resume {sample.out}")
    n_blocks = sample.check_blocks()
    assert n_blocks > 16
    assert list(sample.out.glob(".*.part")) == []
    result = json.loads(tool.run("resume", sample.out, "--json"))["result"]
    assert (result["blocks_skipped"], result["blocks_written"]) == (n_blocks, 42 - n_blocks)
    sample.check_complete()


def test_a_second_signal_stops_at_once(sample: Sample, tool: Tool) -> None:
    """The run does not wait for what is in flight, which never ends here; it can be resumed."""
    run = tool.hold(*sample.resplit)
    run.send_signal(signal.SIGINT)
    run.send_signal(signal.SIGTERM)
    _, told = run.communicate(timeout=60)

    assert run.returncode == 4
    assert tool.only_line(told) == "dask-io: stopped immediately"
    sample.check_blocks()
    tool.run("resume", sample.out)
    sample.check_complete()


def test_resuming_may_be_stopped_too(sample: Sample, tool: Tool) -> None:
    """A run that is killed, resumed, told to stop and resumed again is complete."""
    tool.kill(tool.hold(*sample.resplit))
    run = tool.hold("resume", sample.out, "--workers", 1)
    run.send_signal(signal.SIGTERM)
    told = tool.release(run)

    assert run.returncode == 4
    assert f"dask-io resume {sample.out}" in tool.only_line(told)
    tool.run("resume", sample.out)
    sample.check_complete()


def test_a_merge_is_stopped_and_resumed(sample: Sample, tool: Tool) -> None:
    """The one file in the making stays, and does not show under its name."""
    target = sample.folder / "merged.npy"
    run = tool.hold("merge", sample.blocks, target, "--workers", 1, "--strategy", "naive")
    run.send_signal(signal.SIGINT)
    told = tool.release(run)

    assert run.returncode == 4
    assert f"dask-io resume {target}" in tool.only_line(told)
    assert not target.exists()
    assert target.with_name(".merged.npy.part").exists()
    tool.run("resume", target)
    sample.check_complete(target)


@pytest.mark.parametrize("options", [[], ["--consume"]], ids=["", "consume"])
def test_what_is_durable_in_a_large_cell_is_not_done_again_in_small_ones(
    sample: Sample, tool: Tool, options: list[str]
) -> None:
    """A run in cells of 12 rows is stopped after the first, and goes on in cells of 3."""
    target = sample.folder / "merged.npy"
    # The engine's own buffers take 16 KiB.
    memory = 16 * 1024 + sample.array.nbytes // 2
    run = tool.hold("merge", sample.blocks, target, "--workers", 1, "--memory", memory, *options)
    run.send_signal(signal.SIGTERM)
    told = tool.release(run)

    assert run.returncode == 4
    assert " ".join(["dask-io resume", str(target), *options]) in tool.only_line(told)
    # The second one may have been in flight, and is then finished.
    shape = sample.array.shape
    ledger = Ledger(Grid.regular(shape, shape), read_lines(target.with_name("merged.npy.dask-io")))
    assert ledger.size >= sample.array.size // 2
    missing = sample.array.nbytes - ledger.size * sample.array.itemsize
    again = ["resume", target, "--workers", 1, "--strategy", "naive", "--json", *options]
    result = json.loads(tool.run(*again))["result"]
    assert result["bytes"]["written"] == result["bytes"]["read"] == missing
    sample.check_complete(target)


def test_a_complete_target_needs_nothing(sample: Sample, tool: Tool) -> None:
    """Resuming it says so, with exit code 0."""
    tool.run(*sample.resplit)
    assert "is complete; there is nothing left to do" in tool.run("resume", sample.out)
    result = json.loads(tool.run("resume", sample.out, "--json"))["result"]
    assert (result["blocks_written"], result["blocks_skipped"]) == (0, 42)
