"""Build the planning problem for two stores."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dask_io.codecs.cores import usable_cores
from dask_io.codecs.speed import seconds_to_decode, seconds_to_encode, slowdown_in_pieces
from dask_io.engine.commit import MOST_BYTES, MOST_CELLS
from dask_io.engine.staging import coding_bytes, slab_for, staging_for, staging_to_copy
from dask_io.errors import UsageError
from dask_io.planning import Coding, Lag, Problem, Side
from dask_io.stores.store import Access
from dask_io.stores.views import SourceView

if TYPE_CHECKING:
    import numpy as np

    from dask_io.stores.store import Store, Target


# At ten thousand blocks a second, this would take months.
_MOST_BLOCKS = 2**36


def side_of(store: Store) -> Side:
    """Return the side of a problem for a store.

    Raises
    ------
    UsageError
        If it has implausibly many blocks.
    """
    if store.grid.n_blocks > _MOST_BLOCKS:
        raise UsageError(
            f"{store.place} has {store.grid.n_blocks:,} blocks, which is implausibly "
            "many; use larger chunks, or check the shape in the source's metadata"
        )
    whole, region = store, None
    if isinstance(store, SourceView):
        whole, region = store.whole, store.region
    atomic = store.access is Access.ATOMIC
    described = (whole.grid, store.layout, store.format, region, atomic, store.codec_bytes)
    return Side(
        *described,
        whole.is_indivisible,
        reused_bytes=store.reused_bytes,
        coding=_coding_of(store),
        absent=store.n_absent,
        sequential=whole.is_sequential,
        chunks_in_blocks=_chunks_in_blocks(whole),
    )


def _chunks_in_blocks(store: Store) -> tuple[int, ...] | None:
    """Return the shape of the chunks in each block, if blocks are shards."""
    chunks, shards = (store.metadata.get(name) for name in ("chunks", "shards"))
    if not chunks or not shards:
        return None
    whole = tuple(map(min, shards, store.grid.shape))
    return tuple(chunks) if store.grid.longest == whole != tuple(chunks) else None


def side_in_pieces(target: Target) -> Side | None:
    """Return the side for a target that encodes blocks piece by piece, None if it cannot."""
    taken = target.piecewise
    if taken is None:
        return None
    side, slowdown = side_of(target), slowdown_in_pieces(target.metadata.get("codecs", ()))
    coding = side.coding._replace(encode=slowdown * side.coding.encode)
    return replace(side, coding=coding, **taken._asdict())


def _coding_of(store: Store) -> Coding:
    """Return the estimated coding time of a store with all cores at work."""
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
    """Return a problem with the staging that the engine needs.

    `stored` is the dtype of the source, if it may differ from `dtype`. If blocks can be copied
    verbatim, every thread needs `to_copy` bytes for this. `apart` tells that source and target are
    on different devices.
    """
    # Every thread may be committing a batch while the next batch fills.
    lag = Lag((workers + 1) * MOST_CELLS, (workers + 1) * MOST_BYTES) if consume else None
    coding = coding_bytes([source, target])
    slab = slab_for(source, target, max(dtype.itemsize, (stored or dtype).itemsize))
    staging = staging_for(
        target, dtype, workers, coding=coding, stored=stored, slab=slab, apart=apart
    )
    copied = None if to_copy is None else staging_to_copy(workers, to_copy)
    return Problem(source, target, dtype, memory, staging, lag, converted(stored, dtype), copied)


def converted(stored: np.dtype[Any] | None, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype of a source, None if it is not converted."""
    # For NumPy, None is a dtype.
    return None if stored is None or stored == dtype else stored
