"""Seven workloads: how an array is cut before and after."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import floor, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.geometry import Grid

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# Some 16,000 files of 64 x 64 x 64 bytes: more would measure the filesystem's directories.
_MOST_BYTES_IN_SMALL_BLOCKS = 4 * 2**30
_SMALLEST_SIZE = 2**20
_POOL_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Proportions:
    """The proportions of an array's lengths, and a divisor of each length."""

    lengths: tuple[int, int, int]
    multiples: tuple[int, int, int]

    def shape(self, n_elements: int) -> tuple[int, ...]:
        """Return the smallest shape near these proportions with at least `n_elements`."""
        scale = (n_elements / prod(self.lengths)) ** (1 / 3)
        ideal = [scale * a / b for a, b in zip(self.lengths, self.multiples, strict=True)]
        choices = product(*((max(1, floor(n)), floor(n) + 1) for n in ideal))
        shapes = [
            tuple(n * m for n, m in zip(choice, self.multiples, strict=True)) for choice in choices
        ]
        return min((shape for shape in shapes if prod(shape) >= n_elements), key=prod)


# Lengths that can be divided into ten, seven and fourteen blocks.
_CUBE = Proportions((1, 1, 1), (70, 70, 70))
_SMALL_BLOCKS = Proportions((1, 1, 1), (1, 1, 1))
_WEATHER = Proportions((8, 9, 18), (80, 8, 8))


@dataclass(frozen=True, slots=True)
class Blocks:
    """How an array is cut along each axis: the number of blocks, or their length."""

    count: tuple[int, int, int] | None = None
    length: int = 0

    def lengths(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the length of a block along each axis."""
        if self.count is None:
            return (self.length,) * len(shape)
        return tuple(length // n for length, n in zip(shape, self.count, strict=True))


_ONE = Blocks((1, 1, 1))


@dataclass(frozen=True, slots=True)
class Workload:
    """An array that is re-split."""

    name: str
    title: str
    dtype: str
    proportions: Proportions
    before: Blocks
    after: Blocks
    order: str = "C"
    most_of_cp: float = 0.8
    most_of_floor: float | None = None
    most_bytes: int | None = None

    def grids(self, size: int) -> tuple[Grid, Grid]:
        """Return the grids before and after, for an array of at least `size` bytes."""
        n_bytes = max(_SMALLEST_SIZE, min(size, self.most_bytes or size))
        shape = self.proportions.shape(-(-n_bytes // self.itemsize))
        before, after = (
            Grid.regular(shape, blocks.lengths(shape)) for blocks in (self.before, self.after)
        )
        return before, after

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.dtype).itemsize

    @property
    def source_key(self) -> tuple[Proportions, Blocks, str]:
        """A key that is equal for workloads with the same source."""
        return self.proportions, self.before, self.dtype


def _whole(name: str, title: str, before: Blocks, after: Blocks) -> Workload:
    return Workload(name, title, "<i2", _CUBE, before, after, most_of_cp=0.5, most_of_floor=1.2)


_TENTHS, _SEVENTHS = Blocks((10, 10, 10)), Blocks((7, 7, 7))

WORKLOADS = {
    workload.name: workload
    for workload in (
        _whole("a", "A/10 to A/7", _TENTHS, _SEVENTHS),
        _whole("b", "A/10 to A/14", _TENTHS, Blocks((14, 14, 14))),
        _whole("c", "one file to A/7", _ONE, _SEVENTHS),
        _whole("d", "A/10 to one file", _TENTHS, _ONE),
        Workload("e", "slabs to columns", "<f4", _WEATHER, Blocks((80, 1, 1)), Blocks((1, 8, 8))),
        Workload(
            "f",
            "64^3 to 100^3",
            "|u1",
            _SMALL_BLOCKS,
            Blocks(length=64),
            Blocks(length=100),
            most_bytes=_MOST_BYTES_IN_SMALL_BLOCKS,
        ),
        Workload("g", "A/10 C to A/7 F", "<i2", _CUBE, _TENTHS, _SEVENTHS, order="F"),
    )
}


def make_source(place: Path, grid: Grid, dtype: str) -> None:
    """Write an array block by block, in the format of `numpy.save`, with little memory.

    A single block is written to the file `place`, several blocks into the directory `place`.
    """
    fill = _Fill()
    if grid.n_blocks == 1:
        fill.write_block(place, grid.shape, dtype)
        return
    place.mkdir()
    for index in grid.indices():
        name = "_".join(map(str, ("b", *index)))
        fill.write_block(place / f"{name}.npy", grid.block(index).shape, dtype)


class _Fill:
    """Makes bytes that look random and never repeat, at memory speed.

    The highest bit of each byte is zero, so that floats made of them are finite.
    """

    _MASK = np.uint64(0x7F7F7F7F7F7F7F7F)

    def __init__(self) -> None:
        self._rng = np.random.default_rng(4)
        self._pool = self._words(_POOL_BYTES // 8)
        self._out = np.empty_like(self._pool)

    def _words(self, n_words: int) -> NDArray[np.uint64]:
        words = np.frombuffer(self._rng.bytes(8 * n_words), np.uint64)
        return np.asarray(words & self._MASK)

    def write_block(self, path: Path, shape: tuple[int, ...], dtype: str) -> None:
        header: dict[str, Any] = {"descr": dtype, "fortran_order": False, "shape": shape}
        missing = prod(shape) * np.dtype(dtype).itemsize
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            while missing:
                words = slice(-(-missing // 8))
                out = np.bitwise_xor(self._pool[words], self._words(1), out=self._out[words])
                missing -= file.write(out.view(np.uint8).data[:missing])
