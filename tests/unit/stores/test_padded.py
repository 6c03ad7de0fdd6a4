"""Blocks that are stored larger than they are."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from dask_io.engine.staging import comparison_slab
from dask_io.geometry import Layout, Region
from dask_io.storage.local.transport import FileReader, FileWriter
from dask_io.storage.medium import ALIGNMENT
from dask_io.storage.tally import Tally
from dask_io.stores.filled import holds_only
from dask_io.stores.padded import PaddedReader, PaddedWriter, is_padded, scratch_bytes, stretches
from dask_io.stores.store import Extent

if TYPE_CHECKING:
    from pathlib import Path


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
    assume(is_padded(shape, stored, layout))
    path: Path = tmp_path_factory.mktemp("padded") / "chunk"
    path.write_bytes(bytes(3 * prod(stored)))
    array = np.random.default_rng(seed).integers(0, 99, shape).astype("V3")
    extent, tally = Extent("chunk", 0, stored), Tally()

    with FileWriter(path, tally) as file:
        writer = PaddedWriter(shape, extent, array.dtype, layout, file, np.zeros((), "V3"))
        scratch = scratch_bytes(3 * prod(stored), 3)
        staging = memoryview(bytearray(2 * ALIGNMENT + 9 + scratch))
        writer.write_filled(
            Region.whole(shape),
            staging,
            lambda part, values: np.copyto(values, array[part.slices]),
        )
    with FileReader(path, tally) as file:
        reader = PaddedReader(shape, extent, array.dtype, layout, file)
        buffer = memoryview(bytearray(3 * region.size + 2 * ALIGNMENT + scratch))
        read = reader.read_into(region, buffer)

    assert read.tobytes() == array[region.slices].tobytes()
    assert tally.write.seeks == 1
    assert tally.read.seeks == layout.count_runs(region, shape)


@given(parts=padded_parts(), most=st.integers(3, 60))
def test_pieces_are_stretches_bit_by_bit(
    parts: tuple[Region, tuple[int, ...], tuple[int, ...], Layout], most: int
) -> None:
    """One behind the other, no longer than asked for, elements at the beginning of each."""
    region, shape, stored, layout = parts
    file = FileReader("none", Tally())
    padded = PaddedReader(shape, Extent("chunk", 7, stored), np.dtype("V3"), layout, file)
    whole = [
        (7 + 3 * run.start + at, run.box)
        for run in padded.stretches(region)
        for at in range(3 * (run.stop - run.start))
    ]
    runs = padded.stretches(region)
    pieces = [piece for run in runs for piece in padded.pieces(run.box, most)]

    assert [at for _, start, n in pieces for at in range(start, start + n)] == [
        at for at, _ in whole
    ]
    assert all(n_bytes <= most for *_, n_bytes in pieces)
    boxes = [box for box, *_ in pieces if box is not None]
    assert sum(box.size for box in boxes) == region.size
    raw = memoryview(bytearray(range(256)))
    for box, offset, n_bytes in pieces:
        if box is not None:
            found = padded.among_padding(raw[:n_bytes], box).tobytes()
            assert found == b"".join(
                bytes(raw[at - offset : at - offset + 3]) for at in _places(box, stored, layout)
            )


def _places(box: Region, stored: tuple[int, ...], layout: Layout) -> list[int]:
    """Return where the elements of a box are stored, in C order."""
    places = np.arange(prod(stored)).reshape([stored[axis] for axis in layout.axes])
    return [7 + 3 * n for n in places.transpose(layout.inverse)[box.slices].ravel().tolist()]


@pytest.mark.parametrize("itemsize", [125_000, 2**21 + 1, 2**22 + 1])
def test_elements_may_be_longer_than_what_is_moved_at_once(itemsize: int, tmp_path: Path) -> None:
    """One by one, with the least staging, in every way."""
    layout, dtype, path = Layout.c(2), np.dtype(f"V{itemsize}"), tmp_path / "chunk"
    raw = np.random.default_rng(0).bytes(4 * itemsize)
    array, extent = np.frombuffer(raw, dtype).reshape(2, 2), Extent("chunk", 7, (2, 3))
    path.write_bytes(bytes(7 + 6 * itemsize))
    scratch, whole = scratch_bytes(6 * itemsize, itemsize), Region.whole((2, 2))

    with FileWriter(path, Tally()) as file:
        writer = PaddedWriter((2, 2), extent, dtype, layout, file, np.zeros((), dtype))
        writer.write_filled(
            whole,
            memoryview(bytearray(itemsize + 2 * ALIGNMENT + scratch)),
            lambda part, values: np.copyto(values, array[part.slices]),
        )
        writer.write_from(whole, array, memoryview(bytearray(scratch)))
    with FileReader(path, Tally()) as file:
        reader = PaddedReader((2, 2), extent, dtype, layout, file)
        read = reader.read_into(whole, memoryview(bytearray(len(raw) + 2 * ALIGNMENT + scratch)))
        slab = comparison_slab(1, itemsize, workers=1)
        checksum = reader.checksum(whole, memoryview(bytearray(slab)))

    assert read.tobytes() == raw
    assert checksum == xxh3_64_intdigest(raw)


def test_padding_behind_a_block_is_none_between_its_elements() -> None:
    """Only the slowest axis with more than one element may be short."""
    assert not is_padded((2, 4, 3), (5, 4, 3), Layout.c(3))
    assert is_padded((5, 2, 3), (5, 4, 3), Layout.c(3))
    assert not is_padded((1, 2, 3), (5, 4, 3), Layout.c(3))


def test_the_fill_value_is_compared_to_the_last_element() -> None:
    """A block is all fill value only if its first and its last element are, and all between."""
    fill = np.array(7, "<u2")
    values = np.full(100_000, 7, "<u2")
    assert holds_only(values.view(np.uint8), fill)
    for place in (0, 50_000, -1):
        other = values.copy()
        other[place] = 8
        assert not holds_only(other.view(np.uint8), fill)
