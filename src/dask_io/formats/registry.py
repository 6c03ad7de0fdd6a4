"""The formats there are: ours, and those that other packages add."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, cast

from dask_io.errors import UsageError, printable
from dask_io.hierarchy.container import TreeContainer
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.container import Container, OneFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.storage.location import Location
    from dask_io.stores.block_format import Format

    AnyFormat: TypeAlias = Format | Container

ENTRY_POINTS = "dask_io.formats"
# No entry points, so that the packages of the environment are not searched for what is known.
_OURS = {
    "npy": "dask_io.formats.npy:FORMAT",
    "raw": "dask_io.formats.raw:FORMAT",
    "npy-stack": "dask_io.formats.npy_stack:FORMAT",
    "zarr": "dask_io.formats.zarr:FORMAT",
    "hdf5": "dask_io.formats.hdf5:FORMAT",
    "icechunk": "dask_io.formats.icechunk:FORMAT",
    "netcdf": "dask_io.formats.netcdf:FORMAT",
}


def format_names() -> list[str]:
    """Return the names of all formats, those of other packages last."""
    return [*_OURS, *sorted(_others().keys() - _OURS.keys())]


def is_format(name: str) -> bool:
    """Tell whether a format has this name."""
    return name in _OURS or name in _others()


# All that is installed is looked through.
@cache
def _others() -> dict[str, str]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def load_format(name: str) -> AnyFormat:
    """Return a format by its name; its module is imported only now.

    Raises
    ------
    UsageError
        If there is no such format, or what it needs is not installed.

    Examples
    --------
    >>> load_format("npy").suffixes
    ('.npy',)
    """
    address = _OURS.get(name) or _others().get(name)
    if address is None:
        known = ", ".join(format_names())
        raise UsageError(f"format '{printable(name)}' is not known; formats are {known}")
    module, _, attribute = address.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"format {name} cannot be loaded from {address}: {error}") from error
    return cast("AnyFormat", found)


def format_of(name: str) -> AnyFormat | None:
    """Return the format that the suffix of a file or directory names."""
    # All suffixes have a dot, and other packages are slow to look for.
    if "." not in name:
        return None
    for ours in _OURS:
        if name.endswith(load_format(ours).suffixes):
            return load_format(ours)
    for other in sorted(_others().keys() - _OURS.keys()):
        if name.endswith(load_format(other).suffixes):
            return load_format(other)
    return None


def choose_format(path: Location, name: str | None) -> Format:
    """Return the format of block files, by its name if one is given, else by the suffix."""
    by_suffix = format_of(path.name)
    if name is None:
        if by_suffix is None:
            raise UsageError(
                f"{printable(str(path))} does not end as a format that is known; formats are "
                f"{', '.join(format_names())}, name one with --format, or --source-format"
            )
        return of_blocks(by_suffix)
    chosen = of_blocks(load_format(name))
    if by_suffix is not None and by_suffix.name != name:
        raise UsageError(
            f"{printable(str(path))} ends as {by_suffix.name}, but format {name} is asked for"
        )
    return chosen


def has_blocks(format: AnyFormat) -> bool:  # noqa: A002 - the word that users know
    """Tell whether a format has files of single blocks."""
    if isinstance(format, OneFile):
        return format.blocks is not None
    return not isinstance(format, Container)


def of_blocks(format: AnyFormat) -> Format:  # noqa: A002 - the word that users know
    """Return a format of block files as what it is.

    Raises
    ------
    UsageError
        If its arrays are not files of blocks.
    """
    if isinstance(format, OneFile) and format.blocks is not None:
        return format.blocks
    if isinstance(format, Container):
        raise UsageError(f"format {format.name} is none of block files; name a place of its own")
    return format


def tree_containers() -> Iterator[TreeContainer]:
    """Yield the containers that hold groups, or files of several arrays."""
    yield from (each for each in map(load_format, _OURS) if isinstance(each, TreeContainer))
    # Searching the installed packages is slow, and rarely needed.
    others = map(load_format, sorted(_others().keys() - _OURS.keys()))
    yield from (each for each in others if isinstance(each, TreeContainer))


def find_container(path: Location, name: str | None) -> Container | None:
    """Return the container that a path is, by a format's name, its suffix, or its content."""
    found = load_format(name) if name is not None else format_of(path.name)
    if found is not None:
        if isinstance(found, OneFile) and found.blocks is not None and path.is_dir():
            return None
        return found if isinstance(found, Container) else None
    if not path.exists():
        return None
    formats = map(load_format, format_names())
    containers = (each for each in formats if isinstance(each, Container))
    with storage_errors(path):
        return next((each for each in containers if each.recognises(path)), None)
