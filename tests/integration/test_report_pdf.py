"""The report is printed as PDF."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_report_is_printed(tmp_path: Path) -> None:
    """`make report` writes a PDF of several pages with all headings, without links to files."""
    pdf = tmp_path / "new" / "report.pdf"
    done = subprocess.run(
        [sys.executable, DOCS / "report_pdf.py", pdf], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, f"{pdf}\n"), done.stderr
    content = pdf.read_bytes()
    headings = re.findall(r"^##+ ", (DOCS / "report.md").read_text("utf-8"), re.MULTILINE)
    assert content.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", content)) > 4
    # Each heading is an entry of the outline, which has one more for the title.
    assert len(re.findall(rb"/Title ", content)) >= len(headings) + 1
    assert b"file:" not in content
