"""The seam between trees and the containers that hold them."""

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
        """What the tree outlasts once it is complete."""

    @property
    def not_kept(self) -> tuple[str, ...]:
        """Names for everything that the container has no place for; final once it is complete."""

    @property
    def is_resumable(self) -> bool:
        """Whether a journal exists from which this run can be resumed."""

    def describe(self) -> dict[str, Any]:
        """Return what the journal records about the groups, as plain values."""

    def digests(self) -> dict[str, str]:
        """Return the checksums that arrays copied verbatim will have, by name."""

    def check(self) -> None:
        """Refuse what `create` would refuse, but touch nothing."""

    def create(self, job: bytes) -> None:
        """Create the place; a journal with the job is the first thing in it."""

    def copy_verbatim(self) -> None:
        """Write the arrays that are copied verbatim, unless `create` did."""

    def finish(self) -> None:
        """Complete the tree: all arrays are there."""

    def give_up(self) -> None:
        """Keep what can be resumed, and remove everything else."""


@runtime_checkable
class UndividedTarget(TreeTarget, Protocol):
    """A tree of which nothing counts before all of it is complete."""

    def restart(self, job: bytes) -> None:
        """Begin again at the place of an interrupted run."""

    def refuse_loss(self, path: Location) -> None:
        """Refuse to replace a file that holds more than this one will."""


class DividedTarget(TreeTarget, Protocol):
    """A tree whose arrays have journals of their own, so that it is resumed array by array."""

    def resume(self) -> None:
        """Continue an interrupted run, or lock a complete tree for a repair."""

    def copy_again(self) -> None:
        """Write arrays that are copied verbatim again, and remove other files from them."""

    def damaged_groups(self) -> list[str]:
        """Return the groups whose metadata is missing or cannot be understood."""

    def describe_again(self, paths: Iterable[str]) -> None:
        """Write the metadata of groups again."""

    def abandon(self) -> None:
        """Release the lock."""


@runtime_checkable
class TreeContainer(Container, Protocol):
    """A container that holds trees."""

    @property
    def native_formats(self) -> frozenset[str]:
        """Formats whose trees it holds without conversion, so that arrays can be kept as stored."""

    @property
    def tree_versions(self) -> frozenset[int]:
        """Versions of the format that a converted tree can have; empty if there is no choice."""

    def is_group(self, path: Location) -> bool:
        """Tell whether a path is the directory of a group whose members can be listed."""

    def can_hold(self, tree: Tree) -> bool:
        """Tell whether trees of this format can be held at all."""

    def read_tree(self, path: Location, *, each: bool = False) -> Tree:
        """Read the metadata of everything in a file or a group.

        With `each` also if all else belongs to one array.
        """

    def convert(self, tree: Tree) -> Tree:
        """Convert a tree of any format to one that this container can hold; nothing is touched.

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
        """Describe a target for a converted tree; nothing is touched until its `create`.

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
        """Describe a target again, by what its `describe` returned and the names of its arrays.

        `copies` are to be copied verbatim from the source, whose `tree` is needed only for them.

        Raises
        ------
        ValueError
            If `described` is not such a description.
        """
