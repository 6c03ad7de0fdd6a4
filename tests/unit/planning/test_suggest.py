"""Suggested chunks suit the accesses, and their costs are those of simulated reads."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_io.geometry import Layout
from dask_io.planning.device import DEVICES, SSD
from dask_io.planning.suggest import (
    MOST_FILES,
    AccessPattern,
    Blocks,
    access_cost,
    suggest_chunks,
)


@st.composite
def problems(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Draw a shape, an extent within it, and chunks, which need not divide it."""
    shape = tuple(draw(st.lists(st.integers(1, 20), min_size=1, max_size=3)))
    extent = tuple(draw(st.integers(1, length)) for length in shape)
    chunks = tuple(draw(st.integers(1, length)) for length in shape)
    return shape, extent, chunks


@given(problems())
def test_requests_are_those_of_a_simulation(
    problem: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
) -> None:
    """The predicted requests are the average over all positions, each of them counted."""
    shape, extent, chunks = problem
    blocks = Blocks(chunks, Layout.c(len(shape)), addressable=False)
    cost = access_cost(shape, 2, AccessPattern("box", extent), blocks, SSD)

    touched = []
    for length, part, chunk in zip(shape, extent, chunks, strict=True):
        starts = range(length - part + 1)
        counts = [(start + part - 1) // chunk - start // chunk + 1 for start in starts]
        touched.append(sum(counts) / len(counts))
    assert cost.requests == pytest.approx(prod(touched))
    assert cost.n_bytes == pytest.approx(prod(touched) * prod(chunks) * 2)


@pytest.mark.parametrize("device", DEVICES.values(), ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("shape", "itemsize"),
    [
        ((8760, 720, 1440), 4),
        ((50, 2, 100, 1000, 1000), 2),
        ((10**9,), 8),
        # The number of elements of a sparse array may exceed 64 bits.
        ((2**32, 2**32), 8),
        ((3 * 2**20, 2**22, 5 * 2**20), 1),
    ],
)
def test_suggestions_are_usable(device: str, shape: tuple[int, ...], itemsize: int) -> None:
    """Chunks fit in their limit, shards contain whole chunks, and there are not too many files."""
    series = AccessPattern("series", (shape[0], *[1] * (len(shape) - 1)))
    slices = AccessPattern("slices", (*[1] * (len(shape) - 1), shape[-1]))
    for most, accesses in product((2**20, 2**24), ([series], [slices], [series, slices])):
        found = suggest_chunks(
            shape,
            itemsize,
            accesses,
            blocks=Blocks(shape, Layout.c(len(shape)), addressable=True),
            device=device,  # type: ignore[arg-type]  # parametrized
            most_bytes=most,
        )
        assert prod(found.chunks) * itemsize <= most
        assert all(1 <= c <= n for c, n in zip(found.chunks, shape, strict=True))
        files = found.shards or found.chunks
        assert all(s % c == 0 for s, c in zip(files, found.chunks, strict=True))
        if found.shards is None:
            n_files = prod(-(-n // c) for n, c in zip(shape, files, strict=True))
            assert n_files <= MOST_FILES


def test_one_access_gets_chunks_of_its_shape() -> None:
    """For slices alone, a chunk is one slice deep; for cubes alone, it is about a cube."""
    shape = (2000, 2048, 2048)
    blocks = Blocks(shape, Layout.c(3), addressable=True)
    slices, cubes = (
        suggest_chunks(shape, 2, [AccessPattern(name, extent)], blocks=blocks, device=SSD).chunks
        for name, extent in (("slices", (1, 2048, 2048)), ("cubes", (64, 64, 64)))
    )
    assert slices[0] == 1
    assert max(cubes) < 2 * min(cubes)


@given(
    shape=st.lists(st.integers(1, 10**6), min_size=1, max_size=7).map(tuple),
    itemsize=st.sampled_from([1, 2, 8]),
    most_bytes=st.integers(1, 2**26),
)
@settings(max_examples=25)
def test_chunks_never_exceed_their_limit(
    shape: tuple[int, ...], itemsize: int, most_bytes: int
) -> None:
    """With any number of axes, unless a single element does."""
    series = AccessPattern("series", (shape[0], *[1] * (len(shape) - 1)))
    blocks = Blocks(shape, Layout.c(len(shape)), addressable=True)

    found = suggest_chunks(
        shape, itemsize, [series], blocks=blocks, device=SSD, most_bytes=most_bytes
    )

    assert prod(found.chunks) * itemsize <= max(most_bytes, itemsize)


@pytest.mark.parametrize("itemsize", [2, 4, 8])
@pytest.mark.parametrize("device", DEVICES.values(), ids=lambda one: one.name)
def test_time_series_get_compact_chunks_that_are_not_small(device: str, itemsize: int) -> None:
    """About equally long along the axes that are cut, of half a MiB or more."""
    shape = (2163, 90, 181)
    series = AccessPattern("series", (2163, 1, 1))
    blocks = Blocks((1, 90, 181), Layout.c(3), addressable=False)

    found = suggest_chunks(shape, itemsize, [series], blocks=blocks, device=device)  # type: ignore[arg-type]  # parametrized

    along, *across = found.chunks
    assert along == 2163
    assert max(across) <= 2 * min(across)
    assert 2**19 <= prod(found.chunks) * itemsize <= 2**20


def test_two_accesses_get_a_compromise() -> None:
    """Maps and time series together: neither is as slow as with the chunks for the other one."""
    shape = (8760, 720, 1440)
    series, maps = AccessPattern("series", (8760, 1, 1)), AccessPattern("maps", (1, 720, 1440))
    blocks = Blocks((24, 720, 1440), Layout.c(3), addressable=False)

    def seconds(chunks: tuple[int, ...], access: AccessPattern) -> float:
        return access_cost(shape, 4, access, Blocks(chunks, Layout.c(3), False), SSD).seconds  # noqa: FBT003

    both, for_series, for_maps = (
        suggest_chunks(shape, 4, accesses, blocks=blocks, device=SSD).chunks
        for accesses in ([series, maps], [series], [maps])
    )
    assert seconds(both, series) < seconds(for_maps, series)
    assert seconds(both, maps) < seconds(for_series, maps)


def test_runs_of_addressable_blocks() -> None:
    """Of one file in C order, a slice across the slowest axis is one run, a column is many."""
    file = Blocks((50, 100, 100), Layout.c(3), addressable=True)
    runs = [
        access_cost((50, 100, 100), 2, AccessPattern("", extent), file, SSD).requests
        for extent in ((1, 100, 100), (50, 1, 1), (50, 100, 1), (10, 20, 100))
    ]
    assert runs == [1, 50, 5000, 10]


def test_mixed_accesses_are_faster_than_with_cubes() -> None:
    """In the sum of slowdowns, compared with chunks for each access alone, and in the worst."""
    shape, layout = (150, 900, 800), Layout.c(3)
    blocks = Blocks((1, 900, 800), layout, addressable=False)
    extents = {"slices": (1, 900, 800), "cubes": (64, 64, 64), "slices x": (150, 900, 1)}
    accesses = [AccessPattern(*each) for each in extents.items()]

    found = suggest_chunks(shape, 2, accesses, blocks=blocks, device=SSD)

    assert [each.chunks for each in found.cubes] == [(64, 64, 64), (128, 128, 128)]
    best = [
        suggest_chunks(shape, 2, [access], blocks=blocks, device=SSD).after[0].seconds
        for access in accesses
    ]
    suggested, *cubes = (
        [cost.seconds / least for cost, least in zip(costs, best, strict=True)]
        for costs in (found.after, *(each.costs for each in found.cubes))
    )
    for each in cubes:
        assert sum(suggested) < sum(each)
        assert max(suggested) < max(each)
    assert "64 x 64 x 64" in str(found)
