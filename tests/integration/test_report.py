"""Reports in a real browser: they draw, react, fit, and load nothing from a network."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

import dask_io
from dask_io.planning import DEVICES
from dask_io.report.page import make_report
from tests.commands import fail, invoke

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OFFLINE = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]
LATER = re.compile(r"[2-9]|\d\d")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a window, and with a new profile."""
    path = shutil.which("chromium")
    assert path is not None, "these tests need the Debian package chromium"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=path, args=OFFLINE, chromium_sandbox=False
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on a run whose source has a hostile name."""
    folder = tmp_path_factory.mktemp("report")
    array = np.arange(24 * 30 * 36, dtype="<f8").reshape(24, 30, 36)
    dask_io.split(_saved(folder, array), folder / HOSTILE, chunks=(8, 10, 12), memory="64MiB")
    place = folder / "report.html"
    done = invoke(
        *("resplit", folder / HOSTILE, folder / "out", "--chunks", "6,10,9"),
        *("--memory", "4MiB", "--report", place),
    )
    assert (done.exit_code, f"report: {place}" in done.stderr) == (0, True), done.output
    return place


def _saved(folder: Path, array: np.ndarray) -> Path:
    np.save(folder / "array.npy", array)
    return folder / "array.npy"


class Opened:
    """A page of the browser, with everything that it reported and requested."""

    def __init__(
        self, browser: Browser, place: Path, width: int = 900, scheme: str = "light"
    ) -> None:
        context = browser.new_context(viewport={"width": width, "height": 800}, offline=True)
        self.page: Page = context.new_page()
        self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(place.as_uri())

    @property
    def step(self) -> int:
        """The step that the animation shows, from 0."""
        return int(self.page.locator("#step").input_value())


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    """The report, opened; whatever a test does, the page must stay silent and alone."""
    found = Opened(browser, report)
    yield found
    assert found.problems == []
    assert found.requests == [report.as_uri()]
    found.page.context.close()


def test_a_run_is_shown(opened: Opened) -> None:
    """Names are text, all charts are drawn, and the table has every strategy."""
    page = opened.page
    expect(page.locator("h1")).to_contain_text(HOSTILE)
    expect(page.locator("#memory-legend")).to_contain_text("measured")
    expect(page.locator("#run-table")).to_contain_text("seeks to read")
    assert page.locator("#throughput-chart path").count() >= 2
    assert {"sweep", "naive", "keep"} <= set(
        " ".join(page.locator("#candidates td:first-child").all_inner_texts()).split()
    )


def test_the_animation_obeys(opened: Opened) -> None:
    """It plays, pauses, steps, is dragged, and obeys keys; the first and last pictures differ."""
    page = opened.page
    last = int(page.locator("#step").get_attribute("max") or 0)
    page.locator("#step").fill("0")
    first = page.locator("#target-canvas").evaluate("each => each.toDataURL()")
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#step")).to_have_value(LATER)
    page.get_by_role("button", name="Pause").click()
    paused = opened.step
    page.get_by_role("button", name="Step back").click()
    assert opened.step == paused - 1

    page.locator("#player").focus()
    page.keyboard.press("End")
    assert opened.step == last
    expect(page.locator("#status")).to_contain_text("100 %")
    # The first steps may only read.
    assert page.locator("#target-canvas").evaluate("each => each.toDataURL()") != first
    page.keyboard.press("ArrowLeft")
    assert opened.step == last - 1
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    expect(page.locator("#step")).to_have_value(LATER)
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_axes_and_views_can_be_chosen(opened: Opened) -> None:
    """Choosing an axis that is already shown swaps both, and three axes can be seen at once."""
    page = opened.page
    down, across = page.get_by_label("Down"), page.get_by_label("Across")
    before = (down.input_value(), across.input_value())
    down.select_option(before[1])
    assert (down.input_value(), across.input_value()) == before[::-1]
    flat = page.locator("#source-canvas").evaluate("each => each.toDataURL()")
    page.get_by_label("View").select_option("solid")
    expect(page.get_by_label("Depth")).to_be_visible()
    assert page.locator("#source-canvas").evaluate("each => each.toDataURL()") != flat


def test_blocks_in_parts_and_names_of_axes(browser: Browser, report: Path) -> None:
    """Blocks that are written in parts are not called complete, and axes have their names."""
    source, place = report.parent / "array.npy", report.parent / "parts.html"
    options = ("--strategy", "naive", "--axes", "z,y,x", "--report", place)
    done = invoke("split", source, report.parent / "parts.zarr", "--chunks", 8, *options)
    assert done.exit_code == 0, done.output
    merged = invoke(
        "merge",
        report.parent / "parts.zarr",
        report.parent / "a.npy",
        *options[:2],
        "--report",
        place,
    )
    assert merged.exit_code == 0, merged.output

    opened = Opened(browser, place)

    expect(opened.page.locator("#how")).to_contain_text("in parts")
    expect(opened.page.locator("#status")).to_contain_text("writes the parts of blocks")
    expect(opened.page.locator("#choices")).to_contain_text("Position along z")
    opened.page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (375, "dark"), (1400, "dark")])
def test_a_page_fits(browser: Browser, report: Path, width: int, scheme: str) -> None:
    """Nothing is wider than a phone, and dark readers get dark paper, but paper stays white."""
    opened = Opened(browser, report, width, scheme)
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") == width
    paper = "getComputedStyle(document.body).backgroundColor"
    assert (page.evaluate(paper) == "rgb(255, 255, 255)") == (scheme == "light")
    page.emulate_media(media="print")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    expect(page.locator(".transport")).to_be_hidden()
    assert opened.problems == []
    page.context.close()


def test_a_large_job_and_a_notebook(browser: Browser, tmp_path: Path) -> None:
    """A billion blocks are shown by a corner, which the page says, also in a frame."""
    plan = dask_io.plan_shape((10**6,) * 3, "float16", 1000, 1500, memory="4TiB")
    shown = make_report(plan, DEVICES["hdd"], source="a", target="b")
    place = tmp_path / "notebook.html"
    place.write_text(f"<body><p>A notebook</p>{shown._repr_html_()}</body>", encoding="utf-8")

    opened = Opened(browser, place)

    frame = opened.page.frame_locator("iframe")
    expect(frame.locator("#scene-note")).to_contain_text("only the corner")
    frame.get_by_role("button", name="Step", exact=False).last.click()
    assert opened.problems == []
    opened.page.context.close()


def test_a_report_is_refused_before_the_run(report: Path, tmp_path: Path) -> None:
    """A folder that is missing, or a file that is not a report, stops the command at once."""
    source = report.parent / "array.npy"
    for path, code in ((tmp_path / "no" / "a.html", 3), (source, 2)):
        fail("resplit", source, tmp_path / "new", "--chunks", 8, "--report", path, code=code)
    assert not (tmp_path / "new").exists()


def test_other_commands_write_reports(report: Path, tmp_path: Path) -> None:
    """Plans without data, dry runs, several regions and interrupted targets have reports, too."""
    source, place = report.parent / "array.npy", tmp_path / "report.html"
    regions = ("--region", "0:9,:,:", "--region", "5:20,:,3:")
    for arguments in (
        ("plan", "--shape", "9,9", "--dtype", "u1", "--from", "2", "--to", "3"),
        ("plan", source, "--chunks", 8, "--explain"),
        ("resplit", source, tmp_path / "none", "--chunks", 8, "--dry-run"),
        ("extract", source, tmp_path / "regions", *regions),
        ("merge", report.parent / "out", tmp_path / "merged.npy", "--strategy", "naive"),
    ):
        done = invoke(*arguments, "--report", place)
        assert (done.exit_code, f"report: {place}" in done.stderr) == (0, True), done.output
        place.unlink()

    done = invoke("resume", tmp_path / "merged.npy", "--report", place)
    assert (done.exit_code, "nothing was left" in done.stderr) == (0, True), done.output
    assert not place.exists()
