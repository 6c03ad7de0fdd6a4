"""Dask arrays from what we can open, and into what we can write."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from xxhash import xxh3_64_intdigest

from dask_io.api import open as open_blocks
from dask_io.api import start
from dask_io.errors import UsageError
from dask_io.geometry import Layout
from dask_io.graph.carried import MadeReader
from dask_io.graph.match import DeclinedError
from dask_io.graph.matchers.hlg import find_array
from dask_io.graph.matchers.layers import grid_of
from dask_io.graph.work import worked_source
from dask_io.jobs.planning import RequestedTarget, plan_one
from dask_io.jobs.settings import Settings
from dask_io.storage.tally import Tally
from dask_io.stores.array_like import BlockArray
from dask_io.stores.store import Access, SourceDefaults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from os import PathLike
    from typing import Unpack

    from dask.delayed import Delayed
    from numpy.typing import NDArray

    from dask_io.api import Place, Progress, RunResult
    from dask_io.geometry import Grid, Region
    from dask_io.geometry.chunks import Chunks
    from dask_io.jobs.settings import Options
    from dask_io.stores.store import BlockReader, Source


def from_blocks(place: Place, *, chunks: Any = None, **description: Any) -> da.Array:
    """Make a Dask array of anything that `dask_io.open` opens.

    Parameters
    ----------
    place
        A path, or what `dask_io.open` returned.
    chunks
        Chunks of the array, as Dask takes them; by default the blocks as they are stored.
    **description
        What `dask_io.open` takes besides: ``format``, ``shape``, ``dtype`` and so on. Raw files of
        several blocks are opened before, since their chunks have to be said.
    """
    array = place if isinstance(place, BlockArray) else open_blocks(place, **description)
    name = f"from-blocks-{tokenize(array, chunks)}"
    made: da.Array = da.from_array(array, chunks=chunks or array.chunks, name=name)  # type: ignore[no-untyped-call]
    return made


def store(
    array: da.Array,
    target: str | PathLike[str],
    *,
    chunks: Chunks | None = None,
    compute: bool = True,
    verify: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Write a Dask array to any format that we can write, each block once, within a budget.

    An array that only reads, rechunks and works on blocks goes from where it is stored to the
    target by one plan. Of any other one, Dask computes a chunk at a time, in the order of the plan:
    what chunks have in common is best made before, with `dask.persist`.

    Parameters
    ----------
    array
        The array.
    target
        Where it goes, as in `dask_io.resplit`.
    chunks
        The target's blocks; by default those of the array.
    compute, verify, on_progress, **options
        As in `dask_io.resplit`.
    """
    settings = Settings.of(**options)
    if settings.region is not None or settings.consume:
        raise UsageError("a Dask array is stored as a whole, and stays; slice it before")
    source = _source_of(array)
    wanted = RequestedTarget(
        target, array.chunks if chunks is None else chunks, *settings.orders(1)
    )
    job = plan_one(source, wanted, settings)
    return start(job, compute=compute, verify=verify, on_progress=on_progress)


def _refuse_masked(array: Any) -> None:
    """Refuse what is masked: no target would know which values are none."""
    if isinstance(array, np.ma.MaskedArray):
        raise UsageError(
            "a masked array cannot be stored with its mask; fill it before, as in "
            "dask.array.ma.filled(array, value)"
        )


def _source_of(array: da.Array) -> Source:
    _refuse_masked(array._meta)  # noqa: SLF001 - what its blocks are like
    try:
        chunks = grid_of(array.chunks)
    except DeclinedError as declined:
        raise UsageError(f"a Dask array cannot be stored: {declined}") from declined
    try:
        reading = find_array(array.dask, array.name)
        return worked_source(reading) if reading.chunks == chunks else ComputedSource(array)
    except DeclinedError:
        return ComputedSource(array)


@dataclass(frozen=True)
class ComputedSource(SourceDefaults):
    """A Dask array as a source: a block is computed when it is visited.

    `codec_bytes` counts a block. What Dask holds to compute it is Dask's.
    """

    array: Any

    @property
    def place(self) -> str:
        """The array's name."""
        return str(self.array.name)

    @property
    def format(self) -> str:
        """What is said in place of a format."""
        return "dask"

    @cached_property
    def grid(self) -> Grid:
        """The array's chunks."""
        return grid_of(self.array.chunks)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        found: np.dtype[Any] = np.dtype(self.array.dtype)
        return found

    @property
    def layout(self) -> Layout:
        """Blocks lie in C order."""
        return Layout.c(self.array.ndim)

    @property
    def access(self) -> Access:
        """A part of a block costs all of it."""
        return Access.ATOMIC

    @property
    def reused_bytes(self) -> int:
        """A block is made in memory of Dask's."""
        return 0

    @property
    def codec_bytes(self) -> int:
        """A block."""
        return prod(self.grid.longest) * self.dtype.itemsize

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Nothing else is known."""
        return {}

    @cached_property
    def tally(self) -> Tally:
        """Nothing is moved from any store."""
        return Tally()

    @property
    def n_bytes_on_disk(self) -> int:
        """Nothing is stored."""
        return 0

    def describe(self) -> dict[str, Any]:
        """Say that it cannot be opened again."""
        return {"format": self.format, "shape": list(self.grid.shape)}

    @contextmanager
    def reader(
        self,
        index: tuple[int, ...],
        *,
        after: Region | None = None,  # noqa: ARG002 - blocks are not shared between threads
    ) -> Iterator[BlockReader]:
        """Visit a block."""
        yield MadeReader(partial(self.compute, index), self.dtype, self.layout)

    def compute(self, index: tuple[int, ...]) -> NDArray[Any]:
        """Have Dask make a block."""
        made = self.array.blocks[index].compute()
        _refuse_masked(made)
        return np.asarray(made, self.dtype)

    def check(self) -> None:
        """There is nothing to look at."""

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when the array does."""
        return xxh3_64_intdigest(f"{self.array.name}\0{index}".encode())

    def discard(self, index: tuple[int, ...]) -> None:
        """There is nothing to remove."""

    def discard_rest(self) -> None:
        """There is nothing to remove."""
