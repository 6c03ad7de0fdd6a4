"""Suggest chunks that suit how an array will be read.

An *access* is a box of a certain shape that is read at an arbitrary position: a time series, a
slice, a cube. Chunks are read whole, so an access costs one request per chunk that it touches, and
all of their bytes. No chunks suit all accesses equally well. The suggested shape is the one whose
worst access is the least slow, compared with the best possible for that access.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import printable
from dask_io.notebook import Displayed
from dask_io.planning.describe import table
from dask_io.planning.device import SECONDS_PER_OPENING
from dask_io.units import by, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dask_io.geometry import Layout
    from dask_io.planning.device import Device

LEAST_CHUNK, MOST_CHUNK = 2**17, 2**24
"""Bytes of suggested chunks: smaller ones are slow to open, larger ones waste bytes and memory."""
MOST_FILES = 10_000
"""More chunks than this are put into shards."""
_SHARD = 2**28
# No access counts as faster than to read this much at once. So chunks are not made smaller for it.
_READ_AT_ONCE = 2**20
# Chunk shapes that are compared. With more axes, there are fewer lengths along each.
_MOST_SHAPES = 400_000
_CUBES = 64, 128
"""Sides of the cubes that a suggestion is compared with."""
# Two shapes are about equally good if their worst accesses differ by no more than this.
_ALIKE = 1.05


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """A way to read an array: boxes of one shape, at any position."""

    name: str
    extent: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AccessCost:
    """What one access costs on average: requests, bytes read, and predicted seconds."""

    requests: float
    n_bytes: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks as a reader finds them: all of a block is read, or only the runs that are needed."""

    shape: tuple[int, ...]
    layout: Layout
    addressable: bool


@dataclass(frozen=True, slots=True)
class Alternative:
    """Chunks that many people use, with the cost of each access."""

    chunks: tuple[int, ...]
    costs: tuple[AccessCost, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Suggestion(Displayed):
    """Suggested chunks, with the cost of every access before and after.

    Attributes
    ----------
    chunks, shards
        Shapes of the suggested chunks and, if there would be too many files, of shards.
    accesses
        The accesses, as they were requested.
    before, after
        The cost of each access with the present blocks, and with the suggested chunks.
    array, dimensions
        The array that the chunks are for and the names of its dimensions, if it was chosen from a
        group or a file as the largest one.
    cubes
        What each access would cost with cubes of 64 and 128 elements, if they are other chunks.
    """

    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    accesses: tuple[AccessPattern, ...]
    before: tuple[AccessCost, ...]
    after: tuple[AccessCost, ...]
    array: str = ""
    dimensions: tuple[str, ...] = ()
    cubes: tuple[Alternative, ...] = ()

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("read at once", "shape", "now: reads", "bytes", "time", "then: reads", "bytes", "time")
        ]
        for access, *costs in zip(self.accesses, self.before, self.after, strict=True):
            cells = [
                cell
                for cost in costs
                for cell in (
                    f"{cost.requests:,.0f}",
                    format_bytes(round(cost.n_bytes)),
                    f"{cost.seconds:.3g} s",
                )
            ]
            rows.append((printable(access.name), by(access.extent), *cells))
        compared = f"\n\n{table(self._compared())}" if self.cubes else ""
        largest = f" for {printable(self.array)}, the largest array" if self.array else ""
        found = ", in ".join(self._facts())
        return f"{table(rows)}{compared}\n\nSuggested chunks{largest}: {found}"

    def _compared(self) -> list[tuple[str, ...]]:
        """Return the rows of a table that compares the suggested chunks with cubes."""
        each = (Alternative(self.chunks, self.after), *self.cubes)
        return [
            ("compared with cubes", *(printable(access.name) for access in self.accesses)),
            *((by(one.chunks), *(f"{cost.seconds:.3g} s" for cost in one.costs)) for one in each),
        ]

    def _facts(self) -> Iterator[str]:
        yield by(self.chunks)
        if self.shards is not None:
            yield f"shards of {by(self.shards)}"

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "chunks", by(self.chunks)
        if self.shards is not None:
            yield "shards", by(self.shards)
        for access, now, then in zip(self.accesses, self.before, self.after, strict=True):
            yield access.name, f"{now.seconds:.3g} s now, {then.seconds:.3g} s then"


def suggest_chunks(
    shape: tuple[int, ...],
    itemsize: int,
    accesses: Sequence[AccessPattern],
    *,
    blocks: Blocks,
    device: Device,
    most_bytes: int = MOST_CHUNK,
) -> Suggestion:
    """Suggest chunks of at most `most_bytes` for an array that is read in these ways.

    Examples
    --------
    >>> from dask_io.geometry import Layout
    >>> from dask_io.planning.device import SSD
    >>> year = (8760, 720, 1440)
    >>> ways = [AccessPattern("time series", (8760, 1, 1)), AccessPattern("maps", (1, 720, 1440))]
    >>> maps = Blocks((24, 720, 1440), Layout.c(3), addressable=False)
    >>> suggest_chunks(year, 4, ways, blocks=maps, device=SSD).chunks
    (35, 120, 8)
    """
    shapes = _candidates(shape, itemsize, most_bytes)
    slowdown = np.zeros(len(shapes))
    total = np.zeros(len(shapes))
    at_once = _seconds_in_total(1.0, _READ_AT_ONCE, device)
    for access in accesses:
        seconds = np.maximum(_seconds(shape, shapes, access, itemsize, device), at_once)
        best = seconds.min()
        slowdown = np.maximum(slowdown, seconds / best)
        total += np.log(seconds / best)
    alike = np.flatnonzero(slowdown <= slowdown.min() * _ALIKE)
    # Of those, the best on average; of about equal ones, not a small one; of the others, the one
    # that is most like a cube.
    is_small = shapes[alike].prod(axis=1, dtype=float) * itemsize < _READ_AT_ONCE // 2
    order = np.lexsort((shapes[alike].sum(axis=1), is_small, total[alike].round(2)))
    chunks = tuple(map(int, shapes[alike[order[0]]]))

    def costs(blocks: Blocks) -> tuple[AccessCost, ...]:
        return tuple(access_cost(shape, itemsize, each, blocks, device) for each in accesses)

    def costs_in_chunks(chunks: tuple[int, ...]) -> tuple[AccessCost, ...]:
        return costs(Blocks(chunks, blocks.layout, addressable=False))

    others = (cube for side in _CUBES if (cube := _cube(shape, side)) != chunks)
    return Suggestion(
        chunks,
        _shards(shape, chunks, itemsize),
        tuple(accesses),
        costs(blocks),
        costs_in_chunks(chunks),
        cubes=tuple(Alternative(cube, costs_in_chunks(cube)) for cube in dict.fromkeys(others)),
    )


def _cube(shape: tuple[int, ...], side: int) -> tuple[int, ...]:
    """Return a cube along the last three axes, as far as the array is long enough.

    Examples
    --------
    >>> _cube((2, 40, 900, 900), 64)
    (1, 40, 64, 64)
    """
    first = max(0, len(shape) - 3)
    return tuple(min(side, n) if axis >= first else 1 for axis, n in enumerate(shape))


def access_cost(
    shape: tuple[int, ...], itemsize: int, access: AccessPattern, blocks: Blocks, device: Device
) -> AccessCost:
    """Return what an access costs on average, at an arbitrary position.

    Examples
    --------
    >>> from dask_io.geometry import Layout
    >>> from dask_io.planning.device import SSD
    >>> slices = Blocks((1, 100, 100), Layout.c(3), addressable=False)
    >>> cost = access_cost((50, 100, 100), 2, AccessPattern("column", (50, 1, 1)), slices, SSD)
    >>> cost.requests, cost.n_bytes
    (50.0, 1000000.0)
    """
    touched = [
        float(_touched(*each)) for each in zip(access.extent, blocks.shape, shape, strict=True)
    ]
    openings = prod(touched)
    if blocks.addressable:
        requests = openings * _runs_in_block(access.extent, blocks, touched)
        n_bytes = float(prod(access.extent) * itemsize)
    else:
        requests, n_bytes = openings, openings * prod(blocks.shape) * itemsize
    seconds = requests * device.seconds_per_seek + n_bytes / device.read_bandwidth
    seconds += openings * (device.request_latency / device.concurrency + SECONDS_PER_OPENING)
    return AccessCost(requests, n_bytes, seconds)


def _touched(extent: Any, chunk: Any, length: Any) -> NDArray[np.float64]:
    """Return how many chunks a range touches along an axis, on average over all its positions.

    Of `length - extent + 1` positions, a boundary between chunks is crossed by `extent - 1`, and by
    fewer if it is near an end of the axis. All arguments may be arrays.
    """
    n_ends, crossing, n_starts = -(-length // chunk) - 1, extent - 1, length - extent + 1
    # Boundaries near the start, where some of the positions would be negative.
    first = np.minimum(np.maximum((crossing - 1) // chunk, 0), n_ends)
    missing = first * crossing - chunk * first * (first + 1) / 2
    # Boundaries near the end, where some of the positions would exceed the axis.
    last = np.minimum(n_starts // chunk, n_ends)
    missing = missing + chunk * (n_ends * (n_ends + 1.0) - last * (last + 1.0)) / 2
    missing = missing - (n_ends - last) * n_starts
    return np.asarray(1 + (n_ends * crossing - missing) / n_starts)


def _runs_in_block(extent: tuple[int, ...], blocks: Blocks, touched: Sequence[float]) -> float:
    """Return the runs of the part of an access that lies in one block."""
    runs, is_whole = 1.0, True
    for axis in reversed(blocks.layout.axes):
        part = min(extent[axis] / touched[axis], blocks.shape[axis])
        if not is_whole:
            runs *= max(part, 1.0)
        is_whole = is_whole and part >= blocks.shape[axis]
    return runs


def _seconds(
    shape: tuple[int, ...],
    shapes: NDArray[np.int64],
    access: AccessPattern,
    itemsize: int,
    device: Device,
) -> NDArray[np.float64]:
    """Return `access_cost` in seconds for many shapes of chunks at once."""
    # As floats, because the products for large sparse arrays exceed 64 bits.
    touched = _touched(np.array(access.extent, float), shapes.astype(float), np.array(shape, float))
    requests: NDArray[np.float64] = touched.prod(axis=1)
    n_bytes = requests * shapes.prod(axis=1, dtype=float) * itemsize
    return np.asarray(_seconds_in_total(requests, n_bytes, device))


def _seconds_in_total(requests: Any, n_bytes: Any, device: Device) -> Any:
    """Return the time of reading whole chunks. Both arguments may be arrays."""
    waiting = device.seconds_per_seek + device.request_latency / device.concurrency
    return requests * (waiting + SECONDS_PER_OPENING) + n_bytes / device.read_bandwidth


def _candidates(shape: tuple[int, ...], itemsize: int, most_bytes: int) -> NDArray[np.int64]:
    """Return the shapes that are compared, as rows."""
    n_cut = sum(length > 1 for length in shape)
    most_lengths = int(_MOST_SHAPES ** (1 / max(n_cut, 1)))
    lengths = [_lengths(length, most_lengths) for length in shape]
    grids = np.meshgrid(*lengths, indexing="ij")
    shapes = np.stack([grid.ravel() for grid in grids], axis=1)
    n_bytes = shapes.prod(axis=1, dtype=float) * itemsize
    # Small arrays, and small limits, allow smaller chunks.
    least = min(LEAST_CHUNK, most_bytes // 2, prod(shape) * itemsize)
    fitting = shapes[(n_bytes <= most_bytes) & (n_bytes >= least)]
    return fitting if len(fitting) else np.array([_halved(shape, most_bytes // itemsize)])


def _halved(shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Halve the longest axis until there are at most so many elements, or only one.

    Examples
    --------
    >>> _halved((100, 3, 50), 1000)
    (13, 3, 25)
    """
    lengths = list(shape)
    while prod(lengths) > max(most, 1):
        longest = lengths.index(max(lengths))
        lengths[longest] = ceil(lengths[longest] / 2)
    return tuple(lengths)


def _lengths(length: int, most: int) -> list[int]:
    """Return fractions of an axis from all of it to one element, evenly spaced if there are many.

    Examples
    --------
    >>> _lengths(100, 50), _lengths(100, 4)
    ([100, 50, 34, 25, 17, 13, 9, 7, 5, 4, 3, 2, 1], [100, 17, 5, 1])
    """
    found: list[int] = []
    for parts in _growing():
        each = ceil(length / parts)
        if each not in found:
            found.append(each)
        if each == 1:
            break
    if len(found) <= most:
        return found
    return [found[int(place)] for place in np.linspace(0, len(found) - 1, most)]


def _growing() -> Iterator[int]:
    """Yield numbers of parts that roughly double: 1, 2, 3, 4, 6, 8, 12, 16, 24, ..."""
    yield 1
    for power in count(1):
        yield 2**power
        yield 3 * 2 ** (power - 1)


def _shards(
    shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int
) -> tuple[int, ...] | None:
    """Return shards of chunks if there would be too many files, grown evenly along all axes."""
    if prod(map(_n_cells, shape, chunks)) <= MOST_FILES:
        return None
    n_chunks, n_in_shard = list(map(_n_cells, shape, chunks)), [1] * len(shape)
    while 2 * prod(n_in_shard) * prod(chunks) * itemsize <= _SHARD:
        growing = [axis for axis, most in enumerate(n_chunks) if n_in_shard[axis] < most]
        if not growing:
            break
        axis = min(growing, key=n_in_shard.__getitem__)
        n_in_shard[axis] = min(2 * n_in_shard[axis], n_chunks[axis])
    return tuple(n * chunk for n, chunk in zip(n_in_shard, chunks, strict=True))


def _n_cells(length: int, chunk: int) -> int:
    return -(-length // chunk)
