"""Headers that name the file of their data, which must lie in the header's own directory.

A header may come from anyone. It must not make Dask IO read a file that the user did not mean: one
elsewhere on the disk, behind a symbolic link, a device, or the header itself.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dask_io.errors import DataError, StorageError
from dask_io.storage.files import peeking, size_of
from dask_io.storage.medium import NOT_A_FILE
from dask_io.stores.block_names import OneName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dask_io.storage.location import Location
    from dask_io.stores.block_format import Format, Header


def find_data(path: Location, header: Header) -> tuple[Location, OneName]:
    """Return the directory and the name of the file with the data of a header.

    Raises
    ------
    DataError
        If the header names a file that it must not name, or that is not there.
    """
    n_axes = len(header.shape)
    if not header.data_file:
        return path.parent, OneName(path.name, n_axes)
    shown = f"names {header.data_file!r:.200} as its data file"
    try:
        data = _inside(path, header.data_file)
        is_file = size_of(data) != NOT_A_FILE
    except (ValueError, OSError, RuntimeError) as error:
        reason = str(error) if type(error) is ValueError else "which is not a usable path"
        raise DataError(str(path), [f"{shown}, {reason}"]) from error
    except StorageError as error:
        raise DataError(str(path), [f"{shown}, but it cannot be read: {error.reason}"]) from error
    if not is_file:
        raise DataError(str(path), [f"{shown}, which is not a file"])
    return data.parent, OneName(data.name, n_axes, header=_way_back(path, data))


def _inside(path: Location, name: str) -> Location:
    parts = PurePosixPath(name).parts
    is_below = bool(parts) and parts[0] != "/" and ".." not in parts and "\0" not in name
    if not is_below or (len(parts) > 1 and not isinstance(path, Path)):
        raise ValueError("which is not in its own directory")
    data = path.parent.joinpath(*parts) if isinstance(path, Path) else path.with_name(name)
    if isinstance(path, Path) and isinstance(data, Path):
        found = data.resolve()
        if not found.is_relative_to(path.parent.resolve()):
            raise ValueError("which is a link to another directory")
        if found == path.resolve():
            raise ValueError("which is the header itself")
    elif data == path:
        raise ValueError("which is the header itself")
    return data


def _way_back(path: Location, data: Location) -> str:
    """Return the path of a header relative to the directory of its data."""
    if not (isinstance(path, Path) and isinstance(data, Path)):
        return path.name
    way = os.path.relpath(path.parent.resolve(), data.parent.resolve())
    return str(PurePosixPath(way) / path.name)


def with_data_suffix(folder: Location, headers: Iterable[str], chosen: Format) -> Format:
    """Return the format of blocks whose headers name their data, with the suffix of the data.

    Raises
    ------
    DataError
        If a header names a file that does not have the name of its block.
    """
    for name in headers:
        with suppress(ValueError, DataError), peeking(folder / name) as peek:
            found = chosen.parse_header(peek).data_file
            stem = name.removesuffix(chosen.header_suffix)
            for suffix in chosen.suffixes:
                if found == stem + suffix:
                    return replace(chosen, suffixes=(suffix,))
            expected = " or ".join(stem + suffix for suffix in chosen.suffixes)
            problem = f"has its data in {found or name!r:.200}; for blocks, it must be {expected}"
            break
    else:
        return chosen
    raise DataError(str(folder / name), [problem])
