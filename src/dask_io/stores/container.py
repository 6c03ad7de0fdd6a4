"""What a container is: a format that knows itself where the blocks of an array are.

Zarr is one. Its blocks do not describe themselves and may be compressed, it has metadata
besides, and may hold several arrays, of which one is named as in ``file.zarr::/path/in/group``.

A container's module holds one object that fulfils `Container`, under the same entry point group
as formats of block files. The registry's row says how it is recognised, so the module and the
library that it stands on are imported only when an array is opened or made.
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


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What a user asks of a target besides its blocks; None or False where nothing is said.

    Attributes
    ----------
    codec
        How blocks are encoded, such as ``"zstd:3"``, ``"blosc:lz4:5:shuffle"`` or ``"none"``.
    shards
        The shape of the units that are written, each of several chunks.
    fill_value
        The value of what is not stored.
    format_version
        The version of the format.
    write_empty
        Whether blocks that hold only the fill value are stored all the same.
    """

    codec: str | None = None
    shards: tuple[int, ...] | None = None
    fill_value: object = None
    format_version: int | None = None
    write_empty: bool = False

    def refuse(self, format: str) -> None:  # noqa: A002 - the word that users know
        """Refuse all of them, for a format that can honour none.

        Raises
        ------
        UsageError
            If there is one.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value is not False:
                word = field.name.replace("_", "-")
                raise UsageError(f"format {format} has no {word}; leave it out")


_TRUTH = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class NewArray:
    """The array that a target is to hold, and what the user asks of the target.

    `metadata` is what the source says about the array: a target keeps what it can.
    """

    grid: Grid
    dtype: np.dtype[Any]
    layout: Layout
    options: TargetOptions
    metadata: Mapping[str, Any]

    @property
    def fill_value(self) -> Any:
        """The value asked for of what is not stored, or else the source's, or else 0.

        Raises
        ------
        UsageError
            If the type of the elements has no such value.
        """
        value = self.options.fill_value
        if value is None:
            value = self.metadata.get("fill_value")
        if value is None:
            return np.zeros((), self.dtype)[()]
        if isinstance(value, str) and self.dtype.kind == "S":
            value = value.encode()
        if isinstance(value, str) and self.dtype.kind == "b":
            # To NumPy, any text is true.
            value = _TRUTH.get(value.lower(), value)
            if isinstance(value, str):
                raise UsageError(f"fill value {value!r} is no {self.dtype}; give true or false")
        try:
            fill = np.array(value).astype(self.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"fill value {value!r} is no {self.dtype}") from error
        # From a command line values come as text, which NumPy reads or refuses.
        is_text = isinstance(value, str) and self.dtype.kind not in "SU"
        if fill.shape or not (is_text or _is_same(fill, value)):
            raise UsageError(f"fill value {value!r} is no {self.dtype}")
        return fill[()]


def _is_same(fill: Any, value: object) -> bool:
    return bool(fill == value or (fill != fill and value != value))  # noqa: PLR0124 - NaN


@runtime_checkable
class Container(Protocol):
    """A format that knows itself where the blocks of an array are."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Endings of its names, each with its dot."""

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open an array; `inside` is its path in the container, empty for the container itself.

        `strict` makes it an error that a block is missing where it could mean the fill value.
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
        """Open a source again by what its `describe` returned, of which blocks may be absent.

        `at` is the array's own place, if it may be another one now.

        Raises
        ------
        ValueError
            If that is no description; the message completes "its description ...".
        DataError
            If that is not what is there.
        """

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open what was a target, by what its `describe` returned; otherwise as `reopen`."""

    def remake(
        self, described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target again, by what its `describe` returned; otherwise as `reopen`."""


@contextmanager
def needs(format: str, library: str) -> Iterator[None]:  # noqa: A002 - the word that users know
    """Turn a library that is not installed into the command that installs it.

    Raises
    ------
    MissingLibraryError
        If an import within fails.
    """
    try:
        yield
    except ImportError as error:
        raise MissingLibraryError(
            f"format {format} needs {library}, which cannot be imported ({error}); "
            f"install it with: pip install 'dask-io[{format}]'"
        ) from error


def on_disk(path: Location, format: str) -> Path:  # noqa: A002 - the word that users know
    """Return a path for a library that knows only files on local disk.

    Raises
    ------
    UsageError
        If it is elsewhere.
    """
    if not isinstance(path, Path):
        raise UsageError(
            f"{path} cannot be read or written as {format}, only files on local disk; copy the "
            "file, or use a format that object stores hold, such as zarr"
        )
    return path


def split_place(place: str) -> tuple[str, str]:
    """Split a place into a container and the path of an array inside it.

    Any ``::`` but the first is as good as a ``/``, so that what `beside` returns is a place too.

    Raises
    ------
    UsageError
        If the path inside is none, or would lead out of the container.

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


def beside(container: Path, inside: str) -> Path:
    """Return what stands for an array that has no file or directory of its own.

    It lies beside the container, which nobody but its library writes to.

    Examples
    --------
    >>> from pathlib import Path
    >>> str(beside(Path("data/scan.icechunk"), "day/1"))
    'data/scan.icechunk::day::1'
    """
    parts = inside.split("/") if inside else []
    return container.with_name(INSIDE.join([container.name, *parts]))
