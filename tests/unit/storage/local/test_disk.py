"""Directories on local disks."""

from pathlib import Path

import pytest

from dask_io.storage.local.disk import below


def test_directories_that_vanish_meanwhile_are_skipped(tmp_path: Path) -> None:
    """Other attempts at a part remove theirs while one looks at the target."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    found = []
    for entry in below(tmp_path):
        found.append(entry.name)
        if entry.name == "b":
            (tmp_path / "b" / "file").unlink()
            (tmp_path / "b").rmdir()
    assert sorted(found) == ["a", "b", "file"]


def test_a_root_that_is_missing_is_reported(tmp_path: Path) -> None:
    """Only what is below it may vanish."""
    with pytest.raises(FileNotFoundError):
        list(below(tmp_path / "none"))
