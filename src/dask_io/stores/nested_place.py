"""Arrays in nested groups of a container, each a directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Self

from dask_io.errors import UsageError
from dask_io.storage.location import leads_into

if TYPE_CHECKING:
    from dask_io.storage.location import Location


@dataclass(frozen=True)
class NestedPlace:
    """The directory of an array, which may be inside the groups of a container."""

    path: Location
    inside: str = ""

    @classmethod
    def again(cls, root: Location, inside: str) -> Self:
        """Return the place of an array that was in these groups, if its path still ends so."""
        names = PurePosixPath(inside).parts
        is_inside = bool(names) and root.parts[-len(names) :] == names
        return cls(root.parents[len(names) - 1], inside) if is_inside else cls(root)

    @property
    def root(self) -> Location:
        """The array's directory."""
        return self.path / self.inside

    @property
    def groups(self) -> list[Location]:
        """Directories of the groups around the array, outermost first."""
        names = PurePosixPath(self.inside).parts
        return [self.path.joinpath(*names[:n]) for n in range(len(names))]

    def leads_out(self) -> bool:
        """Tell whether links lead out of the container."""
        return not leads_into(self.root, self.path.resolve())

    def refuse_way_out(self) -> None:
        """Refuse a place outside the container that is reached through links.

        Raises
        ------
        UsageError
            If links lead out of the container.
        """
        if self.leads_out():
            raise UsageError(f"{self.root} leads out of {self.path}")
