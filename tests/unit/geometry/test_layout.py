"""`Layout`: the runs of a region are the stretches of storage it touches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Layout, Region
from dask_io.testing.strategies import layouts, shapes


@st.composite
def stored_regions(draw: st.DrawFn) -> tuple[Layout, tuple[int, ...], Region]:
    """A layout, the shape of a block, and a region of it."""
    shape = draw(shapes())
    bounds = (sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in shape)
    return draw(layouts(len(shape))), shape, Region.of((low, high) for low, high in bounds)


def positions(layout: Layout, shape: tuple[int, ...], region: Region) -> list[int]:
    """Where in storage the elements of a region lie, by brute force."""
    places = np.arange(int(np.prod(shape))).reshape([shape[axis] for axis in layout.axes])
    return sorted(places.transpose(np.argsort(layout.axes))[region.slices].ravel().tolist())


@given(stored=stored_regions())
def test_runs_are_the_stretches_touched(stored: tuple[Layout, tuple[int, ...], Region]) -> None:
    """Runs cover exactly the positions of a region, in order, and none touches the next."""
    layout, shape, region = stored
    runs = list(layout.runs(region, shape))
    covered = [offset + i for offset, length in runs for i in range(length)]
    assert covered == positions(layout, shape, region)
    ends = [offset + length for offset, length in runs]
    assert all(end < offset for end, (offset, _) in zip(ends, runs[1:], strict=False))
    assert layout.count_runs(region, shape) == len(runs)


@given(stored=stored_regions(), itemsize=st.integers(1, 16))
def test_a_region_is_stored_as_its_runs_say(
    stored: tuple[Layout, tuple[int, ...], Region], itemsize: int
) -> None:
    """Where the first run begins and how long all are is known without listing them."""
    layout, shape, region = stored
    found, runs = layout.stored(region, shape), list(layout.runs(region, shape))
    assert (found.shape, found.size) == (region.shape, region.size)
    assert found.is_one_run == (len(runs) == 1)
    if runs:
        assert (found.first, found.run) == runs[0]
        assert {length for _, length in runs} == {found.run}
    strides = tuple(itemsize * stride for stride in layout.strides(shape))
    assert layout.byte_strides(shape, itemsize) == strides


@given(stored=stored_regions(), largest=st.integers(1, 50))
def test_slabs_follow_storage(stored: tuple[Layout, tuple[int, ...], Region], largest: int) -> None:
    """Slabs are small enough, and one after another they touch storage in the region's order."""
    layout, shape, region = stored
    slabs = list(layout.slabs(region, largest))
    assert all(0 < slab.size <= largest for slab in slabs)
    in_order = [place for slab in slabs for place in positions(layout, shape, slab)]
    assert in_order == positions(layout, shape, region)


def test_layouts_have_names() -> None:
    """C and F are known by name, others by their axes."""
    assert Layout.named("c", 2) == Layout.c(2)
    assert Layout.named("F", 2) == Layout.f(2)
    assert [Layout(axes).name for axes in ((0, 1, 2), (2, 1, 0), (1, 2, 0))] == ["C", "F", "1,2,0"]


def test_the_inverse_gives_places_of_axes() -> None:
    """`inverse` undoes `axes`."""
    assert Layout((1, 2, 0)).inverse == (2, 0, 1)


@pytest.mark.parametrize("axes", [(0, 0), (1,), (0, 2), (-1, 0)])
def test_a_layout_names_every_axis_once(axes: tuple[int, ...]) -> None:
    """Anything but a permutation is an error."""
    with pytest.raises(ValueError, match="every axis once"):
        Layout(axes)
