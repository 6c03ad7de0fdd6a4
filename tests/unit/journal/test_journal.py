"""What is noted about a run can be read again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
from xxhash import xxh3_64_hexdigest

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.journal import journal
from dask_io.journal import local_log as filelog
from dask_io.journal.journal import VERSION, ArrayLines, Journal, about, read_job, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
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


def test_lines_that_nobody_of_ours_writes_count_for_nothing(tmp_path: Path) -> None:
    """However right their checksums are: what is not ASCII, and what breaks off."""
    place = tmp_path / "out"
    np.save(tmp_path / "in.npy", np.ones((4, 4)))
    dask_io.split(tmp_path / "in.npy", place, chunks=2)
    for line in (b"cell \xff\xff - 0", b"names", b"replaces"):
        with (place / ".dask-io" / "journal").open("ab") as file:
            file.write(b"%s %s\n" % (xxh3_64_hexdigest(line).encode(), line))

    assert dask_io.resume(place).blocks_skipped == 4
    dask_io.split(tmp_path / "in.npy", place, chunks=1, overwrite=True)


@pytest.mark.parametrize("line", ["cell 0,0", "dropped", "freed 0,0"])
def test_lines_that_say_too_little_are_named(line: str, tmp_path: Path) -> None:
    """Of a run that is to go on, they may be what counts."""
    place = tmp_path / "out"
    np.save(tmp_path / "in.npy", np.ones((4, 4)))
    dask_io.split(tmp_path / "in.npy", place, chunks=2)
    path = place / ".dask-io" / "journal"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with path.open("a") as file:
        file.write(f"{xxh3_64_hexdigest(line.encode())} {line}\n")

    with pytest.raises(
        DataError, match=f"a line that starts with {line.split(maxsplit=1)[0]} needs"
    ):
        dask_io.resume(place)


def test_lines_about_each_array_are_found(folder: Path) -> None:
    """In any order, but not those that are damaged or cut off, or about another array."""
    lines = [*about(1, ["a b", "c"]), *about(0, ["d"]), "about", *about(1, ["e"]), *about(11, "f")]
    Journal.begin(folder, _job(_LONGEST), lines, durable=False).close()
    with (folder / "journal").open("ab") as file:
        file.write(b"0123456789abcdef about 1 damaged\n%s about 0 g" % b"0" * 16)

    found = ArrayLines(folder)

    assert list(found.read(1)) == [["a", "b"], ["c"], ["e"]]
    assert list(found.read(0)) == [["d"]]
    assert list(found.read(11)) == [["f"]]
    assert not list(found.read(2))
    assert not list(found.read(-1))


def test_a_file_of_many_arrays_is_verified_in_few_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass through the journal for each array would take hours for 10,000 arrays."""
    n_arrays, n_read = 30, 0
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number in range(n_arrays):
            file[f"group/{number}"] = np.arange(4)
    dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=1)
    read = filelog.FileLogs.lines

    def count(*arguments: Any) -> Iterator[bytes]:
        nonlocal n_read
        for line in read(*arguments):
            n_read += 1
            yield line

    monkeypatch.setattr(filelog.FileLogs, "lines", count)
    assert dask_io.verify(tmp_path / "b.h5")
    assert not dask_io.repair(tmp_path / "b.h5").damaged
    assert n_read < 10 * 4 * n_arrays
