"""Headers that name their data file, which must be in the header's own directory."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, TargetExistsError, UsageError
from dask_io.formats import open_source
from dask_io.formats.reopening import reopen_source

ARRAY = np.asfortranarray(np.arange(120, dtype="<i2").reshape(6, 5, 4))
# The suffix of headers, and the word before the name of the data.
KINDS = {".nhdr": "data file: ", ".mhd": "ElementDataFile = "}
OPTIONS: dict[str, Any] = {"durability": "none", "memory": "1MiB", "workers": 1}

suffixes = pytest.mark.parametrize("suffix", KINDS)


def make(folder: Path, suffix: str) -> Path:
    """Write the array as a header and x.raw, and return the header."""
    np.save(folder / "a.npy", ARRAY)
    header = folder / f"x{suffix}"
    dask_io.resplit(folder / "a.npy", header, chunks=-1, **OPTIONS)
    (folder / "a.npy").unlink()
    return header


def rename_data(header: Path, name: str) -> None:
    """Let a header name another data file."""
    word = KINDS[header.suffix]
    header.write_text(header.read_text().replace(f"{word}x.raw", f"{word}{name}"))


@suffixes
def test_a_header_and_its_data_are_two_files(suffix: str, tmp_path: Path) -> None:
    """They have one stem, as ITK and 3D Slicer write them, and the data has nothing else in it."""
    header = make(tmp_path, suffix)
    assert {"x.raw", header.name} <= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "x.raw").read_bytes() == ARRAY.tobytes("F")
    assert header.read_text().endswith(f"{KINDS[suffix]}x.raw\n")
    assert np.array_equal(dask_io.open(header)[...], ARRAY)


@suffixes
@pytest.mark.parametrize("name", ["other.raw", "data/x.bin", "with space.raw", "x.raw.bin"])
def test_data_may_have_any_name_below_the_header(suffix: str, name: str, tmp_path: Path) -> None:
    """The source can be read, split, sent to another process, and opened from its description."""
    header = make(tmp_path, suffix)
    rename_data(header, name)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / "x.raw").rename(tmp_path / name)
    dask_io.split(header, tmp_path / "blocks", chunks=3, **OPTIONS)
    assert np.array_equal(dask_io.open(tmp_path / "blocks")[...], ARRAY)
    source = open_source(header)
    for again in (
        pickle.loads(pickle.dumps(source)),  # noqa: S301 - our own bytes
        reopen_source(source.describe()),
        reopen_source(source.describe(), at=tmp_path / name),
    ):
        again.check()
        assert again.grid.shape == ARRAY.shape


@suffixes
def test_data_may_follow_its_header(suffix: str, tmp_path: Path) -> None:
    """The suffix of a header does not tell whether its data is in the same file."""
    make(tmp_path, suffix)
    attached = {".nhdr": ".nrrd", ".mhd": ".mha"}[suffix]
    dask_io.resplit(tmp_path / f"x{suffix}", tmp_path / f"y{attached}", chunks=-1, **OPTIONS)
    (tmp_path / f"y{attached}").rename(tmp_path / f"y{suffix}")
    (tmp_path / f"x{suffix}").rename(tmp_path / f"z{attached}")
    assert np.array_equal(dask_io.open(tmp_path / f"y{suffix}")[...], ARRAY)
    assert np.array_equal(dask_io.open(tmp_path / f"z{attached}")[...], ARRAY)


@suffixes
def test_bytes_before_the_data_are_skipped(suffix: str, tmp_path: Path) -> None:
    """A header may describe the data of another program, which has a header of its own."""
    header = make(tmp_path, suffix)
    skip = {".nhdr": "byte skip: 7\n", ".mhd": "HeaderSize = 7\n"}[suffix]
    header.write_text(header.read_text().replace(KINDS[suffix], skip + KINDS[suffix]))
    (tmp_path / "x.raw").write_bytes(b"another" + ARRAY.tobytes("F"))
    assert np.array_equal(dask_io.open(header)[...], ARRAY)


@suffixes
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("/etc/passwd", "not in its own directory"),
        ("../outside.raw", "not in its own directory"),
        ("data/../../outside.raw", "not in its own directory"),
        (".", "not in its own directory"),
        ("link.raw", "a link to another directory"),
        ("folder-link/passwd", "a link to another directory"),
        ("loop.raw", "cannot be read|not a usable path"),
        ("x.SUFFIX", "the header itself"),
        ("self-link.raw", "the header itself"),
        ("pipe", "is not a file"),
        ("device", "a link to another directory"),
        ("folder", "is not a file"),
        ("gone.raw", "no such file"),
        ("n" * 5000, "cannot be read|not a usable path"),
        ("a\0b", "not in its own directory"),
    ],
)
def test_headers_cannot_name_files_elsewhere(
    suffix: str, name: str, problem: str, tmp_path: Path
) -> None:
    """Whatever a header says, only files below its own directory are opened."""
    folder = tmp_path / "here"
    folder.mkdir()
    header = make(folder, suffix)
    (folder / "x.raw").replace(tmp_path / "outside.raw")
    for link, target in (
        ("link.raw", tmp_path / "outside.raw"),
        ("folder-link", Path("/etc")),
        ("loop.raw", folder / "loop.raw"),
        ("self-link.raw", header),
        ("device", Path("/dev/zero")),
    ):
        (folder / link).symlink_to(target)
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    rename_data(header, name.replace(".SUFFIX", suffix))
    with pytest.raises(DataError, match=problem) as error:
        dask_io.info(header)
    assert str(error.value).isprintable()


@suffixes
def test_links_inside_the_directory_are_followed(suffix: str, tmp_path: Path) -> None:
    """Users link data, and headers, within a directory."""
    header = make(tmp_path, suffix)
    (tmp_path / "store").mkdir()
    (tmp_path / "x.raw").rename(tmp_path / "store/x.raw")
    (tmp_path / "x.raw").symlink_to("store/x.raw")
    (tmp_path / f"same{suffix}").symlink_to(header.name)
    for path in (header, tmp_path / f"same{suffix}"):
        source = open_source(path)
        reopen_source(source.describe()).check()


@suffixes
def test_blocks_have_headers_of_their_own(suffix: str, tmp_path: Path) -> None:
    """Pairs are found by a manifest, by a pattern, and by their names alone."""
    header = make(tmp_path, suffix)
    folder = tmp_path / "b"
    dask_io.resplit(header, f"{folder}/b_{{0}}_{{1}}_{{2}}{suffix}", chunks=3, **OPTIONS)
    assert (folder / "b_1_1_1.raw").stat().st_size == 3 * 2 * 1 * 2
    assert np.array_equal(dask_io.open(folder)[...], ARRAY)
    (folder / "dask-io.json").unlink()
    assert np.array_equal(dask_io.open(folder)[...], ARRAY)
    assert np.array_equal(dask_io.open(f"{folder}/b_{{0}}_{{1}}_{{2}}{suffix}")[...], ARRAY)
    block = folder / f"b_0_0_1{suffix}"
    block.write_text(block.read_text().replace("b_0_0_1.raw", "b_0_0_0.raw"))
    with pytest.raises(DataError, match=r"has its data in 'b_0_0_0.raw', expected b_0_0_1.raw"):
        dask_io.open(folder)
    first = folder / f"b_0_0_0{suffix}"
    first.write_text(first.read_text().replace("b_0_0_0.raw", "../x.raw"))
    with pytest.raises(DataError, match=r"has its data in '../x.raw'; for blocks, it must be"):
        dask_io.open(folder)


@suffixes
def test_headers_of_other_data_are_not_replaced(suffix: str, tmp_path: Path) -> None:
    """A header that exists is kept unless the user asks, and always if its data would be lost."""
    header = make(tmp_path, suffix)
    (tmp_path / "x.raw").rename(tmp_path / "y.raw")
    np.save(tmp_path / "a.npy", ARRAY)
    with pytest.raises(TargetExistsError, match=header.name):
        dask_io.resplit(tmp_path / "a.npy", header, chunks=-1, **OPTIONS)
    rename_data(header, "y.raw")
    before = header.read_text()
    with pytest.raises(UsageError, match=r"is the header of 'y.raw'"):
        dask_io.resplit(header, header, chunks=-1, overwrite=True, **OPTIONS)
    assert header.read_text() == before
    header.write_text(before.replace("y.raw", "x.raw"))
    dask_io.resplit(tmp_path / "a.npy", header, chunks=-1, overwrite=True, **OPTIONS)
    assert np.array_equal(dask_io.open(header)[...], ARRAY)


@suffixes
def test_consumed_sources_lose_both_files(suffix: str, tmp_path: Path) -> None:
    """The header of data that was consumed is removed, too."""
    header = make(tmp_path, suffix)
    dask_io.resplit(header, tmp_path / "b", chunks=3, consume=True, memory="1MiB", workers=1)
    assert not header.exists()
    assert not (tmp_path / "x.raw").exists()


@pytest.mark.parametrize("suffix", [".nhdr", ".mhd"])
def test_names_that_break_a_header_are_refused(suffix: str, tmp_path: Path) -> None:
    """A line of text cannot contain a line break."""
    np.save(tmp_path / "a.npy", ARRAY)
    with pytest.raises(UsageError, match="choose a name of printable characters"):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / f"a\nb{suffix}", chunks=-1, **OPTIONS)
