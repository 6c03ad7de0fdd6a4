"""Connect to the object store of a URL.

Credentials come from the environment or from `storage_options`, never from a URL, because URLs
appear in messages and journals.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from dask_io.errors import UsageError
from dask_io.storage.objects.path import ObjectPath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore.store import ObjectStore

# Prefixes of the environment variables that obstore reads.
_VARIABLES = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}
# The settings that are most often missing or wrong.
_NEEDED = {
    "s3": "AWS_REGION, AWS_ENDPOINT_URL and the options' names",
    "gs": "GOOGLE_SERVICE_ACCOUNT (the path of a key) and the options' names",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and the options' names",
    "http": "the options' names",
    "https": "the options' names",
}
_SCHEMES = ("s3", "gs", "az", "http", "https", "memory")
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)([^?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_PLAIN = re.compile(r"[!-~]+")
# Settings, without their prefix, that are addresses; and those that are sent in headers.
_ADDRESSES = ("endpoint", "endpoint_url", "endpoint_url_s3")
_SENT = ("access_key_id", "secret_access_key", "session_token", "token")
# Options of obstore's HTTP client.
_CLIENT = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_headers",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
# A large request may take long, but there must be some progress.
_TIMEOUTS = {"connect_timeout": "10s", "read_timeout": "30s", "timeout": "15min"}
# For very short failures. `failures` handles longer ones, and can be interrupted.
RETRIES: dict[str, Any] = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=1),
        "base": 2,
    },
}


@dataclass(frozen=True)
class Connection:
    """A bucket, a container or a host, and its options; equal if scheme and name are."""

    scheme: str
    bucket: str
    options: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def can_list(self) -> bool:
        """Whether it can be listed and written to; a plain web server cannot."""
        return self.scheme not in {"http", "https"}

    @property
    def repeats_itself(self) -> bool:
        """Whether the user has configured how obstore repeats failed requests."""
        return "retry_config" in self.options

    @property
    def is_memory(self) -> bool:
        """Whether it is in the memory of this process."""
        return self.scheme == "memory"

    @cached_property
    def store(self) -> ObjectStore:
        """The store of obstore; this makes no request.

        Raises
        ------
        UsageError
            If obstore rejects the options or the environment.
        """
        if self.is_memory:
            return _memory(self.bucket)
        self.check_settings()
        from obstore.store import from_url  # noqa: PLC0415 - only if needed

        given = dict(self.options)
        retries = given.pop("retry_config", RETRIES)
        client = {**_TIMEOUTS, **self._allowed(), **given.pop("client_options", {})}
        client |= {key: given.pop(key) for key in _CLIENT & given.keys()}
        arguments: dict[str, Any] = {"client_options": client, "retry_config": retries}
        if given:
            arguments["config"] = given
        try:
            return from_url(f"{self.scheme}://{self.bucket}", **arguments)
        except BaseException as error:
            # obstore panics on some options, which is not an Exception, and may quote them.
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            known = f" ({', '.join(sorted(self.options))})" if self.options else ""
            raise UsageError(
                f"cannot connect to {self.scheme}://{self.bucket} with the storage options{known} "
                f"and the environment; check {_NEEDED[self.scheme]}"
            ) from None

    def check_settings(self) -> None:
        """Refuse invalid settings that would otherwise fail at the first request.

        Raises
        ------
        UsageError
            If an endpoint is not a URL, or a setting contains control characters.
        """
        prefix = f"{_VARIABLES.get(self.scheme, '')}_"
        names = (f"{prefix}{word.upper()}" for word in (*_ADDRESSES, *_SENT))
        named = {name: os.environ[name] for name in names if name in os.environ}
        for name, value in {**named, **self.options}.items():
            word = name.lower().removeprefix(prefix.lower())
            if word in _ADDRESSES and not _is_address(str(value)):
                raise UsageError(f"{name} is not a URL; write it as in https://host:9000")
            if word in _SENT and not str(value).isprintable():
                raise UsageError(
                    f"{name} contains a line break or another control character; set it again"
                )

    def _allowed(self) -> dict[str, bool]:
        """Return whether unencrypted HTTP is allowed for this kind of store."""
        is_allowed = os.environ.get(self.allows_http, "").lower() in {"1", "on", "true", "yes"}
        return {"allow_http": True} if is_allowed or self.scheme == "http" else {}

    @property
    def allows_http(self) -> str:
        """The environment variable that allows unencrypted HTTP."""
        return f"{_VARIABLES.get(self.scheme)}_ALLOW_HTTP"

    def __getstate__(self) -> dict[str, Any]:
        # Other processes create their own stores.
        return {"scheme": self.scheme, "bucket": self.bucket, "options": dict(self.options)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _is_address(text: str) -> bool:
    """Tell whether a text is the URL of a server."""
    try:
        found = urlsplit(text)
        port = found.port
    except ValueError:
        return False
    has_host = found.scheme.lower() in {"http", "https"} and bool(found.hostname) and port != 0
    return has_host and _PLAIN.fullmatch(text) is not None


@cache
def _memory(name: str) -> ObjectStore:  # noqa: ARG001 - one for each
    """Return the in-memory store with this name, which lives as long as the process."""
    from obstore.store import MemoryStore  # noqa: PLC0415 - only if needed

    return MemoryStore()


def parse_url(url: str, storage_options: Mapping[str, Any] | None = None) -> ObjectPath:
    """Parse a URL, without connecting.

    Raises
    ------
    UsageError
        If the scheme is unknown, the URL contains a secret, or obstore is not installed.

    Examples
    --------
    >>> path = parse_url("s3://bucket/scan.zarr/c/0")
    >>> path.name, str(path.parent)
    ('0', 's3://bucket/scan.zarr/c')
    """
    found = _URL.fullmatch(url)
    if found is None:
        raise UsageError(f"{url} is not a URL; write it as in s3://bucket/path")
    scheme, bucket, path, rest = found[1].lower(), found[2], found[3], found[4]
    # A password may contain a slash, and so extend into the path.
    has_password = "@" in bucket or (":" in bucket and "@" in path)
    place = f"{bucket}{path}"
    shown = f"{scheme}://{place.rpartition('@')[2] if has_password else place}"
    if scheme not in _SCHEMES:
        known = ", ".join(f"{each}://" for each in _SCHEMES)
        raise UsageError(f"{shown} has an unknown scheme; use {known} or a local path")
    if has_password or rest:
        raise UsageError(
            f"{shown} contains a password, a signature or a query, which would appear in messages "
            "and journals; use the environment or storage_options (after a port, write an @ in "
            "a path as %40)"
        )
    if not bucket:
        raise UsageError(f"{shown} has no bucket or host; write it as in s3://bucket/path")
    if scheme in {"http", "https"}:
        path = unquote(path)
    parts = [part for part in path.split("/") if part]
    for part in parts:
        if part in {".", ".."} or not part.isprintable():
            raise UsageError(f"{shown} contains {part!r}, which is not valid in an object name")
    _need_obstore()
    return ObjectPath(Connection(scheme, bucket, storage_options or {}), "/".join(parts))


def _need_obstore() -> None:
    """Raise an error with the installation command if obstore is not installed."""
    try:
        import_module("obstore")
    except ImportError as error:
        raise UsageError(
            f"object stores need obstore, which cannot be imported ({error}); "
            "install it with: pip install 'dask-io[objects]'"
        ) from error
