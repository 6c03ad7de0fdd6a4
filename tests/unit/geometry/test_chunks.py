"""Chunks as users write them."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.errors import UsageError
from dask_io.geometry import Axis, Grid
from dask_io.geometry.chunks import AUTO_BYTES, Chunks, by_number, normalize_chunks, parse_chunks


def cuts(chunks: Chunks, shape: tuple[int, ...], like: Grid | None = None) -> list[list[int]]:
    """Lengths of the blocks along each axis."""
    grid = normalize_chunks(chunks, shape, 8, like=like)
    assert grid.shape == shape
    return [list(axis.lengths()) for axis in grid.axes]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (4, [[4, 4, 2], [4, 2]]),
        (-1, [[10], [6]]),
        (None, [[10], [6]]),
        ((4, -1), [[4, 4, 2], [6]]),
        ([(3, 4, 3), 100], [[3, 4, 3], [6]]),
        ({1: 3}, [[10], [3, 3]]),
        ({-1: (5, 1)}, [[10], [5, 1]]),
        ((None, 4), [[10], [4, 2]]),
        ("auto", [[10], [6]]),
        ((5, "auto"), [[5, 5], [6]]),
    ],
)
def test_every_notation(chunks: Chunks, expected: list[list[int]]) -> None:
    """Each notation cuts a small shape as Dask would."""
    assert cuts(chunks, (10, 6)) == expected


def test_open_axes_keep_the_cuts_of_the_source() -> None:
    """Axes that a mapping or None leaves open are cut like the source."""
    like = Grid((Axis.of([1, 2, 7]), Axis.regular(6, 4)))
    assert cuts({1: -1}, (10, 6), like) == [[1, 2, 7], [6]]
    assert cuts((5, None), (10, 6), like) == [[5, 5], [4, 2]]


def test_lengths_of_a_single_axis_need_no_brackets() -> None:
    """For one axis, several lengths are the lengths of its blocks, as in Dask."""
    assert cuts((3, 4, 3), (10,)) == [[3, 4, 3]]


def test_axes_without_elements_have_no_blocks() -> None:
    """Any notation fits an axis of length 0."""
    for entry in (5, -1, "auto", (0,), (), None):
        assert cuts((entry, 2), (0, 4)) == [[], [2, 2]]


@pytest.mark.parametrize(
    ("chunks", "says"),
    [
        ((4,), "1 axes, but the array has 2"),
        ((4, 4, 4), "3 axes, but the array has 2"),
        (0, "positive"),
        ((4, -2), "axis 1"),
        (((3, 4), 6), "add up to 7"),
        (((10, 0), 6), "not all positive"),
        (((), 6), "not all positive"),
        (((3.5, 6.5), 6), "not all integers"),
        ((2.5, 6), "2.5"),
        ((True, 6), "True"),
        ("big", "'big'"),
        ({2: 4}, "axis 2"),
        ({"x": 4}, "axis x"),
    ],
)
def test_impossible_chunks_are_one_clear_line(chunks: Chunks, says: str) -> None:
    """What cannot be done is a usage error that names the culprit."""
    with pytest.raises(UsageError, match=says) as caught:
        normalize_chunks(chunks, (10, 6), 8)
    assert "\n" not in str(caught.value)


def test_too_many_axes_are_refused() -> None:
    """NumPy's limit of 64 axes is ours."""
    with pytest.raises(UsageError, match="65 axes"):
        normalize_chunks(1, (1,) * 65, 8)


@given(
    shape=st.lists(st.integers(0, 10**6), min_size=1, max_size=5), itemsize=st.integers(1, 2**28)
)
def test_auto_blocks_are_near_64_mib(shape: list[int], itemsize: int) -> None:
    """Automatic blocks never exceed 64 MiB, unless one element does, nor waste most of it."""
    grid = normalize_chunks("auto", shape, itemsize)
    n_bytes = itemsize * prod(axis.longest for axis in grid.axes)
    assert n_bytes <= max(AUTO_BYTES, itemsize)
    if grid.size * itemsize <= AUTO_BYTES and grid.size:
        assert grid.n_blocks == 1


def test_shapes_of_any_size_are_cut() -> None:
    """Lengths beyond 64 bits are exact."""
    assert normalize_chunks(2**40, (2**80,), 8).n_blocks == 2**40
    assert normalize_chunks("auto", (2**80, 2**80), 8).shape == (2**80, 2**80)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500", 500),
        (" 500, 20 ", (500, 20)),
        ("5,", 5),
        ("[1,2],auto", ((1, 2), "auto")),
        ("(3,4,3)", ((3, 4, 3),)),
        ("0=24, 2=-1", {0: 24, 2: -1}),
        ("1=auto", {1: "auto"}),
        ("-1=5", {-1: 5}),
    ],
)
def test_command_line_notation(text: str, expected: object) -> None:
    """Texts are read as the values that Python users write."""
    assert parse_chunks(text) == expected


@pytest.mark.parametrize("text", ["", "a", "1,,2", "(3,4", "3)", "0=1,0=2", "0=1,5", "=", "((1))"])
def test_unreadable_chunks_are_refused(text: str) -> None:
    """Anything else is a usage error."""
    with pytest.raises(UsageError, match="chunks"):
        parse_chunks(text)


@given(text=st.text(alphabet="0123456789,()[]=-auto .", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes the parser fail in another way."""
    try:
        chunks = parse_chunks(text)
        normalize_chunks(chunks, (10, 6), 8)
    except UsageError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize("text", ["4x-1x3", "4X-1X3", "4,-1,3", "(4,-1,3)"])
def test_text_means_the_same_in_python(text: str) -> None:
    """Chunks can be copied from a command line or from a message."""
    grid = normalize_chunks((4, -1, 3), (10, 7, 5), 8)
    assert normalize_chunks(text, (10, 7, 5), 8) == grid


def test_text_by_name_means_the_same_in_python() -> None:
    """The names are those of the array."""
    assert by_number("y=24", ["time", "y"]) == {1: 24}


def test_names_of_axes_that_are_not_there_are_answered() -> None:
    """An array without names says how chunks are given instead."""
    with pytest.raises(UsageError, match="'z', but its axes are time, y"):
        by_number({"z": 24}, ["time", "y"])
    with pytest.raises(UsageError, match="unnamed axes; give chunks by axis number, as in 0=24"):
        by_number({"z": 24}, None)
