"""Patterns of block names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.errors import printable
from dask_io.stores.block_names import BlockNames, OneName


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
        ("b_{0:from1}_{1:from10:04}.npy", "b_4_0024.npy"),
        ("b_{1:from1}_{0:slice:from2:02}", "b_15_05"),
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
        "{0:x}",
        "{0:4d}",
        "{0:{1}}",
        "{0.real}",
        "{0[0]}",
        "{0:}}",
        "{0",
        "0}",
        "{0}{1}",
        "{0}7{1}",
        "{0}_{1:offset}",
        "{0:slice}_{1:offset}",
        "{0:offset:from1}",
        "{0:from0}",
        "{0:from1:}",
        "{0:slice:}",
        "{0:03:slice}",
        "{0:from1slice}",
        "{1:slice}_{1}",
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


@given(
    pattern=st.text(alphabet="{}01:ofset_./!", max_size=16)
    | st.from_regex(r"\{[01]:(slice|offset):?(from1)?:?(02)?\}_\{[01]\}", fullmatch=True)
    | st.text(max_size=8)
)
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


def test_slices_leave_axes_out() -> None:
    """Axes that a pattern of slices does not name are not cut; others must be named."""
    names = BlockNames("x{2:slice:from1:03}.npy", n_axes=4)
    assert (names.slice_axes, names.n_axes) == ((2,), 4)
    assert names.name_of((0, 0, 6, 0), (0, 0, 6, 0)) == "x007.npy"
    assert names.parse("x007.npy") == (0, 0, 6, 0)
    with pytest.raises(ValueError, match="1 fields for 2 axes"):
        BlockNames("x{2:slice}.npy", n_axes=2)
    with pytest.raises(ValueError, match="1 fields for 2 axes"):
        BlockNames("x{0:offset}.npy", n_axes=2)


@pytest.mark.parametrize(
    ("short", "n_axes", "pattern"),
    [
        ("z_{0}.npy", 3, "z_{0:slice}.npy"),
        ("z_{0:04d}.npy", 3, "z_{0:slice:04}.npy"),
        ("x{2:from1}.npy", 3, "x{2:slice:from1}.npy"),
        ("t{0}_z{1:d}.npy", 4, "t{0:slice}_z{1:slice}.npy"),
        ("b_{0:02d}_{1}.npy", 2, "b_{0:02}_{1}.npy"),
        ("{{a}}_{0:d}.npy", 1, "{{a}}_{0}.npy"),
    ],
)
def test_a_pattern_with_fewer_fields_than_axes_numbers_slices(
    short: str, n_axes: int, pattern: str
) -> None:
    """It gets the spelling that says so, without the d of Python's format strings."""
    assert BlockNames(short, n_axes).pattern == pattern
    assert BlockNames(pattern, n_axes).pattern == pattern


def test_patterns_say_what_their_numbers_mean() -> None:
    """Every number is explained in the order of the name."""
    names = BlockNames("z{1:slice:04}_{0:from1}.npy")
    assert names.meaning == "slice numbers along axis 1; block numbers from 1 along axis 0"
    assert BlockNames("{1:offset}_{0:offset}").meaning == "offsets along axes 1, 0"


def test_numbers_before_the_first_are_negative() -> None:
    """So a block 0 of a pattern that counts from 1 lies outside the grid."""
    assert BlockNames("b_{0:from1}").parse("b_0") == (-1,)


def test_one_name_has_one_block() -> None:
    """A single file is the block at the origin."""
    name = OneName("x.npy", 2)
    assert (name.parse("x.npy"), name.parse("y.npy")) == ((0, 0), None)
    assert name.name_of((0, 0), (0, 0)) == "x.npy"


def test_control_characters_are_shown_escaped() -> None:
    """No name can send commands to a terminal, and unprintable bytes survive as text."""
    assert printable("a\x1b]0;b\a\n\u202e\udcff é") == r"a\x1b]0;b\x07\n\u202e\udcff é"


def test_dots_around_a_number_are_allowed() -> None:
    """A number between two dots is a plain file name, but two dots in a row are refused."""
    names = BlockNames("scan.{0:04}.tif")
    assert names.parse(names.name_of((7,), (0,))) == (7,)
    with pytest.raises(ValueError, match=r"'\.\.'"):
        BlockNames("scan..{0}.tif")
