"""Reports: what they contain, how large they get, and which files they may replace."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dask_io.engine.run import Progress
from dask_io.errors import StorageError, UsageError
from dask_io.planning import (
    DEVICES,
    Hold,
    Plan,
    Problem,
    ReadRun,
    Series,
    plan_naive,
    plan_spill,
    plan_sweep,
)
from dask_io.report.page import Report, check_report, make_report
from dask_io.report.recorder import Recorder

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.planning import AnyPlan

SMALL = Problem.regular((12, 12), (4, 4), (6, 6), budget=65536)
HOSTILE = "</script><script>alert(1)</script>\u2028<!--"


def report_on(plan: AnyPlan | Series, **more: Any) -> Report:
    """The report on a plan, with names that do not matter."""
    return make_report(plan, DEVICES["ssd"], **{"source": "a", "target": "b", **more})


def data_in(report: Report) -> dict[str, Any]:
    """The data of a page, read as a browser does: up to the first end of the element."""
    start = '<script type="application/json" id="data">'
    found = re.search(f"{start}(.*?)</script", report.html, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_names_cannot_become_part_of_the_page() -> None:
    """A file may have any name: the page has the same elements as with a harmless name."""
    report = report_on(plan_sweep(SMALL), source=HOSTILE, target=HOSTILE)

    assert report.html.count("<script") == report_on(plan_sweep(SMALL)).html.count("<script")
    assert "<!--" not in report.html
    assert data_in(report)["target"].startswith("</script>")


def test_steps_and_memory_are_those_of_the_plan() -> None:
    """All steps of a small plan are in the page, and its curve reaches the predicted peak."""
    plan = plan_sweep(SMALL)
    data = data_in(report_on(plan))
    (scene,) = data["scenes"]

    cells = [
        [tuple(table[place][:2]) for table, place in zip(scene["along"], step, strict=False)]
        for step in scene["steps"]
    ]
    assert cells == [list(step.cell.bounds) for step in plan.steps()]
    assert scene["is_whole"]
    assert max(held for _, held in data["memory"]["curve"]) == plan.held_bytes
    assert data["memory"]["curve"][-1] == [1.0, 0]


@pytest.mark.parametrize("chunks", [(1000, 1500), (1, 10**6), (10**6, 1)])
def test_a_page_has_a_bounded_size(chunks: tuple[int, int]) -> None:
    """A billion blocks, or very thin ones, need no larger page than a few thousand."""
    source, target = chunks
    shape = (10**6,) * 3
    problem = Problem.regular(shape, (source, 1000, 1000), (target, 1500, 1500), budget=10**16)
    for plan in (plan_sweep(problem), plan_naive(problem)):
        report = report_on(plan)
        (scene,) = data_in(report)["scenes"]

        assert len(report.html) < 400_000
        assert 0 < len(scene["steps"]) <= 1500
        assert not scene["is_whole"]


def test_passes_and_arrays_are_scenes() -> None:
    """Both passes through scratch blocks are shown, and every array of a group."""
    spill = plan_spill(SMALL)
    series = Series({"<x>": plan_sweep(SMALL), "y": spill, **{str(n): spill for n in range(9)}})

    assert len(data_in(report_on(spill))["scenes"]) == 2
    data = data_in(report_on(series))
    assert [scene["name"][:3] for scene in data["scenes"][:2]] == ["<x>", "y, "]
    assert (len(data["scenes"]), data["left_out"]) == (12, 9)


def test_writing_parts_of_blocks_is_not_called_completing_them() -> None:
    """A plan that keeps what is incomplete writes whole blocks; one that does not says so."""
    for plan, completes in ((plan_sweep(SMALL), True), (plan_naive(SMALL), False)):
        (scene,) = data_in(report_on(plan))["scenes"]
        assert all(map(all, scene["whole"])) == completes


def test_a_report_in_a_shell_is_one_line() -> None:
    """The page itself would fill the screen."""
    shown = repr(report_on(plan_sweep(SMALL)))

    assert re.fullmatch(r'<Report: [\d.]+ KiB; save\("plan\.html"\) writes it>', shown)


def test_axes_have_their_names() -> None:
    """Each array of a group has its own."""
    plan = plan_sweep(SMALL)
    (scene,) = data_in(report_on(plan, axes={"": ("x", None)}))["scenes"]
    assert scene["axes"] == ["x", None]

    series = Series({"a": plan, "b": plan_spill(SMALL)})
    scenes = data_in(report_on(series, axes={"a": ("x", "y"), "b": ("u", "v")}))["scenes"]
    assert [scene["axes"] for scene in scenes] == [["x", "y"], ["u", "v"], ["u", "v"]]


def test_an_empty_array_has_a_report() -> None:
    """Nothing is divided by the size of an array without elements."""
    problem = Problem.regular((0, 12), (4, 4), (6, 6), budget=65536)
    reads = ((), (ReadRun(12, 1, keep=True),))
    plan = replace(plan_sweep(SMALL), problem=problem, reads=reads, hold=Hold.PIECES)
    assert isinstance(plan, Plan)

    data = data_in(report_on(plan))

    assert (data["scenes"][0]["steps"], data["memory"]["curve"]) == ([], [])


def test_only_a_report_is_replaced(tmp_path: Path) -> None:
    """An earlier report is replaced; other files, links and folders are left as they are."""
    report, place = report_on(plan_sweep(SMALL)), tmp_path / "report.html"
    for _ in range(2):
        report.save(place)
    assert place.read_text("utf-8") == report.html

    thesis, link, folder = (tmp_path / f"{name}.html" for name in ("thesis", "link", "folder"))
    thesis.write_text("<!DOCTYPE html><html>my thesis")
    link.symlink_to(place)
    folder.mkdir()
    for other in (thesis, link, folder):
        with pytest.raises(UsageError, match="not a report"):
            report.save(other)
    assert thesis.read_text() == "<!DOCTYPE html><html>my thesis"


def test_a_path_is_checked_early(tmp_path: Path) -> None:
    """A wrong name and a missing folder are found before the run; nothing is created."""
    with pytest.raises(UsageError, match=r"end in \.html"):
        check_report(tmp_path / "report.zarr")
    with pytest.raises(StorageError, match="not a folder"):
        check_report(tmp_path / "missing" / "report.html")
    check_report(tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_a_recorder_keeps_few_samples_and_every_peak() -> None:
    """However many updates there are, samples are few, in order, and include the highest memory."""
    ticks = iter(range(200_000))
    recorder = Recorder(clock=lambda: next(ticks) / 1000)
    for step in range(100_000):
        held = 77 if step == 33_333 else step % 7
        recorder.update(Progress(step, 100_000, 0, 1, step, n_bytes_held=held))

    samples = recorder.samples

    assert 100 < len(samples) <= 601
    assert max(each.n_bytes_held for each in samples) == 77
    assert [each.seconds for each in samples] == sorted(each.seconds for each in samples)
    assert samples[-1].n_bytes_written == 99_999
