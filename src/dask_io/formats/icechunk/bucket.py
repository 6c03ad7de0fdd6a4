"""How icechunk reaches a repository in an object store: by a client of its own, with our options.

It is told what obstore would be told, by `storage_options` or by the environment.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import icechunk

from dask_io.errors import UsageError

if TYPE_CHECKING:
    from dask_io.storage.objects.path import ObjectPath

# What obstore calls it, in all its words, and what icechunk does.
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
    """Return what icechunk reads a repository by.

    Raises
    ------
    UsageError
        If it is in a store that is not reached that way.
    """
    connection = path.connection
    if connection.scheme != "s3":
        raise UsageError(f"{path}: icechunk repositories are read from s3:// and from local disk")
    connection.check_settings()
    given = {name.lower().removeprefix(_PREFIX): each for name, each in connection.options.items()}
    told = {name: _find(words, given) for name, words in _SETTINGS.items()}
    told |= {name: _is_on(told[name]) for name in _SWITCHES}
    # What is not S3 itself has no name for every bucket.
    is_elsewhere = told["endpoint_url"] is not None
    return icechunk.s3_storage(
        bucket=connection.bucket,
        prefix=path.key,
        force_path_style=is_elsewhere,
        from_env=None if told["access_key_id"] or told["anonymous"] else True,
        **{name: each for name, each in told.items() if each is not None},
    )


def _find(words: tuple[str, ...], given: dict[str, Any]) -> Any:
    variables = (os.environ.get(f"{_PREFIX}{word}".upper()) for word in words)
    found = (each for each in (*map(given.get, words), *variables) if each is not None)
    return next(found, None)


def _is_on(said: object) -> bool:
    return str(said).lower() in {"1", "on", "true", "yes"}
