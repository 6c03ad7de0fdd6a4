"""`orbits` and `cut_axis`: grouping blocks changes nothing but the time it takes."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Axis, cut_axis, orbits
from dask_io.testing.strategies import axes

# The package exports a function of the module's name.
ORBITS = import_module("dask_io.geometry.orbits")


@st.composite
def long_axes(draw: st.DrawFn, length: int) -> Axis:
    """Axes with up to some hundred blocks, in runs long enough to be grouped."""
    runs: list[tuple[int, int]] = []
    left = length
    while left:
        chunk = draw(st.integers(1, min(13, left)))
        count = draw(st.integers(1, left // chunk) | st.just(left // chunk))
        runs.append((chunk, count))
        left -= chunk * count
    return Axis(tuple(runs))


@st.composite
def axes_of_one_length(draw: st.DrawFn, n_axes: int) -> tuple[Axis, ...]:
    """Several axes of one length."""
    length = draw(st.integers(1, 700))
    return tuple(draw(long_axes(length)) for _ in range(n_axes))


def roundings(axis: Axis, others: tuple[Axis, ...], index: int) -> list[tuple[int, ...]]:
    """What other axes make of both ends of a block, counted from the block's start."""
    start, stop = axis.start_of(index), axis.start_of(index + 1)
    return [
        tuple(
            rounded(end) - start for end in (start, stop) for rounded in (other.floor, other.ceil)
        )
        for other in others
    ]


@given(some=axes_of_one_length(3))
def test_kinds_are_blocks_that_look_alike(some: tuple[Axis, ...]) -> None:
    """Kinds cover every block; first and last of one have equal length and surroundings."""
    axis, *others = some
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ORBITS, "_FEW_BLOCKS", 0)
        patch.setattr(ORBITS, "_FEW_BOUNDARIES", 3)
        kinds = orbits(axis, *others)
    assert int(kinds.count.sum()) == axis.n_blocks
    seen: list[int] = []
    for first, last, count in zip(
        kinds.first.tolist(), kinds.last.tolist(), kinds.count.tolist(), strict=True
    ):
        period = (last - first) // max(1, count - 1)
        members = range(first, last + 1, max(1, period))
        assert len(members) == count
        seen += members
        around = [roundings(axis, tuple(others), member) for member in members]
        for other in range(len(others)):
            moves = all(a[other] == around[0][other] for a in around)
            stays = all(
                tuple(r + axis.start_of(m) for r in a[other])
                == tuple(r + axis.start_of(first) for r in around[0][other])
                for a, m in zip(around, members, strict=True)
            )
            assert moves or stays
    assert sorted(seen) == list(range(axis.n_blocks))


@pytest.mark.parametrize(
    ("length", "chunk", "other"),
    [
        (7 * 10**9, 7, 5),
        (10**9, 1, 10**9),
        (10**9, 10**9, 1),
        (1000 * 10**9, 1000, 1024),
        (7 * 2**70, 7, 5),
    ],
)
def test_a_billion_blocks_have_few_kinds(length: int, chunk: int, other: int) -> None:
    """The number of kinds depends on the block lengths, not on how many blocks there are."""
    axis = Axis.regular(length, chunk)
    kinds = orbits(axis, Axis.regular(length, other))
    assert sum(kinds.count.tolist()) == axis.n_blocks
    assert len(kinds.count) < 10_000


@given(length=st.integers(0, 60), data=st.data())
def test_a_cut_axis_has_the_boundaries_of_both(length: int, data: st.DataObject) -> None:
    """Combining two axes keeps every boundary and adds none."""
    one, other = data.draw(axes(length)), data.draw(axes(length))
    both = cut_axis(one, other)
    every = [set(axis.starts_of(np.arange(axis.n_blocks + 1)).tolist()) for axis in (one, other)]
    assert set(both.starts_of(np.arange(both.n_blocks + 1)).tolist()) == every[0] | every[1]


def test_a_billion_cuts_are_combined_if_one_axis_has_them_all() -> None:
    """An axis that contains the other's cuts is the answer, however long it is."""
    fine, coarse = Axis.regular(7 * 10**9, 7), Axis.regular(7 * 10**9, 14)
    assert cut_axis(coarse, fine) == cut_axis(fine, coarse) == fine


def test_too_many_cuts_are_refused() -> None:
    """Cuts that have no short run-length list are an error instead of a wait."""
    with pytest.raises(OverflowError, match="too long to combine"):
        cut_axis(Axis.regular(7 * 10**9, 7), Axis.regular(7 * 10**9, 5))
