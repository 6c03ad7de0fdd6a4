"""Read ends that the sweep strategy chooses from along one axis, whatever the budget."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from dask_io.planning.sweep.choices import (
    Choice,
    choice_by_segments,
    divide,
    read_between,
    read_elements,
    read_source_blocks,
    read_target_blocks,
    read_whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dask_io.planning.reads import ReadRun
    from dask_io.planning.sweep.segments import AxisPair, Segment

# Numbers of source blocks to read at a time along an axis with too many boundaries to list.
_MANY_BLOCKS = (1, 2, 4, 16, 256)
# Numbers of parts between neighbouring boundaries, and the most boundaries for that to pay.
_PARTS = (1, 2, 4, 16)
_FEW_BOUNDARIES = 64


def whole_choices(pair: AxisPair, most: int) -> tuple[Choice, ...]:
    """Return ends that cut no block, all kept: at source boundaries with small remainders.

    About `most` limits for the remainder, and as many numbers of source blocks between ends,
    each counted from the last common boundary.
    """
    segments = pair.segments
    if segments is None:
        return _distinct([read_source_blocks(pair, 1, keep=True), read_whole(pair)])
    remainders = sorted({left for each in segments for left in _remainders(each).values()})
    longest = max(len(each.source) for each in segments)
    patterns: list[Callable[[Segment], Iterable[ReadRun]]] = [
        partial(_read_to_small_remainders, limit=limit)
        for limit in (-1, *_spread(remainders, most))
    ]
    patterns += [
        partial(_read_blocks_and_keep, n_blocks=n_blocks)
        for n_blocks in _spread(range(2, longest + 1), most)
    ]
    # The finest ends are one run on a regular axis, however long.
    patterns.append(partial(_read_blocks, side="source", n_blocks=1, keep=True))
    return _distinct(choice_by_segments(pair, segments, reads_of) for reads_of in patterns)


def cut_choices(pair: AxisPair, most: int) -> tuple[Choice, ...]:
    """Return ends that cut blocks of one side or both.

    Whole blocks of the target, kept; whole blocks of the source, flushed; about `most` numbers
    of either at a time. And parts between boundaries, down to single elements.
    """
    segments = pair.segments
    if segments is None:
        flushed = (read_source_blocks(pair, n, keep=False) for n in _MANY_BLOCKS)
        return _distinct([read_target_blocks(pair), *flushed, read_elements(pair)])
    patterns: list[Callable[[Segment], Iterable[ReadRun]]] = []
    for side, keep in (("target", True), ("source", False)):
        longest = max(len(getattr(each, side)) for each in segments)
        patterns += [
            partial(_read_blocks, side=side, n_blocks=n_blocks, keep=keep)
            for n_blocks in _spread(range(1, longest + 1), most)
        ]
    if all(len(each.source) + len(each.target) < _FEW_BOUNDARIES for each in segments):
        patterns += [partial(_read_parts, n_parts=n_parts) for n_parts in _PARTS]
    found = (choice_by_segments(pair, segments, reads_of) for reads_of in patterns)
    return _distinct([*found, read_elements(pair)])


def flushed_choices(pair: AxisPair) -> tuple[Choice, Choice, Choice, Choice]:
    """Return ways to carry nothing: at the source's blocks, the target's, both, at elements.

    Where one of them is too long to write down, elements take its place.
    """
    segments, elements = pair.segments, read_elements(pair)
    if segments is None:
        return read_source_blocks(pair, 1, keep=False), elements, elements, elements
    at_source, at_target, at_both = (
        choice_by_segments(pair, segments, reads_of) or elements
        for reads_of in (
            partial(_read_blocks, side="source", n_blocks=1, keep=False),
            partial(_read_blocks, side="target", n_blocks=1, keep=False),
            partial(_read_parts, n_parts=1),
        )
    )
    return at_source, at_target, at_both, elements


def finest_kept(pair: AxisPair) -> Choice | None:
    """Return ends at every boundary of either side, all kept; None if they are too many."""
    if pair.segments is None:
        return None
    return choice_by_segments(pair, pair.segments, _read_to_boundaries)


def _remainders(segment: Segment) -> dict[int, int]:
    """Return what is left over at each source boundary, since the target boundary before."""
    return {at: at - segment.target_floor(at) for at in segment.source}


def _read_to_small_remainders(segment: Segment, limit: int) -> list[ReadRun]:
    return _read_usefully(
        segment, [at for at, left in _remainders(segment).items() if left <= limit]
    )


def _read_blocks_and_keep(segment: Segment, n_blocks: int) -> list[ReadRun]:
    return _read_usefully(segment, segment.source[n_blocks - 1 :: n_blocks])


def _read_usefully(segment: Segment, ends: Sequence[int]) -> list[ReadRun]:
    """Drop kept ends before which nothing completes: joining two reads there costs nothing."""
    useful, done = [0], 0
    for end in ends:
        floor = segment.target_floor(end)
        if floor > done:
            useful.append(end)
            done = floor
    return read_between([*useful, segment.length], keep=True)


def _read_blocks(segment: Segment, side: str, n_blocks: int, *, keep: bool) -> list[ReadRun]:
    ends = getattr(segment, side)[n_blocks - 1 :: n_blocks]
    return read_between([0, *ends, segment.length], keep=keep)


def _read_parts(segment: Segment, n_parts: int) -> list[ReadRun]:
    """Flush at every boundary of either side, and at even distances between them."""
    bounds = pairwise(segment.boundaries)
    return [run for low, high in bounds for run in divide(high - low, n_parts, keep=False)]


def _read_to_boundaries(segment: Segment) -> list[ReadRun]:
    return read_between(segment.boundaries, keep=True)


def _spread(values: Sequence[int], most: int) -> list[int]:
    """Pick about `most` of ascending values: the first few, the last, and some between."""
    if len(values) <= most:
        return list(values)
    even = {round(i * (len(values) - 1) / (most - 1)) for i in range(most)}
    return [values[i] for i in sorted({*even, *range(most // 3)})]


def _distinct(choices: Iterable[Choice | None]) -> tuple[Choice, ...]:
    return tuple({each.reads: each for each in choices if each is not None}.values())
