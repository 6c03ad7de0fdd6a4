"""Create targets: choose the format of a path, and describe the new array."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from dask_io.errors import SamePlaceError, UsageError
from dask_io.formats.places import has_field, pattern_of, refuse_inside, split_target
from dask_io.formats.registry import (
    choose_format,
    find_container,
    find_row,
    format_names,
    row_of,
    target_row_of,
)
from dask_io.formats.reopening import make_blocks
from dask_io.geometry import Layout, Region
from dask_io.storage.location import is_taken, locate
from dask_io.storage.medium import Durability
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.block_files import Blocks
from dask_io.stores.block_names import BlockNames, OneName
from dask_io.stores.container import NO_CODEC, NewArray, TargetOptions
from dask_io.stores.dtypes import check_dtype
from dask_io.stores.kept_headers import HEADERS, headers_in
from dask_io.stores.slices import check_slices, format_of_files, slices_by_names
from dask_io.stores.space import stored_part
from dask_io.stores.spec import SPACE, ArraySpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from dask_io.geometry import Grid
    from dask_io.storage.location import Location
    from dask_io.stores.block_format import Format
    from dask_io.stores.container import Container
    from dask_io.stores.store import Target

_DEFAULTS = TargetOptions()
_NO_METADATA: Mapping[str, Any] = MappingProxyType({})


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
    options: TargetOptions = _DEFAULTS,
    metadata: Mapping[str, Any] = _NO_METADATA,
    name: str = "",
    storage_options: Mapping[str, Any] | None = None,
) -> Target:
    """Describe a target; nothing is touched until its `create`.

    Parameters
    ----------
    path
        One file, if it has the suffix of a format; a pattern of block files; an array in a
        container; else a directory.
    grid, dtype, layout
        Description of the new array.
    format
        Name of the format; by default that of the suffix, else `like`.
    like
        The source's format, which a directory of blocks gets if possible.
    overwrite
        Whether an existing target may be replaced.
    durability
        The failures that committed blocks survive.
    reserve
        Whether a block's space is reserved when it is begun.
    options
        Options for the format.
    metadata
        Metadata of the source, which the target keeps as far as it can.
    name
        Name of the source in its group, empty if it has none.
    storage_options
        Options to connect to an object store; see `locate`.

    Raises
    ------
    UsageError
        If the format cannot hold the array.
    """
    place, n_axes = locate(path, storage_options), len(grid.axes)
    root, inside = split_target(place, format)
    is_folder = not inside and _is_directory(path, place, format)
    container = _target_container(root, inside, format, is_folder=is_folder)
    if container is not None:
        order = find_row(container.name).fixed_order()
        layout = Layout.named(order, n_axes) if order else layout
        array = NewArray(grid, dtype, layout, options, metadata, name)
        return container.make(
            root, inside, array, overwrite=overwrite, durability=durability, reserve=reserve
        )
    refuse_inside(root, inside)
    chosen, names, folder = _choose_names(
        place, format or "", like, grid, codec=options.codec, is_folder=is_folder
    )
    if chosen.prepare is None:
        _refuse_codec(chosen, options)
        options.refuse(chosen.name)
    problem = check_dtype(dtype)
    if problem:
        raise UsageError(f"a target cannot hold {problem}")
    layout = Layout.named(chosen.order, n_axes) if chosen.order else layout
    dtype = dtype.newbyteorder(chosen.byte_order) if chosen.byte_order else dtype
    # The manifest of a directory keeps the space and the header even if the files cannot.
    has_manifest = isinstance(names, BlockNames)
    has_place = chosen.has_space or has_manifest
    try:
        kept = _kept(chosen, metadata, has_manifest=has_manifest)
        spec = ArraySpec(grid, dtype, layout, metadata.get(SPACE) if has_place else None, kept)
        if chosen.prepare is not None:
            spec = chosen.prepare(spec, options, has_manifest=has_manifest)
        blocks = Blocks(folder, names, chosen, spec)
        header = blocks.header_of(Region.whole(grid.longest))
    except ValueError as error:
        raise UsageError(f"format {chosen.name} {error}") from error
    if chosen.prepare is None:
        blocks = _with_stored_space(blocks, header)
    return make_blocks(blocks, overwrite=overwrite, durability=durability, reserve=reserve)


def _refuse_codec(chosen: Format, options: TargetOptions) -> None:
    """Refuse to compress block files, in a format that can compress one file."""
    if options.codec in {None, NO_CODEC} or not find_row(chosen.name).container:
        return
    raise UsageError(
        f"codec {options.codec}: slices and block files of {chosen.name} are not compressed; leave "
        f"--codec out, or give one file, such as volume{chosen.suffixes[0]}"
    )


def _choose_names(
    place: Location,
    format: str,  # noqa: A002 - the word that users know
    like: str | None,
    grid: Grid,
    *,
    codec: str | None,
    is_folder: bool,
) -> tuple[Format, BlockNames | OneName, Location]:
    """Return the format of block files, their names and their directory."""
    n_axes = len(grid.axes)
    names: BlockNames | OneName
    if has_field(str(place)) and not is_taken(place):
        chosen = choose_format(place, format or None)
        place = place.with_name(chosen.data_name(place.name))
        names, folder = pattern_of(place, n_axes), place.parent
        if problem := check_slices(names, grid):
            whole = ",".join(str(n) for n in slices_by_names(names).values())
            raise UsageError(
                f"{place}: {problem}; use chunks of {whole}, or a pattern with a field for each "
                "axis"
            )
        chosen = format_of_files(names, chosen)
    elif is_folder:
        chosen = find_row(format or _block_format(like) or "npy").load_blocks()
        chosen = chosen.compressed_by(codec)
        names, folder = BlockNames.default(n_axes, chosen.suffixes[0]), place
    else:
        chosen = choose_format(place, format or None)
        place = place.with_name(chosen.data_name(place.name))
        names, folder = OneName(place.name, n_axes), place.parent
        if grid.n_blocks > 1:
            raise UsageError(
                f"{place} is one file, but the chunks make {grid.n_blocks} blocks; "
                "give a directory, or use chunks of -1"
            )
    return chosen, names, folder


def chunks_by_pattern(
    path: str | os.PathLike[str] | Location,
    n_axes: int,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[int, int] | None:
    """Return the chunks that a pattern of slices implies; None for any other path.

    Raises
    ------
    UsageError
        If it is not a valid pattern.

    Examples
    --------
    >>> chunks_by_pattern("out/z_{0:04}.npy", 3), chunks_by_pattern("out/b_{0}_{1}.npy", 2)
    ({0: 1, 1: -1, 2: -1}, None)
    """
    place = locate(path, storage_options)
    if not has_field(str(place)) or is_taken(place):
        return None
    return slices_by_names(pattern_of(place, n_axes)) or None


def keeps_chunks(
    path: str | os.PathLike[str] | Location,
    format: str | None = None,  # noqa: A002 - the word that users know
    storage_options: Mapping[str, Any] | None = None,
) -> bool:
    """Tell whether a target keeps the chunks of its source, as the arrays of a group do.

    Examples
    --------
    >>> keeps_chunks("a.zarr"), keeps_chunks("a.ome.zarr"), keeps_chunks("a.npy"), keeps_chunks("a")
    (True, True, False, False)
    """
    root, _ = split_target(locate(path, storage_options), format)
    row = row_of(root.name) if format is None else find_row(format)
    return row is not None and (row.holds_trees or row.name == "ome-zarr")


def _with_stored_space(blocks: Blocks, header: bytes) -> Blocks:
    """Drop the part of the space that a single file cannot store, so that it is reported."""
    spec = blocks.spec
    if spec.space is None or not blocks.is_one_file:
        return blocks
    content = header if blocks.stream is None else blocks.stream.encode_header(header)
    held = blocks.format.parse_header(lambda n_bytes: content[:n_bytes]).space
    space = stored_part(spec.space, held, spec.grid.shape)
    return replace(blocks, spec=replace(spec, space=space))


def _kept(chosen: Format, metadata: Mapping[str, Any], *, has_manifest: bool) -> Mapping[str, Any]:
    """Return the part of a source's metadata that headers, or the manifest, can store."""
    kept = {key: metadata[key] for key in sorted(chosen.keeps & metadata.keys())}
    kept |= {} if chosen.keep is None else chosen.keep(metadata)
    headers = {
        name: header
        for name, header in headers_in(metadata).items()
        if has_manifest or (chosen.keeps_header and name == chosen.name)
    }
    headers |= headers_in(kept)
    return {**kept, HEADERS: headers} if headers else kept


def _target_container(
    path: Location,
    inside: str,
    format: str | None,  # noqa: A002 - the word that users know
    *,
    is_folder: bool,
) -> Container | None:
    """Return the container of a target, by the format's name, the suffix, or existing content."""
    by_suffix = row_of(path.name) if inside else target_row_of(path.name)
    row = find_row(format) if format is not None else by_suffix
    if row is None and inside:
        return find_container(path, None)
    is_pattern = has_field(str(path)) and not is_taken(path)
    if row is None or not row.container or (row.blocks and (is_pattern or is_folder)):
        return None
    if is_pattern:
        raise UsageError(f"{path} is a pattern, but {row.name} does not store block files")
    return row.load_container()


def _block_format(name: str | None) -> str | None:
    """Return the name if it is that of a format whose block files can be written, else None."""
    if name not in format_names() or not find_row(name).blocks:
        return None
    return None if find_row(name).load_blocks().is_read_only else name


def names_one_file(
    path: str | os.PathLike[str],
    format: str | None,  # noqa: A002 - the word that users know
    storage_options: Mapping[str, Any] | None = None,
) -> bool:
    """Tell whether a path is one file or container, not a directory or a pattern of blocks."""
    place = locate(path, storage_options)
    if split_target(place, format)[1]:
        return True
    is_pattern = has_field(str(place)) and not is_taken(place)
    return not is_pattern and not _is_directory(path, place, format)


def _is_directory(
    path: str | os.PathLike[str] | Location,
    place: Location,
    format: str | None,  # noqa: A002 - the word that users know
) -> bool:
    if str(path).endswith("/") or not place.suffix or place.is_dir():
        return True
    return format is not None and row_of(place.name) is None


class Placed(Protocol):
    """Anything with a path or a URL."""

    @property
    def place(self) -> str:
        """The path or URL, as messages show it."""


def check_places(source: Placed, target: Placed) -> None:
    """Refuse a target that is the source, lies in it, or contains it.

    Links are followed, also those in the source, because the target may replace what they link to.

    Raises
    ------
    SamePlaceError
        If the target is one of these.
    """
    a, b = locate(source.place).resolve(), locate(target.place).resolve()
    target_has, source_has = _lies_in(a, b), _lies_in(b, a)
    if target_has or source_has:
        contains = "" if target_has and source_has else "target" if target_has else "source"
        raise SamePlaceError(source.place, target.place, contains)
    if isinstance(a, Path) and isinstance(b, Path) and a.is_dir() and b.exists():
        with storage_errors(a):
            for link in _links_in(a):
                if _lies_in(link.resolve(), b):
                    raise SamePlaceError(str(link), target.place, "target")


def _links_in(folder: str | Path) -> Iterator[Path]:
    """Yield the links in a directory and below, without following them."""
    # A directory without permission cannot be read as part of the source either.
    with suppress(PermissionError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield Path(entry.path)
            elif entry.is_dir():
                yield from _links_in(entry.path)


def _lies_in(inner: Location, outer: Location) -> bool:
    if inner == outer or outer in inner.parents:
        return True
    if not (isinstance(inner, Path) and isinstance(outer, Path) and outer.exists()):
        return False
    return any(path.exists() and path.samefile(outer) for path in (inner, *inner.parents))
