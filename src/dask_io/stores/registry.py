"""From a path to a store: sources are recognised, targets made."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from dask_io.errors import DataError, SamePlaceError, StorageError, UsageError
from dask_io.stores import manifest
from dask_io.stores.blockfiles import BlockFiles, Blocks
from dask_io.stores.blocktarget import BlockFilesTarget
from dask_io.stores.container import (
    INSIDE,
    Container,
    OneFile,
    Wanted,
    Wishes,
    beside,
    split_place,
)
from dask_io.stores.description import Description, parse_dtype
from dask_io.stores.discovery import open_by_headers
from dask_io.stores.dtypes import check_dtype
from dask_io.stores.files import NOT_A_FILE, Durability, storage_errors
from dask_io.stores.formats import (
    choose_format,
    find_container,
    format_names,
    format_of,
    has_blocks,
    load_format,
    of_blocks,
)
from dask_io.stores.journal import find_journal, is_unfinished, refuse_locked
from dask_io.stores.listing import look_at, scan
from dask_io.stores.location import is_taken, is_url, locate, may_exist
from dask_io.stores.logs import NAME as JOURNAL
from dask_io.stores.medium import medium_of, peeking
from dask_io.stores.naming import BlockNames, OneName, printable

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import numpy as np
    from numpy.typing import DTypeLike

    from dask_io.geometry import Grid, Layout
    from dask_io.geometry.chunks import Chunks
    from dask_io.stores.format import Format
    from dask_io.stores.location import Location
    from dask_io.stores.store import Readback, Source, Target

_NO_WISHES = Wishes()
_NO_METADATA: Mapping[str, Any] = MappingProxyType({})
_HAS_FIELD = re.compile(r"(?<!\{)(?:\{\{)*\{[^{}]*\}")


def _show(path: Location) -> str:
    return printable(str(path))


def open_source(
    path: str | os.PathLike[str] | Location,
    *,
    format: str | None = None,  # noqa: A002 - the word that users know
    shape: Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    chunks: Chunks = None,
    order: str | None = None,
    strict: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Source:
    """Open what a path names, after looking at the names and sizes of all block files.

    Parameters
    ----------
    path
        A directory of blocks, one file, a pattern of block files such as
        ``blocks/b_{0}_{1}.npy``, or an array in a container such as ``scan.zarr::/day/1``; or
        the URL of any of these, such as ``s3://bucket/scan.zarr``.
    format
        Name of the format; by default the suffix says it.
    shape, dtype, chunks, order
        Description of data that does not describe itself.
    strict
        Whether blocks must be there whose absence could mean the fill value.
    storage_options
        How to reach an object store; see `locate`.

    Raises
    ------
    StorageError
        If the path is absent or cannot be read.
    UsageError
        If it is no format that is known, or contradicts its description.
    DataError
        If blocks are missing, extra, truncated or do not match.
    """
    place = locate(path, storage_options)
    said = Description(
        tuple(int(n) for n in shape) if shape is not None else None,
        parse_dtype(dtype),
        chunks,
        order,
    )
    refuse_unfinished(place)
    if place.is_dir():
        with storage_errors(place):
            is_described = (place / manifest.NAME).is_file()
        if is_described:
            return _open_manifest(place, format, said)
    source = _open_container(place, format, strict=strict)
    if source is not None:
        said.agree_with(source)
        return source
    if place.is_dir():
        return _open_directory(place, format, said)
    if _HAS_FIELD.search(str(place)) and not is_taken(place):
        names = _pattern(place)
        chosen = choose_format(place, format)
        if _describes(place.parent, names):
            return _open_manifest(place.parent, chosen.name, said)
        return _open_blocks(place.parent, scan(place.parent), chosen, names, said)
    if not place.exists():
        raise StorageError(_show(place), "no such file or directory", "check the path")
    return _open_file(place, choose_format(place, format), said)


def _open_container(place: Location, format: str | None, *, strict: bool) -> Source | None:  # noqa: A002
    """Open an array in a container, None if the place is none."""
    path, inside = _split(place)
    container = find_container(path, format)
    if container is not None and (inside or may_exist(path)):
        return container.open(path, inside, strict=strict)
    _refuse_inside(path, inside)
    return None


def _split(place: Location) -> tuple[Location, str]:
    """Split a place into a container and the path inside it; what exists is a plain path."""
    if INSIDE not in str(place) or is_taken(place):
        return place, ""
    path, inside = split_place(str(place))
    return (locate(path) if isinstance(place, Path) else place.again(path)), inside


def _refuse_inside(path: Location, inside: str) -> None:
    if inside:
        raise UsageError(f"{_show(path)} is no container, so nothing can be named inside it")


def journal_at(path: Location) -> Location | None:
    """Return the journal of the target that a path names, if there is one."""
    if _HAS_FIELD.search(path.name) and not is_taken(path):
        return find_journal(path.parent)
    container, inside = _split(path)
    found = find_journal(_locate(path))
    if found is None and inside and isinstance(container, Path):
        return find_journal(beside(container, inside))
    return found


def _locate(place: Location) -> Location:
    """Return the file or directory that a place names, in a container too."""
    path, inside = _split(place)
    is_one_file = path.is_file() or isinstance(format_of(path.name), OneFile)
    return path if is_one_file else path / inside


def targets_in(path: Location) -> list[Location]:
    """Return the targets with a journal that a path names: itself, or those that lie in it."""
    if journal_at(path) is not None:
        return [path]
    if not path.is_dir():
        return []
    with storage_errors(path):
        # What lies beside the journal of one file may not be there yet.
        names = {name.removesuffix(JOURNAL) for name in medium_of(path).names(path)}
    return [path / name for name in sorted(names) if name and journal_at(path / name) is not None]


def refuse_unfinished(path: Location) -> None:
    """Refuse blocks that could be taken for a smaller array, or for whole ones.

    Raises
    ------
    DataError
        If the run that wrote them did not end.
    StorageError
        If it is still writing.
    """
    journal = journal_at(path)
    if journal is not None and is_unfinished(journal):
        # Where the lock cannot be asked, nobody is known to write.
        with suppress(OSError):
            refuse_locked(journal)
        raise DataError(
            _show(path),
            ["it is unfinished: the run that wrote it did not end"],
            f"complete it with dask-io resume {_show(path)}",
        )


def _pattern(path: Location) -> BlockNames:
    if _HAS_FIELD.search(str(path.parent)) and not path.parent.is_dir():
        raise UsageError(f"{_show(path)} has fields outside the file name; put all of them there")
    try:
        return BlockNames(path.name)
    except ValueError as error:
        raise UsageError(f"{_show(path)} is no pattern of block files: {error}") from error


def _describes(folder: Location, names: BlockNames) -> bool:
    """Whether a directory has a good manifest about files of these names."""
    with suppress(DataError, StorageError):
        return manifest.Manifest.read(folder).names == names
    return False


def _open_manifest(folder: Location, format: str | None, said: Description) -> BlockFiles:  # noqa: A002
    found = manifest.Manifest.read(folder)
    if format is not None and format != found.format:
        raise UsageError(f"{_show(folder)} holds {found.format} blocks, but {format} is asked for")
    try:
        chosen = of_blocks(load_format(found.format))
    except UsageError as error:
        raise DataError(_show(folder / manifest.NAME), [str(error)]) from error
    blocks = Blocks(folder, found.names, chosen, found.grid, found.dtype, found.layout)
    source = BlockFiles(blocks, scan(folder), only_blocks=True)
    said.agree_with(source)
    return source


def _open_directory(folder: Location, format: str | None, said: Description) -> BlockFiles:  # noqa: A002
    files = {name: n for name, n in scan(folder).items() if not name.startswith(".")}
    by_format: dict[str, list[str]] = {}
    by_pattern: dict[str, Format | None] = {}
    for name in sorted(name for name, size in files.items() if size != NOT_A_FILE):
        pattern = re.sub("[0-9]+", "0", name)
        if pattern not in by_pattern:
            by_pattern[pattern] = _block_format_of(name)
        found = by_pattern[pattern]
        if found is not None and (format is None or found.name == format):
            by_format.setdefault(found.name, []).append(name)
    if len(by_format) != 1:
        found_text = f"it holds {' and '.join(by_format)} files" if by_format else "no block files"
        raise DataError(
            _show(folder),
            [found_text],
            f"name one pattern of files, as in '{_show(folder)}/b_{{0}}_{{1}}.npy', "
            f"or a format ({', '.join(format_names())})",
        )
    ((chosen_name, block_names),) = by_format.items()
    chosen = of_blocks(load_format(chosen_name))
    names = _guess_names(folder, block_names, chosen, said)
    return _open_blocks(folder, files, chosen, names, said)


def _block_format_of(name: str) -> Format | None:
    found = format_of(name)
    return None if found is None or not has_blocks(found) else of_blocks(found)


def _guess_names(
    folder: Location, block_names: list[str], chosen: Format, said: Description
) -> BlockNames:
    suffixes = {suffix for suffix in chosen.suffixes if block_names[0].endswith(suffix)}
    suffix = max(suffixes, key=len)
    if chosen.longest_header:
        first_shape = _first_shape(folder, block_names, chosen)
    else:
        grid, _, _ = said.needed_by(folder, chosen)
        first_shape = tuple(axis.length_at(0) if axis.length else 0 for axis in grid.axes)
    return BlockNames.guess(str(folder), block_names, suffix=suffix, first_shape=first_shape)


def _first_shape(folder: Location, block_names: list[str], chosen: Format) -> tuple[int, ...]:
    """Return the shape of the first block that has a good header."""
    reason = ""
    for name in sorted(block_names, key=lambda name: [int(n) for n in re.findall("[0-9]+", name)]):
        try:
            with peeking(folder / name) as peek:
                return chosen.parse_header(peek).shape
        except ValueError as error:
            reason = reason or f"{printable(name)} {error}"
    raise DataError(_show(folder), [reason])


def _open_blocks(
    folder: Location,
    files: Mapping[str, int],
    chosen: Format,
    names: BlockNames | OneName,
    said: Description,
) -> BlockFiles:
    if chosen.longest_header:
        source = open_by_headers(folder, files, chosen, names)
        said.agree_with(source)
        return source
    grid, dtype, layout = said.needed_by(folder, chosen)
    if names.n_axes != len(grid.axes):
        raise UsageError(
            f"{printable(names.pattern)} has {names.n_axes} fields, but the shape given has "
            f"{len(grid.axes)} axes"
        )
    return BlockFiles(Blocks(folder, names, chosen, grid, dtype, layout), files)


def reopen_source(
    described: Mapping[str, Any],
    *,
    at: Location | None = None,
    absent: AbstractSet[tuple[int, ...]] = frozenset(),
    storage_options: Mapping[str, Any] | None = None,
) -> Source:
    """Open a store again, by what its `describe` returned.

    Parameters
    ----------
    described
        The description.
    at
        Where it is now; by default where it was then.
    absent
        Blocks that need not be there.
    storage_options
        How to reach it, if it is in an object store; see `locate`.

    Raises
    ------
    DataError
        If that is not what is there, or no description.
    """
    if at is None and is_url(folder := str(described.get("folder"))):
        at = locate(folder, storage_options)
        if "file" in described:
            at = at / str(described["file"])
    container = _container_of(described)
    if container is not None:
        with _description_errors(described, at):
            return container.reopen(described, None if at is None else _locate(at), absent)
    blocks = _described(described, at)
    if len(absent) == blocks.grid.n_blocks and not blocks.path.exists():
        files = {}
    else:
        files = look_at(blocks.path) if blocks.is_one_file else scan(blocks.folder)
    return BlockFiles(blocks, files, absent=absent)


def read_back(described: Mapping[str, Any], *, at: Location) -> Readback:
    """Open what was a target, to compare its blocks with what was written.

    Raises
    ------
    DataError
        If the target that was described is not there.
    """
    container = _container_of(described)
    if container is None:
        return reopen_source(described, at=at)
    with _description_errors(described, at):
        return container.read_back(described, _locate(at))


def remake_target(
    described: Mapping[str, Any], *, at: Location, durability: Durability, reserve: bool
) -> Target:
    """Describe a target again, by what its `describe` returned, at the place where it is now."""
    container = _container_of(described)
    if container is not None:
        with _description_errors(described, at):
            place = _locate(at)
            return container.remake(described, place, durability=durability, reserve=reserve)
    return BlockFilesTarget(_described(described, at), durability=durability, reserve=reserve)


def _container_of(described: Mapping[str, Any]) -> Container | None:
    """Return the container that a store was which describes itself so."""
    with suppress(UsageError):
        found = load_format(str(described.get("format")))
        if isinstance(found, OneFile) and "pattern" in described:
            return None
        return found if isinstance(found, Container) else None
    return None


@contextmanager
def _description_errors(described: Mapping[str, Any], at: Location | None) -> Iterator[None]:
    """Say what is wrong with a description."""
    try:
        yield
    except ValueError as error:
        place = at or locate(str(described.get("folder")))
        raise DataError(_show(place), [f"its description {printable(str(error))}"]) from error


def _described(described: Mapping[str, Any], at: Location | None) -> Blocks:
    place = at or locate(str(described.get("folder")))
    try:
        found = manifest.Manifest.from_json(dict(described))
        chosen = of_blocks(load_format(found.format))
    except (ValueError, UsageError) as error:
        raise DataError(_show(place), [f"its description {error}"]) from error
    folder, names = place, found.names
    if at is not None and isinstance(names, OneName):
        folder, names = at.parent, OneName(at.name, names.n_axes)
    elif at is not None and not at.is_dir() and _HAS_FIELD.search(at.name):
        folder = at.parent
    return Blocks(folder, names, chosen, found.grid, found.dtype, found.layout)


def _open_file(path: Location, chosen: Format, said: Description) -> BlockFiles:
    files = look_at(path)
    if files[path.name] == NOT_A_FILE:
        raise StorageError(_show(path), "is neither a file nor a directory", "check the path")
    if chosen.longest_header:
        try:
            with peeking(path) as peek:
                n_axes = len(chosen.parse_header(peek).shape)
        except ValueError as error:
            raise DataError(_show(path), [str(error)]) from error
        return _open_blocks(path.parent, files, chosen, OneName(path.name, n_axes), said)
    grid, _, _ = said.needed_by(path, chosen)
    if grid.n_blocks > 1:
        raise UsageError(f"{_show(path)} is one file, so it is one block; leave chunks out")
    return _open_blocks(path.parent, files, chosen, OneName(path.name, len(grid.axes)), said)


def make_target(
    path: str | os.PathLike[str] | Location,
    *,
    grid: Grid,
    dtype: np.dtype[Any],
    layout: Layout,
    format: str | None = None,  # noqa: A002 - the word that users know
    like: str | None = None,
    overwrite: bool = False,
    durability: Durability = Durability.FSYNC,
    reserve: bool = True,
    wishes: Wishes = _NO_WISHES,
    metadata: Mapping[str, Any] = _NO_METADATA,
    storage_options: Mapping[str, Any] | None = None,
) -> Target:
    """Describe a target; nothing is touched until its `create`.

    Parameters
    ----------
    path
        One file, if its suffix names a format; a pattern of block files; an array in a
        container; else a directory.
    grid, dtype, layout
        What it will hold.
    format
        Name of the format; by default the suffix says it, else `like`.
    like
        The source's format, which a directory of blocks takes over if it can.
    overwrite
        Whether what is there may be replaced.
    durability
        What blocks outlast once they are committed.
    reserve
        Whether a block's space is reserved when it is begun.
    wishes
        What is asked for besides.
    metadata
        What the source says about the array, which the target keeps as far as it can.
    storage_options
        How to reach an object store; see `locate`.

    Raises
    ------
    UsageError
        If the format cannot hold that.
    """
    place, n_axes = locate(path, storage_options), len(grid.axes)
    root, inside = _split(place)
    is_folder = not inside and _is_directory(path, place, format)
    container = _target_container(root, format, is_folder=is_folder)
    if container is not None:
        wanted = Wanted(grid, dtype, layout, wishes, metadata)
        return container.make(
            root, inside, wanted, overwrite=overwrite, durability=durability, reserve=reserve
        )
    _refuse_inside(root, inside)
    names: BlockNames | OneName
    if _HAS_FIELD.search(str(place)) and not is_taken(place):
        names, folder, chosen = _pattern(place), place.parent, choose_format(place, format)
        if names.n_axes != n_axes:
            raise UsageError(f"{_show(place)} has {names.n_axes} fields for {n_axes} axes")
    elif is_folder:
        chosen = of_blocks(load_format(format or _block_format(like) or "npy"))
        names, folder = BlockNames.default(n_axes, chosen.suffixes[0]), place
    else:
        chosen = choose_format(place, format)
        names, folder = OneName(place.name, n_axes), place.parent
        if grid.n_blocks > 1:
            raise UsageError(
                f"{_show(place)} is one file, but the chunks make {grid.n_blocks} blocks; "
                "name a directory, or use chunks of -1"
            )
    wishes.refuse(chosen.name)
    problem = check_dtype(dtype)
    if problem:
        raise UsageError(f"a target cannot hold {problem}")
    try:
        chosen.make_header(tuple(axis.longest for axis in grid.axes), dtype, layout)
    except ValueError as error:
        raise UsageError(f"format {chosen.name} {error}") from error
    blocks = Blocks(folder, names, chosen, grid, dtype, layout)
    return BlockFilesTarget(blocks, overwrite=overwrite, durability=durability, reserve=reserve)


def _target_container(path: Location, format: str | None, *, is_folder: bool) -> Container | None:  # noqa: A002
    """Return the container that a target is by a format's name or by its suffix."""
    found = load_format(format) if format is not None else format_of(path.name)
    if not isinstance(found, Container):
        return None
    is_pattern = bool(_HAS_FIELD.search(str(path))) and not is_taken(path)
    if (is_pattern or is_folder) and isinstance(found, OneFile) and found.blocks is not None:
        return None
    if is_pattern:
        raise UsageError(f"{_show(path)} is a pattern, but {found.name} has no files of blocks")
    return found


def _block_format(name: str | None) -> str | None:
    """Return a name if it is that of a format of block files."""
    if name not in format_names() or not has_blocks(load_format(name)):
        return None
    return name


def names_one_file(
    path: str | os.PathLike[str],
    format: str | None,  # noqa: A002 - the word that users know
    storage_options: Mapping[str, Any] | None = None,
) -> bool:
    """Tell whether a target of this name is one place, not a directory or a pattern of blocks."""
    place = locate(path, storage_options)
    if _split(place)[1]:
        return True
    is_pattern = bool(_HAS_FIELD.search(str(place))) and not is_taken(place)
    return not is_pattern and not _is_directory(path, place, format)


def _is_directory(
    path: str | os.PathLike[str] | Location,
    place: Location,
    format: str | None,  # noqa: A002 - the word that users know
) -> bool:
    if str(path).endswith("/") or not place.suffix or place.is_dir():
        return True
    return format is not None and format_of(place.name) is None


class Placed(Protocol):
    """Something that is somewhere."""

    @property
    def place(self) -> str:
        """The path or address, as messages name it."""


def check_places(source: Placed, target: Placed) -> None:
    """Refuse a target that is the source, or in it, or around it; links are followed.

    Raises
    ------
    SamePlaceError
        If so.
    """
    a, b = locate(source.place).resolve(), locate(target.place).resolve()
    if _lies_in(a, b) or _lies_in(b, a):
        raise SamePlaceError(printable(source.place), printable(target.place))


def _lies_in(inner: Location, outer: Location) -> bool:
    if inner == outer or outer in inner.parents:
        return True
    if not (isinstance(inner, Path) and isinstance(outer, Path) and outer.exists()):
        return False
    return any(path.exists() and path.samefile(outer) for path in (inner, *inner.parents))
