"""Find arrays that a `HighLevelGraph` reads, rechunks and stores."""

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
    is_map,
    is_read,
    is_store,
    kind_of,
    parse_map,
    parse_read,
    parse_store,
)
from dask_io.graph.matchers.rechunks import find_rechunks, is_rechunk, makes_views, rechunk
from dask_io.graph.objects import is_in_c_order, source_of, target_of
from dask_io.stores.views import TargetView

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from dask.highlevelgraph import HighLevelGraph

    from dask_io.stores.store import Target


_SOME_BLOCKS = "only some of its blocks are needed"


@dataclass(frozen=True)
class Finding:
    """The result for one layer: a match or a reading, or the reason why it is declined."""

    name: str
    found: Match | Reading | None
    reason: str = ""


@dataclass(frozen=True)
class Request:
    """A graph and the keys that are requested from it."""

    graph: HighLevelGraph
    keys: frozenset[Any]

    @classmethod
    def of(cls, graph: HighLevelGraph, keys: Iterable[Any]) -> Request:
        """Flatten keys, which Dask nests in lists."""
        return cls(graph, frozenset(flatten(list(keys))))  # type: ignore[no-untyped-call]

    @cached_property
    def n_needed(self) -> Counter[str]:
        """Number of blocks of each layer that are needed."""
        layers = self.graph.cull(set(self.keys)).layers.values()
        keys = (key for layer in layers for key in layer.get_output_keys())
        return Counter(str(key[0]) for key in keys if isinstance(key, tuple))

    def is_for_all(self, name: str, n_blocks: int) -> bool:
        """Whether all blocks of a layer are needed."""
        return self.n_needed[name] == n_blocks

    def explain_sharing(self, inner: Collection[str], outer: Collection[str]) -> str:
        """Explain who else uses one of the inner layers, except the outer ones; "" if nobody."""
        for name in inner:
            others = self.graph.dependents[name] - set(outer)
            if others:
                return f"another layer ({kind_of(min(others))}) also needs the array"
        if any(isinstance(key, tuple) and key[0] in inner for key in self.keys):
            return "the array is also computed by itself"
        return ""


def find_stores(request: Request) -> list[Finding]:
    """Match every layer that stores an array."""
    names = [name for name, layer in request.graph.layers.items() if is_store(layer)]
    return _drop_conflicts(request, [_match_store(request, name) for name in names])


def find_reads(request: Request, replaced: Collection[str]) -> list[Finding]:
    """Match every layer that reads an array, or rechunks it after reading, for others to use.

    Layers that are already `replaced` are skipped.
    """
    graph, taken = request.graph, set(replaced)
    findings = []
    # Rechunks come first, because a match of a rechunk includes the layer that reads.
    for is_kind in (is_rechunk, lambda _, layer: is_read(layer)):
        for name, layer in graph.layers.items():
            if name in taken or not is_kind(name, layer):
                continue
            users = graph.dependents[name] - taken
            if is_rechunk(name, layer) and any(is_rechunk(u, graph.layers[u]) for u in users):
                continue
            finding = _match_read(request, name)
            findings.append(finding)
            if isinstance(finding.found, Reading):
                taken.update(finding.found.layers)
    return findings


def find_array(graph: HighLevelGraph, name: str) -> Reading:
    """Trace an array back to where it is read.

    Raises
    ------
    DeclinedError
        If it is not only read, rechunked and mapped once.
    """
    function, root, layers = _find_maps(graph, name)
    reading = _find_reading(graph, root)
    if function and reading.function:
        raise DeclinedError("functions are applied both before and after a rechunk")
    if function:
        reading = replace(reading, mapped_chunks=reading.chunks, function=function)
    _refuse_other_order(reading, reading.function)
    return replace(reading, layers=(*reading.layers, *layers))


def _match_store(request: Request, name: str) -> Finding:
    try:
        store = parse_store(request.graph.layers[name])
        match = _trace_store(request.graph, name, store)
    except DeclinedError as declined:
        return Finding(name, None, str(declined))
    if not request.is_for_all(name, store.chunks.n_blocks):
        return Finding(name, None, _SOME_BLOCKS)
    return Finding(name, match)


def _match_read(request: Request, name: str) -> Finding:
    try:
        reading = _find_reading(request.graph, name)
    except DeclinedError as declined:
        return Finding(name, None, str(declined))
    if not reading.is_contiguous:
        return Finding(name, None, "its blocks are not C-contiguous in memory")
    if not reading.function.is_elementwise:
        return Finding(name, None, "a function before a rechunk may change the shape of blocks")
    if not request.is_for_all(name, reading.chunks.n_blocks):
        return Finding(name, None, _SOME_BLOCKS)
    reason = request.explain_sharing(reading.layers[:-1], reading.layers)
    return Finding(name, None if reason else reading, reason)


def _trace_store(graph: HighLevelGraph, name: str, store: Store) -> Match:
    """Trace a stored array back to where it is read."""
    function, root, layers = _find_maps(graph, store.stored)
    reading = _find_reading(graph, root)
    if reading.chunks != store.chunks:
        raise DeclinedError("a function changes the shape of blocks")
    if is_read(graph.layers[root]):
        # Without a rechunk, the function can be applied on reading. The chunks then need not
        # consist of whole target blocks.
        reading, function = replace(reading, function=function), BlockFunction()
    _refuse_other_order(reading, reading.function, function)
    target = _find_target(store)
    try:
        check_places(reading.source, target)
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error
    return Match(name, reading, function, store.chunks, target, store.lock, (*layers, name))


def _refuse_other_order(reading: Reading, *functions: BlockFunction) -> None:
    """Refuse functions whose results may depend on the memory order of blocks."""
    if not reading.is_contiguous and not all(function.is_elementwise for function in functions):
        raise DeclinedError("a function is given blocks that are not C-contiguous in memory")


def _find_maps(graph: HighLevelGraph, top: str) -> tuple[BlockFunction, str, tuple[str, ...]]:
    """Return the functions that compute a layer, the layer they start from, and their layers."""
    found: dict[str, None] = {}
    roots: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in found or name in roots:
            return
        layer: Any = graph.layers[name]
        if not is_map(layer):
            roots[name] = None
            return
        blocks = [argument for argument, along in layer.indices if along is not None]
        for argument in blocks:
            visit(argument)
        if set(graph.dependencies[name]) - set(blocks):
            raise DeclinedError(f"{kind_of(name)} also depends on another layer")
        # A call comes after the calls that it needs.
        found[name] = None

    visit(top)
    if len(roots) != 1:
        raise DeclinedError("it combines several arrays")
    (root,) = roots
    numbers = {root: -1, **{name: number for number, name in enumerate(found)}}
    calls = tuple(parse_map(name, graph.layers[name], numbers) for name in found)
    return BlockFunction(calls), root, tuple(found)


def _find_reading(graph: HighLevelGraph, top: str) -> Reading:
    """Trace a layer back through a rechunk, functions and another rechunk to where it is read."""
    later, root = find_rechunks(graph, top)
    function, layers = BlockFunction(), tuple[str, ...]()
    if later:
        function, root, layers = _find_maps(graph, root)
    first, base = find_rechunks(graph, root)
    if is_map(graph.layers[base]):
        raise DeclinedError("functions are applied both before and between rechunks")
    read = parse_read(graph, base)
    source = source_of(read.array)
    if not read.as_array:
        raise DeclinedError(f"{kind_of(base)} does not return NumPy arrays (asarray=False)")
    if source.grid.shape != read.chunks.shape:
        raise DeclinedError(f"the shape of {source.place} has changed")
    if source.dtype != read.array.dtype:
        raise DeclinedError(f"{source.place} is stored in a different byte order")
    before = rechunk(graph, first, read.chunks)
    has_views = makes_views(graph, first, read.chunks) or makes_views(graph, later, before)
    return Reading(
        source=source,
        read_chunks=read.chunks,
        mapped_chunks=before,
        function=function,
        chunks=rechunk(graph, later, before),
        is_contiguous=is_in_c_order(read.array) and not has_views,
        lock=read.lock,
        layers=(*read.layers, *first, *layers, *later),
    )


def _find_target(store: Store) -> Target:
    shape = getattr(store.target, "shape", ())
    region = Region.whole(shape) if store.region is None else _region(store.region, shape)
    if region.shape != store.chunks.shape:
        raise DeclinedError("its target has a different shape")
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
        raise DeclinedError("its region is not one slice per axis")
    ranges = [
        range(length)[each]
        for each, length in zip((*slices, *[slice(None)] * len(shape)), shape, strict=False)
    ]
    if any(each.step != 1 for each in ranges):
        raise DeclinedError("its region has steps")
    return Region.of((each.start, each.stop) for each in ranges)


def _drop_conflicts(request: Request, findings: Sequence[Finding]) -> list[Finding]:
    """Decline matches whose layers others need, until no remaining layer needs a replaced one."""
    findings = list(findings)
    while True:
        matches = [each.found for each in findings if isinstance(each.found, Match)]
        for place, finding in enumerate(findings):
            if isinstance(finding.found, Match):
                reason = _why_not(request, finding.found, matches)
                if reason:
                    findings[place] = Finding(finding.name, None, reason)
                    break
        else:
            return findings


def _why_not(request: Request, match: Match, matches: Sequence[Match]) -> str:
    replaced = {name for other in matches for name in other.replaced}
    if match.reading.source.place in {other.target.place for other in matches}:
        return "its source is written at the same time"
    return request.explain_sharing(match.replaced - {match.name}, replaced)
