"""Files that hold several arrays, which are read and written as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dask_io.stores.container import Container

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dask_io.geometry import Grid
    from dask_io.stores.container import Wanted
    from dask_io.stores.files import Durability
    from dask_io.stores.location import Location
    from dask_io.stores.store import Source, Target


class Model(Protocol):
    """What another file is made after; it travels to the process that makes it."""

    @property
    def path(self) -> Path:
        """The file that is there."""

    def contents(self) -> set[str]:
        """Return the names of all that the file holds, attributes behind an ``@``."""

    def build(self, path: Path, wanted: Mapping[str, Wanted]) -> tuple[str, ...]:
        """Make a file with all that is in this one, but without the values of some arrays.

        These are made as they are wanted. Returns what cannot be kept.
        """

    def read(self, name: str) -> Any:
        """Return the values of an array that is copied as it is."""


@dataclass(frozen=True)
class WholeFile:
    """What a file holds, by path within it.

    Attributes
    ----------
    model
        What another file is made after.
    format
        Name of the format.
    arrays
        What can be read in blocks.
    others
        What is copied as it is, because it has no axes or elements that are not understood: with
        what is said about it.
    dimensions
        Names of the dimensions of all of these.
    only
        The one array that all else in the file belongs to, if there is one.
    kept
        The blocks that arrays get which are not to be re-split, if not their own.
    as_they_are
        Arrays that would not be the same if they were encoded again.
    uncopied
        Arrays of which there can be no copy in another file: with what is wrong with them.
    attributes
        What the file says about itself.
    """

    model: Model
    format: str
    arrays: Mapping[str, Source]
    others: Mapping[str, str]
    dimensions: Mapping[str, tuple[str | None, ...]]
    only: str | None
    kept: Mapping[str, Grid] = field(default_factory=dict)
    as_they_are: frozenset[str] = frozenset()
    uncopied: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file."""
        return self.model.path

    @property
    def place(self) -> str:
        """The file, as messages name it."""
        return str(self.path)


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
    """A container that is one file, of which all can be moved at once."""

    def open_all(self, path: Location) -> WholeFile:
        """Look at everything in a file; only metadata is read yet."""

    def make_all(
        self,
        path: Location,
        model: Model,
        wanted: Mapping[str, Wanted],
        *,
        overwrite: bool,
        durability: Durability,
    ) -> WholeTarget:
        """Describe a file like another one; nothing is touched until its `create`.

        Raises
        ------
        UsageError
            If the format cannot hold what is in the other.
        """
