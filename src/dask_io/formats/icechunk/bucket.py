"""Opening an icechunk repository in an object store.

icechunk has its own client. It gets the same settings as obstore, from `storage_options` or from
environment variables.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import icechunk

from dask_io.errors import UsageError

if TYPE_CHECKING:
    from dask_io.storage.objects.path import ObjectPath

# Settings of icechunk, each with the names that obstore accepts for it.
_SETTINGS = {
    "region": ("region", "default_region"),
    "endpoint_url": ("endpoint_url", "endpoint", "endpoint_url_s3"),
    "allow_http": ("allow_http",),
    "anonymous": ("skip_signature",),
    "access_key_id": ("access_key_id",),
    "secret_access_key": ("secret_access_key",),
    "session_token": ("session_token", "token"),
}
_SWITCHES = frozenset({"allow_http", "anonymous"})
_PREFIX = "aws_"


def storage_in(path: ObjectPath) -> icechunk.Storage:
    """Return the icechunk storage for a repository in an object store.

    Raises
    ------
    UsageError
        If the object store is not supported.
    """
    connection = path.connection
    if connection.scheme != "s3":
        raise UsageError(f"{path}: icechunk repositories are read from s3:// and from local disk")
    connection.check_settings()
    given = {name.lower().removeprefix(_PREFIX): each for name, each in connection.options.items()}
    settings = {name: _find(words, given) for name, words in _SETTINGS.items()}
    settings |= {name: _is_on(settings[name]) for name in _SWITCHES}
    # Other servers than Amazon's rarely have a host name for every bucket.
    is_elsewhere = settings["endpoint_url"] is not None
    return icechunk.s3_storage(
        bucket=connection.bucket,
        prefix=path.key,
        force_path_style=is_elsewhere,
        from_env=None if settings["access_key_id"] or settings["anonymous"] else True,
        **{name: each for name, each in settings.items() if each is not None},
    )


def _find(words: tuple[str, ...], given: dict[str, Any]) -> Any:
    variables = (os.environ.get(f"{_PREFIX}{word}".upper()) for word in words)
    found = (each for each in (*map(given.get, words), *variables) if each is not None)
    return next(found, None)


def _is_on(value: object) -> bool:
    return str(value).lower() in {"1", "on", "true", "yes"}
