"""What is noted about a run can be read again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dask_io.errors import UsageError
from dask_io.stores import filelog, journal
from dask_io.stores.journal import VERSION, Journal, read_job, read_lines

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST = 200


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a journal goes whose first line may not be long."""
    for module in (journal, filelog):
        monkeypatch.setattr(module, "LONGEST_LINE", _LONGEST)
    return tmp_path / "out.dask-io"


def _job(n_bytes: int) -> bytes:
    """Return a job that makes a first line of so many bytes, with its checksum and its end."""
    empty = json.dumps({"version": VERSION, "said": ""}).encode()
    said = "x" * (n_bytes - len(empty) - len("0123456789abcdef job \n"))
    return json.dumps({"version": VERSION, "said": said}).encode()


def test_what_is_as_long_as_can_be_is_read_again(folder: Path) -> None:
    """The lines behind it too."""
    Journal.begin(folder, _job(_LONGEST), ["cleared"], durable=False).close()

    assert read_job(folder)["version"] == VERSION
    assert list(read_lines(folder)) == [["cleared"]]


def test_what_could_not_be_read_again_is_not_written(folder: Path) -> None:
    """Neither as the first journal nor in place of another."""
    with pytest.raises(UsageError, match="write fewer targets at once"):
        Journal.begin(folder, _job(_LONGEST + 1), [], durable=False)
    assert not folder.exists()
    begun = Journal.begin(folder, _job(_LONGEST), [], durable=False)
    with pytest.raises(UsageError, match="write fewer targets at once"):
        begun.begin_again(_job(_LONGEST + 1), [])
    begun.close()
    assert read_job(folder)["version"] == VERSION
