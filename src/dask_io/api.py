"""The verbs: what the command line and Python programs call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from dask_io.engine.machine import available_memory, usable_cores
from dask_io.engine.preflight import check_space
from dask_io.engine.run import Progress, RunResult, run_plan
from dask_io.engine.staging import comparison_slab, staging_for
from dask_io.engine.verify import Verification, verify_plan
from dask_io.errors import DataError, InterruptedRunError, UsageError
from dask_io.geometry import Grid, Layout
from dask_io.geometry.chunks import normalize_chunks
from dask_io.planning import Plan, Problem, Side, plan_with
from dask_io.stores.array import BlockArray
from dask_io.stores.registry import check_places, make_target, open_source
from dask_io.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from typing import Unpack

    from dask.delayed import Delayed
    from numpy.typing import DTypeLike

    from dask_io.geometry.chunks import Chunks
    from dask_io.stores.store import Source, Target

    Place = str | PathLike[str] | BlockArray

__all__ = [
    "BlockArray",
    "Info",
    "Job",
    "Progress",
    "RunResult",
    "Verification",
    "info",
    "merge",
    "open",
    "plan",
    "plan_shape",
    "resplit",
    "split",
    "verify",
]

# Threads wait for the disk most of the time, so a few more than there are cores.
_FEWEST_WORKERS, _MOST_WORKERS = 4, 8


class Options(TypedDict, total=False):
    """What `plan` and the verbs that run a plan have in common.

    Attributes
    ----------
    memory
        The budget: bytes, or text such as ``"4GiB"``. Half of what is available by default.
    strategy
        ``"auto"``, ``"keep"`` or ``"naive"``.
    format
        Format of the target's blocks, ``"npy"`` or ``"raw"``; by default what the target's
        name says, else the source's.
    order
        How elements lie in the target's blocks, ``"C"`` or ``"F"``; by default as in the source's.
    workers
        Number of threads at the most.
    overwrite
        Replace a target that is there already.
    check
        Look at every block's header before planning.
    """

    memory: int | str | None
    strategy: str
    format: str | None
    order: str | None
    workers: int | None
    overwrite: bool
    check: bool


@dataclass(frozen=True)
class Job:
    """A plan with its source and, if one was named, its target; nothing has been moved yet.

    `plan` is the pure plan: what it will cost in seeks, bytes and memory. `run` carries it out.
    """

    plan: Plan
    source: Source
    target: Target | None
    workers: int

    def run(
        self, *, verify: bool = False, on_progress: Callable[[Progress], None] | None = None
    ) -> RunResult:
        """Carry the plan out.

        Parameters
        ----------
        verify
            Read the target back afterwards and compare it with the source.
        on_progress
            Called now and then, from any thread, with how far the run has come.

        Raises
        ------
        DataError
            If blocks of the source turn out wrong, or verification finds a difference.
        StorageError
            If the disk is full, a file cannot be read or written, and the like.
        InterruptedRunError
            If the run is stopped from outside.
        """
        target = self.target
        if target is None:
            message = "this job has no target: name one when planning it"
            raise UsageError(message)
        check_space(target)
        try:
            result = run_plan(
                self.plan, self.source, target, workers=self.workers, on_progress=on_progress
            )
            if not verify:
                return result
            found = _verify(self.source, _reopen(target), self.plan.problem.budget, self.workers)
        except KeyboardInterrupt:
            raise InterruptedRunError(target.place) from None
        if found.first_difference is not None:
            differs = f"differs from {self.source.place} at {found.first_difference}"
            raise DataError(target.place, [differs], "the disk or the memory may be faulty")
        return replace(result, verified=True)

    def __str__(self) -> str:
        places = [self.source.place, *([self.target.place] if self.target else [])]
        return f"{' to '.join(places)}\n{self.plan}"


@dataclass(frozen=True, slots=True)
class Info:
    """What a store says about itself."""

    place: str
    format: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grid: Grid
    order: str
    n_bytes: int
    n_bytes_on_disk: int


def open(  # noqa: A001  # the public name, as in `h5py` or `zarr`
    path: str | PathLike[str],
    *,
    format: str | None = None,  # noqa: A002  # the word of the contract
    shape: Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    chunks: Chunks | None = None,
    order: str | None = None,
) -> BlockArray:
    """Open an array in blocks for reading; nothing but headers is read yet.

    Parameters
    ----------
    path
        One file, a directory of blocks, or a pattern such as ``"blocks/b_{0}_{1}.npy"``.
    format, shape, dtype, chunks, order
        What raw files do not say about themselves.

    Returns
    -------
    BlockArray
        Something with a shape, a dtype and chunks that can be indexed, and passed to the
        other verbs or to ``dask.array.from_array``.
    """
    return BlockArray(
        open_source(path, format=format, shape=shape, dtype=dtype, chunks=chunks, order=order)
    )


def open_one_file(source: Place) -> BlockArray:
    """Open what `split` takes: an array that is one block.

    Raises
    ------
    UsageError
        If it is in several.
    """
    array = BlockArray(_source(source))
    n_blocks = array.source.grid.n_blocks
    if n_blocks > 1:
        place = array.source.place
        message = f"split takes one file, but {place} has {n_blocks} blocks; use resplit"
        raise UsageError(message)
    return array


def info(source: Place) -> Info:
    """Tell what a store says about itself."""
    store = _source(source)
    return Info(
        place=store.place,
        format=store.format,
        shape=store.grid.shape,
        dtype=store.dtype,
        grid=store.grid,
        order=store.layout.name,
        n_bytes=store.grid.size * store.dtype.itemsize,
        n_bytes_on_disk=store.n_bytes_on_disk,
    )


def plan(
    source: Place,
    target: str | PathLike[str] | None = None,
    *,
    chunks: Chunks,
    **options: Unpack[Options],
) -> Job:
    """Plan how to move an array to blocks of another shape, and what that will cost.

    Parameters
    ----------
    source
        A path, or what `open` returned.
    target
        Where the blocks go; may be left out to see only the plan.
    chunks
        The target's blocks, as in Dask: integers, ``-1``, ``"auto"``, tuples, or a dict by axis.
    **options
        See `Options`.

    Raises
    ------
    BudgetTooSmallError
        If no plan fits the memory; it names the smallest budget that would do.
    """
    store = _source(source)
    if options.get("check", False):
        store.check()
    grid = normalize_chunks(chunks, store.grid.shape, store.dtype.itemsize, like=store.grid)
    layout = store.layout
    if (order := options.get("order")) is not None:
        layout = Layout.named(order, len(grid.axes))
    made = None
    if target is not None:
        made = make_target(
            target,
            format=options.get("format"),
            like=store.format,
            grid=grid,
            dtype=store.dtype,
            layout=layout,
            overwrite=options.get("overwrite", False),
        )
        check_places(store, made)
    problem = _problem(
        _side(store),
        Side(grid, layout, made.format if made else options.get("format") or store.format),
        store.dtype,
        **options,
    )
    workers = _workers(options.get("workers"))
    return Job(plan_with(options.get("strategy", "auto"), problem), store, made, workers)


def plan_shape(
    shape: Sequence[int],
    dtype: DTypeLike,
    source_chunks: Chunks,
    target_chunks: Chunks,
    **options: Unpack[Options],
) -> Plan:
    """Plan for an array that need not exist: raw blocks, in C order unless said otherwise.

    Examples
    --------
    >>> plan = plan_shape((3500,) * 3, "float16", 350, 500, memory="4GB")
    >>> plan.problem.lower_bound, plan.fits
    (1343, True)
    """
    kind = np.dtype(dtype)
    source = normalize_chunks(source_chunks, tuple(shape), kind.itemsize)
    target = normalize_chunks(target_chunks, tuple(shape), kind.itemsize, like=source)
    stored = Layout.c(len(source.axes))
    wanted = Layout.named(options.get("order") or "C", len(source.axes))
    problem = _problem(Side(source, stored), Side(target, wanted), kind, **options)
    return plan_with(options.get("strategy", "auto"), problem)


def resplit(
    source: Place,
    target: str | PathLike[str],
    *,
    chunks: Chunks,
    compute: bool = True,
    verify: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Move an array to blocks of another shape, within a memory budget.

    Parameters
    ----------
    source
        A path, or what `open` returned.
    target
        Where the blocks go.
    chunks
        The target's blocks, as in Dask: integers, ``-1``, ``"auto"``, tuples, or a dict by axis.
    compute
        Run now; if False, return a Dask `Delayed` that will.
    verify
        Read the target back afterwards and compare it with the source.
    on_progress
        Called now and then, from any thread, with how far the run has come.
    **options
        See `Options`.
    """
    run = plan(source, target, chunks=chunks, **options).run
    if compute:
        return run(verify=verify, on_progress=on_progress)
    from dask.delayed import delayed  # noqa: PLC0415  # half a second, needed by few

    later: Delayed = delayed(run, pure=False)(verify=verify, on_progress=on_progress)
    return later


def split(
    source: Place,
    target: str | PathLike[str],
    *,
    chunks: Chunks,
    compute: bool = True,
    verify: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Cut one file into blocks; otherwise as `resplit`."""
    return resplit(
        open_one_file(source),
        target,
        chunks=chunks,
        compute=compute,
        verify=verify,
        on_progress=on_progress,
        **options,
    )


def merge(
    source: Place,
    target: str | PathLike[str],
    *,
    compute: bool = True,
    verify: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Put all blocks into one file; otherwise as `resplit`."""
    return resplit(
        source,
        target,
        chunks=-1,
        compute=compute,
        verify=verify,
        on_progress=on_progress,
        **options,
    )


def verify(
    a: Place,
    b: Place,
    *,
    memory: int | str | None = None,
    workers: int | None = None,
) -> Verification:
    """Compare two arrays, whatever blocks they are in, within a memory budget.

    Elements of one type are compared by their bits, of different types by their values, a NaN
    being equal to a NaN.

    Raises
    ------
    DataError
        If the shapes differ.
    """
    return _verify(_source(a), _source(b), _memory(memory), _workers(workers))


def _verify(a: Source, b: Source, memory: int, workers: int) -> Verification:
    if a.grid.shape != b.grid.shape:
        shapes = f"has shape {b.grid.shape}, but {a.place} has {a.grid.shape}"
        raise DataError(b.place, [shapes])
    slab = comparison_slab(memory, b.dtype.itemsize, workers)
    problem = _problem(
        _side(a), _side(b), a.dtype, memory=max(1, memory - workers * slab), workers=workers
    )
    return verify_plan(plan_with("auto", problem), a, b, workers=workers, slab=slab)


def _source(place: Place) -> Source:
    return place.source if isinstance(place, BlockArray) else open_source(place)


def _side(store: Source) -> Side:
    return Side(store.grid, store.layout, store.format)


def _reopen(target: Target) -> Source:
    return open_source(
        target.place,
        format=target.format,
        shape=target.grid.shape,
        dtype=target.dtype,
        order=target.layout.name,
    )


def _problem(
    source: Side, target: Side, dtype: np.dtype[Any], **options: Unpack[Options]
) -> Problem:
    budget = _memory(options.get("memory"))
    workers = _workers(options.get("workers"))
    return Problem(source, target, dtype, budget, staging_for(target, dtype, workers))


def _memory(memory: int | str | None) -> int:
    if memory is None:
        return max(1, available_memory() // 2)
    try:
        return parse_bytes(memory)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _workers(workers: int | None) -> int:
    if workers is None:
        return min(max(_FEWEST_WORKERS, usable_cores()), _MOST_WORKERS)
    if workers < 1:
        message = f"at least one worker is needed, not {workers}"
        raise UsageError(message)
    return workers
