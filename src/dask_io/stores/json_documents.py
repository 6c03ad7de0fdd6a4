"""Metadata documents of arrays and groups: JSON objects in files of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError
from dask_io.storage.files import read_whole
from dask_io.storage.location import leads_into
from dask_io.storage.os_errors import storage_errors

if TYPE_CHECKING:
    from dask_io.storage.location import Location

# Consolidated metadata of large groups takes some MiB; an array alone far less.
LONGEST = 16 * 2**20


def read_json(folder: Location, name: str) -> dict[str, Any] | None:
    """Read a JSON object in a directory, None if there is no such file; see `read_document`."""
    return read_document(folder, name)[1]


def read_document(folder: Location, name: str) -> tuple[bytes, dict[str, Any] | None]:
    """Read a JSON object in a directory: its text, and its value; None if there is no such file.

    Raises
    ------
    DataError
        If it is not a JSON object, is implausibly long, or is a link out of the directory.
    """
    path = folder / name
    with storage_errors(path):
        if not path.is_file():
            return b"", None
        content = read_text(folder, name)
    try:
        return content, parse_json(content)
    except ValueError as error:
        raise DataError(str(path), [str(error)]) from error


def read_text(folder: Location, name: str) -> bytes:
    """Read a document in a directory.

    Raises
    ------
    DataError
        If it is a link out of the directory, or is implausibly long.
    """
    path = folder / name
    if not leads_into(path, folder.resolve()):
        raise DataError(str(path), [f"leads out of {folder}"])
    content = read_whole(path, LONGEST)
    if len(content) > LONGEST:
        raise DataError(str(path), [f"is longer than {LONGEST} bytes"])
    return content


def parse_json(content: bytes) -> dict[str, Any]:
    """Parse a JSON object.

    Raises
    ------
    ValueError
        If it is something else; the message completes "the file ...".
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError("is not JSON") from error
    if not isinstance(value, dict):
        raise ValueError("is not a JSON object")  # noqa: TRY004 - wrong data, not a wrong call
    return value
