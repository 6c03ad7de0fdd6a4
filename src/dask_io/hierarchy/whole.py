"""What holds several arrays, a file or a group, and is read and written as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

from dask_io.storage.os_errors import storage_errors
from dask_io.stores.container import Container

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from dask_io.geometry import Grid
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import Wanted
    from dask_io.stores.store import Source, Target


def identity_of(path: Path) -> int:
    """Return a number that changes when a file does."""
    with storage_errors(path):
        found = path.stat()
    return xxh3_64_intdigest(f"{found.st_size}\0{found.st_mtime_ns}".encode())


def digest(pieces: Iterable[Any]) -> str:
    """Return a checksum of the values of an array, which come in pieces."""
    found = xxh3_64()
    for piece in map(np.asarray, pieces):
        if piece.dtype.kind in "UO":
            for each in piece.ravel():
                found.update(_as_bytes(each) + b"\0")
        else:
            found.update(piece.astype(piece.dtype.newbyteorder("<")).tobytes())
    return found.hexdigest()


def _as_bytes(value: Any) -> bytes:
    """Return a text, or a list of any length, as bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) else np.asarray(value).tobytes()


class Content(Protocol):
    """Where all that a whole holds comes from."""

    def read(self, name: str) -> Any:
        """Return the values of an array that is copied as it is, texts as such."""

    def identity(self) -> int:
        """Return a number that changes when anything of it does."""

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """Return checksums of the values of arrays, the same for the same values elsewhere."""


@runtime_checkable
class Model(Content, Protocol):
    """What a file is made after; it travels to the process that makes it."""

    @property
    def file(self) -> Path | None:
        """The file that is looked into when another one is made, which may be broken."""

    def contents(self) -> set[str]:
        """Return the names of all that the file will hold, attributes behind an ``@``."""

    def build(self, path: Path, wanted: Mapping[str, Wanted]) -> tuple[str, ...]:
        """Make a file with all that there is, but without the values of some arrays.

        These are made as they are wanted. Returns what cannot be kept.
        """


@dataclass(frozen=True)
class Whole:
    """What a file or a group holds, by path within it.

    Attributes
    ----------
    root
        The file, or the directory of the group.
    content
        Where values and names come from; if it is a `Model`, a file can be made after it.
    format
        Name of the format.
    arrays
        What can be read in blocks.
    others
        What is copied as it is, because it has no axes or elements that are not understood: with
        what is said about it.
    dimensions
        Names of the dimensions of all of these.
    attributes
        What groups say about themselves, the outermost by the path ``""``, and the `others`.
    shapes
        Shapes of the `others`.
    only
        The one array that all else in it belongs to, if there is one. Nothing else has been looked
        at then, unless that was asked for.
    is_alone
        Whether there is nothing but the `only` one.
    levels
        Names of the axes of every level of an image, if it holds one.
    kept
        The blocks that arrays get which are not to be re-split, if not their own.
    as_they_are
        Arrays that would not be the same if they were encoded again.
    converted
        Types that the elements of arrays become which have none there.
    uncopied
        Arrays of which there can be no copy elsewhere: with what is wrong with them.
    peculiar
        Names for what there is that other formats have no place for.
    """

    root: Location
    content: Content
    format: str
    arrays: Mapping[str, Source]
    others: Mapping[str, str]
    dimensions: Mapping[str, tuple[str | None, ...]]
    attributes: Mapping[str, Mapping[str, Any]]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    only: str | None = None
    is_alone: bool = False
    levels: tuple[tuple[str, ...], ...] = ()
    kept: Mapping[str, Grid] = field(default_factory=dict)
    as_they_are: frozenset[str] = frozenset()
    converted: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    uncopied: Mapping[str, str] = field(default_factory=dict)
    peculiar: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The file or directory, as messages name it."""
        return str(self.root)

    @property
    def groups(self) -> list[str]:
        """Paths of all groups, the outermost first."""
        return [path for path in self.attributes if path not in self.dimensions]


class WholeTarget(Protocol):
    """A file that is written, by one run at a time; its arrays are targets of their own."""

    @property
    def place(self) -> str:
        """The file."""

    @property
    def arrays(self) -> Mapping[str, Target]:
        """What becomes of the arrays, one after another."""

    @property
    def durability(self) -> Durability:
        """What the file outlasts once it is complete."""

    @property
    def not_kept(self) -> tuple[str, ...]:
        """What the file has no place for; known when the first array is complete."""

    def check(self) -> None:
        """Refuse what `create` would refuse, but touch nothing."""

    def refuse_loss(self, path: Location) -> None:
        """Refuse to replace a file that holds more than this one will."""

    def create(self, job: bytes) -> None:
        """Make the place ready; a journal with the job is the first thing there."""

    def begin_again(self, job: bytes) -> None:
        """Take over from a run that was cut short: nothing of the file is gone on with."""

    def finish(self) -> None:
        """Make the file complete: all arrays are."""

    def abandon(self) -> bool:
        """Remove what is there of the file; tells whether a journal stays."""


@runtime_checkable
class HoldsSeveral(Container, Protocol):
    """A container of which all can be moved at once."""

    def open_all(self, path: Location, *, each: bool = False) -> Whole:
        """Look at everything in a file or a group; only metadata is read yet.

        With `each` also if all belongs to one array.
        """


@runtime_checkable
class MakesFiles(HoldsSeveral, Protocol):
    """A container that is one file, which is written as a whole."""

    def make_all(
        self,
        path: Location,
        model: Model,
        wanted: Mapping[str, Wanted],
        *,
        overwrite: bool,
        durability: Durability,
    ) -> WholeTarget:
        """Describe a file after a model; nothing is touched until its `create`.

        Raises
        ------
        UsageError
            If the format cannot hold what is in it.
        """

    def content_of(self, path: Location) -> Content:
        """Return what is in a file that has been written."""
