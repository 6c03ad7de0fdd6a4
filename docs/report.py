"""Take the picture of a report for the documents: `make report-picture`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import dask_io
from dask_io.planning import DEVICES
from dask_io.report.page import make_report

PICTURE = Path(__file__).parent / "how-to" / "report.png"
_WIDTH = 860


def take_picture(picture: Path = PICTURE) -> None:
    """Draw the example of the README, and take a picture of its steps and its memory."""
    plan = dask_io.plan_shape((3500,) * 3, "float16", 350, 500, memory="4GiB")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "report.html"
        make_report(plan, DEVICES["ssd"], source="blocks/", target="out/").save(page_file)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": _WIDTH, "height": 900}, color_scheme="light")
        page.goto(page_file.as_uri())
        start = page.locator("section").nth(0).bounding_box()
        end = page.locator("section").nth(1).bounding_box()
        assert start is not None, "the page is drawn"
        assert end is not None, "the page is drawn"
        top, bottom = start["y"] - 16, end["y"] + end["height"]
        clip = {"x": 0, "y": top, "width": _WIDTH, "height": bottom - top}
        page.screenshot(path=picture, full_page=True, clip=clip)
        browser.close()


if __name__ == "__main__":
    take_picture()
