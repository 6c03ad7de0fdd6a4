"""Plan how to move all arrays of a group or a file."""

from __future__ import annotations

from dataclasses import replace
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dask_io.errors import UsageError, list_names
from dask_io.formats.creating import check_places
from dask_io.formats.registry import find_row, load_format, row_of, target_format_of, tree_rows
from dask_io.geometry.chunks import normalize_chunks
from dask_io.geometry.shards import normalize_shards
from dask_io.hierarchy.container import DividedContainer, TreeContainer
from dask_io.hierarchy.cut import cut_tree
from dask_io.jobs.planning import Disks, RequestedTarget, plan_one, plan_to
from dask_io.jobs.regions import part_of
from dask_io.jobs.sidecars import refuse_without_sidecar
from dask_io.jobs.tree_job import SeriesJob, TreeOutput
from dask_io.jobs.tree_record import TreeRecord
from dask_io.jobs.tree_source import (
    check_refused,
    choose_chunks,
    choose_shards,
    chunks_or_kept,
    find_tree,
    is_to_copy,
    name_one,
    plan_each,
)
from dask_io.storage.location import locate
from dask_io.stores.container import INSIDE, NewArray
from dask_io.stores.dtypes import cast_metadata
from dask_io.stores.not_kept import loses_codec
from dask_io.stores.views import SourceView

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from dask_io.formats.registry import AnyFormat
    from dask_io.geometry.chunks import Chunks
    from dask_io.geometry.shards import Shards
    from dask_io.hierarchy.container import TreeTarget
    from dask_io.hierarchy.tree import Tree, TreeArray
    from dask_io.jobs.job import Job
    from dask_io.jobs.settings import Settings
    from dask_io.storage.location import Location
    from dask_io.stores.store import Source


def plan_tree(
    source: object, target: str | PathLike[str] | None, chunks: Chunks, settings: Settings
) -> SeriesJob | None:
    """Plan how to re-split all arrays of a group or a file; None if the source is one array.

    Parameters
    ----------
    source
        A group, or a file with several arrays.
    target
        The group or the file that they go to; None to see only the plan.
    chunks
        Chunks by dimension name, see `choose_chunks`. Arrays without these dimensions keep their
        chunks, and so do coordinates: arrays of one axis that have the name of its dimension.
    settings
        Settings for all arrays. Shards are given in the same way as chunks.

    Raises
    ------
    UsageError
        If no array has a dimension of that name, an array cannot be re-split, or the target cannot
        hold the tree.
    """
    kind = None if target is None else _format_of(target, settings)
    options = settings.storage_options
    tree = find_tree(source, options, each=isinstance(kind, DividedContainer))
    if tree is None or (target is not None and INSIDE in fspath(target)):
        return None
    if kind is not None and (tree.dialect == kind.name or _may_be_plain(kind, tree, settings)):
        if tree.is_one_level and settings.is_for_one_array:
            return None
        # A group that follows the convention already stays as it is, and so do other groups.
        kind = find_row(find_row(kind.name).dialect_of).load()
        settings = replace(settings, format=kind.name)
    if target is None:
        return _plan_only(tree, chunks, settings)
    _refuse_two_formats(target, settings)
    own = load_format(tree.format)
    if kind is None and isinstance(own, DividedContainer):
        kind = own
    if not isinstance(kind, TreeContainer) and tree.is_one_level:
        return None
    if not isinstance(kind, TreeContainer) or not kind.can_hold(tree):
        raise UsageError(_cannot_hold(tree, target))
    return plan_found(tree, kind, target, chunks, settings)


def plan_found(
    tree: Tree,
    kind: TreeContainer,
    target: str | PathLike[str],
    chunks: Chunks,
    settings: Settings,
) -> SeriesJob:
    """Plan how to write the part of a tree that is in the region to a target of a format.

    Raises
    ------
    UsageError
        As `plan_tree`.
    """
    place = locate(target, settings.storage_options)
    if find_row(kind.name).is_one_file and not isinstance(place, Path):
        raise UsageError(_not_local(place, kind))
    for_all = replace(settings, format_version=None) if kind.tree_versions else settings
    for_all.refuse_for_several_arrays(name_one(tree))
    tree, resolved = _cut(tree, settings)
    by_array, shards = choose_chunks(tree, chunks), choose_shards(tree, settings.shards)
    job = plan_into(tree, place, kind, chunks=by_array, shards=shards, settings=settings)
    return replace(job, resolved=resolved)


def _cut(tree: Tree, settings: Settings) -> tuple[Tree, str]:
    """Return the part of a tree that is moved, and how values of coordinates were resolved."""
    if settings.region is None:
        return tree, ""
    part = part_of(tree, settings.region)
    return cut_tree(tree, part.bounds), part.said


def _format_of(target: str | PathLike[str], settings: Settings) -> AnyFormat | None:
    """Return the format of a target, by its option or its suffix; None if it has neither."""
    given = settings.format
    return target_format_of(Path(target).name) if given is None else load_format(given)


def _may_be_plain(kind: AnyFormat, tree: Tree, settings: Settings) -> bool:
    """Tell whether only the suffix asks for a convention that a tree of arrays cannot follow."""
    is_convention = bool(find_row(kind.name).dialect_of)
    return is_convention and settings.format is None and not tree.is_one_level


def _lost_codecs(sources: Mapping[str, Source], target: TreeTarget) -> list[str]:
    """Return the name for codecs, if those of any array are lost, as for a single array."""
    is_lost = any(loses_codec(sources[name], each) for name, each in target.arrays.items())
    return ["codec"] if is_lost else []


def _refuse_two_formats(target: str | PathLike[str], settings: Settings) -> None:
    given, by_suffix = settings.format, row_of(Path(target).name)
    if given is not None and by_suffix is not None and by_suffix.name != given:
        path = fspath(target)
        raise UsageError(f"{path} has the suffix of {by_suffix.name}, but format is {given}")


def _cannot_hold(tree: Tree, target: str | PathLike[str]) -> str:
    listed = list_names(tree.arrays, most=5)
    rows = (row for row in tree_rows() if row.is_installed)
    formats = " or ".join(row.name for row in rows if row.load_tree_container().can_hold(tree))
    return (
        f"{tree.place} holds several arrays ({listed}), which can only be written together to "
        f"{formats}, not to {fspath(target)}; for another format give one array, as in "
        f"{name_one(tree)}"
    )


def _not_local(place: Location, kind: TreeContainer) -> str:
    other = next(row for row in tree_rows() if not row.is_one_file)
    name = place.with_name(place.name.removesuffix(place.suffix) + other.suffixes[0])
    return (
        f"{kind.name} can only be written to local disk, not to {place}; write a local "
        f"file and copy it there, or write {other.name}, as {name}"
    )


def _plan_only(tree: Tree, chunks: Chunks, settings: Settings) -> SeriesJob:
    """Plan only the costs of a group or a file of the same format."""
    settings.refuse_for_several_arrays(name_one(tree))
    tree, resolved = _cut(tree, settings)
    by_array, shards = choose_chunks(tree, chunks), choose_shards(tree, settings.shards)
    sources = tree.sources

    def plan(name: str) -> Job:
        store = sources[name]
        chosen = replace(settings, shards=shards[name])
        requested = RequestedTarget(None, chunks_or_kept(tree, name, by_array[name]), None)
        if is_kept(name):
            is_other = settings.format not in {None, store.format}
            kept = None if is_other else store.metadata.get("shards")
            chosen = replace(settings, codec=None, shards=kept)
        return plan_one(store, requested, chosen)

    def is_kept(name: str) -> bool:
        return by_array[name] is None and shards[name] is None

    moved = [
        name
        for name in by_array
        if not is_to_copy(tree, name, by_array[name], shards[name])
        and not (is_kept(name) and tree.arrays[name].is_lossy)
    ]
    series = _make_series(tree, None, plan_each(moved, plan), settings)
    return replace(series, resolved=resolved)


def _make_series(
    tree: Tree, output: TreeOutput | None, jobs: Mapping[str, Job], settings: Settings
) -> SeriesJob:
    first = next(iter(jobs.values()), None)
    if first is None:
        raise UsageError(f"{tree.place} contains no array to move")
    if output is not None and not settings.sidecar:
        refuse_without_sidecar(output.target, output.place)
    return SeriesJob(
        tree.place,
        output,
        jobs,
        first.workers,
        first.device,
        settings.memory,
        sidecar=settings.sidecar,
    )


def plan_into(
    tree: Tree,
    place: Location,
    container: TreeContainer,
    *,
    chunks: Mapping[str, Chunks],
    shards: Mapping[str, Shards | None],
    settings: Settings,
) -> SeriesJob:
    """Plan how to write a tree in a container."""
    converted = container.convert(tree)
    check_refused(converted)
    is_native = tree.format in container.native_formats
    described = {
        name: _new_array(converted, name, chunks[name], shards[name], settings, is_native=is_native)
        for name in converted.arrays
    }
    moved = {name: each for name, each in described.items() if each is not None}
    target = container.write_tree(
        place,
        converted,
        moved,
        version=settings.format_version,
        overwrite=settings.overwrite,
        durability=settings.durability,
    )
    check_places(tree, target)
    is_divided = isinstance(container, DividedContainer)
    if is_divided:
        target.check()
    sources = converted.sources
    disks = Disks.of(tree.place, target.place, settings)
    jobs = plan_each(
        moved, lambda name: plan_to(sources[name], target.arrays[name], settings, disks=disks)
    )
    copies = [name for name in converted.arrays if name not in moved]
    record = TreeRecord(
        source=str(tree.root.absolute()),
        source_format=tree.format,
        format=container.name,
        identity=tree.content.identity(copies if is_divided else None),
        durability=settings.durability,
        described=target.describe(),
        not_kept=(*target.not_kept, *_lost_codecs(sources, target)),
        chunks={
            name: tuple(axis.longest or 1 for axis in each.grid.axes)
            for name, each in moved.items()
            if chunks[name] is not None
        },
        codec=settings.codec,
        write_empty=settings.write_empty,
        bounds=tree.bounds,
        selected=tree.selected,
        memory=settings.memory,
        max_rate=settings.max_rate,
    )
    return _make_series(tree, TreeOutput(place, converted, target, record), jobs, settings)


def _kept_shards(array: TreeArray) -> Shards | None:
    """Return the shards of an array that keeps its chunks, which may be shorter at a cut."""
    assert array.source is not None, "other arrays are copied verbatim"
    shards = array.source.metadata.get("shards")
    if shards is None or array.kept_grid is None:
        return cast("Shards | None", shards)
    pairs = zip(shards, array.kept_grid.longest, strict=True)
    return tuple(-(-shard // chunk) * chunk for shard, chunk in pairs)


def _new_array(
    tree: Tree,
    name: str,
    chunks: Chunks,
    shards: Shards | None,
    settings: Settings,
    *,
    is_native: bool,
) -> NewArray | None:
    """Return the array that the target gets, None if it is copied verbatim.

    In a native format, an array that keeps its chunks also keeps its shards and codecs. In another
    format it gets the requested codec; without one, a lossy codec is replaced by none.
    """
    array = tree.arrays[name]
    is_kept = chunks is None and shards is None
    # A part of an encoded chunk is encoded again.
    is_native = is_native and not (array.is_lossy and isinstance(array.source, SourceView))
    if is_to_copy(tree, name, chunks, shards) or (is_kept and is_native and array.is_lossy):
        return None
    store, codec = array.source, settings.codec
    assert store is not None, "other arrays are copied verbatim"
    dtype = store.dtype if array.dtype is None else array.dtype
    metadata = store.metadata
    if is_kept and is_native:
        codec, shards = None, _kept_shards(array)
    elif chunks is None and array.is_lossy:
        codec = codec or "none"
    try:
        cut = chunks_or_kept(tree, name, chunks)
        grid = normalize_chunks(cut, store.grid.shape, store.dtype.itemsize, like=store.grid)
        names = metadata.get("dimension_names")
        lengths = None if shards is None else normalize_shards(shards, grid, names)
    except UsageError as error:
        raise UsageError(f"array {name}: {error}") from error
    if dtype != store.dtype:
        metadata = cast_metadata(metadata, store.dtype, dtype)
    options = replace(settings, codec=codec).target_options(lengths)
    return NewArray(grid, dtype, store.layout, options, metadata)
