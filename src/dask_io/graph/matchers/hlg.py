"""Finding what is read, rechunked and stored in a `HighLevelGraph`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dask.core import flatten

from dask_io.errors import DaskIOError
from dask_io.geometry import Region
from dask_io.graph.functions import BlockFunction
from dask_io.graph.match import DeclinedError, Match, Reading
from dask_io.graph.matchers.layers import (
    Store,
    is_rechunk,
    is_store,
    is_work,
    refuse_annotations,
    understand_read,
    understand_store,
    understand_work,
)
from dask_io.graph.objects import source_of, target_of
from dask_io.stores.part import Part
from dask_io.stores.registry import check_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dask.highlevelgraph import HighLevelGraph

    from dask_io.stores.store import Target


@dataclass(frozen=True)
class Finding:
    """A layer that stores something: what it is, or why it stays as it is."""

    name: str
    match: Match | None
    reason: str = ""


def find_stores(graph: HighLevelGraph, keys: Iterable[Any]) -> list[Finding]:
    """Look at every layer that stores something.

    Parameters
    ----------
    graph
        The graph, as it is before Dask optimizes it.
    keys
        What is asked for.
    """
    names = [name for name, layer in graph.layers.items() if is_store(layer)]
    if not names:
        return []
    asked = set(flatten(list(keys)))  # type: ignore[no-untyped-call]
    needed = _needed(graph, asked)
    findings = [_look_at(graph, name, needed) for name in names]
    return _settle(graph, findings, asked)


def _needed(graph: HighLevelGraph, keys: set[Any]) -> dict[str, int]:
    """Return how many blocks of each store are needed for some keys."""
    culled: Iterable[Any] = graph.cull(keys).layers.values()
    return {layer.output: len(layer.get_output_keys()) for layer in culled if is_store(layer)}


def _look_at(graph: HighLevelGraph, name: str, needed: dict[str, int]) -> Finding:
    try:
        store = understand_store(graph.layers[name])
        match = _follow(graph, name, store)
    except DeclinedError as declined:
        return Finding(name, None, str(declined))
    if needed.get(name) != store.chunks.n_blocks:
        return Finding(name, None, "only some of its blocks are asked for")
    return Finding(name, match)


def _follow(graph: HighLevelGraph, name: str, store: Store) -> Match:
    """Go from what is stored back to where it is read."""
    after, worked_on, layers = _find_work(graph, store.stored)
    reading = _find_reading(graph, worked_on)
    if reading.chunks.shape != store.chunks.shape:
        raise DeclinedError("what is stored has another shape than what is read")
    if not reading.rechunked:
        if store.chunks != reading.chunks:
            raise DeclinedError("its blocks change their shape on the way")
        # Blocks are the same then, and those that are read need not fit those that are stored.
        reading, after = replace(reading, function=after), BlockFunction()
    target = _find_target(store)
    try:
        check_places(reading.source, target)
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error
    return Match(name, reading, after, store.chunks, target, store.lock, (*layers, name))


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
            raise DeclinedError("it waits for something that is no block of its own")
        # After all that it needs.
        found[name] = None

    visit(top)
    if len(roots) != 1:
        raise DeclinedError("what is stored is made of several arrays")
    (root,) = roots
    numbers = {root: -1, **{name: number for number, name in enumerate(found)}}
    calls = tuple(understand_work(name, graph.layers[name], numbers) for name in found)
    return BlockFunction(calls), root, tuple(found)


def _find_reading(graph: HighLevelGraph, name: str) -> Reading:
    rechunked: list[str] = []
    while is_rechunk(name, layer := graph.layers[name]):
        refuse_annotations(layer)
        rechunked.insert(0, name)
        needs = graph.dependencies[name]
        if len(needs) != 1:
            raise DeclinedError("a rechunk waits for something else")
        (name,) = needs
    before, root, layers = _find_work(graph, name) if rechunked else (BlockFunction(), name, ())
    if layers and is_rechunk(root, graph.layers[root]):
        raise DeclinedError("something is done between two rechunks")
    read = understand_read(graph, root)
    source = source_of(read.thing)
    if source.grid.shape != read.chunks.shape:
        raise DeclinedError(f"{source.place} has another shape now")
    if source.dtype != read.thing.dtype:
        raise DeclinedError(f"{source.place} is stored in another byte order than it is read in")
    return Reading(
        source, read.chunks, before, read.lock, (*read.layers, *layers), tuple(rechunked)
    )


def _find_target(store: Store) -> Target:
    target = target_of(store.target)
    if store.region is None:
        if target.grid.shape != store.chunks.shape:
            raise DeclinedError("its target has another shape")
        return target
    region = _region(store.region, target.grid.shape)
    if region.shape != store.chunks.shape:
        raise DeclinedError("the region of its target has another shape")
    try:
        return Part(target, region)
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


def _settle(graph: HighLevelGraph, findings: Sequence[Finding], asked: set[Any]) -> list[Finding]:
    """Leave out what others need too, until nothing that stays needs anything that goes."""
    findings = list(findings)
    while True:
        matches = [finding.match for finding in findings if finding.match is not None]
        replaced = {name for match in matches for name in layers_of(match)}
        for place, finding in enumerate(findings):
            if finding.match is None:
                continue
            reason = _why_shared(graph, finding.match, replaced, asked, matches)
            if reason:
                findings[place] = Finding(finding.name, None, reason)
                break
        else:
            return findings


def _why_shared(
    graph: HighLevelGraph,
    match: Match,
    replaced: set[str],
    asked: set[Any],
    matches: Sequence[Match],
) -> str:
    inner = set(layers_of(match)) - {match.name}
    for name in inner:
        others = graph.dependents[name] - replaced
        if others:
            word = min(others).rpartition("-")[0]
            return f"what it reads is needed by something else too ({word})"
    if any(isinstance(key, tuple) and key[0] in inner for key in asked):
        return "what it reads is asked for too"
    written = {other.target.place for other in matches}
    if match.reading.source.place in written:
        return "what it reads is written at the same time"
    return ""


def layers_of(match: Match) -> tuple[str, ...]:
    """Return the names of all layers that a match replaces."""
    return (*match.reading.layers, *match.reading.rechunked, *match.layers)
