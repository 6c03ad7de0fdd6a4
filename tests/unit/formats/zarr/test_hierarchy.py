"""What is part of a group, by the names of its files."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.formats.zarr.hierarchy import Hierarchy, find_left

if TYPE_CHECKING:
    from pathlib import Path

WORDS = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1)
PATHS = st.lists(WORDS.filter(lambda w: w not in {".", ".."}), max_size=3).map("/".join)
SOME = st.frozensets(PATHS, max_size=4)
GROUP = Hierarchy(
    frozenset({"", "inner", "0"}), frozenset({"a", "inner/b", "0/1"}), frozenset({"OME/x.xml"})
)
PARTS = [
    "zarr.json",
    ".zgroup",
    ".zmetadata",
    "..zattrs.part",
    "inner/.zattrs",
    "a/zarr.json",
    "a/..zarray.part",
    "a/c/0/1",
    "a/c/0/.1.part",
    "a/c",
    "a/0.1",
    "a/.dask-io/journal",
    "a/.dask-io/journal.000001",
    "a/.dask-io.0123abcd.part/lock",
    "inner/.dask-io/lock",
    "inner/b/.zattrs",
    "0/1/0/0",
    "OME/x.xml",
    "OME/.x.xml.part",
    ".a.dask-io.0123abcd.part/journal",
    ".inner:b.a0b_1c2d.scratch/0.npy",
    "inner/.b.a0b_1c2d.scratch/.dask-io/lock",
]
FOREIGN = [
    "notes.txt",
    "a/notes.txt",
    "a/c/x",
    "a/inner/zarr.json",
    "inner/c/0",
    "inner/x/zarr.json",
    "0/0",
    "OME/y.xml",
    "b/zarr.json",
    ".zarr.json",
    "a/.dask-io",
    "a/.dask-io-mine/x",
    "a/.dask-io.mine.part/x",
    ".b.dask-io.0123abcd.part/journal",
    ".a.scratch/0.npy",
    "inner/b/c/0/zarr.json",
]


@given(SOME, SOME, SOME)
def test_a_word_of_the_journal_says_all(
    groups: frozenset[str], arrays: frozenset[str], files: frozenset[str]
) -> None:
    """Whatever the names are, it is one word, and is read back."""
    names = Hierarchy(groups, arrays, files)
    word = names.to_word()
    assert len(word.split(" ")) == 1
    assert word.isascii()
    assert Hierarchy.from_word(word) == names


@pytest.mark.parametrize(
    "word",
    ["", "[]", "1", '"a"', "{}", '{"groups":1}', '{"groups":["../x"],"arrays":[],"files":[]}'],
)
def test_words_that_say_something_else(word: str) -> None:
    """They are refused; one that leads out of the group, too."""
    with pytest.raises(ValueError, match=r"Expecting|does not list|is not a path"):
        Hierarchy.from_word(word)


@pytest.mark.parametrize("file", PARTS)
def test_parts_of_a_group(file: str) -> None:
    """Metadata, chunks and journals, those in the making, and what came along with them."""
    assert GROUP.has(file, {})


@pytest.mark.parametrize("file", FOREIGN)
def test_what_is_no_part_of_a_group(file: str) -> None:
    """Other files, and what looks like a part, but not of anything that is there."""
    assert not GROUP.has(file, {})
    assert not GROUP.has(file, {"a": lambda _: False})


@given(st.sampled_from(PARTS), st.sampled_from(["", "c", "c/0"]), st.sampled_from(["x", "0.x"]))
def test_nothing_behind_a_part_is_one(file: str, folder: str, name: str) -> None:
    """But in journals and scratch folders, which are Dask IO's alone."""
    if not any(mark in file for mark in (".dask-io", ".scratch")):
        assert not GROUP.has("/".join(filter(None, [file, folder, name])), {})


def test_chunks_are_those_that_the_array_has() -> None:
    """Where that is known."""
    is_chunk = {"a": lambda name: name == "c/0/1"}
    assert GROUP.has("a/c/0/1", is_chunk)
    assert not GROUP.has("a/c/0/2", is_chunk)
    assert GROUP.has("inner/b/c/0/2", is_chunk)


def test_scratch_folders_are_known_by_their_names(tmp_path: Path) -> None:
    """As the system makes them."""
    for _ in range(20):
        made = tempfile.mkdtemp(prefix=".a.", suffix=".scratch", dir=tmp_path)
        assert GROUP.has(f"{made.removeprefix(f'{tmp_path}/')}/0.npy", {})


def test_what_makes_a_group_goes_first(tmp_path: Path) -> None:
    """So that no reader finds one without its attributes, or an array without its chunks."""
    own, inner = [".zgroup", ".zattrs", ".zmetadata"], ["inner/.zgroup", "inner/.zattrs"]
    arrays = ["a/.zarray", "a/.zattrs", "inner/b/.zarray"]
    for file in (*own, *inner, *arrays, "a/0.0", "notes.txt"):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    left = find_left(tmp_path, GROUP)

    assert left == (GROUP, own, [*inner, *arrays], ["a/0.0"])
