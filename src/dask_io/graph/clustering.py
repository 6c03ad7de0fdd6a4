"""Reading what is not stored but computed on: many blocks at a time, in the order of the disk.

Blocks that lie next to each other are read together, as much as memory allows, each stored block
once, and handed to the tasks that need them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.engine.problem import side_of
from dask_io.geometry import Grid
from dask_io.graph.locks import distinct_locks, holding
from dask_io.graph.match import DeclinedError
from dask_io.graph.work import worked_source
from dask_io.planning import read_cost, stretch
from dask_io.stores.staging import new_staging

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dask_io.geometry import Region
    from dask_io.graph.match import Reading
    from dask_io.graph.options import GraphOptions
    from dask_io.stores.store import Source

# While what was read is worked on, the next of it is read.
_AT_ONCE = 2


@dataclass(frozen=True)
class Cluster:
    """An array that is read in `boxes`, each of which holds whole `chunks`."""

    source: Source
    chunks: Grid
    boxes: Grid
    seeks: int
    seeks_of_dask: int
    locks: tuple[Any, ...] = ()

    def read(self, box: Region) -> list[NDArray[Any]]:
        """Read the chunks of a box, the last axis fastest; every stored block once."""
        chunks = self.chunks.clipped(box)
        made = [
            np.empty(chunks.block(index).shape, self.source.dtype) for index in chunks.indices()
        ]
        with holding(self.locks):
            for index, part in self.source.grid.pieces(box):
                values = self._read_part(index, part)
                for number, piece in chunks.pieces(part.relative_to(box.start)):
                    block = made[chunks.flat(number)]
                    inside = piece.relative_to(chunks.block(number).start)
                    taken = piece.shifted_by(box.start).relative_to(part.start)
                    block[inside.slices] = values[taken.slices]
        return made

    def _read_part(self, index: tuple[int, ...], part: Region) -> NDArray[Any]:
        source = self.source
        buffer = new_staging(source, part.size * source.dtype.itemsize)
        with source.reader(index) as reader:
            return reader.read_into(part.relative_to(source.grid.block(index).start), buffer)

    @cached_property
    def first_chunks(self) -> tuple[tuple[int, ...], ...]:
        """For each box along each axis, the number of its first chunk."""
        return tuple(
            tuple(chunk.index_at(box.start_of(number)) for number in range(box.n_blocks))
            for chunk, box in zip(self.chunks.axes, self.boxes.axes, strict=True)
        )

    def find(self, index: tuple[int, ...]) -> tuple[int, int]:
        """Return in which box a chunk is, and which of its chunks it is."""
        starts = self.chunks.block(index).start
        box = tuple(
            axis.index_at(start) for axis, start in zip(self.boxes.axes, starts, strict=True)
        )
        inside = self.chunks.clipped(self.boxes.block(box))
        first = (self.first_chunks[axis][number] for axis, number in enumerate(box))
        return self.boxes.flat(box), inside.flat([i - n for i, n in zip(index, first, strict=True)])

    def __str__(self) -> str:
        return (
            f"{self.source.place} is read in {self.boxes.n_blocks} boxes of up to {self.boxes}, "
            f"with {self.seeks:,} seeks instead of {self.seeks_of_dask:,}"
        )


@dataclass(frozen=True)
class ReadBox:
    """A task that reads one box."""

    cluster: Cluster
    box: Region

    def __call__(self) -> list[NDArray[Any]]:
        """Read it."""
        return self.cluster.read(self.box)


def cluster_reading(reading: Reading, options: GraphOptions) -> Cluster:
    """Choose the boxes in which an array is read.

    Raises
    ------
    DeclinedError
        If that is no better than what Dask does.
    """
    source = worked_source(reading)
    itemsize = source.dtype.itemsize
    coding = source.reused_bytes + source.codec_bytes
    room = (options.memory // _AT_ONCE - coding) // itemsize
    boxes = Grid(stretch(reading.chunks.axes, source.layout, room))
    stored = side_of(reading.source)
    # What is worked on is read as whole blocks, so it is these that are cut.
    cut = reading.worked.axes if reading.function else boxes.axes
    seeks, seeks_of_dask = read_cost(stored, cut), read_cost(stored, reading.read.axes)
    if seeks >= seeks_of_dask:
        raise DeclinedError(
            f"Dask reads it with {seeks_of_dask:,} seeks, and no fewer are possible"
        )
    locks = distinct_locks([reading.lock])
    return Cluster(source, reading.chunks, boxes, seeks, seeks_of_dask, locks)
