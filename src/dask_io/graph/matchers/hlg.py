"""Finding what is read, rechunked and stored in a `HighLevelGraph`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dask.core import flatten

from dask_io.errors import DaskIOError
from dask_io.formats.creating import check_places
from dask_io.geometry import Region
from dask_io.graph.functions import BlockFunction
from dask_io.graph.match import DeclinedError, Match, Reading
from dask_io.graph.matchers.layers import (
    Store,
    is_read,
    is_store,
    is_work,
    kind_of,
    understand_read,
    understand_store,
    understand_work,
)
from dask_io.graph.matchers.rechunks import find_rechunks, is_rechunk, makes_views, rechunk
from dask_io.graph.objects import is_in_c_order, source_of, target_of
from dask_io.stores.views import TargetView

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from dask.highlevelgraph import HighLevelGraph

    from dask_io.stores.store import Target


@dataclass(frozen=True)
class Finding:
    """A layer that could be replaced: what it is, or why it stays as it is."""

    name: str
    found: Match | Reading | None
    reason: str = ""


@dataclass(frozen=True)
class Asked:
    """A graph, and the keys that are asked for."""

    graph: HighLevelGraph
    keys: frozenset[Any]

    @classmethod
    def of(cls, graph: HighLevelGraph, keys: Iterable[Any]) -> Asked:
        """Take keys as Dask nests them."""
        return cls(graph, frozenset(flatten(list(keys))))  # type: ignore[no-untyped-call]

    @cached_property
    def n_needed(self) -> Counter[str]:
        """How many blocks of each layer are needed."""
        layers = self.graph.cull(set(self.keys)).layers.values()
        keys = (key for layer in layers for key in layer.get_output_keys())
        return Counter(str(key[0]) for key in keys if isinstance(key, tuple))

    def is_for_all(self, name: str, n_blocks: int) -> bool:
        """Whether all blocks of a layer are needed."""
        return self.n_needed[name] == n_blocks

    def why_shared(self, inner: Collection[str], outer: Collection[str]) -> str:
        """Say what needs one of the inner layers that is not one of the outer; empty if nothing."""
        for name in inner:
            others = self.graph.dependents[name] - set(outer)
            if others:
                return f"it is needed by something else too ({kind_of(min(others))})"
        if any(isinstance(key, tuple) and key[0] in inner for key in self.keys):
            return "it is asked for by itself too"
        return ""


def find_stores(asked: Asked) -> list[Finding]:
    """Look at every layer that stores something."""
    names = [name for name, layer in asked.graph.layers.items() if is_store(layer)]
    return _settle(asked, [_look_at_store(asked, name) for name in names])


def find_reads(asked: Asked, replaced: Collection[str]) -> list[Finding]:
    """Look at every layer that reads something, or rechunks what was read, for others to work on.

    What is `replaced` is left out.
    """
    graph, taken = asked.graph, set(replaced)
    findings = []
    # What is rechunked comes first: it takes what reads it along.
    for is_kind in (is_rechunk, lambda _, layer: is_read(layer)):
        for name, layer in graph.layers.items():
            if name in taken or not is_kind(name, layer):
                continue
            users = graph.dependents[name] - taken
            if is_rechunk(name, layer) and any(is_rechunk(u, graph.layers[u]) for u in users):
                continue
            finding = _look_at_read(asked, name)
            findings.append(finding)
            if isinstance(finding.found, Reading):
                taken.update(finding.found.layers)
    return findings


def find_array(graph: HighLevelGraph, name: str) -> Reading:
    """Go from an array back to where it is read.

    Raises
    ------
    DeclinedError
        If it is more than read, rechunked and worked on in one place.
    """
    function, root, layers = _find_work(graph, name)
    reading = _find_reading(graph, root)
    if function and reading.function:
        raise DeclinedError("it is worked on both before and after a rechunk")
    if function:
        reading = replace(reading, worked=reading.chunks, function=function)
    _refuse_other_order(reading, reading.function)
    return replace(reading, layers=(*reading.layers, *layers))


def _look_at_store(asked: Asked, name: str) -> Finding:
    try:
        store = understand_store(asked.graph.layers[name])
        match = _follow(asked.graph, name, store)
    except DeclinedError as declined:
        return Finding(name, None, str(declined))
    if not asked.is_for_all(name, store.chunks.n_blocks):
        return Finding(name, None, "only some of its blocks are asked for")
    return Finding(name, match)


def _look_at_read(asked: Asked, name: str) -> Finding:
    try:
        reading = _find_reading(asked.graph, name)
    except DeclinedError as declined:
        return Finding(name, None, str(declined))
    if not reading.is_plain:
        return Finding(name, None, "its blocks lie in memory in a way of their own")
    if not reading.function.is_elementwise:
        return Finding(name, None, "a function before a rechunk may change the shape of blocks")
    if not asked.is_for_all(name, reading.chunks.n_blocks):
        return Finding(name, None, "only some of its blocks are asked for")
    reason = asked.why_shared(reading.layers[:-1], reading.layers)
    return Finding(name, None if reason else reading, reason)


def _follow(graph: HighLevelGraph, name: str, store: Store) -> Match:
    """Go from what is stored back to where it is read."""
    function, root, layers = _find_work(graph, store.stored)
    reading = _find_reading(graph, root)
    if reading.chunks != store.chunks:
        raise DeclinedError("its blocks change their shape on the way")
    if is_read(graph.layers[root]):
        # Blocks are the same then, and those that are read need not fit those that are stored.
        reading, function = replace(reading, function=function), BlockFunction()
    _refuse_other_order(reading, reading.function, function)
    target = _find_target(store)
    try:
        check_places(reading.source, target)
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error
    return Match(name, reading, function, store.chunks, target, store.lock, (*layers, name))


def _refuse_other_order(reading: Reading, *functions: BlockFunction) -> None:
    """Refuse functions whose results may depend on how blocks lie in memory."""
    if not reading.is_plain and not all(function.is_elementwise for function in functions):
        raise DeclinedError("a function is given blocks that lie in memory in a way of their own")


def _find_work(graph: HighLevelGraph, top: str) -> tuple[BlockFunction, str, tuple[str, ...]]:
    """Return the functions that make a layer, the layer that they are applied to, and their own."""
    found: dict[str, None] = {}
    roots: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in found or name in roots:
            return
        layer: Any = graph.layers[name]
        if not is_work(layer):
            roots[name] = None
            return
        blocks = [argument for argument, along in layer.indices if along is not None]
        for argument in blocks:
            visit(argument)
        if set(graph.dependencies[name]) - set(blocks):
            raise DeclinedError(f"{kind_of(name)} waits for something else")
        # After all that it needs.
        found[name] = None

    visit(top)
    if len(roots) != 1:
        raise DeclinedError("it is made of several arrays")
    (root,) = roots
    numbers = {root: -1, **{name: number for number, name in enumerate(found)}}
    calls = tuple(understand_work(name, graph.layers[name], numbers) for name in found)
    return BlockFunction(calls), root, tuple(found)


def _find_reading(graph: HighLevelGraph, top: str) -> Reading:
    """Go from a layer back to where it is read: rechunked, worked on, rechunked, and read."""
    later, worked = find_rechunks(graph, top)
    function, root, layers = BlockFunction(), worked, tuple[str, ...]()
    if later:
        function, root, layers = _find_work(graph, worked)
    first, base = find_rechunks(graph, root)
    if is_work(graph.layers[base]):
        raise DeclinedError("it is worked on both before and between rechunks")
    read = understand_read(graph, base)
    source = source_of(read.thing)
    if not read.as_array:
        raise DeclinedError(f"{kind_of(base)} is not to become NumPy arrays (asarray)")
    if source.grid.shape != read.chunks.shape:
        raise DeclinedError(f"{source.place} has another shape now")
    if source.dtype != read.thing.dtype:
        raise DeclinedError(f"{source.place} is stored in another byte order than it is read in")
    before = rechunk(graph, first, read.chunks)
    has_views = makes_views(graph, first, read.chunks) or makes_views(graph, later, before)
    return Reading(
        source=source,
        read=read.chunks,
        worked=before,
        function=function,
        chunks=rechunk(graph, later, before),
        is_plain=is_in_c_order(read.thing) and not has_views,
        lock=read.lock,
        layers=(*read.layers, *first, *layers, *later),
    )


def _find_target(store: Store) -> Target:
    shape = getattr(store.target, "shape", ())
    region = Region.whole(shape) if store.region is None else _region(store.region, shape)
    if region.shape != store.chunks.shape:
        raise DeclinedError("its target has another shape")
    target = target_of(store.target, store.chunks, region.start)
    if region.shape == shape:
        return target
    try:
        return TargetView(target, region)
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error


def _region(slices: Any, shape: tuple[int, ...]) -> Region:
    slices = slices if isinstance(slices, tuple) else (slices,)
    if len(slices) > len(shape) or not all(isinstance(each, slice) for each in slices):
        raise DeclinedError("its region is more than a slice of every axis")
    ranges = [
        range(length)[each]
        for each, length in zip((*slices, *[slice(None)] * len(shape)), shape, strict=False)
    ]
    if any(each.step != 1 for each in ranges):
        raise DeclinedError("its region has steps")
    return Region.of((each.start, each.stop) for each in ranges)


def _settle(asked: Asked, findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what others need too, until nothing that stays needs anything that goes."""
    findings = list(findings)
    while True:
        matches = [each.found for each in findings if isinstance(each.found, Match)]
        for place, finding in enumerate(findings):
            if isinstance(finding.found, Match):
                reason = _why_not(asked, finding.found, matches)
                if reason:
                    findings[place] = Finding(finding.name, None, reason)
                    break
        else:
            return findings


def _why_not(asked: Asked, match: Match, matches: Sequence[Match]) -> str:
    replaced = {name for other in matches for name in other.replaced}
    if match.reading.source.place in {other.target.place for other in matches}:
        return "it is written at the same time"
    return asked.why_shared(match.replaced - {match.name}, replaced)
