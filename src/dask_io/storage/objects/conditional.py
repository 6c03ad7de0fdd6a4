"""Puts that succeed only if nobody else has put there: all that locks and journals stand on.

And how what they put is looked at, and removed.
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

# As many as one request removes.
_MOST_REMOVED = 1000


class ConflictError(Exception):
    """Another one has put there."""


def put_if(path: ObjectPath, content: bytes, mode: PutMode) -> UpdateVersion:
    """Put an object on a condition, and return its version.

    The condition is that there is none (``"create"``), or that there is one version of it.

    The content must be like no other, so that one's own is known again: a request whose
    answer was lost may have been carried out.

    Raises
    ------
    ConflictError
        If there is something else.
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


def _version(told: PutResult | ObjectMeta) -> UpdateVersion:
    """Return what tells versions of an object apart: Google has numbers for it, others do not."""
    found = {"e_tag": told["e_tag"], "version": told["version"]}
    return cast("UpdateVersion", {name: value for name, value in found.items() if value})


def look(path: ObjectPath) -> tuple[bytes, UpdateVersion] | None:
    """Return what a small object holds, and its version; None if there is none."""

    def ask() -> tuple[bytes, UpdateVersion]:
        found = requests.calls.get(path.store, path.key)
        return bytes(found.bytes()), _version(found.meta)

    try:
        return ask_again(path, ask)
    except FileNotFoundError:
        return None


def remove(path: ObjectPath) -> None:
    """Remove an object, if it is there."""
    with suppress(FileNotFoundError):
        ask_again(path, partial(requests.calls.delete, path.store, path.key))


def remove_all(paths: Iterable[ObjectPath]) -> None:
    """Remove objects of one store, many by one request; what is not there is none."""
    left = list(paths)
    while left:
        some, left = left[:_MOST_REMOVED], left[_MOST_REMOVED:]
        keys = [path.key for path in some]
        try:
            ask_again(some[0], partial(requests.calls.delete, some[0].store, keys))
        except FileNotFoundError:
            # Where one is not there, some stores do not come to the others.
            for path in some:
                remove(path)
