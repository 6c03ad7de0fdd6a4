"""Turn failed requests into our errors, and repeat requests after temporary failures.

The responses of object stores, and the errors of obstore, may quote keys and signatures. So only
parts that are known to be harmless are passed on.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from typing import TYPE_CHECKING, TypeVar

from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from dask_io.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask_io.storage.objects.path import ObjectPath

_STATUS = re.compile(r"status code: ([1-5][0-9]{2} [A-Z][A-Za-z -]{1,40})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
# Texts in the errors of obstore: the request failed, or only its answer broke off.
_OF_REQUEST, _OF_BODY = "Error performing", "response body error"
# No answer at all; and reasons for which another attempt cannot help.
_NOT_SENT, _LASTING = "error sending request", ("BadScheme", "parsing Path", "ertificate")
_REFUSALS = (InvalidPathError, NotSupportedError, PermissionDeniedError, UnauthenticatedError)
# Status codes of a store that is busy, or temporarily down.
_PASSING = ("408", "429", "5")
# How long to repeat requests after failures that are known to be temporary, or unknown.
PATIENCE_SECONDS, _MOMENT_SECONDS = 120.0, 3.0
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0
_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


def answer_in(error: BaseError | FileNotFoundError) -> str:
    """Return the status and the error code in the answer of a store; empty without an answer."""
    found = [pattern.search(str(error)) for pattern in (_STATUS, _CODE)]
    return " ".join(each[1].strip() for each in found if each)


def to_storage_error(path: ObjectPath, error: BaseError | FileNotFoundError) -> StorageError:
    """Return the error for a failed request, with advice."""
    text, said = str(error), answer_in(error)
    is_denied = isinstance(error, (PermissionDeniedError, UnauthenticatedError))
    later = "try again later"
    # The first that applies.
    cases = [
        (
            is_denied or said.startswith(("401", "403")),
            f"access is denied ({said or 'no reason given'})",
            "check the credentials, in the environment or in storage_options",
        ),
        (
            isinstance(error, NotSupportedError) and not path.connection.can_list,
            "the server does not support range requests",
            "download the files, and use these",
        ),
        (
            isinstance(error, NotSupportedError),
            "the store does not support this operation",
            "choose another store",
        ),
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
        ("NoSuchBucket" in said, "the bucket does not exist", "check the URL"),
        (said.startswith("404"), f"the store answered {said}", "check the URL and the endpoint"),
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
    return StorageError(str(path), reason, advice)


def ask_again(path: ObjectPath, ask: Callable[[], _T], *, is_put: bool = False) -> _T:
    """Make a request, and repeat it while its failures may be temporary.

    A missing object is a `FileNotFoundError`. If a put gets this answer, the bucket is missing,
    which is a `StorageError`.
    """
    patience = Patience(path)
    while True:
        try:
            return ask()
        except FileNotFoundError as error:
            if is_put:
                raise to_storage_error(path, error) from None
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
        except BaseError as error:
            patience.wait_or_raise(error)


class Patience:
    """How long a request is repeated: for two minutes after its first failure.

    obstore also repeats requests, but cannot be interrupted while it does, so it does so only for
    a moment. If the user has given a `retry_config` for obstore, that applies instead.
    """

    def __init__(self, path: ObjectPath) -> None:
        self._path, self._wait = path, _FIRST_WAIT
        self._since: float | None = None
        self._is_reported = False

    def wait_or_raise(self, error: BaseError) -> None:
        """Wait, longer each time; raise if the failure is permanent or has lasted too long.

        Raises
        ------
        StorageError
            If repeating the request is useless.
        """
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now + self._wait - self._since > self._seconds_for(error):
            raise to_storage_error(self._path, error) from None
        if now - self._since > _MOMENT_SECONDS and not self._is_reported:
            self._is_reported = True
            _logger.warning(
                "dask-io: %s; trying again for up to %.0f seconds",
                StorageError(str(self._path), to_storage_error(self._path, error).reason),
                PATIENCE_SECONDS,
            )
        time.sleep(self._wait)
        self._wait = min(2 * self._wait, _LONGEST_WAIT)

    def _seconds_for(self, error: BaseError) -> float:
        """Return how long to repeat a request after this failure."""
        text, said = str(error), answer_in(error)
        if isinstance(error, _REFUSALS) or any(word in text for word in _LASTING):
            return 0
        if _OF_BODY in text:
            return PATIENCE_SECONDS
        if _OF_REQUEST not in text:
            return min(_MOMENT_SECONDS, PATIENCE_SECONDS)
        is_passing = said.startswith(_PASSING) if said else _NOT_SENT in text
        return PATIENCE_SECONDS if is_passing and not self._path.connection.repeats_itself else 0
