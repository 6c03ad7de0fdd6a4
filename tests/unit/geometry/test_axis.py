"""`Axis`: look-ups on a run-length list equal those on the list of all blocks."""

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Axis
from dask_io.testing.strategies import axes


def listed(axis: Axis) -> list[int]:
    """All boundaries of an axis, both ends included."""
    return list(accumulate(axis.lengths(), initial=0))


@given(axis=axes())
def test_lookups_equal_those_on_the_list_of_ends(axis: Axis) -> None:
    """Rounding and counting give what searching the list of all boundaries gives."""
    ends = listed(axis)
    assert (axis.length, axis.n_blocks) == (ends[-1], len(ends) - 1)
    assert [axis.start_of(index) for index in range(len(ends))] == ends
    for position in range(axis.length + 1):
        below = bisect_right(ends, position) - 1
        assert axis.count_ends(position) == below
        assert axis.floor(position) == ends[below]
        assert axis.first_from(position) == bisect_left(ends, position)
        assert axis.ceil(position) == ends[bisect_left(ends, position)]
    for position in range(axis.length):
        index = axis.index_at(position)
        assert ends[index] <= position < ends[index + 1]
        assert axis.length_at(position) == ends[index + 1] - ends[index]


@pytest.mark.parametrize("factor", [1, 2**70])
@given(axis=axes())
def test_lookups_of_many_equal_lookups_of_one(factor: int, axis: Axis) -> None:
    """The vector forms equal the scalar ones, also for positions beyond 64 bits."""
    axis = Axis(tuple((length * factor, count) for length, count in axis.runs))
    indices = axis.indices(0, axis.n_blocks + 1)
    positions = sorted({e + d for e in listed(axis) for d in (0, 1) if e + d <= axis.length})
    many = np.array(positions, dtype=indices.dtype)
    assert axis.starts_of(indices).tolist() == listed(axis)
    assert axis.counts_ends(many).tolist() == [axis.count_ends(x) for x in positions]
    assert axis.floors(many).tolist() == [axis.floor(x) for x in positions]
    assert axis.ceils(many).tolist() == [axis.ceil(x) for x in positions]


@given(axis=axes(), data=st.data())
def test_pieces_and_clipped_are_the_blocks_parts(axis: Axis, data: st.DataObject) -> None:
    """The pieces of a range tile it and lie in the blocks they name; `clipped` agrees."""
    start, stop = sorted(data.draw(st.integers(0, axis.length)) for _ in range(2))
    expected = [
        (index, max(low, start), min(high, stop))
        for index, (low, high) in enumerate(pairwise(listed(axis)))
        if max(low, start) < min(high, stop)
    ]
    assert list(axis.pieces(start, stop)) == expected
    assert list(axis.clipped(start, stop).lengths()) == [high - low for _, low, high in expected]


@given(axis=axes(), n_blocks=st.integers(1, 9))
def test_grouped_blocks_are_so_many_in_a_row(axis: Axis, n_blocks: int) -> None:
    """Blocks are taken together from the first on, across changes of their length."""
    lengths = list(axis.lengths())
    expected = [sum(lengths[at : at + n_blocks]) for at in range(0, len(lengths), n_blocks)]
    assert list(axis.grouped(n_blocks).lengths()) == expected
    assert Axis(((7, 10**9), (3, 1))).grouped(n_blocks).length == 7 * 10**9 + 3


@given(axis=axes())
def test_mirrored_blocks_are_counted_from_the_far_end(axis: Axis) -> None:
    """The same lengths come in reverse order."""
    assert list(axis.mirrored.lengths()) == list(axis.lengths())[::-1]


@given(axis=axes())
def test_equal_blocks_make_equal_axes(axis: Axis) -> None:
    """However its runs are written, an axis equals and hashes as its canonical form."""
    other = Axis(tuple((length, 1) for length in axis.lengths()))
    assert other == axis == Axis.of(axis.lengths())
    assert hash(other) == hash(axis)


@pytest.mark.parametrize(
    ("lengths", "chunk"),
    [([4, 4, 2], 4), ([4], 4), ([], 1), ([4, 4, 5], None), ([3, 4, 3], None), ([4, 2, 2], None)],
)
def test_chunk_is_known_for_regular_axes_only(lengths: list[int], chunk: int | None) -> None:
    """An axis is regular if all blocks but a shorter last one are equal."""
    assert Axis.of(lengths).chunk == chunk


def test_a_chunk_longer_than_the_axis_is_one_block() -> None:
    """A block larger than the array is cut to the array's end."""
    assert Axis.regular(3, 10).runs == ((3, 1),)


@pytest.mark.parametrize("run", [(0, 1), (1, 0), (-1, 2), (2, -1)])
def test_empty_runs_are_refused(run: tuple[int, int]) -> None:
    """A run without elements or without blocks is an error."""
    with pytest.raises(ValueError, match="positive"):
        Axis((run,))


def test_an_axis_of_length_0_has_no_blocks() -> None:
    """An empty axis answers every look-up with 0."""
    axis = Axis.regular(0, 5)
    assert (axis.runs, axis.length, axis.n_blocks, axis.longest) == ((), 0, 0, 0)
    assert (axis.floor(0), axis.ceil(0), axis.count_ends(0), axis.start_of(0)) == (0, 0, 0, 0)
    assert list(axis.pieces(0, 0)) == []
