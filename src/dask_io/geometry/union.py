"""The union of several boxes of one block, as disjoint boxes."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from dask_io.geometry.region import Region

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.geometry.layout import Layout

# Start and stop along each axis, slowest axis first.
_Box: TypeAlias = tuple[tuple[int, int], ...]


def disjoint_boxes(boxes: Sequence[Region], layout: Layout, shape: tuple[int, ...]) -> list[Region]:
    """Divide the union of boxes of a block into disjoint boxes.

    Moving the result box by box, each in storage order, touches no more runs than the union has.
    It has as few boxes as this allows if the block is divided along its slowest axis first.

    Examples
    --------
    >>> from dask_io.geometry.layout import Layout
    >>> boxes = [Region((0, 0), (3, 4)), Region((1, 2), (4, 6))]
    >>> [str(box) for box in disjoint_boxes(boxes, Layout.c(2), (5, 9))]
    ['0:1,0:4', '1:3,0:6', '3:4,2:6']
    """
    stored = {tuple(box.bounds[axis] for axis in layout.axes) for box in boxes if box.size}
    lengths = tuple(shape[axis] for axis in layout.axes)
    return [
        Region.of(box[place] for place in layout.inverse) for box in _cut(sorted(stored), lengths)
    ]


def count_boxes_runs(boxes: Sequence[Region], layout: Layout, shape: tuple[int, ...]) -> int:
    """Count the runs of boxes that are moved in this order.

    A box that starts where the previous box ended continues its last run.

    Examples
    --------
    >>> from dask_io.geometry.layout import Layout
    >>> count_boxes_runs([Region((0, 0), (2, 4)), Region((2, 0), (4, 1))], Layout.c(2), (5, 4))
    2
    """
    strides = layout.strides(shape)
    runs, position = 0, -1
    for box in boxes:
        first, last = (
            sum(at * stride for at, stride in zip(corner, strides, strict=True))
            for corner in (box.start, tuple(high - 1 for high in box.stop))
        )
        runs += layout.count_runs(box, shape) - (first == position)
        position = last + 1
    return runs


def _cut(boxes: list[_Box], lengths: tuple[int, ...]) -> list[_Box]:
    """Divide boxes into bands along the slowest axis, then each band along the faster axes."""
    if len(boxes) <= 1:
        return boxes
    if len(lengths) == 1:
        return [(bounds,) for bounds in _merged([bounds for (bounds,) in boxes])]
    bands: list[tuple[int, int, list[_Box]]] = []
    ends = sorted({end for box in boxes for end in box[0]})
    for low, high in pairwise(ends):
        across = sorted({box[1:] for box in boxes if box[0][0] <= low and high <= box[0][1]})
        inside = _cut(across, lengths[1:])
        if bands and bands[-1][1:] == (low, inside):
            bands[-1] = (bands[-1][0], high, inside)
        elif inside:
            bands.append((low, high, inside))
    disjoint: list[_Box] = []
    for low, high, inside in bands:
        # Moving a band line by line saves seeks only if its boxes are contiguous in storage.
        step = 1 if len(inside) > 1 and _touch(inside, lengths[1:]) else high - low
        disjoint += [((at, at + step), *box) for at in range(low, high, step) for box in inside]
    return disjoint


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge sorted ranges that overlap or touch."""
    merged: list[tuple[int, int]] = []
    for low, high in ranges:
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def _touch(boxes: list[_Box], lengths: tuple[int, ...]) -> bool:
    """Whether a box starts where the previous one ends, or the first where the last ends."""
    strides = [prod(lengths[place + 1 :]) for place in range(len(lengths))]
    firsts = [sum(low * n for (low, _), n in zip(box, strides, strict=True)) for box in boxes]
    ends = [
        1 + sum((high - 1) * n for (_, high), n in zip(box, strides, strict=True)) for box in boxes
    ]
    around = ends[-1] - prod(lengths)
    return firsts[0] == around or any(map(int.__eq__, firsts[1:], ends))
