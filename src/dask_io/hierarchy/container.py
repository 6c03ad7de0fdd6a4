"""The seam between trees and the containers that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dask_io.hierarchy.tree import Content
from dask_io.stores.container import Container

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dask_io.hierarchy.tree import Tree
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import Wanted
    from dask_io.stores.store import Target


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

    def read_tree(self, path: Location, *, each: bool = False) -> Tree:
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
