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
    InvalidPathError,
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
    is_denied = isinstance(error, (PermissionDeniedError, UnauthenticatedError))
    later = "try again later"
    # The first that applies.
    cases = [
        (
            is_denied or said.startswith(("401", "403")),
            f"access is denied ({said or 'no reason is given'})",
            "check the credentials, in the environment or in storage_options",
        ),
        (
            isinstance(error, NotSupportedError) and not path.connection.can_list,
            "the server sends no parts of files",
            "get the files, and name those",
        ),
        (isinstance(error, NotSupportedError), "the store cannot do that", "choose another one"),
        (
            isinstance(error, InvalidPathError) or "parsing Path" in text,
            "an object has a name with an empty part, with . or .., or with control characters",
            "rename or remove it",
        ),
        (
            "BadScheme" in text,
            "the endpoint is not https",
            f"allow it with {path.connection.allows_http}=true, or allow_http in storage_options",
        ),
        ("NoSuchBucket" in said, "there is no such bucket", "check the URL"),
        ("EntityTooLarge" in said, f"the store answered {said}", "use smaller chunks"),
        (said, f"the store answered {said}", later),
        ("TimedOut" in text or "timed out" in text, "the store did not answer in time", later),
        (
            "kind: Connect" in text or "error sending request" in text,
            "the store cannot be reached",
            "check the endpoint and the network",
        ),
        (True, "a request failed", later),
    ]
    reason, advice = next((reason, advice) for applies, reason, advice in cases if applies)
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
