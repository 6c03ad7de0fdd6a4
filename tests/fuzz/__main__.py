"""Look for files that break their readers, led by coverage: ``make fuzz SUBJECT=zarr-3``.

Runs until it is stopped, or for ``-max_total_time`` seconds; other options are those of libFuzzer.
What it finds is written to the directory at hand, and repeated by naming that file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["dask_io", "numpy.lib", "zarr"]):
    from tests.fuzz.subjects import SUBJECTS


def main() -> None:
    """Break the subject that is named first."""
    name, *options = sys.argv[1:]
    subject = SUBJECTS[name]
    with TemporaryDirectory() as temporary:
        folder, corpus = Path(temporary, "array"), Path(temporary, "corpus")
        folder.mkdir()
        corpus.mkdir()
        subject.make(folder)
        (corpus / "whole").write_bytes((folder / subject.file).read_bytes())
        limits = ["-rss_limit_mb=1024", "-timeout=10"]
        atheris.Setup(
            [sys.argv[0], *limits, *options, str(corpus)],
            lambda content: subject.try_with(folder, content),
        )
        atheris.Fuzz()


main()
