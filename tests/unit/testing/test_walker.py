"""The walker: it counts by hand what can be counted by hand, and needs no Hypothesis."""

import subprocess
import sys

import numpy as np

from dask_io.planning import Hold, Plan, Problem, ReadRun
from dask_io.testing import walk

PROBLEM = Problem.regular((2, 4), (2, 2), (1, 4), dtype="int16", budget=100)
KEPT = ((ReadRun(2, 1, keep=True),), (ReadRun(2, 2, keep=True),))


def test_a_plan_small_enough_to_be_counted_by_hand() -> None:
    """Two source blocks, kept until the two rows they share are complete."""
    walked = walk(Plan(PROBLEM, (0, 1), KEPT, Hold.PIECES, "keep"))
    assert (walked.read_seeks, walked.write_seeks, walked.openings) == (2, 2, 4)
    assert (walked.n_steps, walked.read_bytes, walked.written_bytes) == (2, 16, 16)
    assert (walked.held_bytes, walked.carried_bytes) == (16, 8)
    assert walked.array_is_rebuilt


def test_whole_buffers_count_from_the_first_piece_on() -> None:
    """Held in blocks, both rows are held whole after the first step already."""
    walked = walk(Plan(PROBLEM, (0, 1), KEPT, Hold.BLOCKS, "keep"))
    assert (walked.held_bytes, walked.carried_bytes) == (16, 16)


def test_a_given_array_is_moved() -> None:
    """The array's own values are moved, NaN included."""
    problem = Problem.regular((2, 4), (2, 2), (1, 4), dtype="float64", budget=100)
    plan = Plan(problem, (1, 0), KEPT, Hold.PIECES, "keep")
    assert walk(plan, np.array([[0.0, np.nan, -0.0, 1], [2, 3, 4, 5]])).array_is_rebuilt


def test_the_walker_needs_no_hypothesis() -> None:
    """Importing the walker does not import Hypothesis."""
    code = "import sys, dask_io.testing.walker; sys.exit('hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
