"""Groups and files with several arrays: find them, choose their chunks, compare them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from dask_io.engine.verify import Verification
from dask_io.errors import BudgetTooSmallError, DataError, UsageError
from dask_io.formats.places import (
    advise_repair,
    advising_repair,
    journal_at,
    refuse_unfinished,
    targets_in,
)
from dask_io.formats.registry import find_container_row, tree_rows
from dask_io.geometry.chunks import parse_chunks
from dask_io.geometry.named import chunks_by_name, is_coordinate
from dask_io.jobs.verify import compare_files
from dask_io.journal.journal import is_sealed
from dask_io.storage.location import is_taken, is_url, locate
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.cf_attributes import FILL_VALUE
from dask_io.stores.container import INSIDE, split_place
from dask_io.stores.views import SourceView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dask_io.geometry.chunks import AxisChunks, Chunks
    from dask_io.geometry.shards import Shards
    from dask_io.hierarchy.container import TreeContainer
    from dask_io.hierarchy.tree import Tree
    from dask_io.jobs.verify import Comparison, OnChecked
    from dask_io.storage.location import Location
    from dask_io.stores.store import Source

P = TypeVar("P")


def find_tree(
    place: object, storage_options: Mapping[str, Any] | None = None, *, each: bool = False
) -> Tree | None:
    """Return the tree of a source that is a group, or a file with several arrays.

    Return None if it is one array, or a file in which everything else belongs to one array. With
    `each`, such a file is a tree too.

    Raises
    ------
    DataError
        If it is incomplete or broken.
    """
    if not isinstance(place, str | Path):
        return None
    root = locate(place, storage_options)
    if INSIDE in str(root) and not is_taken(root):
        path, inside = split_place(str(place))
        root = locate(path, storage_options) / inside
    container = find_group(root)
    is_group = container is not None
    if container is None and not is_url(place) and Path(place).is_file():
        root, row = Path(place), find_container_row(Path(place), None)
        container = row.load_tree_container() if row is not None and row.holds_trees else None
    if container is None:
        return None
    refuse_unfinished(root)
    tree = container.read_tree(root, each=each)
    if is_group and not tree.arrays:
        _refuse_lost_arrays(root)
    if not is_group and not tree.sources:
        return None
    return None if tree.main is not None and not (each and tree.has_others) else tree


def _refuse_lost_arrays(group: Location) -> None:
    """Refuse a group in which the metadata of all arrays that Dask IO has written is gone.

    Raises
    ------
    DataError
        If there is such an array.
    """
    for place in targets_in(group):
        journal = journal_at(place)
        if place != group and journal is not None and is_sealed(journal):
            problem = f"the metadata of array {place.name} is missing or invalid"
            raise DataError(str(group), [problem], advise_repair(group))


def find_group(place: Location) -> TreeContainer | None:
    """Return the format of a group, None if the directory is not a group."""
    if isinstance(place, Path):
        with storage_errors(place):
            if not place.is_dir():
                return None
    elif not place.connection.can_list:
        # A plain web server cannot list the members of a group.
        return None
    with storage_errors(place):
        found = (row for row in tree_rows() if not row.is_one_file and row.recognises(place))
        containers = (row.load_tree_container() for row in found)
        return next((each for each in containers if each.is_group(place)), None)


def choose_chunks(source: Tree, chunks: Chunks, what: str = "chunks") -> dict[str, Chunks]:
    """Return the chunks of every array, None for those that keep theirs.

    Chunks are given by dimension name. They can be given by position for the levels of an image,
    for an array that everything else belongs to, and if all arrays have that number of axes.
    Coordinates, and lists that are copied verbatim, do not count. Messages call them `what`. If
    none are given, all arrays keep theirs.

    Raises
    ------
    UsageError
        If no array has a dimension of that name, or names are needed.
    """
    dimensions, levels = source.dimensions, source.levels
    if chunks is None:
        return dict.fromkeys(dimensions)
    if isinstance(chunks, str):
        chunks = parse_chunks(chunks)
    if isinstance(chunks, Mapping) and all(isinstance(axis, str) for axis in chunks):
        return chunks_by_name(cast("Mapping[str, AxisChunks]", chunks), dimensions)
    if levels and isinstance(chunks, int | str):
        return chunks_by_name({axis: chunks for names in levels for axis in names}, dimensions)
    if levels and isinstance(chunks, list | tuple) and len(chunks) == len(levels[0]):
        return chunks_by_name(dict(zip(levels[0], chunks, strict=True)), dimensions)
    data = {
        name: len(names)
        for name, names in dimensions.items()
        if (_is_cut(source, name) if source.main is None else name == source.main)
    }
    is_for_all = isinstance(chunks, int | str) or (
        isinstance(chunks, list | tuple) and set(data.values()) == {len(chunks)}
    )
    if levels or not is_for_all:
        found = (
            f"is an image with the axes {','.join(levels[0])}" if levels else "holds several arrays"
        )
        raise UsageError(
            f"{source.place} {found}; give {what} by dimension name, as time=24,y=-1, or by "
            "position if all arrays have that number of axes"
        )
    return {name: chunks if name in data else None for name in dimensions}


def choose_shards(source: Tree, shards: Shards | None) -> dict[str, Shards | None]:
    """Return the shards of every array as `choose_chunks` does, None for arrays without them."""
    if shards is None:
        return dict.fromkeys(source.dimensions)
    return cast("dict[str, Shards | None]", choose_chunks(source, shards, "shards"))


def _is_cut(source: Tree, name: str) -> bool:
    """Tell whether chunks by position apply to an array; they do not apply to coordinates."""
    names = source.arrays[name].dimensions
    is_list = len(names) <= 1 and source.arrays[name].source is None
    return bool(names) and not is_list and not is_coordinate(name, names)


def chunks_or_kept(source: Tree, name: str, chunks: Chunks) -> Chunks:
    """Return the chunks that an array gets, None if it keeps those of its source."""
    array = source.arrays[name]
    kept = array.kept_grid
    if kept is not None and isinstance(chunks, Mapping) and isinstance(array.source, SourceView):
        # Along the other axes, the blocks of a part may have any length.
        lengths: dict[Any, Any] = dict(enumerate(kept.longest))
        return {**lengths, **chunks}
    return kept.longest if chunks is None and kept is not None else chunks


def plan_each(names: Iterable[str], plan: Callable[[str], P]) -> dict[str, P]:
    """Plan arrays one after another.

    Raises
    ------
    BudgetTooSmallError
        If the memory is too small; the error names the array that needs most.
    """
    jobs, too_large = {}, []
    for name in names:
        try:
            jobs[name] = plan(name)
        except BudgetTooSmallError as error:
            unit = f"{error.unit} of array {name}"
            too_large.append(BudgetTooSmallError(error.required, error.budget, unit))
    if too_large:
        raise max(too_large, key=lambda error: error.required)
    return jobs


def name_one(source: Tree) -> str:
    """Return the path of one of the arrays, as an example for messages."""
    names = (name for name in source.sources if name not in source.refused)
    name = source.main or next(names, "name")
    return f"{source.place}{INSIDE}/{name}"


def check_refused(source: Tree) -> None:
    """Refuse a tree with objects that cannot be copied.

    Raises
    ------
    UsageError
        If there is one.
    """
    for name, problem in source.refused.items():
        raise UsageError(
            f"{name} in {source.place} cannot be copied: it {problem}; give "
            f"one array, as in {name_one(source)}"
        )


def is_to_copy(source: Tree, name: str, *requested: Chunks) -> bool:
    """Tell whether an array can only be copied verbatim.

    Raises
    ------
    UsageError
        If it has several axes, and chunks or shards are requested.
    """
    array = source.arrays[name]
    if array.source is not None:
        return False
    if any(each is not None for each in requested) and len(array.dimensions) > 1:
        raise UsageError(f"array {name} cannot be re-split: it {array.verbatim}")
    return True


def verify_trees(
    one: Tree,
    other: Tree,
    plan: Callable[[Source, Source], Comparison],
    on_progress: OnChecked = None,
) -> Verification:
    """Compare the arrays of two groups or files by name.

    Unsupported arrays of two groups are equal if their files are, or else their values and
    attributes.

    Raises
    ------
    DataError
        If an array is missing from one of them, or arrays that are copied verbatim differ.
    BudgetTooSmallError
        If the memory is too small; the error names the array that needs most.
    """
    unmatched = sorted(one.arrays.keys() ^ other.arrays.keys())
    if unmatched:
        name = unmatched[0]
        missing, present = (other, one) if name in one.arrays else (one, other)
        problem = f"array {name} is missing, but {present.place} has it"
        raise DataError(missing.place, [problem])
    a, b = one.sources, other.sources
    both = [name for name in one.arrays if name in a and name in b]
    plans = plan_each(both, lambda name: plan(a[name], b[name]))
    found = Verification(0)
    for name in one.arrays:
        if name in plans:
            compared = plans[name].run(a[name], b[name], on_progress)
            found = found.followed_by(compared, f"{other.place}{INSIDE}/{name}")
        else:
            _compare_verbatim(one, other, name)
    return found


def _compare_verbatim(one: Tree, other: Tree, name: str) -> None:
    """Compare arrays of which at least one can only be copied verbatim.

    Raises
    ------
    DataError
        If they differ, or only one of them cannot be read.
    """
    unlike: DataError | None = None
    if one.format == other.format and one.root.is_dir():
        try:
            compare_files(one.root / name, other.root / name)
        except DataError as error:
            # The same values may be stored in another version of the format, or another codec.
            unlike = error
        else:
            return
    try:
        is_same = _is_same(one.content.read(name), other.content.read(name))
    except (DataError, UsageError):
        for tree, each in ((one, other.sources), (other, one.sources)):
            if name in each:
                with advising_repair(tree.root):
                    at = f"{tree.place}{INSIDE}/{name}"
                    raise DataError(at, [tree.arrays[name].verbatim]) from None
        if unlike is None:
            raise
        raise unlike from None
    if is_same and unlike is not None:
        is_same = _attributes_of(one, name) == _attributes_of(other, name)
    if not is_same:
        problem = f"array {name} differs from that of {one.place}"
        raise DataError(other.place, [problem])


def _attributes_of(tree: Tree, name: str) -> str:
    """Return the attributes of an array as text, in which NaN equals NaN."""
    attributes = tree.arrays[name].attributes.items()
    return repr(sorted((key, each) for key, each in attributes if key != FILL_VALUE))


def _is_same(a: Any, b: Any) -> bool:
    """Compare small arrays, also of strings and of lists of any length."""
    # Some formats store booleans as integers.
    a, b = (each.view("i1") if each.dtype.kind == "b" else each for each in map(np.asarray, (a, b)))
    if a.dtype.hasobject or b.dtype.hasobject:
        return a.shape == b.shape and all(map(np.array_equal, a.ravel(), b.ravel()))
    return (
        a.shape == b.shape
        and a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=")
        and (np.array_equal(a, b) or a.tobytes() == b.tobytes())
    )
