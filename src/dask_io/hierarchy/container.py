"""The interface between trees and the containers that store them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dask_io.stores.container import Container

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from dask_io.hierarchy.tree import Tree
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.store import Target


class TreeTarget(Protocol):
    """A tree that is written, by one run at a time.

    Its arrays are targets of their own. Arrays that are copied verbatim are written by the tree.
    """

    @property
    def place(self) -> str:
        """The file, or the directory of the group."""

    @property
    def arrays(self) -> Mapping[str, Target]:
        """The arrays that are written in blocks, in this order."""

    @property
    def durability(self) -> Durability:
        """The failures that the tree survives once it is complete."""

    @property
    def not_kept(self) -> tuple[str, ...]:
        """Names for everything that the container cannot store; final once it is complete."""

    @property
    def is_resumable(self) -> bool:
        """Whether a journal exists from which this run can be resumed."""

    def describe(self) -> dict[str, Any]:
        """Return the description of the groups for the journal, as plain values."""

    def digests(self) -> dict[str, str]:
        """Return the checksums that arrays copied verbatim will have, by name."""

    def check(self) -> None:
        """Raise the errors that `create` would raise, without changing anything."""

    def create(self, job: bytes) -> None:
        """Create the place; a journal with the job is the first thing in it."""

    def copy_verbatim(self) -> None:
        """Write the arrays that are copied verbatim, unless `create` did."""

    def finish(self) -> None:
        """Complete the tree, after all arrays have been written."""

    def give_up(self) -> None:
        """Keep everything that can be resumed, and remove the rest."""


@runtime_checkable
class UndividedTarget(TreeTarget, Protocol):
    """A tree that is written as a whole; an unfinished one cannot be resumed in part."""

    def restart(self, job: bytes) -> None:
        """Begin again at the place of an interrupted run."""

    def refuse_loss(self, path: Location) -> None:
        """Refuse to replace a file that contains more than the new one will."""


class DividedTarget(TreeTarget, Protocol):
    """A tree whose arrays have their own journals, so that it is resumed array by array."""

    def resume(self) -> None:
        """Continue an interrupted run, or lock a complete tree for a repair."""

    def copy_again(self) -> None:
        """Write arrays that are copied verbatim again, and remove other files from them."""

    def damaged_groups(self) -> list[str]:
        """Return the groups whose metadata is missing or invalid."""

    def describe_again(self, paths: Iterable[str]) -> None:
        """Write the metadata of groups again."""

    def abandon(self) -> None:
        """Release the lock."""


@runtime_checkable
class TreeContainer(Container, Protocol):
    """A container that holds trees."""

    @property
    def native_formats(self) -> frozenset[str]:
        """Formats whose trees it stores without conversion, so that arrays can stay encoded."""

    @property
    def tree_versions(self) -> frozenset[int]:
        """Versions of the format that a converted tree can have; empty if there is no choice."""

    def is_group(self, path: Location) -> bool:
        """Tell whether a path is the directory of a group whose members can be listed."""

    def can_hold(self, tree: Tree) -> bool:
        """Tell whether the container can store trees of this format."""

    def read_tree(self, path: Location, *, each: bool = False) -> Tree:
        """Read the metadata of everything in a file or a group.

        If everything else belongs to one array, the others are read only with `each`.
        """

    def convert(self, tree: Tree) -> Tree:
        """Convert a tree of any format to one that this container can hold; no values are read.

        Raises
        ------
        UsageError
            If that is impossible.
        """

    def write_tree(
        self,
        path: Location,
        tree: Tree,
        wanted: Mapping[str, NewArray],
        *,
        version: int | None,
        overwrite: bool,
        durability: Durability,
    ) -> TreeTarget:
        """Describe a target for a converted tree; nothing is written until its `create`.

        Arrays that are not `wanted` are copied verbatim.

        Raises
        ------
        UsageError
            If the format cannot hold the tree.
        """

    def digests(self, path: Location, names: Collection[str]) -> dict[str, str]:
        """Return the checksums of arrays that were copied verbatim into a tree."""


@runtime_checkable
class DividedContainer(TreeContainer, Protocol):
    """A container whose arrays are resumed, verified and repaired one by one."""

    def reopen_tree(
        self,
        path: Location,
        described: Mapping[str, Any],
        names: Iterable[str],
        *,
        durability: Durability,
        tree: Tree | None = None,
        copies: Iterable[str] = (),
    ) -> DividedTarget:
        """Return a target again, from its description and the names of its arrays.

        `copies` are copied verbatim from the source, whose `tree` is needed only for them.

        Raises
        ------
        ValueError
            If the description is invalid.
        """
