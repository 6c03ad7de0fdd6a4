"""What goes wrong with requests, in our words, and what is asked for again.

What an object store answers may quote keys and signatures, and so may what obstore says about it.
So nothing of that is passed on but what is known to be harmless.
"""

from __future__ import annotations

import errno
import os
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from obstore.exceptions import (
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from dask_io.errors import StorageError
from dask_io.stores.naming import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dask_io.stores.objects.path import ObjectPath

_STATUS = re.compile(r"status code: ([1-5][0-9]{2} [A-Z][A-Za-z -]{1,40})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
# What obstore says when it has asked again and again, or when there is no use in that; and when
# only the answer broke off.
_OF_REQUEST, _OF_BODY = "Error performing", "response body error"
# Answers that break off are asked for again.
_MOST_TIMES, _FIRST_WAIT = 6, 0.1
_T = TypeVar("_T")


@contextmanager
def object_errors(path: ObjectPath) -> Iterator[None]:
    """Turn what requests raise into our errors; what is not there is a `FileNotFoundError`."""
    try:
        yield
    except FileNotFoundError as error:
        if error.errno is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
        raise
    except BaseError as error:
        raise to_storage_error(path, error) from None


def to_storage_error(path: ObjectPath, error: BaseError) -> StorageError:
    """Say what went wrong with a request, and what to do."""
    text = str(error)
    found = [pattern.search(text) for pattern in (_STATUS, _CODE)]
    said = " ".join(each[1].strip() for each in found if each)
    denied = (PermissionDeniedError, UnauthenticatedError)
    if isinstance(error, denied) or said.startswith(("401", "403")):
        reason = f"access is denied ({said or 'no reason is given'})"
        advice = "check the credentials, in the environment or in storage_options"
    elif isinstance(error, NotSupportedError):
        reason, advice = "the store cannot do that", "choose another one"
    elif "BadScheme" in text:
        reason = "the endpoint is not https"
        variable = path.connection.allows_http
        advice = f"allow it with {variable}=true, or storage_options of {{'allow_http': True}}"
    elif "NoSuchBucket" in said:
        reason, advice = "there is no such bucket", "check the URL"
    elif said:
        reason, advice = f"the store answered {said}", "try again later"
    elif "TimedOut" in text or "timed out" in text:
        reason, advice = "the store did not answer in time", "try again later"
    elif "kind: Connect" in text or "error sending request" in text:
        reason, advice = "the store cannot be reached", "check the endpoint and the network"
    else:
        reason, advice = "a request failed", "try again later"
    return StorageError(printable(str(path)), reason, advice)


def ask_again(path: ObjectPath, ask: Callable[[], _T]) -> _T:
    """Make a request, again if its answer breaks off; all else obstore has repeated itself.

    What is not there is a `FileNotFoundError`.
    """
    n_failed = 0
    while True:
        try:
            return ask()
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
        except BaseError as error:
            n_failed += 1
            wait_or_raise(path, error, n_failed)


def wait_or_raise(path: ObjectPath, error: BaseError, n_failed: int) -> None:
    """Wait, ever longer, after an answer that broke off; raise what has been repeated enough."""
    text = str(error)
    broke_off = _OF_REQUEST not in text or _OF_BODY in text
    if n_failed >= _MOST_TIMES or not broke_off:
        raise to_storage_error(path, error) from None
    time.sleep(_FIRST_WAIT * 2 ** (n_failed - 1))
