"""Results are one line at a prompt, a table in a notebook, and the command's text when printed."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import dask_io
from dask_io.engine.run import RunResult
from dask_io.geometry import Grid, Region
from dask_io.notebook import Displayed, html_table, one_line
from dask_io.planning import Seeks
from dask_io.planning.suggest import AccessCost, AccessPattern
from tests.commands import run

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "<script>alert(1)</script>&\x1b[2J"
LONG = "/data/" + "very/" * 200 + "last"
RESULT = RunResult(
    12.3, Seeks(1200, 143), 80 * 2**30, 80 * 2**30, 0, 2**20, 2**19, 343, verified=True
)
HUGE = Grid.regular((10**9,) * 30, (7,) * 30)
COST = AccessCost(1e9, 1e15, 1e6)
RESULTS: list[Displayed] = [
    RESULT,
    replace(RESULT, not_kept=(HOSTILE,) * 50),
    dask_io.Verification(10**30),
    dask_io.Verification(10**30, 10**29, Region((10**9,) * 30, (10**10,) * 30), HOSTILE),
    dask_io.Damage(LONG + HOSTILE, 10**9, 10**8, ((10**8,) * 30,) * 1000, (HOSTILE,)),
    dask_io.Repair((dask_io.Damage(HOSTILE, 9, 2, ((0, 1),)),) * 100),
    dask_io.Suggestion(
        (100,) * 30, (1000,) * 30, (AccessPattern(HOSTILE, (5,) * 30),), (COST,), (COST,)
    ),
    dask_io.Info(LONG + HOSTILE, "zarr", HUGE.shape, np.dtype("f8"), HUGE, "C", 10**300, 10**200),
    dask_io.GroupInfo(
        HOSTILE,
        "zarr",
        {
            HOSTILE + str(n): dask_io.Info(
                "x", "zarr", (9,), np.dtype("i2"), Grid.regular((9,), (3,)), "C", 18, 18
            )
            for n in range(100)
        },
        {HOSTILE: "is odd"},
    ),
    dask_io.Explanation((HOSTILE * 100,), (), ()),
]


def jobs_in(folder: Path) -> list[Displayed]:
    """Plan jobs of every kind, with hostile names of source and target."""
    place = folder / f"{HOSTILE.replace('/', '')}.npy"
    np.save(place, np.zeros((12, 12)))
    target = folder / "<b>out"
    return [
        dask_io.open(place),
        dask_io.plan(place, chunks=3),
        dask_io.plan(place, target, chunks=3),
        dask_io.plan_extract(place, target, regions=["0:3", "2:9"]),
        dask_io.plan_parts(place, target, chunks=3, parts=2),
    ]


def check(result: Displayed) -> None:
    """Check that a result is one short line, and a table without any markup from names."""
    line = repr(result)
    assert line.startswith(f"<{type(result).__name__}: ")
    assert len(line) < 200
    assert line.isprintable()
    assert str(result).replace("\n", "").isprintable()
    page = ET.fromstring(result._repr_html_())  # noqa: S314 - our own
    tags = {each.tag.rpartition("}")[2] for each in page.iter()}
    assert "table" in tags
    assert not tags & {"script", "b"}


@pytest.mark.parametrize("result", RESULTS, ids=lambda each: type(each).__name__)
def test_a_result_is_a_short_line_and_a_table(result: Displayed) -> None:
    """However large it is and whatever its names are, in text and in HTML."""
    check(result)


def test_jobs_are_short_lines_and_tables(tmp_path: Path) -> None:
    """A job with one plan is drawn, too."""
    for job in jobs_in(tmp_path):
        check(job)
    assert "<svg" in dask_io.plan(next(tmp_path.glob("*.npy")), chunks=3)._repr_html_()


def test_groups_are_short_lines_and_tables(tmp_path: Path) -> None:
    """So are the job that moves a group, and its plan."""
    group = tmp_path / "a.nc"
    h5py = pytest.importorskip("h5py")
    with h5py.File(group, "w") as file:
        file["<b>"], file["y"] = np.zeros((4, 4)), np.zeros((3, 3))
    job = dask_io.plan(group, tmp_path / "<b>\x1b[2J.zarr", chunks=2)
    assert isinstance(job, dask_io.SeriesJob)

    check(job)
    check(job.plan)
    assert re.fullmatch(r"<SeriesJob: \S+ to \S+, 2 arrays, \d+ seeks, 200 B>", repr(job))


def test_facts() -> None:
    """The line has what matters most."""
    assert repr(RESULT) == "<RunResult: 343 blocks, 80.00 GiB written in 12.3 s, verified>"
    assert repr(dask_io.Verification(9)) == "<Verification: equal: 9 elements compared>"
    assert repr(dask_io.Damage("out", 9, 1, ((0, 1),))) == "<Damage: out, block 0,1>"
    assert one_line("Job", ["sweep"], ["scan", "out"]) == "<Job: scan to out, sweep>"


def test_what_is_printed_is_what_the_command_prints(tmp_path: Path) -> None:
    """`print` gives the text of the command line."""
    np.save(tmp_path / "a.npy", np.zeros((4, 4)))
    info = dask_io.info(tmp_path / "a.npy")
    assert run("info", tmp_path / "a.npy").strip() == str(info)
    dask_io.resplit(tmp_path / "a.npy", tmp_path / "b", chunks=2)
    assert run("verify", tmp_path / "b").strip() == str(dask_io.verify(tmp_path / "b"))
    told = run("repair", tmp_path / "b", "--dry-run").strip()
    assert told == f"{tmp_path / 'b'}: {dask_io.repair(tmp_path / 'b', dry_run=True)}"


def test_long_tables_are_cut() -> None:
    """A table has at most 20 rows and a sign that there are more."""
    rows: Any = [(str(n), "") for n in range(100)]
    assert html_table("x", rows).count("<tr>") == 1 + 21


def test_results_can_be_pickled() -> None:
    """Workers send them."""
    assert pickle.loads(pickle.dumps(RESULT)) == RESULT  # noqa: S301 - made here


@pytest.mark.parametrize("name", ["a.npy", "a.zarr", "a.h5", "a.nii"])
def test_descriptions_can_be_pickled(tmp_path: Path, name: str) -> None:
    """A task of Dask that describes an array returns the description to another process."""
    np.save(tmp_path / "source.npy", np.zeros((4, 6), "i2"))
    dask_io.resplit(tmp_path / "source.npy", tmp_path / name, chunks=(4, 6))
    info = dask_io.info(tmp_path / name)
    group = dask_io.GroupInfo("a", info.format, {"b": info}, {})

    for found in (info, group):
        assert repr(pickle.loads(pickle.dumps(found))) == repr(found)  # noqa: S301 - made here
