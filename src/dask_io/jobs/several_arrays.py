"""What holds several arrays, a group or a file: found, cut by names of dimensions, compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from dask_io.engine.verify import Verification
from dask_io.errors import BudgetTooSmallError, DataError, StorageError, UsageError, printable
from dask_io.formats.places import refuse_unfinished
from dask_io.formats.registry import find_container, load_format
from dask_io.geometry.named import chunks_by_name, is_coordinate
from dask_io.hierarchy.container import HoldsSeveral
from dask_io.jobs.compare import compare_files
from dask_io.jobs.job import SeriesJob
from dask_io.jobs.options import parse_memory
from dask_io.storage.location import is_taken, is_url, locate
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.container import INSIDE, needs, split_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dask_io.geometry.chunks import AxisChunks, Chunks
    from dask_io.geometry.shards import Shards
    from dask_io.hierarchy.tree import Tree
    from dask_io.jobs.compare import Comparison
    from dask_io.jobs.job import Job, Output
    from dask_io.jobs.options import Options
    from dask_io.storage.location import Location
    from dask_io.stores.store import Source

P = TypeVar("P")


def find_whole(
    place: object, storage_options: Mapping[str, Any] | None = None, *, each: bool = False
) -> Tree | None:
    """Return what is in the group or the file that a source names as a whole.

    None if it means one array: if it is one, or all else in a file belongs to the one array and
    comes along with it. With `each`, what belongs to it counts, too.

    Raises
    ------
    DataError
        If it is one that is not complete, or is broken.
    """
    if not isinstance(place, str | Path):
        return None
    root = _find_group(place, storage_options)
    found = _open_file(place, each=each) if root is None else _open(root, "zarr")
    if found is None or (root is None and not found.sources):
        return None
    return None if found.main is not None and not (each and found.has_others) else found


def _find_group(place: str | Path, storage_options: Mapping[str, Any] | None) -> Location | None:
    """Return the directory of the group of Zarr that a source names, None if it names none."""
    root = locate(place, storage_options)
    if INSIDE in str(root) and not is_taken(root):
        container, inside = split_place(str(place))
        root = locate(container, storage_options) / inside
    return root if is_zarr_group(root) else None


def is_zarr_group(root: Location) -> bool:
    """Tell whether a directory is a group of Zarr whose arrays can be listed."""
    # What lies in a group on a plain web server cannot be listed.
    if not isinstance(root, Path) and not root.connection.can_list:
        return False
    try:
        with storage_errors(root):
            is_marked = any((root / mark).is_file() for mark in ("zarr.json", ".zgroup"))
    except StorageError as error:
        raise type(error)(printable(str(root)), error.reason, error.advice) from error
    if not is_marked:
        return False
    with needs("zarr", "zarr"):
        from dask_io.formats.zarr.group import is_group_at  # noqa: PLC0415 - a second, if needed
    return is_group_at(root)


def _open_file(place: str | Path, *, each: bool) -> Tree | None:
    if is_url(place) or not Path(place).is_file():
        return None
    container = find_container(Path(place), None)
    return None if container is None else _open(Path(place), container.name, each=each)


def _open(root: Location, format: str, *, each: bool = False) -> Tree | None:  # noqa: A002 - the word that users know
    container = load_format(format)
    if not isinstance(container, HoldsSeveral):
        return None
    refuse_unfinished(root)
    return container.read_tree(root, each=each)


def choose_chunks(source: Tree, chunks: Chunks, what: str = "chunks") -> dict[str, Chunks]:
    """Return the chunks of every array, None for those that keep theirs; messages say `what`.

    By names of dimensions; by position for the levels of an image, for an array that all else
    belongs to, or if all but coordinates, and lists that are only copied, have so many axes.

    Raises
    ------
    UsageError
        If a name is that of no array's dimension, or it must be names.
    """
    dimensions, levels = source.dimensions, source.levels
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
            f"{printable(source.place)} {found}; {what} are given by the names of dimensions, or "
            f"by position if all have so many axes; write {what} as time=24,y=-1"
        )
    return {name: chunks if name in data else None for name in dimensions}


def choose_shards(source: Tree, shards: Shards | None) -> dict[str, Shards | None]:
    """Return the shards of every array, in the same way, None where none are asked for."""
    if shards is None:
        return dict.fromkeys(source.dimensions)
    return cast("dict[str, Shards | None]", choose_chunks(source, shards, "shards"))


def _is_cut(source: Tree, name: str) -> bool:
    """Tell whether chunks without names are for an array: no coordinate, nor a list to copy."""
    names = source.dimensions[name]
    is_list = len(names) <= 1 and source.arrays[name].source is None
    return bool(names) and not is_list and not is_coordinate(name, names)


def chunks_or_kept(source: Tree, name: str, chunks: Chunks) -> Chunks:
    """Return the chunks that an array is to have, None if they are those of the source's own."""
    kept = source.arrays[name].kept_grid
    return kept.longest if chunks is None and kept is not None else chunks


def plan_each(names: Iterable[str], plan: Callable[[str], P]) -> dict[str, P]:
    """Plan arrays one after another.

    Raises
    ------
    BudgetTooSmallError
        If the memory does for some of them only; it names the one that needs most.
    """
    jobs, too_large = {}, []
    for name in names:
        try:
            jobs[name] = plan(name)
        except BudgetTooSmallError as error:
            unit = f"{error.unit} of array {printable(name)}"
            too_large.append(BudgetTooSmallError(error.required, error.budget, unit))
    if too_large:
        raise max(too_large, key=lambda error: error.required)
    return jobs


def make_series(
    source: Tree, output: Output | None, jobs: Mapping[str, Job], options: Options
) -> SeriesJob:
    """Return the job that moves all arrays, each of which has one.

    Raises
    ------
    UsageError
        If there is none.
    """
    first = next(iter(jobs.values()), None)
    if first is None:
        raise UsageError(f"{printable(source.place)} holds no array to move")
    memory = parse_memory(options.get("memory"))
    return SeriesJob(source.place, output, jobs, first.workers, first.device, memory)


def name_one(source: Tree) -> str:
    """Return how one of the arrays is named, for messages."""
    names = (name for name in source.sources if name not in source.refused)
    name = source.main or next(names, "name")
    return printable(f"{source.place}{INSIDE}/{name}")


def refuse_uncopied(source: Tree) -> None:
    """Refuse a whole of which not everything can be copied.

    Raises
    ------
    UsageError
        If there is such a thing.
    """
    for name, problem in source.refused.items():
        raise UsageError(
            f"{printable(name)} in {printable(source.place)} cannot be copied: it {problem}; name "
            f"one array, as in {name_one(source)}"
        )


def is_to_copy(source: Tree, name: str, *asked: Chunks) -> bool:
    """Tell whether an array is one that can only be copied as it is, whatever is asked of it.

    Raises
    ------
    UsageError
        If it is to be re-split all the same, along one of several axes.
    """
    if source.arrays[name].source is not None:
        return False
    if any(each is not None for each in asked) and len(source.dimensions[name]) > 1:
        why = printable(source.arrays[name].verbatim)
        raise UsageError(f"array {printable(name)} cannot be re-split: it {why}")
    return True


def verify_wholes(
    one: Tree, other: Tree, plan: Callable[[Source, Source], Comparison]
) -> Verification:
    """Compare the arrays of two groups or files, each with the one of its name.

    What two groups have that Dask IO does not understand has the same files, or differs.

    Raises
    ------
    DataError
        If one has arrays that the other has not, or a value differs that is copied as it is.
    BudgetTooSmallError
        If the memory does for some arrays only; it names the one that needs most.
    """
    shown = printable(other.place)
    differing = sorted(one.arrays.keys() ^ other.arrays.keys())
    if differing:
        problem = f"array {differing[0]} is only in one of it and {one.place}"
        raise DataError(shown, [printable(problem)])
    a, b = one.sources, other.sources
    both = [name for name in one.arrays if name in a and name in b]
    plans = plan_each(both, lambda name: plan(a[name], b[name]))
    found = Verification(0)
    for name in one.arrays:
        if name in plans:
            compared = plans[name].run(a[name], b[name])
            found = found.followed_by(compared, printable(f"{other.place}{INSIDE}/{name}"))
        elif one.format == other.format == "zarr":
            compare_files(one.root / name, other.root / name)
        elif not _is_same(one.content.read(name), other.content.read(name)):
            problem = f"array {name} differs from that of {one.place}"
            raise DataError(shown, [printable(problem)])
    return found


def _is_same(a: Any, b: Any) -> bool:
    """Compare values that are small, texts and lists of any length among them."""
    # Some formats have numbers for truth.
    a, b = (each.view("i1") if each.dtype.kind == "b" else each for each in map(np.asarray, (a, b)))
    if a.dtype.hasobject or b.dtype.hasobject:
        return a.shape == b.shape and all(map(np.array_equal, a.ravel(), b.ravel()))
    return (
        a.shape == b.shape
        and a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=")
        and (np.array_equal(a, b) or a.tobytes() == b.tobytes())
    )
