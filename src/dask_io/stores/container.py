"""Containers: formats that keep their own index of where the blocks of an array are.

Zarr is an example. Its chunks have no headers and may be compressed, and its metadata is stored
separately. A container may hold several arrays; ``file.zarr::/path/in/group`` selects one.

The module of a container provides one object that implements `Container`, registered under the
same entry point group as formats of block files. The registry knows how to recognise the format,
so the module and the library it needs are imported only when an array is opened or created.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dask_io.errors import MissingLibraryError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.geometry import Grid, Layout
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.store import Readback, Source, Target

INSIDE = "::"
NO_CODEC = "none"
"""The codec that users give for blocks that are not compressed."""


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Options that the user gives for a target; None or False for options that were not given.

    Attributes
    ----------
    codec
        How blocks are encoded, such as ``"zstd:3"``, ``"blosc:lz4:5:shuffle"`` or ``"none"``.
    shards
        The shape of shards, which each hold several chunks.
    fill_value
        The value of elements that are not stored.
    format_version
        The version of the format.
    write_empty
        Whether to store blocks that contain only the fill value.
    """

    codec: str | None = None
    shards: tuple[int, ...] | None = None
    fill_value: object = None
    format_version: int | None = None
    write_empty: bool = False

    def refuse(self, format: str) -> None:  # noqa: A002 - the word that users know
        """Refuse every option, for a format that supports none of them.

        Codec ``none`` is accepted, because such a format does not compress.

        Raises
        ------
        UsageError
            If an option was given.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "codec" and value == NO_CODEC:
                continue
            if value is not None and value is not False:
                word = field.name.replace("_", "-")
                raise UsageError(f"format {format} has no {word}; leave it out")


_TRUTH = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class NewArray:
    """The array to store in a target, and the user's options for the target.

    `metadata` is the source's metadata. A target keeps as much of it as it can. `name` is the name
    that the source has in its group, empty if it has none.
    """

    grid: Grid
    dtype: np.dtype[Any]
    layout: Layout
    options: TargetOptions
    metadata: Mapping[str, Any]
    name: str = ""

    @property
    def fill_value(self) -> Any:
        """The fill value that the user gave, else the source's, else 0.

        Raises
        ------
        UsageError
            If the dtype cannot represent the value.
        """
        value = self.options.fill_value
        if value is None:
            value = self.metadata.get("fill_value")
        if value is None:
            return np.zeros((), self.dtype)[()]
        if isinstance(value, str) and self.dtype.kind == "S":
            value = value.encode()
        if isinstance(value, str) and self.dtype.kind == "b":
            # NumPy converts every non-empty string to True.
            value = _TRUTH.get(value.lower(), value)
            if isinstance(value, str):
                raise UsageError(
                    f"fill value {value!r} is not a valid {self.dtype}; give true or false"
                )
        try:
            fill = np.array(value).astype(self.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"fill value {value!r} is not a valid {self.dtype}") from error
        # Values from the command line are strings, which NumPy has just parsed.
        is_text = isinstance(value, str) and self.dtype.kind not in "SU"
        if fill.shape or not (is_text or _is_same(fill, value)):
            raise UsageError(f"fill value {value!r} is not a valid {self.dtype}")
        return fill[()]


def _is_same(fill: Any, value: object) -> bool:
    return bool(fill == value or (fill != fill and value != value))  # noqa: PLR0124 - NaN


@runtime_checkable
class Container(Protocol):
    """A format that keeps its own index of where the blocks of an array are."""

    @property
    def name(self) -> str:
        """Name of the format, as users write it."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Suffixes of its files or directories, each with its dot."""

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open an array; `inside` is its path in the container, empty for the container itself.

        If `strict`, a missing block is an error and does not stand for the fill value.
        """

    def make(
        self,
        path: Location,
        inside: str,
        wanted: NewArray,
        *,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> Target:
        """Describe a target; nothing is touched until its `create`.

        Raises
        ------
        UsageError
            If the format cannot hold the array, or does not support an option.
        """

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],
    ) -> Source:
        """Open a source again from what its `describe` returned; `absent` blocks may be missing.

        `at` is where the array is now, if it may have moved.

        Raises
        ------
        ValueError
            If the description is invalid; the message completes "its description ...".
        DataError
            If the stored array does not match the description.
        """

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open a finished target from what its `describe` returned; otherwise as `reopen`."""

    def remake(
        self, described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target again from what its `describe` returned; otherwise as `reopen`."""


@contextmanager
def needs(format: str, library: str) -> Iterator[None]:  # noqa: A002 - the word that users know
    """Turn a failed import into an error with the command that installs the library.

    Raises
    ------
    MissingLibraryError
        If an import inside the ``with`` block fails.
    """
    try:
        yield
    except ImportError as error:
        raise MissingLibraryError(
            f"format {format} needs {library}, which cannot be imported ({error}); "
            f"install it with: pip install 'dask-io[{format}]'"
        ) from error


def on_disk(path: Location, format: str) -> Path:  # noqa: A002 - the word that users know
    """Return a path for a library that supports only files on local disk.

    Raises
    ------
    UsageError
        If the path is not on local disk.
    """
    if not isinstance(path, Path):
        raise UsageError(
            f"{path} cannot be read or written as {format}, only files on local disk; copy the "
            "file, or use a format that object stores hold, such as zarr"
        )
    return path


def split_place(place: str) -> tuple[str, str]:
    """Split a place into a container and the path of an array inside it.

    Every ``::`` after the first counts as a ``/``, so the result of `stand_in_path` is a place too.

    Raises
    ------
    UsageError
        If the path inside is invalid, or would lead out of the container.

    Examples
    --------
    >>> split_place("scan.zarr::/day/1"), split_place("scan.zarr")
    (('scan.zarr', 'day/1'), ('scan.zarr', ''))
    """
    container, found, inside = place.partition(INSIDE)
    inside = inside.replace(INSIDE, "/")
    parts = inside.strip("/").split("/") if inside.strip("/") else []
    for part in parts:
        if part in {"", ".", ".."} or not part.isprintable() or "\\" in part:
            raise UsageError(
                f"{container!r}{INSIDE}{inside!r} does not name an array: its path has the part "
                f"{part!r}; write it as in scan.zarr::/path/in/group"
            )
    if found and not container:
        raise UsageError(f"{place!r} names no container; write it as in scan.zarr::/path/in/group")
    return container, "/".join(parts)


def stand_in_path(container: Path, inside: str) -> Path:
    """Return a path to represent an array that has no file or directory of its own.

    The path is next to the container, because only the format's library writes inside it.

    Examples
    --------
    >>> from pathlib import Path
    >>> str(stand_in_path(Path("data/scan.icechunk"), "day/1"))
    'data/scan.icechunk::day::1'
    """
    parts = inside.split("/") if inside else []
    return container.with_name(INSIDE.join([container.name, *parts]))
