"""Locations: local paths, and URLs of object stores."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote, urlsplit

from dask_io.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.storage.objects.path import ObjectPath

    Location: TypeAlias = Path | ObjectPath

_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def is_url(place: str | os.PathLike[str] | ObjectPath) -> bool:
    """Tell whether a place is a URL of an object store, not a local path.

    Examples
    --------
    >>> is_url("s3://bucket/scan.zarr"), is_url("blocks/b_{0}.npy"), is_url("file:///data")
    (True, False, False)
    """
    found = _URL.match(str(place))
    return found is not None and found[0].lower() != "file://"


def is_in_memory(place: str | os.PathLike[str] | ObjectPath) -> bool:
    """Tell whether a place is in the memory of one process, which no other process can reach.

    Examples
    --------
    >>> is_in_memory("memory://bucket/scan.zarr"), is_in_memory("s3://bucket/scan.zarr")
    (True, False)
    """
    return str(place).lower().startswith("memory://")


def locate(
    place: str | os.PathLike[str] | ObjectPath, storage_options: Mapping[str, Any] | None = None
) -> Location:
    """Return the location of a place, without accessing it.

    Parameters
    ----------
    place
        A local path, a ``file://`` URL, or that of an object store: ``s3://bucket/scan.zarr``.
    storage_options
        Options of obstore to connect to an object store. Defaults come from the environment.

    Raises
    ------
    UsageError
        If it is not a path or URL but, for example, an array; if it is empty or contains a NUL
        character; if it is an invalid URL, or one that contains a password or a signature.
    """
    if not isinstance(place, (str, os.PathLike)):
        return _known(place)
    text = os.fspath(place)
    if not text:
        raise UsageError("the path is empty; write . for the current folder")
    if is_url(text):
        from dask_io.storage.objects.connect import parse_url  # noqa: PLC0415 - only if needed

        return parse_url(text, storage_options)
    path = unquote(urlsplit(text).path) if _URL.match(text) else text
    if "\0" in path:
        raise UsageError(
            f"{path} contains a NUL character, which paths cannot have; check the path"
        )
    return Path(path)


def _known(place: ObjectPath) -> ObjectPath:
    """Return a location that is already resolved."""
    from dask_io.storage.objects.path import ObjectPath  # noqa: PLC0415 - only if needed

    if isinstance(place, ObjectPath):
        return place
    raise UsageError(
        f"expected a path or a URL, not {type(place).__name__}; save arrays in memory first, with "
        "numpy.save or Dask's to_zarr"
    )


def may_exist(place: Location) -> bool:
    """Tell whether a place exists, or may exist: a web server cannot be listed."""
    return place.exists() or not (isinstance(place, Path) or place.connection.can_list)


def way_to(place: Location, beside: Location) -> str:
    """Return the path of a place relative to the folder of another, so that both can be moved.

    A place in another store has an absolute path.

    Examples
    --------
    >>> way_to(Path("/data/b/two"), Path("/data/a/one"))
    '../b/two'
    """
    if isinstance(place, Path) and isinstance(beside, Path):
        return os.path.relpath(place.resolve(), beside.resolve().parent)
    if isinstance(place, Path) or isinstance(beside, Path):
        return str(place.absolute())
    if place.connection != beside.connection:
        return str(place)
    return posixpath.relpath(f"/{place.key}", f"/{beside.parent.key}")


def follow(way: str, beside: Location) -> Location:
    """Return the location of a path that `way_to` returned."""
    if is_url(way) or way.startswith("/"):
        return locate(way)
    if "/" not in way:
        return beside.with_name(way)
    if isinstance(beside, Path):
        return Path(os.path.normpath(beside.resolve().parent / way))
    return beside.again(posixpath.normpath(f"/{beside.parent.key}/{way}"))


def leads_into(path: Location, folder: Location) -> bool:
    """Tell whether a path, with links followed, is inside a directory, given without links."""
    real = os.path.realpath(path) if isinstance(path, Path) else str(path)
    return real == str(folder) or real.startswith(str(folder).rstrip("/") + "/")


def is_taken(place: Location) -> bool:
    """Tell whether a place exists, even if it is a broken link."""
    return os.path.lexists(place) if isinstance(place, Path) else place.exists()
