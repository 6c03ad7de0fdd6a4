"""Run a plan that copies blocks verbatim."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from dask_io.engine.crew import Crew
from dask_io.engine.memory import Buffers
from dask_io.engine.staging import copying_slabs
from dask_io.journal.ledger import NOTHING, Written
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.encoded import can_copy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.engine.commit import Outlet
    from dask_io.engine.run import Counter
    from dask_io.planning import CopyPlan
    from dask_io.stores.encoded import EncodedReader, EncodedSource, EncodedTarget
    from dask_io.stores.store import Source


class Copying(NamedTuple):
    """A plan that copies blocks, with its source and the outlet of its target."""

    plan: CopyPlan
    source: Source
    outlets: tuple[Outlet]

    def run(self, workers: int, counter: Counter) -> int:
        """Copy all blocks that are not durable yet, without holding array data."""
        (outlet,) = self.outlets
        requested, granted = self.plan.problem.copied, self.plan.staging_bytes
        assert requested is not None, "the plan was wrong"
        slabs = copying_slabs(granted, requested, workers)
        buffers = Buffers(sum(slabs))
        stagings = [buffers.lend(n_bytes) for n_bytes in slabs]
        with Crew(stagings, on_stop=lambda: None) as crew:
            for index in outlet.target.grid.indices():
                if outlet.ledger is None or not outlet.ledger.has_block(index):
                    crew.add(partial(self._copy, index, counter))
            crew.finish()
        return 0

    def _copy(self, index: tuple[int, ...], counter: Counter, staging: memoryview) -> None:
        (outlet,) = self.outlets
        assert can_copy(self.source, outlet.target), "the plan was wrong"
        source, target = cast("EncodedSource", self.source), cast("EncodedTarget", outlet.target)
        checksum = NOTHING
        with source.encoded(index) as stored:
            if stored is not None:
                pieces = _pieces(stored, staging)
                checksum = target.write_encoded(index, stored.n_bytes, pieces)
        block = outlet.target.grid.block(index)
        n_bytes = block.size * outlet.target.dtype.itemsize
        outlet.add(Written(index, block, checksum, is_last=True), n_bytes)
        counter.add_read(n_bytes)
        counter.add(n_bytes, True)  # noqa: FBT003 - a block is whole


def _pieces(stored: EncodedReader, staging: memoryview) -> Iterator[memoryview]:
    """Yield the bytes of a block, one staging buffer at a time."""
    # Multiples of the alignment can be written with direct I/O.
    largest = max(ALIGNMENT, (len(staging) - 2 * ALIGNMENT) // ALIGNMENT * ALIGNMENT)
    for start in range(0, stored.n_bytes, largest):
        yield stored.read(start, min(largest, stored.n_bytes - start), staging)
