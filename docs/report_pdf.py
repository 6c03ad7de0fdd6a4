"""Print the report as PDF: `make report`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from sphinx.application import Sphinx

DOCS = Path(__file__).parent
PDF = DOCS / "_build" / "report.pdf"
# The page alone, without what surrounds it on the site. Links to other pages become text.
_SETTINGS = {
    "extensions": ["myst_parser"],
    "smartquotes": False,
    "root_doc": "report",
    "include_patterns": ["report.md"],
    "suppress_warnings": ["myst.xref_missing"],
    "html_theme": "basic",
    "html_title": "Dask IO",
}
_STYLE = """
body { font: 10pt/1.42 Georgia, "DejaVu Serif", serif; color: #111; margin: 0; }
h1, h2, h3, table, footer { font-family: Helvetica, "DejaVu Sans", sans-serif; }
h1 { font-size: 20pt; line-height: 1.2; margin: 0 0 14pt; }
h2 { font-size: 14pt; margin: 20pt 0 6pt; }
h3 { font-size: 11.5pt; margin: 14pt 0 4pt; }
h1, h2, h3 { break-after: avoid; }
p { margin: 0 0 7pt; orphans: 3; widows: 3; text-align: left; }
img { display: block; max-width: 75%; height: auto; margin: 6pt auto 8pt; }
img, table, li { break-inside: avoid; }
p:has(> img) { break-inside: avoid; }
table { border-collapse: collapse; font-size: 7.5pt; margin: 6pt 0 10pt; width: 100%; }
th, td { border-bottom: 0.5pt solid #bbb; padding: 2.5pt 3pt; text-align: left; }
code { font: 9pt "DejaVu Sans Mono", monospace; }
pre { font: 8pt/1.4 "DejaVu Sans Mono", monospace; white-space: pre-wrap; margin: 4pt 0 8pt 12pt; }
a { color: inherit; text-decoration: none; }
.headerlink, .related, .sphinxsidebar, .footer, div[role=navigation] { display: none; }
"""
_PAGE_NUMBER = (
    '<div style="width: 100%; font: 8px sans-serif; text-align: center; color: #555">'
    '<span class="pageNumber"></span> / <span class="totalPages"></span></div>'
)


def make_pdf(pdf: Path) -> None:
    """Build the page with Sphinx, and print it with Chromium."""
    pdf.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        built = Path(folder, "html")
        Sphinx(
            DOCS,
            None,
            built,
            Path(folder, "doctrees"),
            "html",
            confoverrides=_SETTINGS,
            status=None,
            warningiserror=True,
        ).build()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page()
        page.goto((built / "report.html").as_uri())
        page.add_style_tag(content=_STYLE)
        page.pdf(
            path=pdf,
            format="A4",
            margin={"top": "18mm", "bottom": "20mm", "left": "20mm", "right": "20mm"},
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=_PAGE_NUMBER,
            print_background=True,
            outline=True,
            tagged=True,
        )
        browser.close()


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PDF
    make_pdf(place)
    sys.stdout.write(f"{place}\n")
