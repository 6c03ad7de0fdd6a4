"""`Grid`: blocks tile the array, and regions fall into pieces of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Axis, Grid, Region
from dask_io.testing.strategies import grids


@given(grid=grids())
def test_blocks_tile_the_array(grid: Grid) -> None:
    """Every element lies in exactly one block."""
    times = np.zeros(grid.shape, int)
    indices = list(grid.indices())
    for index in indices:
        times[grid.block(index).slices] += 1
    assert (times == 1).all()
    assert len(indices) == grid.n_blocks
    assert grid.size == times.size


@given(grid=grids())
def test_a_block_is_found_by_its_axes_and_its_elements(grid: Grid) -> None:
    """Regular or not, a block is what its axes say, and found by any element and by its number."""
    for flat, index in enumerate(grid.indices()):
        block = grid.block(index)
        bounds = tuple(axis.bounds_of(i) for axis, i in zip(grid.axes, index, strict=True))
        assert block.bounds == bounds
        last = tuple(high - 1 for high in block.stop)
        assert grid.index_at(block.start) == grid.index_at(last) == index
        assert grid.flat(index) == flat


@given(grid=grids(), data=st.data())
def test_what_is_not_in_the_grid_is_no_block(grid: Grid, data: st.DataObject) -> None:
    """Neither one before the first nor one beyond the last, nor one of more or fewer axes."""
    inside = [n - 1 for n in grid.counts]
    axis = data.draw(st.integers(0, len(inside) - 1))
    for beyond in (-1, grid.counts[axis], grid.counts[axis] + 1):
        outside = (*inside[:axis], beyond, *inside[axis + 1 :])
        assert outside not in grid
        with pytest.raises(IndexError, match="out of bounds"):
            grid.block(outside)
    for other in (inside[1:], [*inside, 0]):
        assert other not in grid
        with pytest.raises(IndexError, match="out of bounds"):
            grid.block(other)
    assert all(index in grid for index in grid.indices())


@given(grid=grids(), data=st.data())
def test_pieces_tile_a_region(grid: Grid, data: st.DataObject) -> None:
    """The pieces of a region lie in their blocks, tile it, and are the blocks of `clipped`."""
    bounds = [sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2))) for n in grid.shape]
    region = Region.of((low, high) for low, high in bounds)
    times = np.zeros(grid.shape, int)
    parts = list(grid.pieces(region)) if region.size else []
    for index, part in parts:
        assert part == grid.block(index) & region
        times[part.slices] += 1
    assert times.sum() == region.size == times[region.slices].sum()
    clipped = grid.clipped(region)
    assert clipped.shape == region.shape
    if region.size:
        blocks = [clipped.block(index) for index in clipped.indices()]
        assert blocks == [part.relative_to(region.start) for _, part in parts]


def test_a_grid_of_a_billion_blocks_is_small() -> None:
    """Nothing is listed per block."""
    grid = Grid.regular((7 * 10**9, 10**9), (7, 10**9))
    assert (grid.n_blocks, grid.longest) == (10**9, (7, 10**9))
    assert grid.block((10**9 - 1, 0)) == Region((7 * 10**9 - 7, 0), (7 * 10**9, 10**9))


def test_a_grid_prints_its_blocks() -> None:
    """Regular axes show their block length, others how many blocks they have."""
    assert str(Grid((Axis.regular(10, 4), Axis.of([3, 4, 3])))) == "4 x (3 to 4)"


def test_shape_and_chunks_must_agree() -> None:
    """A chunk is needed for every axis."""
    with pytest.raises(ValueError, match="zip"):
        Grid.regular((3, 4), (1,))
