"""What is to be done: one array, the blocks it has, the blocks it should have, a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dask_io.geometry import Grid, Layout

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Side:
    """Where the array is or goes: its blocks, and how elements lie in each of them."""

    grid: Grid
    layout: Layout
    format: str = "raw"

    def __post_init__(self) -> None:
        if len(self.layout.axes) != len(self.grid.axes):
            message = f"a layout of {len(self.layout.axes)} axes for {len(self.grid.axes)}"
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Staging:
    """Bytes the engine needs between file and array: what it can do with, what it would like."""

    minimum: int = 0
    preferred: int = 0


@dataclass(frozen=True)
class Problem:
    """Move an array of `dtype` from the source's blocks to the target's within `budget` bytes.

    Examples
    --------
    >>> problem = Problem.regular((10, 6), (4, 3), (5, 6), dtype="int16", budget=1000)
    >>> problem.shape, problem.itemsize, problem.lower_bound
    ((10, 6), 2, 8)
    """

    source: Side
    target: Side
    dtype: np.dtype[np.generic]
    budget: int
    staging: Staging = Staging()

    def __post_init__(self) -> None:
        if self.source.grid.shape != self.target.grid.shape:
            message = f"source {self.source.grid.shape} and target {self.target.grid.shape} differ"
            raise ValueError(message)

    @classmethod
    def regular(
        cls,
        shape: Sequence[int],
        source: Sequence[int],
        target: Sequence[int],
        *,
        dtype: str = "uint8",
        budget: int,
        staging: Staging = Staging(),
    ) -> Problem:
        """Make a problem of regular grids, both in C order."""
        layout = Layout.c(len(shape))
        return cls(
            Side(Grid.regular(shape, source), layout),
            Side(Grid.regular(shape, target), layout),
            np.dtype(dtype),
            budget,
            staging,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.source.grid.shape

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole array."""
        return prod(self.shape) * self.itemsize

    @property
    def lower_bound(self) -> int:
        """The fewest seeks possible: every block touched once."""
        return self.source.grid.n_blocks + self.target.grid.n_blocks

    @property
    def holdable(self) -> int:
        """Bytes that may be held once the engine has the least staging it can do with."""
        return self.budget - self.staging.minimum

    def within(self, budget: int) -> Problem:
        """Return the same problem with another budget."""
        return replace(self, budget=budget)
