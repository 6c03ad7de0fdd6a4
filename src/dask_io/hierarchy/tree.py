"""A tree: the metadata of everything in a group or a file, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np

    from dask_io.geometry import Grid
    from dask_io.storage.location import Location
    from dask_io.stores.space import Space
    from dask_io.stores.store import Source

ROOT = ""
"""The path of the outermost group."""


def checked_path(path: str) -> str:
    """Return the path of a group, an array or a file within a tree, after checking it.

    Raises
    ------
    ValueError
        If it would lead out of the tree.
    """
    if path != ROOT and any(part in {"", ".", ".."} for part in path.split("/")):
        raise ValueError(f"{path} is not a path in a group")
    return path


class Content(Protocol):
    """Access to the stored values of a tree, and to whatever detects that they changed."""

    def read(self, name: str) -> Any:
        """Return the values of an array that is copied verbatim; text as `str`."""

    def identity(self, names: Iterable[str] | None = None) -> int:
        """Return a number that changes when any of these arrays does, by default anything."""

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """Return checksums of the values of arrays, equal for equal values in other formats."""

    def cut(self, bounds: Mapping[str, tuple[int, int]]) -> Content:
        """Return the content of the part within these bounds of dimensions, given by name."""


@dataclass(frozen=True)
class TreeArray:
    """One array of a tree, with its metadata.

    Attributes
    ----------
    shape
        Its shape, empty if it is unknown.
    dimensions
        The names of its dimensions, None for one without a name.
    attributes
        Its attributes as plain values.
    source
        Reads its blocks; None if the array can only be copied verbatim.
    verbatim
        Why it can only be copied verbatim; the text completes "it ...".
    kept_grid
        The chunks that it gets by default; None for those of the source.
    dtype
        The type that its elements are converted to; None if they keep theirs.
    is_lossy
        Whether its values would change if they were encoded again.
    along
        The paths of its shared dimensions, if the tree has any.
    space
        The meaning of its positions, as far as the tree describes it; None if unknown.
    """

    shape: tuple[int, ...]
    dimensions: tuple[str | None, ...]
    attributes: Mapping[str, Any]
    source: Source | None = None
    verbatim: str = ""
    kept_grid: Grid | None = None
    dtype: np.dtype[Any] | None = None
    is_lossy: bool = False
    along: tuple[str, ...] = ()
    space: Space | None = None

    @classmethod
    def of(
        cls,
        source: Source,
        dimensions: tuple[str | None, ...],
        *,
        kept_grid: Grid | None = None,
        is_lossy: bool = False,
        space: Space | None = None,
    ) -> TreeArray:
        """Describe an array that is read in blocks."""
        attributes = source.metadata["attributes"]
        return cls(
            source.grid.shape,
            dimensions,
            attributes,
            source,
            kept_grid=kept_grid,
            is_lossy=is_lossy,
            space=space,
        )

    def copied_verbatim(self, reason: str) -> TreeArray:
        """Return the same array, but without its blocks."""
        return replace(self, source=None, verbatim=reason)


@dataclass(frozen=True)
class Tree:
    """Everything in a group or a file, by path.

    Attributes
    ----------
    root
        The file, or the directory of the group.
    format
        Name of the format.
    dialect
        Name of the convention that the tree follows within the format, if it has one.
    content
        Reads the values of arrays that are copied verbatim.
    groups
        The attributes of every group; the outermost one has the path ``""`` and comes first.
    arrays
        All arrays.
    refused
        Objects that cannot be copied anywhere, each with the reason.
    shares_dimensions
        Whether dimensions of one name in one group are the same dimension.
    lengths
        The lengths of shared dimensions by path, once `place_dimensions` has placed them.
    format_specific
        Names for everything that other formats cannot store.
    main
        The array that all others belong to, if there is one. The others are then usually not read.
    has_others
        Whether there are other arrays than the main one.
    levels
        The names of the axes of every level of an image, if the tree is one.
    bounds
        Start and stop along each dimension that `cut_tree` has cut.
    selected
        The array that `select` has chosen; empty if the tree is whole.
    """

    root: Location
    format: str
    content: Content
    groups: Mapping[str, Mapping[str, Any]]
    arrays: Mapping[str, TreeArray]
    refused: Mapping[str, str] = field(default_factory=dict)
    shares_dimensions: bool = False
    lengths: Mapping[str, int] = field(default_factory=dict)
    format_specific: tuple[str, ...] = ()
    main: str | None = None
    has_others: bool = True
    levels: tuple[tuple[str, ...], ...] = ()
    dialect: str | None = None
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    selected: str = ""

    @property
    def place(self) -> str:
        """The file or directory, as messages show it."""
        return str(self.root)

    @property
    def is_one_level(self) -> bool:
        """Whether the only array is the only level of an image, so that it can be read alone."""
        return len(self.levels) == len(self.arrays) == 1

    @property
    def sources(self) -> dict[str, Source]:
        """The arrays that can be read in blocks."""
        return {name: each.source for name, each in self.arrays.items() if each.source is not None}

    @property
    def dimensions(self) -> dict[str, tuple[str | None, ...]]:
        """The names of the dimensions of every array."""
        return {name: each.dimensions for name, each in self.arrays.items()}
