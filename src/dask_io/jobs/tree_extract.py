"""Plan how to extract a part of a group or a file, or one of its arrays with its coordinates."""

from __future__ import annotations

from dataclasses import replace
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.formats.registry import find_row, load_format, target_format_of
from dask_io.hierarchy.container import DividedContainer, TreeContainer
from dask_io.hierarchy.select import select
from dask_io.jobs.tree_plan import plan_found, plan_tree
from dask_io.jobs.tree_source import find_group, find_tree
from dask_io.storage.location import locate
from dask_io.stores.container import INSIDE, split_place

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike
    from typing import Any

    from dask_io.geometry.chunks import Chunks
    from dask_io.hierarchy.tree import Tree
    from dask_io.jobs.settings import Settings
    from dask_io.jobs.tree_job import SeriesJob


def plan_tree_extract(
    source: object,
    target: str | PathLike[str],
    chunks: Chunks,
    settings: Settings,
    *,
    alone: bool,
) -> SeriesJob | None:
    """Plan how to extract the region in the settings; None if the target gets a single array.

    Without chunks, all arrays keep theirs. If the source is one array of a group or a file, and the
    target a new group or file, the array takes its coordinates along; not if it is moved `alone`,
    or something is asked for that only makes sense for one array.
    """
    job = plan_tree(source, target, chunks, settings)
    if job is not None or alone or replace(settings, region=None).is_for_one_array:
        return job
    kind = _group_format(target, settings)
    tree = None if kind is None else _find_with_coordinates(source, settings.storage_options)
    if tree is None or kind is None or not kind.can_hold(tree):
        return None
    own = load_format(tree.format)
    if not isinstance(own, DividedContainer) and not isinstance(kind, DividedContainer):
        # Between files, a single array takes along everything that belongs to it, too.
        return None
    return plan_found(tree, kind, target, chunks, settings)


def _group_format(target: str | PathLike[str], settings: Settings) -> TreeContainer | None:
    """Return the format of a target that is a new group or file, None for a single array."""
    place = locate(target, settings.storage_options)
    if settings.format is None:
        kind = target_format_of(Path(target).name)
    else:
        kind = load_format(settings.format)
    if INSIDE in fspath(target) or kind is None or find_row(kind.name).dialect_of:
        return None
    if not isinstance(kind, TreeContainer) or find_group(place.parent) is not None:
        return None
    return kind


def _find_with_coordinates(
    source: object, storage_options: Mapping[str, Any] | None
) -> Tree | None:
    """Return the tree of an array and of what belongs to it, None if nothing does."""
    if not isinstance(source, str | Path):
        return None
    if INSIDE in str(source):
        path, name = split_place(str(source))
        tree = find_tree(path, storage_options, each=True)
    else:
        place = locate(source, storage_options)
        name = place.name
        is_member = find_group(place.parent) is not None
        tree = find_tree(str(place.parent), storage_options, each=True) if is_member else None
    if tree is None or tree.levels or name not in tree.sources:
        return None
    found = select(tree, name)
    return found if len(found.arrays) > 1 and all(found.arrays[name].dimensions) else None
