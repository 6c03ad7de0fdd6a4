"""The options that decide which plan is taken, as the command line has them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import fail, run

MERGE = ["plan", "--shape=3500,3025,3850", "--dtype=int16", "--from=700,605,770", "--to=-1"]


def plan(*arguments: str) -> Any:
    """Plan the published merge within 6 GiB."""
    return json.loads(run(*MERGE, "--memory=6GiB", "--json", *arguments))


@pytest.mark.parametrize("objective", ["time", "seeks", "memory"])
def test_explain_lists_every_candidate_with_its_costs(objective: str) -> None:
    """One candidate is the chosen one, each has all costs, and the reason names the winner."""
    found = plan("--explain", f"--objective={objective}", "--device=hdd")
    costs = {"strategy", "chosen", "seeks", "memory", "steps", "seconds"}
    assert all(costs <= one.keys() for one in found["candidates"])
    assert {"clustered", "multiple"} <= {one["strategy"] for one in found["candidates"]}
    (chosen,) = (one for one in found["candidates"] if one["chosen"])
    assert chosen["strategy"] == found["strategy"]
    assert chosen["seconds"] == found["seconds"]
    assert found["reason"].startswith(f"{found['strategy']} is chosen for ")
    assert found["reason"] in run(
        *MERGE, "--memory=6GiB", "--explain", f"--objective={objective}", "--device=hdd"
    )


def test_objectives_are_best_at_their_own() -> None:
    """No other objective gives fewer seconds, seeks or held bytes."""
    time, seeks, memory = (plan(f"--objective={each}") for each in ("time", "seeks", "memory"))
    assert time["seconds"] <= min(seeks["seconds"], memory["seconds"])
    assert seeks["seeks"]["total"] <= min(time["seeks"]["total"], memory["seeks"]["total"])
    assert memory["memory"]["held"] <= min(time["memory"]["held"], seeks["memory"]["held"])
    assert memory["memory"]["peak"] < time["memory"]["peak"]


def test_a_slower_device_takes_longer() -> None:
    """The device is named beside the seconds."""
    slow, fast = plan("--device=hdd"), plan("--device=nvme")
    assert slow["seconds"] > fast["seconds"] > 0
    assert (slow["device"], fast["device"]) == ("hdd", "nvme")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--objective=best"], "not one of 'time', 'seeks', 'memory'"),
        (["--device=floppy"], "'floppy' is not one of 'hdd'"),
        (["--device=measured"], "needs a folder to measure"),
        (["--to=100", "--strategy=clustered"], "needs one source block or one target block"),
    ],
)
def test_wrong_choices_are_one_line(arguments: list[str], told: str) -> None:
    """What cannot be chosen ends with exit code 2 and says why."""
    output = fail(*MERGE, "--memory=6GiB", *arguments, code=2)
    assert told in output
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize("strategy", ["clustered", "multiple"])
def test_previous_strategies_run_as_predicted(tmp_path: Path, strategy: str) -> None:
    """A split and a merge touch as many runs as planned, and give the array back."""
    values = np.arange(24 * 20 * 16, dtype="<i4").reshape(24, 20, 16)
    np.save(tmp_path / "a.npy", values)
    source, blocks, merged = (str(tmp_path / name) for name in ("a.npy", "blocks", "b.npy"))
    shared = ["--memory=60KiB", f"--strategy={strategy}", "--verify", "--json", "--workers=2"]
    for arguments in (["split", source, blocks, "--chunks=8,5,8"], ["merge", blocks, merged]):
        found = json.loads(run(*arguments, *shared))
        planned = found["plan"]["seeks"]
        assert found["plan"]["strategy"] == strategy
        assert found["result"]["seeks"] == {side: planned[side] for side in ("read", "write")}
        assert found["result"]["verified"]
    np.testing.assert_array_equal(np.load(merged), values)


def test_measuring_a_target_leaves_nothing_behind(tmp_path: Path) -> None:
    """The folder is measured when asked, for a plan that is only shown too."""
    np.save(tmp_path / "a.npy", np.zeros((8, 8)))
    arguments = [str(tmp_path / "a.npy"), str(tmp_path / "out"), "--chunks=4", "--dry-run"]
    found = json.loads(run("split", *arguments, "--device=measured", "--json"))
    assert (found["device"], found["seconds"] > 0) == ("measured", True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]
