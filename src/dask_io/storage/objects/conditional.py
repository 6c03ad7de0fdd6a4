"""Conditional puts, on which locks and journals are based.

A put succeeds only if no other process has changed the object. Also reading and removing.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from dask_io.storage.objects import requests
from dask_io.storage.objects.failures import (
    Patience,
    answer_in,
    ask_again,
    to_storage_error,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from obstore import ObjectMeta, PutMode, PutResult, UpdateVersion

    from dask_io.storage.objects.path import ObjectPath

# The most objects that one request removes.
_MOST_REMOVED = 1000


class ConflictError(Exception):
    """Another process has changed the object."""


def put_if(path: ObjectPath, content: bytes, mode: PutMode) -> UpdateVersion:
    """Put an object on a condition, and return its version.

    The condition is that it does not exist (``"create"``), or that it has a certain version.

    The content must be unique, so that the caller's own put can be recognized: a request whose
    response was lost may have succeeded.

    Raises
    ------
    ConflictError
        If the condition is not met.
    """
    patience = Patience(path)
    while True:
        try:
            return _version(requests.calls.put(path.store, path.key, content, mode=mode))
        except FileNotFoundError as error:
            raise to_storage_error(path, error) from None
        except (AlreadyExistsError, PreconditionError) as error:
            if "NoSuchBucket" in answer_in(error):
                raise to_storage_error(path, error) from None
            found = look(path)
            if found is None or found[0] != content:
                raise ConflictError from None
            return found[1]
        except BaseError as error:
            patience.wait_or_raise(error)


def _version(response: PutResult | ObjectMeta) -> UpdateVersion:
    """Return the version of an object: only Google has version numbers, others have ETags."""
    found = {"e_tag": response["e_tag"], "version": response["version"]}
    return cast("UpdateVersion", {name: value for name, value in found.items() if value})


def look(path: ObjectPath) -> tuple[bytes, UpdateVersion] | None:
    """Return the content and version of a small object, None if it does not exist."""

    def ask() -> tuple[bytes, UpdateVersion]:
        found = requests.calls.get(path.store, path.key)
        return bytes(found.bytes()), _version(found.meta)

    try:
        return ask_again(path, ask)
    except FileNotFoundError:
        return None


def remove(path: ObjectPath) -> None:
    """Remove an object, if it exists."""
    with suppress(FileNotFoundError):
        ask_again(path, partial(requests.calls.delete, path.store, path.key))


def remove_all(paths: Iterable[ObjectPath]) -> None:
    """Remove objects of one store, many per request, ignoring missing ones."""
    left = list(paths)
    while left:
        some, left = left[:_MOST_REMOVED], left[_MOST_REMOVED:]
        keys = [path.key for path in some]
        try:
            ask_again(some[0], partial(requests.calls.delete, some[0].store, keys))
        except FileNotFoundError:
            # If one is missing, some stores do not remove the others.
            for path in some:
                remove(path)
