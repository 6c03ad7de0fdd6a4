"""Clustered reads for graphs that compute on an array and do not store it.

Neighbouring chunks are read together in a box, as large as memory allows. Each box is read in the
order of the stored data, and its chunks are handed to the tasks that need them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.engine.problem import side_of
from dask_io.geometry import Grid
from dask_io.graph.locks import distinct_locks, hold_locks
from dask_io.graph.match import DeclinedError
from dask_io.graph.plan_tasks import mapped_source
from dask_io.planning import read_cost, stretch
from dask_io.stores.staging import new_staging

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dask_io.geometry import Region
    from dask_io.graph.match import Reading
    from dask_io.graph.options import GraphOptions
    from dask_io.stores.store import Source

# One box is computed on while the next one is read.
_BOXES_IN_MEMORY = 2


@dataclass(frozen=True)
class ClusteredRead:
    """An array that is read in `boxes`, each of which contains whole `chunks`."""

    source: Source
    chunks: Grid
    boxes: Grid
    seeks: int
    dask_seeks: int
    locks: tuple[Any, ...] = ()

    def read(self, box: Region) -> list[NDArray[Any]]:
        """Return the chunks of a box, last axis fastest, reading every stored block once."""
        chunks = self.chunks.clipped(box)
        blocks = [
            np.empty(chunks.block(index).shape, self.source.dtype) for index in chunks.indices()
        ]
        with hold_locks(self.locks):
            for index, part in self.source.grid.pieces(box):
                values = self._read_part(index, part)
                for number, piece in chunks.pieces(part.relative_to(box.start)):
                    block = blocks[chunks.flat(number)]
                    inside = piece.relative_to(chunks.block(number).start)
                    copied = piece.shifted_by(box.start).relative_to(part.start)
                    block[inside.slices] = values[copied.slices]
        return blocks

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
        """Return the number of the box that contains a chunk, and the chunk's position in it."""
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
            f"with {self.seeks:,} seeks instead of {self.dask_seeks:,}"
        )


@dataclass(frozen=True)
class ReadBox:
    """A task that reads one box."""

    cluster: ClusteredRead
    box: Region

    def __call__(self) -> list[NDArray[Any]]:
        """Read the box."""
        return self.cluster.read(self.box)


def cluster_reading(reading: Reading, options: GraphOptions) -> ClusteredRead:
    """Choose the boxes in which an array is read.

    Raises
    ------
    DeclinedError
        If Dask alone needs no more seeks.
    """
    source = mapped_source(reading)
    itemsize = source.dtype.itemsize
    coding = source.reused_bytes + source.codec_bytes
    room = (options.memory // _BOXES_IN_MEMORY - coding) // itemsize
    boxes = Grid(stretch(reading.chunks.axes, source.layout, room))
    stored = side_of(reading.source)
    # A function is applied to whole chunks, so these are read and not the boxes.
    cut = reading.mapped_chunks.axes if reading.function else boxes.axes
    seeks, dask_seeks = read_cost(stored, cut), read_cost(stored, reading.read_chunks.axes)
    if seeks >= dask_seeks:
        raise DeclinedError(
            f"the array is only read, and Dask needs no more seeks than a plan ({dask_seeks:,}); "
            "if it is stored, explain the result of its store or to_zarr with compute=False"
        )
    locks = distinct_locks([reading.lock])
    return ClusteredRead(source, reading.chunks, boxes, seeks, dask_seeks, locks)
