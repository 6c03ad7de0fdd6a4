"""Patterns of block names."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.errors import DataError
from dask_io.stores.naming import BlockNames, OneName, printable


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("b_{0}_{1}.npy", "b_3_14.npy"),
        ("b_{1}_{0}.npy", "b_14_3.npy"),
        ("{0:03}-{1:02}.raw", "003-14.raw"),
        ("{0:offset},{1:offset:06}", "30,000140"),
        ("{{x}}{0}é{1}", "{x}3é14"),
        ("b1{0}.{1}2", "b13.142"),
        ("5%d{1:02}%%{0}", "5%d14%%3"),
    ],
)
def test_names_are_written_and_read(pattern: str, name: str) -> None:
    """A name is written canonically, and its numbers are read back by axis."""
    names = BlockNames(pattern)
    numbers = (30, 140) if names.by_offset else (3, 14)
    assert names.name_of((3, 14), (30, 140)) == name
    assert names.parse(name) == numbers


def test_zeros_in_front_are_accepted_when_reading() -> None:
    """Any number of zeros may precede a number, whatever the pattern says."""
    names = BlockNames("b_{0:02}")
    assert [names.parse(f"b_{text}") for text in ("7", "07", "0007")] == [(7,)] * 3


@pytest.mark.parametrize(
    "name", ["b_1", "b_1_2.npyx", "xb_1_2.npy", "b_-1_2.npy", "b_\u0661_2.npy", ""]
)
def test_other_names_do_not_match(name: str) -> None:
    """What differs in anything but its digits is not a block."""
    assert BlockNames("b_{0}_{1}.npy").parse(name) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "b.npy",
        "b_{0}_{0}.npy",
        "b_{0}_{2}.npy",
        "b_{1}.npy",
        "{}",
        "{x}",
        "{0!r}",
        "{0:5}",
        "{0:d}",
        "{0:{1}}",
        "{0.real}",
        "{0[0]}",
        "{0:}}",
        "{0",
        "0}",
        "{0}{1}",
        "{0}7{1}",
        "{0}_{1:offset}",
        "../b_{0}",
        "/etc/{0}",
        "a/{0}",
        "a\\{0}",
        "{0}..npy",
        ".{0}",
        "b\n{0}",
        "b\x00{0}",
        "\x1b[2J{0}",
        "{00}",
        "{-1}",
        "{\u0660}",
    ],
)
def test_hostile_patterns_are_refused(pattern: str) -> None:
    """Anything but a plain, visible file name with one field per axis is refused."""
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        BlockNames(pattern)


@given(pattern=st.text(alphabet="{}01:ofset_./!", max_size=16) | st.text(max_size=8))
def test_any_text_is_a_pattern_or_refused(pattern: str) -> None:
    """A pattern that is accepted names files of its directory, and reads its own names."""
    try:
        names = BlockNames(pattern)
    except ValueError:
        return
    numbers = tuple(range(7, 7 + names.n_axes))
    name = names.name_of(numbers, numbers)
    assert "/" not in name
    assert not name.startswith(".")
    assert names.parse(name) == numbers


def guess(names: list[str], shape: tuple[int, ...], suffix: str = ".npy") -> str:
    """The pattern that names show, in whatever order they come."""
    shuffled = random.Random(0).sample(names, len(names))
    return BlockNames.guess("dir", shuffled, suffix=suffix, first_shape=shape).pattern


def test_block_numbers_are_recognised() -> None:
    """Numbers from 0 to n - 1 along every axis count blocks."""
    names = [f"b_{i}_{j}.npy" for i in range(12) for j in range(3)]
    assert guess(names, (1, 1)) == "b_{0}_{1}.npy"


def test_padding_is_recognised() -> None:
    """Zeros in front are part of the pattern if all numbers are equally wide."""
    assert guess([f"{i:03}.npy" for i in range(12)], (5,)) == "{0:03}.npy"
    assert guess([f"{i:01}.npy" for i in range(12)], (5,)) == "{0}.npy"


def test_offsets_are_recognised() -> None:
    """Numbers whose second is the first block's length are offsets, on all axes."""
    names = [f"x{i}y{j}.npy" for i in (0, 10, 15) for j in (0, 1, 2)]
    assert guess(names, (10, 1)) == "x{0:offset}y{1:offset}.npy"


def test_gaps_are_taken_for_missing_blocks() -> None:
    """Numbers that are neither are block numbers, so that missing ones can be named."""
    assert guess(["b_0.npy", "b_2.npy"], (10,)) == "b_{0}.npy"
    assert guess(["b_1.npy", "b_2.npy"], (1,)) == "b_{0}.npy"


def test_constant_numbers_are_no_axes() -> None:
    """Digits that never change are part of the name, unless they are needed as axes."""
    names = [f"sub07_2_{i}_{j}.npy" for i in range(2) for j in range(2)]
    assert guess(names, (1, 1)) == "sub07_2_{0}_{1}.npy"
    assert guess(["sub07_0_0.npy", "sub07_1_0.npy"], (1, 1)) == "sub07_{0}_{1}.npy"
    assert guess(["7_0.npy"], (1, 1)) == "{0}_{1}.npy"
    assert guess([f"{{x}}{i}.npy" for i in range(2)], (1,)) == "{{x}}{0}.npy"


@pytest.mark.parametrize(
    "names",
    [
        ["a_0.npy", "b_1.npy"],
        ["a.npy"],
        ["5_7_0.npy"],
        ["1_1.npy", "2_2.npy"],
        ["0_0_0.npy", "1_1_1.npy"],
    ],
)
def test_names_without_one_pattern_are_refused(names: list[str]) -> None:
    """The message says how to name the pattern."""
    shape = (5, 5) if len(names[0]) > len("1_1.npy") else (5,)
    with pytest.raises(DataError, match=r"name the pattern, as in 'dir/b_\{0\}"):
        guess(names, shape)


def test_one_name_has_one_block() -> None:
    """A single file is the block at the origin."""
    name = OneName("x.npy", 2)
    assert (name.parse("x.npy"), name.parse("y.npy")) == ((0, 0), None)
    assert name.name_of((0, 0), (0, 0)) == "x.npy"


def test_control_characters_are_shown_escaped() -> None:
    """No name can send commands to a terminal, and unprintable bytes survive as text."""
    assert printable("a\x1b]0;b\a\n\u202e\udcff é") == r"a\x1b]0;b\x07\n\u202e\udcff é"
