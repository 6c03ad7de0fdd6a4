"""The documents' examples run."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _examples(page: Path, language: str) -> list[str]:
    return [text for name, text in FENCE.findall(page.read_text()) if name == language]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the files that the examples speak of, small."""
    array = np.arange(12 * 10 * 8, dtype=np.int16).reshape(12, 10, 8)
    (tmp_path / "scan").mkdir()
    for i in range(3):
        for j in range(2):
            block = array[4 * i : 4 * i + 4, 5 * j : 5 * j + 5]
            np.save(tmp_path / "scan" / f"b_{i}_{j}_0.npy", block)
    np.save(tmp_path / "volume.npy", array)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _commands(page: Path) -> list[list[str]]:
    lines = "\n".join(_examples(page, "console")).splitlines()
    found = [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]
    return [words for words in found if words[0] == "dask-io"]


def test_commands_of_the_readme_run(folder: Path) -> None:
    """Every command of the README ends with exit code 0, in the order in which it stands there."""
    commands = _commands(ROOT / "README.md")
    assert len(commands) >= 5
    for _, *arguments in commands:
        done = subprocess.run(
            [sys.executable, "-m", "dask_io.cli", *arguments],
            cwd=folder,
            env=os.environ | {"COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), arguments


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page: Path, folder: Path) -> None:
    """Every Python example of a page runs, each in a namespace of its own."""
    for example in _examples(page, "python"):
        for name in ("out", "blocks", "volume2.npy"):
            subprocess.run(["rm", "-rf", folder / name], check=True)
        exec(compile(f"import dask.array, dask_io\n{example}", str(page), "exec"), {})  # noqa: S102


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sessions_print_what_they_show(page: Path) -> None:
    """Every interactive example of a page prints what the page says."""
    sessions = "\n".join(_examples(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(sessions, {}, page.name, str(page), 0)

    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
