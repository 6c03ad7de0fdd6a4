"""Plans, runs, stores and comparisons as text and as JSON."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from dask_io.api import Info
from dask_io.engine.run import RunResult
from dask_io.engine.verify import Verification
from dask_io.errors import BudgetTooSmallError
from dask_io.geometry import Axis, Grid, Region
from dask_io.planning import (
    DEVICES,
    Candidate,
    Objective,
    Problem,
    Seeks,
    plan_auto,
    plan_keep,
    plan_naive,
    plan_sweep,
    predict_seconds,
)
from dask_io.planning.problem import Coding
from dask_io.report import jsonable, text
from dask_io.report.explain import Explanation, explain
from dask_io.units import format_seconds

PLAN = plan_keep(Problem.regular((12, 12), (4, 4), (3, 6), dtype="<i2", budget=1000))
RESULT = RunResult(
    seconds=2.0,
    seeks=Seeks(9, 8),
    n_bytes_read=288,
    n_bytes_written=288,
    openings=17,
    peak_memory=2048,
    held=PLAN.held_bytes,
    blocks_written=8,
)
INFO = Info(
    place="a\nb",
    format="npy",
    shape=(10, 6),
    dtype=np.dtype("<f4"),
    grid=Grid((Axis.of([3, 4, 3]), Axis.regular(6, 6))),
    order="F",
    n_bytes=240,
    n_bytes_on_disk=12_528,
)


def test_a_run_is_told_in_two_lines() -> None:
    """What was written, and at which costs; verification only if there was one."""
    told = text.run_text(PLAN, RESULT)

    assert told.splitlines() == [
        "wrote 8 blocks, 288 B, in 2.00 s (0.0 MB/s)",
        (
            "9 read and 8 write seeks, as predicted; the process grew by 2.00 KiB "
            "(288 B for data and buffers)"
        ),
    ]
    assert "; verified" in text.run_text(PLAN, replace(RESULT, verified=True))
    unknown = text.run_text(PLAN, replace(RESULT, peak_memory=None))
    assert "memory" not in unknown
    assert RESULT.describe(unit="shard").startswith("wrote 8 shards, ")


def test_scratch_is_not_counted_as_the_target() -> None:
    """What passed through scratch files is named, and does not make the run look faster."""
    result = replace(RESULT, n_bytes_written=576, n_bytes_scratch=288)

    told = text.run_text(PLAN, result)

    assert told.startswith("wrote 8 blocks, 288 B, in 2.00 s")
    assert "; 288 B passed through scratch files" in told


def test_a_resumed_run_says_what_it_skipped() -> None:
    """The plan covers all blocks, so it is not compared."""
    told = text.run_text(PLAN, replace(RESULT, blocks_skipped=3))

    assert "; 3 were already there" in told
    assert "predicted; " not in told


def test_costs_are_compared_in_a_table_on_request() -> None:
    """Seeks and memory stand side by side."""
    lines = [re.split(r"  +", line) for line in text.counts_text(PLAN, RESULT).splitlines()]

    assert ["seeks, read", "9", "9"] in lines
    unknown = text.counts_text(PLAN, replace(RESULT, peak_memory=None))
    assert unknown.split()[-1] == "unknown"


def test_a_run_in_json_has_the_keys_of_the_contract() -> None:
    """A result has the keys that users rely on; what is unknown is null."""
    value = json.loads(json.dumps(jsonable.run_to_json(PLAN, RESULT)))

    assert value.keys() == {"plan", "result"}
    assert value["result"] == {
        "seconds": 2.0,
        "seeks": {"read": 9, "write": 8},
        "bytes": {"read": 288, "written": 288},
        "peak_memory": 2048,
        "held": PLAN.held_bytes,
        "blocks_written": 8,
        "blocks_left_out": 0,
        "blocks_skipped": 0,
        "verified": None,
        "not_kept": [],
    }


def test_a_store_is_told_in_lines_that_names_cannot_break() -> None:
    """A line break in a name is shown as an escape."""
    told = text.info_text(INFO)

    assert len(told.splitlines()) == 8
    assert "place     a\\nb" in told
    assert "3 of 4 x 6, uneven along axis 0" in told
    assert "12,528 bytes" in told


def test_a_store_in_json_tells_all_uneven_blocks() -> None:
    """A regular axis is one number, an uneven one a list."""
    value = json.loads(json.dumps(jsonable.info_to_json(INFO)))

    assert value == {
        "place": "a\nb",
        "format": "npy",
        "shape": [10, 6],
        "dtype": "<f4",
        "chunks": [[3, 4, 3], 6],
        "blocks": 3,
        "order": "F",
        "n_bytes": 240,
        "n_bytes_on_disk": 12_528,
        "compression_ratio": None,
        "metadata": {},
        "pattern": None,
        "inferred": None,
        "space": None,
    }


def test_a_container_tells_its_codec_and_what_else_it_says() -> None:
    """In brief to people, in full to programs; nothing breaks a line."""
    said = {
        "codecs": [{"id": "zstd", "level": 3}, {"id": "crc32c"}],
        "shards": (10, 12),
        "fill_value": np.float32("nan"),
        "dimension_names": ("y", "x\n"),
        "attributes": {"units": "K", **{f"more {n}": n for n in range(30)}},
    }
    info = replace(INFO, n_bytes_on_disk=96, metadata=said)
    told = dict(re.split(r"  +", line, maxsplit=1) for line in text.info_text(info).splitlines())

    assert told["on disk"] == "96 B (96 bytes), compressed 2.50 to 1"
    assert told["codec"] == "zstd (level=3) + crc32c"
    assert (told["shards"], told["fill"], told["axes"]) == ("10 x 12", "nan", "y, x\\n")
    assert told["attributes"].startswith("units, more 0, ")
    assert len(told["attributes"]) == 72
    value = json.loads(json.dumps(jsonable.info_to_json(info)))
    assert value["compression_ratio"] == 2.5
    assert value["metadata"]["fill_value"] == "nan"
    assert value["metadata"]["attributes"] == said["attributes"]


def test_metadata_that_is_not_kept_is_named() -> None:
    """A summary says what the target does not have."""
    result = replace(RESULT, not_kept=("attributes", "dimension_names"))

    assert "; not kept: attributes, dimension names\n" in text.run_text(PLAN, result)
    assert jsonable.run_to_json(PLAN, result)["result"]["not_kept"] == list(result.not_kept)


@pytest.mark.parametrize(
    ("found", "told", "value"),
    [
        (
            Verification(24),
            "equal: 24 elements compared",
            {
                "equal": True,
                "n_elements": 24,
                "n_differing": 0,
                "first_difference": None,
                "place": None,
            },
        ),
        (
            Verification(24, 2, Region((0, 3), (1, 5))),
            "2 of 24 elements differ, first in region 0:1,3:5",
            {
                "equal": False,
                "n_elements": 24,
                "n_differing": 2,
                "first_difference": [[0, 1], [3, 5]],
                "place": None,
            },
        ),
        (
            Verification(4).followed_by(Verification(6, None, Region((0,), (1,))), "out/b"),
            "differs from what was written, first in region 0:1 of out/b",
            {
                "equal": False,
                "n_elements": 10,
                "n_differing": None,
                "first_difference": [[0, 1]],
                "place": "out/b",
            },
        ),
    ],
)
def test_a_comparison_names_the_first_difference(
    found: Verification, told: str, value: dict[str, object]
) -> None:
    """As text and as JSON."""
    assert str(found) == told
    assert jsonable.verification_to_json(found) == value


def test_strategies_are_set_side_by_side() -> None:
    """The chosen one is marked, and one that does not fit says why."""
    found = (
        Candidate("keep", PLAN),
        Candidate("naive", plan_naive(PLAN.problem)),
        Candidate("other", None, BudgetTooSmallError(2**32, 1000, "block")),
    )
    explanation = Explanation(PLAN, found, DEVICES["hdd"], Objective.TIME)

    told = text.explained_text(explanation)
    value = json.loads(json.dumps(jsonable.explained_to_json(explanation)))

    chosen = [line for line in told.splitlines() if line.endswith("chosen")]
    assert [line.split()[0] for line in chosen] == ["keep"]
    assert "does not fit: one block needs 4.00 GiB" in told
    assert "17 seeks are the fewest possible" in told
    assert [one["chosen"] for one in value["candidates"]] == [True, False, False]
    assert [one["seeks"] is None for one in value["candidates"]] == [False, False, True]
    assert [one["why_not"] is None for one in value["candidates"]] == [True, True, False]
    assert value["candidates"][0]["seconds"] == predict_seconds(PLAN, DEVICES["hdd"])
    assert value["reason"] in told


def test_the_memory_to_touch_every_block_once_is_named() -> None:
    """Where a budget allows it not; and with what is named, it is done."""

    def explained(budget: int) -> str:
        problem = Problem.regular((12, 12), (4, 4), (3, 6), dtype="<i2", budget=budget)
        plan = plan_sweep(problem)
        device, objective = DEVICES["hdd"], Objective.TIME
        return text.explained_text(explain(plan, device=device, objective=objective))

    named = re.search(r"every block touched once, with --memory (\d+) or more", explained(60))

    assert named is not None
    assert "every block touched once\n" in explained(int(named[1]))
    assert "every block touched once, with" in explained(int(named[1]) - 1)


def test_the_reason_names_the_next_best() -> None:
    """What was chosen is set against what would have been chosen without it."""
    candidates = (Candidate("keep", PLAN), Candidate("naive", plan_naive(PLAN.problem)))
    reasons = {
        objective: Explanation(PLAN, candidates, DEVICES["hdd"], objective).reason
        for objective in Objective
    }

    assert (
        "keep is chosen for few seeks in about the least time on hdd: " in reasons[Objective.TIME]
    )
    assert "keep is chosen for the fewest seeks: " in reasons[Objective.SEEKS]
    assert "keep is chosen for the least memory" in reasons[Objective.MEMORY]
    seconds = format_seconds(predict_seconds(plan_naive(PLAN.problem), DEVICES["hdd"]))
    assert all(f"; next is naive: {seconds}, 57 seeks" in reason for reason in reasons.values())


def test_the_reason_says_why_a_faster_plan_was_left_out() -> None:
    """It touches blocks twice, or needs scratch files to save hardly any time."""
    slow = replace(PLAN.problem.source, coding=Coding(1.0, 1.0))
    once = plan_keep(replace(PLAN.problem, source=slow, budget=10_000))
    candidates = (Candidate("keep", once), Candidate("naive", plan_naive(PLAN.problem)))
    twice = Explanation(once, candidates, DEVICES["ssd"], Objective.TIME).reason

    sizes = (512,) * 3, (1, 512, 512), (512, 32, 32)
    problem = Problem.regular(*sizes, dtype="u2", budget=512**3)
    sweep, device = plan_auto(problem, device=DEVICES["hdd"]), DEVICES["hdd"]
    direct = explain(sweep, device=device, objective=Objective.TIME).reason

    assert once.seeks.total == once.problem.lower_bound
    assert " on ssd, of the plans that touch every block once: " in twice
    assert "sweep is chosen for few seeks" in direct
    assert " on hdd, of the plans without scratch files: " in direct
    assert "; next is spill: " in direct


def test_the_reason_says_when_there_was_no_choice() -> None:
    """Nothing else fits, the strategy was asked for, or another costs the same."""
    device, objective = DEVICES["ssd"], Objective.TIME
    too_small = Candidate("naive", None, BudgetTooSmallError(10, 5, "block"))
    same = Candidate("other", replace(PLAN, strategy="other"))

    alone = Explanation(PLAN, (Candidate("keep", PLAN), too_small), device, objective).reason
    asked = explain(PLAN, device=device, objective=objective, requested="keep").reason
    equal = Explanation(PLAN, (Candidate("keep", PLAN), same), device, objective).reason

    assert alone == "keep is chosen: no other strategy fits the memory"
    assert asked == "keep was requested"
    assert equal.endswith("; other costs the same")


def test_a_plan_with_a_device_says_how_long_it_takes() -> None:
    """The time stands below the other costs; without a device there is none."""
    assert "time " not in text.plan_text(PLAN)
    assert text.plan_text(PLAN, DEVICES["hdd"]).endswith("time      0.17 s predicted on hdd")
    assert jsonable.run_to_json(PLAN, RESULT, DEVICES["hdd"])["plan"]["device"] == "hdd"
