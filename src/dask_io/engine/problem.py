"""From two stores to the problem that planning solves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dask_io.codecs.cores import usable_cores
from dask_io.codecs.speed import seconds_to_decode, seconds_to_encode, slowdown_in_pieces
from dask_io.engine.commit import MOST_BYTES, MOST_CELLS
from dask_io.engine.staging import coding_bytes, slab_for, staging_for, staging_to_copy
from dask_io.errors import UsageError, printable
from dask_io.planning import Coding, Lag, Problem, Side
from dask_io.stores.encoded import taken_in_pieces
from dask_io.stores.store import Access, Indivisible, absent_in
from dask_io.stores.views import SourceView

if TYPE_CHECKING:
    import numpy as np

    from dask_io.stores.store import Store


# At ten thousand a second they would take months; to plan for more takes long, and much memory.
_MOST_BLOCKS = 2**36


def side_of(store: Store) -> Side:
    """Return a store's side of a problem.

    Raises
    ------
    UsageError
        If it has absurdly many blocks.
    """
    if store.grid.n_blocks > _MOST_BLOCKS:
        raise UsageError(
            f"{printable(store.place)} has {store.grid.n_blocks:,} blocks, more than could ever be "
            "moved; use larger ones, or check what the source says of its shape"
        )
    whole, region = store, None
    if isinstance(store, SourceView):
        whole, region = store.whole, store.region
    atomic = store.access is Access.ATOMIC
    indivisible = isinstance(whole, Indivisible) and whole.is_indivisible
    described = (whole.grid, store.layout, store.format, region, atomic, store.codec_bytes)
    return Side(
        *described,
        indivisible,
        reused_bytes=store.reused_bytes,
        coding=_coding_of(store),
        absent=absent_in(store),
    )


def side_in_pieces(target: Store) -> Side | None:
    """Return a target's side if it encodes blocks piece by piece, None if it cannot."""
    taken = taken_in_pieces(target)
    if taken is None:
        return None
    side, slowdown = side_of(target), slowdown_in_pieces(target.metadata.get("codecs", ()))
    coding = side.coding._replace(encode=slowdown * side.coding.encode)
    return replace(side, coding=coding, **taken._asdict())


def _coding_of(store: Store) -> Coding:
    """Return how long a store's codecs take with all cores at work."""
    codecs, n_cores = store.metadata.get("codecs", ()), usable_cores()
    return Coding(seconds_to_decode(codecs) / n_cores, seconds_to_encode(codecs) / n_cores)


def make_problem(
    source: Side,
    target: Side,
    dtype: np.dtype[Any],
    *,
    memory: int,
    workers: int,
    consume: bool = False,
    stored: np.dtype[Any] | None = None,
    to_copy: int | None = None,
    apart: bool = False,
) -> Problem:
    """Put a problem together, with the staging that the engine asks for.

    `stored` is the type that elements have in the source, if it may be another one than `dtype`;
    if the target's blocks can be copied as they are stored, every thread needs `to_copy` bytes
    for that. `apart` says that source and target lie on two devices.
    """
    # Every thread may be about to commit a batch while another one fills.
    lag = Lag((workers + 1) * MOST_CELLS, (workers + 1) * MOST_BYTES) if consume else None
    coding = coding_bytes([source, target])
    slab = slab_for(source, target, max(dtype.itemsize, (stored or dtype).itemsize))
    staging = staging_for(
        target, dtype, workers, coding=coding, stored=stored, slab=slab, apart=apart
    )
    copied = None if to_copy is None else staging_to_copy(workers, to_copy)
    return Problem(source, target, dtype, memory, staging, lag, converted(stored, dtype), copied)


def converted(stored: np.dtype[Any] | None, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the type that elements have in a source, if they are converted to another one."""
    # To NumPy, None is a type too.
    return None if stored is None or stored == dtype else stored
