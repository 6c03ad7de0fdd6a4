"""Blocks that are stored larger than they are."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Layout, Region
from dask_io.stores.files import ALIGNMENT, FileReader, FileWriter, Tally
from dask_io.stores.padded import PaddedReader, PaddedWriter, is_padded, stretches
from dask_io.stores.store import Extent

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@st.composite
def padded_parts(
    draw: st.DrawFn,
) -> tuple[Region, tuple[int, ...], tuple[int, ...], Layout]:
    """Draw a region of a block, the block's shape, the one that it is stored in, and a layout."""
    stored = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    shape = tuple(draw(st.integers(1, length)) for length in stored)
    ends = [sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
    layout = Layout(tuple(draw(st.permutations(range(len(stored))))))
    return Region.of((low, high) for low, high in ends), shape, stored, layout


@given(parts=padded_parts())
def test_stretches_are_runs_with_nothing_but_padding(
    parts: tuple[Region, tuple[int, ...], tuple[int, ...], Layout],
) -> None:
    """There are as many as runs of the block, they hold the region once, and else only padding."""
    region, shape, stored, layout = parts
    places = np.arange(prod(stored)).reshape([stored[axis] for axis in layout.axes])
    places = places.transpose(layout.inverse)
    in_block = set(places[tuple(map(slice, shape))].flat)
    found: list[int] = []

    for each in stretches(region, shape, stored, layout):
        inside = sorted(places[each.box.slices].ravel().tolist())
        assert each.start == inside[0]
        assert set(range(each.start, each.stop)) & in_block == set(inside)
        found += inside

    assert sorted(found) == sorted(places[region.slices].flat)
    assert len(list(stretches(region, shape, stored, layout))) == layout.count_runs(region, shape)


@given(parts=padded_parts(), seed=st.integers(0, 2**32 - 1))
def test_what_is_written_is_read_in_as_many_seeks(
    parts: tuple[Region, tuple[int, ...], tuple[int, ...], Layout],
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A block written slab by slab is one seek, and a region of it costs its runs in the block."""
    region, shape, stored, layout = parts
    path: Path = tmp_path_factory.mktemp("padded") / "chunk"
    path.write_bytes(bytes(3 * prod(stored)))
    array = np.random.default_rng(seed).integers(0, 99, shape).astype("V3")
    extent, tally = Extent("chunk", 0, stored), Tally()

    with FileWriter(path, tally) as file:
        writer = PaddedWriter(shape, extent, array.dtype, layout, file, np.zeros((), "V3"))
        staging = memoryview(bytearray(2 * ALIGNMENT + 9))
        writer.write_filled(
            Region.whole(shape),
            staging,
            lambda part, values: np.copyto(values, array[part.slices]),
        )
    with FileReader(path, tally) as file:
        reader = PaddedReader(shape, extent, array.dtype, layout, file)
        read = reader.read_into(region, memoryview(bytearray(3 * region.size + 2 * ALIGNMENT)))

    assert read.tobytes() == array[region.slices].tobytes()
    assert tally.write.seeks == 1
    assert tally.read.seeks == layout.count_runs(region, shape)


def test_padding_behind_a_block_is_none_between_its_elements() -> None:
    """Only the slowest axis with more than one element may be short."""
    assert not is_padded((2, 4, 3), (5, 4, 3), Layout.c(3))
    assert is_padded((5, 2, 3), (5, 4, 3), Layout.c(3))
    assert not is_padded((1, 2, 3), (5, 4, 3), Layout.c(3))
