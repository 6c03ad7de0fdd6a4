"""How much staging the engine asks for, and how threads share it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dask_io.codecs.cores import usable_cores
from dask_io.engine.staging import (
    coding_bytes,
    copying_slabs,
    share_staging,
    slab_for,
    staging_for,
    staging_to_copy,
)
from dask_io.geometry import Region
from dask_io.planning import Problem
from dask_io.stores.staging import SLAB


@given(
    length=st.integers(1, 10**12),
    chunk=st.integers(1, 10**9),
    itemsize=st.integers(1, 10**5),
    codec_bytes=st.sampled_from([0, 1, 10**4, 10**8]),
    reused_bytes=st.sampled_from([0, 1, 10**5, 10**7]),
    workers=st.integers(1, 64),
    wish=st.floats(0, 1),
)
def test_staging_is_shared_within_what_is_granted(
    *,
    length: int,
    chunk: int,
    itemsize: int,
    codec_bytes: int,
    reused_bytes: int,
    workers: int,
    wish: float,
) -> None:
    """Threads never get more than was granted together, and each enough for an element."""
    problem = Problem.regular((length,), (chunk,), (chunk,), dtype=f"V{itemsize}", budget=1)
    source = replace(problem.source, codec_bytes=codec_bytes, reused_bytes=reused_bytes // 2)
    target = replace(problem.target, codec_bytes=codec_bytes // 2, reused_bytes=reused_bytes)
    problem = replace(problem, source=source, target=target)
    coding = coding_bytes([source, target])
    slab = slab_for(source, target, itemsize)
    asked = staging_for(problem.target, problem.dtype, workers, coding=coding, slab=slab)
    assert 0 < asked.minimum <= asked.preferred

    granted = asked.minimum + int(wish * (asked.preferred - asked.minimum))
    share = share_staging(granted, [problem], workers)

    assert 1 <= share.n_workers <= workers
    assert share.codec_bytes == codec_bytes
    assert share.n_workers * (share.staging + codec_bytes) + share.behind == granted
    assert share.staging >= itemsize + 2 * 4096 + reused_bytes
    # More threads than cores are worth it only if each can move much at once, if blocks are long.
    if share.n_workers > usable_cores():
        assert share.staging - reused_bytes >= min(2**20, coding, slab)


@given(
    held=st.integers(0, 10**9),
    workers=st.integers(1, 64),
    wish=st.floats(0, 1),
)
def test_copies_stay_within_what_is_granted(held: int, workers: int, wish: float) -> None:
    """With what each thread holds besides its slab, which is never less than the smallest."""
    asked = staging_to_copy(workers, held)
    granted = asked.minimum + int(wish * (asked.preferred - asked.minimum))

    slabs = copying_slabs(granted, asked, workers)

    assert 1 <= len(slabs) <= workers
    assert sum(slabs) + len(slabs) * held <= granted
    assert min(slabs) >= 16 * 2**10


@given(
    chunk=st.integers(1, 10**9),
    n_chunks=st.integers(1, 100),
    workers=st.integers(1, 64),
)
def test_much_is_written_behind_only_if_another_device_is_read_meanwhile(
    chunk: int, n_chunks: int, workers: int
) -> None:
    """On one device it would wait in memory while reading waits for the device."""
    problem = Problem.regular((chunk * n_chunks,), (chunk,), (chunk,), dtype="u1", budget=1)
    here, apart = (
        staging_for(problem.target, problem.dtype, workers, apart=apart) for apart in (False, True)
    )
    assert here.threads == apart.threads
    assert here.preferred <= min(apart.preferred, here.threads + 64 * 2**20)
    if n_chunks >= 2 * workers and chunk >= 4 * 2**20:
        assert apart.preferred == apart.threads + workers * chunk


def test_what_goes_to_many_blocks_is_read_in_longer_slabs() -> None:
    """One file that is split into many blocks is; files that are merged, or coded, are not."""

    def problem_of(source: tuple[int, ...], target: tuple[int, ...]) -> Problem:
        return Problem.regular((1000, 1000, 1000), source, target, dtype="u2", budget=2**30)

    split = problem_of((1000, 1000, 1000), (100, 200, 200))
    merged = problem_of((100, 200, 200), (1000, 1000, 1000))
    coded = replace(split, source=replace(split.source, codec_bytes=10**6))

    slabs = [slab_for(each.source, each.target, 2) for each in (split, merged, coded)]

    assert slabs == [25 * 256 * 2**10, SLAB, SLAB]
    assert share_staging(10 * slabs[0], [split], 10).staging == slabs[0]
    assert share_staging(10 * slabs[0], [merged], 10).staging == SLAB


@given(
    source=st.integers(1, 10**7),
    target=st.integers(1, 10**7),
    itemsize=st.sampled_from([1, 8, 100]),
)
def test_a_slab_is_no_longer_than_blocks_fill(source: int, target: int, itemsize: int) -> None:
    """Memory that nothing would touch is not asked for, so what a plan predicts is used."""
    problem = Problem.regular((10**7,), (source,), (target,), dtype=f"V{itemsize}", budget=1)

    slab = slab_for(problem.source, problem.target, itemsize)

    block_bytes = itemsize * max(source, target)
    assert min(SLAB, block_bytes) <= slab <= max(SLAB, 12 * 2**20)
    assert slab <= 2 * block_bytes + 3 * 4096
    # Of a block that reaches out of a window, what lies beside it may be read too.
    within = replace(problem.source, window=Region((0,), (1,)))
    assert slab_for(within, problem.target, itemsize) == slab
