"""Open a store again from its description."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError, MissingLibraryError, UsageError
from dask_io.formats.places import has_field, holder_of
from dask_io.formats.registry import built_in_names, find_row
from dask_io.storage.files import size_of
from dask_io.storage.location import is_url, locate
from dask_io.stores import manifest
from dask_io.stores.block_files import BlockFiles, Blocks
from dask_io.stores.block_files_target import BlockFilesTarget
from dask_io.stores.block_names import OneName
from dask_io.stores.kept_headers import gather_headers
from dask_io.stores.listing import scan
from dask_io.stores.mosaic import is_mosaic
from dask_io.stores.slices import format_of_files
from dask_io.stores.stack import reopen_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.block_format import Format
    from dask_io.stores.container import Container
    from dask_io.stores.store import Readback, Source, Target


def reopen_source(
    described: Mapping[str, Any],
    *,
    at: Location | None = None,
    absent: AbstractSet[tuple[int, ...]] = frozenset(),
    storage_options: Mapping[str, Any] | None = None,
) -> Source:
    """Open a store again, from the description that its `describe` returned.

    Parameters
    ----------
    described
        The description.
    at
        Its place now; by default the described one.
    absent
        Blocks that may be missing.
    storage_options
        Options to connect to an object store; see `locate`.

    Raises
    ------
    DataError
        If the store does not match the description, or the description is invalid.
    """
    if at is None and is_url(folder := str(described.get("folder"))):
        at = locate(folder, storage_options)
        if "file" in described:
            at = at / str(described["file"])
    if is_mosaic(described):
        with _description_errors(described, at):
            return reopen_files(described, at, _blocks_of(described))
    container = _container_of(described)
    if container is not None:
        with _description_errors(described, at):
            return container.reopen(described, None if at is None else holder_of(at), absent)
    if isinstance(path := described.get("path"), str):
        # A file that its format opens.
        with _description_errors(described, at):
            open_file = _blocks_of(described).open_file
        if open_file is not None:
            return open_file(locate(path, storage_options) if at is None else at)
    return decoded(reopen_blocks(described, at, absent))


def decoded(files: BlockFiles) -> Source:
    """Return the source for block files: themselves, unless they are compressed as a whole."""
    stream = files.blocks.stream
    return files if stream is None else stream.open(files)


def reopen_blocks(
    described: Mapping[str, Any],
    at: Location | None,
    absent: AbstractSet[tuple[int, ...]] = frozenset(),
) -> BlockFiles:
    """Open block files again, or one file, as `reopen_source` does."""
    blocks = described_blocks(described, at)
    if len(absent) == blocks.grid.n_blocks and not blocks.path.exists():
        files: Mapping[str, int] = {}
    elif blocks.is_one_file:
        files = {blocks.path.name: size_of(blocks.path)}
    else:
        files = scan(blocks.folder)
    return BlockFiles(blocks, files, absent=absent)


def read_back(described: Mapping[str, Any], *, at: Location) -> Readback:
    """Open a former target for reading, to verify its blocks.

    Raises
    ------
    DataError
        If the store does not match the description.
    """
    container = _container_of(described)
    if container is None:
        files = reopen_blocks(described, at)
        stream = files.blocks.stream
        return files if stream is None else stream.read_back(files)
    with _description_errors(described, at):
        return container.read_back(described, holder_of(at))


def remake_target(
    described: Mapping[str, Any], *, at: Location, durability: Durability, reserve: bool
) -> Target:
    """Return a target again, from the description that its `describe` returned."""
    container = _container_of(described)
    if container is not None:
        with _description_errors(described, at):
            place = holder_of(at)
            return container.remake(described, place, durability=durability, reserve=reserve)
    return make_blocks(
        described_blocks(described, at), overwrite=False, durability=durability, reserve=reserve
    )


def make_blocks(
    blocks: Blocks, *, overwrite: bool, durability: Durability, reserve: bool
) -> Target:
    """Describe a target of block files, compressed if that is their format."""
    make = BlockFilesTarget if blocks.stream is None else blocks.stream.make
    return make(blocks, overwrite=overwrite, durability=durability, reserve=reserve)


def _container_of(described: Mapping[str, Any]) -> Container | None:
    """Return the container of a described store, None if it consists of block files."""
    try:
        row = find_row(str(described.get("format")))
    except UsageError:
        return None
    is_container = row.container and not (row.blocks and "pattern" in described)
    return row.load_container() if is_container else None


def _blocks_of(described: Mapping[str, Any]) -> Format:
    """Return the format of described files that are opened one by one."""
    try:
        return find_row(str(described.get("format"))).load_blocks()
    except MissingLibraryError:
        raise
    except UsageError as error:
        raise ValueError(str(error)) from error


@contextmanager
def _description_errors(described: Mapping[str, Any], at: Location | None) -> Iterator[None]:
    """Turn errors in a description into `DataError`."""
    try:
        yield
    except ValueError as error:
        place = at or locate(str(described.get("folder")))
        raise DataError(str(place), [f"its description {error}"]) from error


def with_gathered_headers(found: manifest.Manifest) -> manifest.Manifest:
    """Return a manifest with all headers under one key, as earlier versions did not write it."""
    return replace(found, metadata=gather_headers(found.metadata, built_in_names()))


def described_blocks(described: Mapping[str, Any], at: Location | None) -> Blocks:
    """Return the block files of a description, or the one file, at their place now.

    Raises
    ------
    DataError
        If the description is invalid.
    """
    place = at or locate(str(described.get("folder")))
    try:
        found = with_gathered_headers(manifest.Manifest.from_json(dict(described)))
        chosen = find_row(found.format).load_blocks()
    except MissingLibraryError:
        raise
    except (ValueError, UsageError) as error:
        raise DataError(str(place), [f"its description {error}"]) from error
    folder, names = place, found.names
    if at is not None and isinstance(names, OneName):
        folder, names = at.parent, replace(names, pattern=at.name)
    elif at is not None and not at.is_dir() and has_field(at.name):
        folder = at.parent
    chosen = format_of_files(names, chosen)
    return Blocks(folder, names, chosen, found.spec, found.offset)
