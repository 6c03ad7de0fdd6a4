"""Candidates for the read ends along one axis that do not depend on the budget."""

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

# Numbers of source blocks to read at once along an axis with too many boundaries to list.
_MANY_BLOCKS = (1, 2, 4, 16, 256)
# Numbers of parts between neighbouring boundaries, if there are fewer boundaries than this.
_PARTS = (1, 2, 4, 16)
_FEW_BOUNDARIES = 64


def whole_choices(pair: AxisPair, most: int) -> tuple[Choice, ...]:
    """Return kept ends that cut no block, at source boundaries with small remainders.

    These are about `most` limits for the remainder, and about `most` numbers of source blocks
    between ends, starting at each common boundary.
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
    # On a regular axis of any length, the finest ends are one run.
    patterns.append(partial(_read_blocks, side="source", n_blocks=1, keep=True))
    return _distinct(choice_by_segments(pair, segments, reads_of) for reads_of in patterns)


def cut_choices(pair: AxisPair, most: int) -> tuple[Choice, ...]:
    """Return ends that cut blocks of one or both sides.

    These read whole target blocks, kept, or whole source blocks, flushed, with about `most` numbers
    of blocks at a time; or parts between boundaries, down to single elements.
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
    """Return ends that carry nothing: at source blocks, at target blocks, at both, at elements.

    Ends with too many runs are replaced by ends at every element.
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
    """Return kept ends at every boundary of either side; None if there are too many."""
    if pair.segments is None:
        return None
    return choice_by_segments(pair, pair.segments, _read_to_boundaries)


def _remainders(segment: Segment) -> dict[int, int]:
    """Return the remainder at each source boundary: the distance to the last target boundary."""
    return {at: at - segment.target_floor(at) for at in segment.source}


def _read_to_small_remainders(segment: Segment, limit: int) -> list[ReadRun]:
    return _read_usefully(
        segment, [at for at, left in _remainders(segment).items() if left <= limit]
    )


def _read_blocks_and_keep(segment: Segment, n_blocks: int) -> list[ReadRun]:
    return _read_usefully(segment, segment.source[n_blocks - 1 :: n_blocks])


def _read_usefully(segment: Segment, ends: Sequence[int]) -> list[ReadRun]:
    """Drop kept ends that complete nothing, because joining the reads there costs nothing."""
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
    """Flush at every boundary of either side, and at equal distances between them."""
    bounds = pairwise(segment.boundaries)
    return [run for low, high in bounds for run in divide(high - low, n_parts, keep=False)]


def _read_to_boundaries(segment: Segment) -> list[ReadRun]:
    return read_between(segment.boundaries, keep=True)


def _spread(values: Sequence[int], most: int) -> list[int]:
    """Select about `most` of ascending values: the first few, the last, and some between."""
    if len(values) <= most:
        return list(values)
    even = {round(i * (len(values) - 1) / (most - 1)) for i in range(most)}
    return [values[i] for i in sorted({*even, *range(most // 3)})]


def _distinct(choices: Iterable[Choice | None]) -> tuple[Choice, ...]:
    return tuple({each.reads: each for each in choices if each is not None}.values())
