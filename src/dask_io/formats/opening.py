"""Open sources: recognise the format of a path by its name and content."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

from dask_io.errors import DataError, MissingLibraryError, StorageError, UsageError
from dask_io.formats.missing_chunks import refuse_files_as_one_block
from dask_io.formats.places import (
    advising_repair,
    has_field,
    has_wildcard,
    pattern_of,
    refuse_inside,
    refuse_unfinished,
    split_inside,
)
from dask_io.formats.registry import (
    choose_format,
    find_container_row,
    find_row,
    format_names,
    row_of,
)
from dask_io.formats.reopening import decoded, reopen_blocks, with_gathered_headers
from dask_io.journal.journal import find_journal, read_job
from dask_io.storage.files import peeking, read_whole, size_of
from dask_io.storage.location import is_taken, locate, may_exist
from dask_io.storage.medium import NOT_A_FILE
from dask_io.storage.os_errors import storage_errors
from dask_io.stores import manifest
from dask_io.stores.block_files import BlockFiles, Blocks
from dask_io.stores.block_names import BlockNames, OneName
from dask_io.stores.blocks import peeking_at_header
from dask_io.stores.detached import find_data, with_data_suffix
from dask_io.stores.discovery import open_by_headers
from dask_io.stores.listing import scan
from dask_io.stores.name_inference import guess_names, is_coloured
from dask_io.stores.position_names import names_by_position
from dask_io.stores.slices import check_slices, format_of_files
from dask_io.stores.spec import ArraySpec
from dask_io.stores.stack import open_files
from dask_io.stores.user_description import Description, parse_dtype

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import DTypeLike

    from dask_io.formats.registry import Row
    from dask_io.geometry.chunks import Chunks
    from dask_io.storage.location import Location
    from dask_io.stores.block_format import Format, Header
    from dask_io.stores.mosaic import Mosaic
    from dask_io.stores.stack import Stack
    from dask_io.stores.store import Source

    AnyFiles: TypeAlias = BlockFiles | Mosaic | Stack

_DIGITS = re.compile("[0-9]+")
# A text file that lists block files.
_LEGEND, _LONGEST_LEGEND, _MOST_NAMED = ".txt", 2**26, 20
_CHECK_WILDCARD = "check the path; only * and ? stand for other characters"
_NOTHING_GIVEN = Description(None, None, None, None)


def open_source(
    path: str | os.PathLike[str] | Location,
    *,
    format: str | None = None,  # noqa: A002 - the word that users know
    shape: Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    chunks: Chunks = None,
    order: str | None = None,
    offset: int | None = None,
    strict: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Source:
    """Open an array, and check the names and sizes of all its block files.

    Parameters
    ----------
    path
        A directory of blocks, one file, a pattern of block files such as
        ``blocks/b_{0}_{1}.npy``, or an array in a container such as ``scan.zarr::/day/1``; or
        the URL of any of these, such as ``s3://bucket/scan.zarr``.
    format
        Name of the format; by default that of the suffix.
    shape, dtype, chunks, order, offset
        Description of data that does not describe itself. The offset is the number of bytes before
        the data in each file.
    strict
        Treat missing blocks as errors, even if they could mean the fill value.
    storage_options
        Options to connect to an object store; see `locate`.

    Raises
    ------
    StorageError
        If the path does not exist or cannot be read.
    UsageError
        If the format is unknown, or the data contradicts its description.
    DataError
        If blocks are missing, extra, truncated or do not match.
    """
    place = locate(path, storage_options)
    given = Description(
        tuple(int(n) for n in shape) if shape is not None else None,
        parse_dtype(dtype),
        chunks,
        order,
        _checked_offset(offset),
    )
    with advising_repair(place):
        found = _open(place, format, given, strict=strict)
    return decoded(found) if isinstance(found, BlockFiles) else found


def _open(
    place: Location,
    format: str | None,  # noqa: A002 - the word that users know
    given: Description,
    *,
    strict: bool,
) -> Source:
    refuse_unfinished(place)
    if place.is_dir():
        with storage_errors(place):
            is_described = (place / manifest.NAME).is_file()
        if is_described:
            return _open_manifest(place, format, given)
    source = _open_container(place, format, strict=strict)
    if source is not None:
        given.agree_with(source)
        return source
    if place.is_dir():
        return _open_directory(place, format, given)
    if has_field(str(place)) and not is_taken(place):
        lower = row_of(place.name.lower()) if row_of(place.name) is None else None
        chosen = choose_format(place, format or (lower.name if lower is not None else None))
        if chosen.names_data and chosen.is_detached:
            headers = filter(pattern_of(place).parse, sorted(scan(place.parent)))
            chosen = with_data_suffix(place.parent, headers, chosen)
        place = place.with_name(chosen.data_name(place.name))
        names = pattern_of(place)
        if _describes(place.parent, names):
            return _open_manifest(place.parent, chosen.name, given)
        files = scan(place.parent)
        names = pattern_of(place, _count_axes(place.parent, files, chosen, names, given))
        if names.only_slices and ":from" not in place.name:
            names = _with_first_number(names, files)
        return _open_blocks(place.parent, files, chosen, names, given)
    return _open_by_name(place, format, given)


def _with_first_number(names: BlockNames, files: Iterable[str]) -> BlockNames:
    """Count slices from the lowest number that their files have, as for a directory."""
    (axis,) = names.slice_axes
    found = [numbers[axis] for name in files if (numbers := names.parse(name)) is not None]
    return names.counted_from(min(found)) if any(found) and min(found) else names


def _open_by_name(
    place: Location,
    format: str | None,  # noqa: A002 - the word that users know
    given: Description,
) -> Source:
    """Open a file, the files that match a wildcard, or those that a legend lists."""
    if has_wildcard(place.name) and not is_taken(place):
        return _open_wildcard(place, format, given)
    if not place.exists():
        advice = _CHECK_WILDCARD if "[" in place.name else "check the path"
        raise StorageError(str(place), "no such file or directory", advice)
    listed = _listed_in(place) if place.suffix == _LEGEND else []
    if listed:
        return _open_directory(place.parent, format, given, listed)
    # A file that the user describes needs no suffix.
    is_described = given.shape is not None and given.dtype is not None
    is_raw = format is None and row_of(place.name) is None and is_described
    return _open_file(place, choose_format(place, "raw" if is_raw else format), given)


def _checked_offset(offset: int | None) -> int | None:
    if offset is not None and (type(offset) is not int or offset < 0):
        raise UsageError(f"offset {offset!r} is not a number of bytes; give 0 or more")
    return offset


def _open_container(place: Location, format: str | None, *, strict: bool) -> Source | None:  # noqa: A002
    """Open an array in a container, None if the path is not a container."""
    path, inside = split_inside(place)
    row = find_container_row(path, format)
    if row is not None and (inside or may_exist(path)):
        return row.load_container().open(path, inside, strict=strict)
    refuse_inside(path, inside)
    return None


def _describes(folder: Location, names: BlockNames) -> bool:
    """Whether a directory has a valid manifest for files of these names."""
    with suppress(DataError, StorageError, ValueError):
        found = manifest.Manifest.read(folder).names
        return found == BlockNames(names.pattern, found.n_axes)
    return False


def _open_manifest(folder: Location, format: str | None, given: Description) -> BlockFiles:  # noqa: A002
    found = with_gathered_headers(manifest.Manifest.read(folder))
    if format is not None and format != found.format:
        raise UsageError(f"{folder} holds {found.format} blocks, but format is {format}")
    try:
        chosen = find_row(found.format).load_blocks()
    except MissingLibraryError:
        raise
    except UsageError as error:
        raise DataError(str(folder / manifest.NAME), [str(error)]) from error
    if found.offset and chosen.longest_header:
        problem = f"offset is {found.offset}, but {chosen.name} files have headers of their own"
        raise DataError(str(folder / manifest.NAME), [problem])
    chosen = format_of_files(found.names, chosen)
    blocks = Blocks(folder, found.names, chosen, found.spec, found.offset)
    source = BlockFiles(blocks, scan(folder), only_blocks=True)
    given.agree_with(source)
    return source


def _listed_in(legend: Location) -> list[str]:
    """Return the names in a legend: a text file with the name of a block file in each line.

    Empty if it is another text.

    Raises
    ------
    DataError
        If it lists files that are elsewhere.
    """
    try:
        lines = read_whole(legend, _LONGEST_LEGEND).decode().split("\n")
    except UnicodeDecodeError:
        return []
    names = [line.strip() for line in lines if line.strip()]
    known = [row for name in names[:1] if (row := row_of(name)) is not None and row.blocks]
    for name in names if known else []:
        folder, _, last = name.rpartition("/")
        is_here = not folder or locate(folder).resolve() == legend.parent.resolve()
        if last in {"", ".", ".."} or not is_here:
            raise DataError(
                str(legend),
                [f"lists {name!r}, which is not in the same directory"],
                "move the files and the legend to one directory",
            )
    return [name.rpartition("/")[2] for name in names] if known else []


def _open_directory(
    folder: Location,
    format: str | None,  # noqa: A002 - the word that users know
    given: Description,
    listed: Sequence[str] | None = None,
) -> AnyFiles:
    files = {name: n for name, n in scan(folder).items() if not name.startswith(".")}
    if listed is not None:
        if missing := [name for name in listed if name not in files]:
            raise DataError(str(folder), [f"{name} is missing" for name in missing[:_MOST_NAMED]])
        files = {name: files[name] for name in listed}
    by_format: dict[str, list[str]] = {}
    by_pattern: dict[str, Row | None] = {}
    for name in sorted(name for name, size in files.items() if size != NOT_A_FILE):
        pattern = _DIGITS.sub("0", name)
        if pattern not in by_pattern:
            by_pattern[pattern] = row_of(name) or row_of(name.lower())
        found = by_pattern[pattern]
        if format is not None and name.endswith(find_row(format).shared):
            found = find_row(format)
        if found is not None and found.blocks and format in {None, found.name}:
            by_format.setdefault(found.name, []).append(name)
    if len(by_format) > 1:
        by_format = _without_data_files(by_format)
    if len(by_format) > 1:
        usual = max(by_format.values(), key=len)
        raise DataError(
            str(folder),
            [f"it holds {' and '.join(by_format)} files"],
            f"give those of one format, as in '{folder}/*{_suffix_of(usual[0])}'",
        )
    if not by_format:
        raise _no_blocks(folder, format, by_pattern.values())
    ((chosen_name, block_names),) = by_format.items()
    chosen, block_names = _choose_variant(folder, chosen_name, block_names)
    names = _guess_names(folder, block_names, chosen, given)
    return _open_blocks(folder, files, chosen, names, given)


def _no_blocks(
    folder: Location,
    format: str | None,  # noqa: A002 - the word that users know
    rows: Iterable[Row | None],
) -> DataError:
    """Return the error for a directory without block files."""
    alone = {row.name for row in rows if row is not None and row.is_one_file}
    if format is None and alone:
        problem = f"its {' and '.join(sorted(alone))} files are not blocks of one array"
        return DataError(str(folder), [problem], "give one of the files, or join them first")
    return DataError(
        str(folder),
        ["no block files"],
        f"give a pattern of block files, as in '{folder}/b_{{0}}_{{1}}.npy', "
        f"or a format ({', '.join(format_names())})",
    )


def _suffix_of(name: str) -> str:
    """Return the suffix of a file, with that of the file that gzip compressed."""
    stem, dot, last = name.rpartition(".")
    return f"{PurePath(stem).suffix if last == 'gz' else ''}{dot}{last}"


def _open_wildcard(
    place: Location,
    format: str | None,  # noqa: A002 - the word that users know
    given: Description,
) -> AnyFiles:
    """Open the block files whose names match a path such as ``scan/*.npy``.

    Raises
    ------
    StorageError
        If no file matches.
    DataError
        If only some of the files match that follow the same pattern.
    """
    folder = place.parent
    if not folder.is_dir():
        raise StorageError(str(folder), "no such directory", "check the path")
    files = scan(folder)
    # Brackets are part of the name.
    wanted = re.escape(place.name).replace(r"\*", ".*").replace(r"\?", ".")
    found = [name for name in files if re.fullmatch(wanted, name) and not name.startswith(".")]
    if not found:
        raise StorageError(str(place), "no file has such a name", _CHECK_WILDCARD)
    source = _open_directory(folder, format, given, found)
    names, chosen = source.block_names, set(found)
    others = [name for name in files if names and name not in chosen and names.parse(name)]
    if others:
        raise DataError(
            str(place),
            [f"it leaves out files such as {min(others)}, which belong to the same array"],
            "give the directory, and --region to use a part of the array; or link the wanted files "
            "into a folder of their own",
        )
    return source


def _choose_variant(folder: Location, name: str, files: list[str]) -> tuple[Format, list[str]]:
    """Return the format of all block files in a directory, and those of them that have data."""
    whole = find_row(name).load_blocks()
    variants = {file: whole.of_file(file.lower()) for file in files}
    kinds = list({id(variant): variant for variant in variants.values()}.values())
    if len(kinds) > 1:
        found = " and ".join(sorted(f"{kind.suffixes[0]} files" for kind in kinds))
        example = f"{folder}/b_{{0}}_{{1}}_{{2}}{kinds[0].suffixes[0]}"
        raise DataError(str(folder), [f"it holds {found}"], f"give one pattern, as in '{example}'")
    chosen = kinds[0]
    if chosen.names_data and chosen.is_detached:
        chosen = with_data_suffix(folder, files, chosen)
        return chosen, list(map(chosen.data_name, files))
    return chosen, [file for file in files if chosen.data_name(file) == file]


def _without_data_files(by_format: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave out files that belong to the headers of another format, and have their names."""
    stems: dict[str, set[str]] = {}
    for name, files in by_format.items():
        whole = find_row(name).load_blocks()
        suffixes = [each.header_suffix for each in whole.variants if each.names_data]
        stems[name] = {
            file.removesuffix(suffix)
            for file in files
            for suffix in suffixes
            if file.endswith(suffix)
        }
    others = {name: set().union(*(stems[each] for each in stems if each != name)) for name in stems}
    left = {
        name: [file for file in files if file.rpartition(".")[0] not in others[name]]
        for name, files in by_format.items()
    }
    return {name: files for name, files in left.items() if files}


def _guess_names(
    folder: Location, block_names: list[str], chosen: Format, given: Description
) -> BlockNames:
    # Some programs write suffixes in upper case.
    first = block_names[0]
    n_characters = max(len(each) for each in chosen.suffixes if first.lower().endswith(each))
    suffix = first[len(first) - n_characters :]
    if chosen.has_space:
        by_position = names_by_position(
            block_names, suffix, lambda name: _good_header(folder, name, chosen)
        )
        if by_position is not None:
            return by_position
    if chosen.longest_header:
        first_shape = _first_shape(folder, block_names, chosen)
    else:
        grid, _, _ = given.needed_by(folder, chosen)
        first_shape = tuple(axis.length_at(0) if axis.length else 0 for axis in grid.axes)
    return guess_names(
        str(folder),
        block_names,
        suffix=suffix,
        first_shape=first_shape,
        is_of_file=bool(chosen.longest_header),
        slices_are_last=chosen.order == "F",
    )


def _good_header(folder: Location, name: str, chosen: Format) -> Header | None:
    """Return the header of a file, None if it is invalid."""
    with suppress(ValueError, DataError), peeking_at_header(folder, name, chosen) as peek:
        return chosen.parse_header(peek)
    return None


def _first_shape(folder: Location, block_names: list[str], chosen: Format) -> tuple[int, ...]:
    """Return the shape of the first block that has a valid header."""
    reason = ""
    for name in sorted(block_names, key=lambda name: [*map(int, _DIGITS.findall(name))]):
        if chosen.open_file is not None:
            return chosen.open_file(folder / name).grid.shape
        try:
            with peeking_at_header(folder, name, chosen) as peek:
                return chosen.parse_header(peek).shape
        except ValueError as error:
            reason = reason or f"{name} {error}"
        except DataError as error:
            reason = reason or f"{name} {error.problems[0]}"
    raise DataError(str(folder), [reason])


def _count_axes(
    folder: Location,
    files: Mapping[str, int],
    chosen: Format,
    names: BlockNames,
    given: Description,
) -> int:
    """Return the number of axes of an array that is stored in slices, 0 if it is unknown.

    A single number in the names of 2-D files counts slices, also if the pattern does not say so.
    """
    if not chosen.longest_header:
        n_given = len(given.shape or ())
        return n_given if names.slice_axes or len(names.axes) == 1 else 0
    ours = [name for name, size in files.items() if size != NOT_A_FILE and names.parse(name)]
    if not ours or names.by_offset or not (names.slice_axes or len(names.axes) == 1):
        return 0
    shape = _first_shape(folder, ours, chosen)
    if not names.slice_axes and len(shape) != len("yx") and not is_coloured(shape):
        return 0
    return len(shape) + (len(names.slice_axes) or 1)


def _open_blocks(
    folder: Location,
    files: Mapping[str, int],
    chosen: Format,
    names: BlockNames | OneName,
    given: Description,
) -> AnyFiles:
    slice_axes = names.slice_axes if isinstance(names, BlockNames) else ()
    if chosen.open_file is not None and isinstance(names, BlockNames):
        combined = open_files(folder, files, chosen, names)
        given.agree_with(combined)
        return combined
    if chosen.longest_header:
        source = open_by_headers(folder, files, chosen, names)
        given.agree_with(source)
        return source
    grid, dtype, layout = given.needed_by(folder, chosen, slice_axes)
    if names.n_axes != len(grid.axes):
        raise UsageError(
            f"{names.pattern} has {names.n_axes} fields, but the given shape has "
            f"{len(grid.axes)} axes"
        )
    if problem := check_slices(names, grid):
        raise UsageError(f"{names.pattern}: {problem}; leave out the chunks of the source")
    offset = given.offset or 0
    if given.chunks is None and grid.n_blocks == 1 and isinstance(names, BlockNames):
        refuse_files_as_one_block(
            folder, files, names, grid.shape, itemsize=dtype.itemsize, offset=offset
        )
    spec = ArraySpec(grid, dtype, layout)
    return BlockFiles(Blocks(folder, names, chosen, spec, offset), files)


def _open_named_data(path: Location, chosen: Format, given: Description) -> Source:
    """Open one file, or the file that its header names."""
    if size_of(path) == NOT_A_FILE:
        raise StorageError(str(path), "is neither a file nor a directory", "check the path")
    try:
        with peeking(path) as peek:
            header = chosen.parse_header(peek)
    except ValueError as error:
        raise DataError(str(path), [str(error)]) from error
    folder, names = find_data(path, header)
    files = {names.pattern: size_of(folder / names.pattern)}
    return _open_blocks(folder, files, chosen, names, given)


def _open_file(path: Location, chosen: Format, given: Description) -> Source:
    if chosen.names_data:
        return _open_named_data(path, chosen, given)
    path = path.with_name(chosen.data_name(path.name))
    files = {path.name: size_of(path)}
    if files[path.name] == NOT_A_FILE:
        raise StorageError(str(path), "is neither a file nor a directory", "check the path")
    if chosen.open_file is not None:
        source = chosen.open_file(path)
        given.agree_with(source)
        return source
    if chosen.longest_header:
        try:
            with peeking_at_header(path.parent, path.name, chosen) as peek:
                n_axes = len(chosen.parse_header(peek).shape)
        except ValueError as error:
            raise DataError(str(path), [str(error)]) from error
        return _open_blocks(path.parent, files, chosen, OneName(path.name, n_axes), given)
    if given == _NOTHING_GIVEN and (journal := find_journal(path)) is not None:
        # Dask IO wrote the file, and the journal next to it describes it.
        described = read_job(journal).get("target")
        if isinstance(described, dict) and described.get("format") == chosen.name:
            return reopen_blocks(described, path)
    grid, _, _ = given.needed_by(path, chosen)
    if grid.n_blocks > 1:
        raise UsageError(f"{path} is one file, so it is one block; leave out chunks")
    return _open_blocks(path.parent, files, chosen, OneName(path.name, len(grid.axes)), given)
