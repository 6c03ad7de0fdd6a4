"""What `info` finds out about an array, a group or a file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dask_io.notebook import Displayed
from dask_io.report.text import group_text, info_rows, info_text
from dask_io.stores.gzip_files import GzipFiles
from dask_io.stores.spec import SPACE
from dask_io.units import by, count, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from dask_io.geometry import Grid
    from dask_io.hierarchy.tree import Tree
    from dask_io.stores.store import Source


@dataclass(frozen=True, slots=True, repr=False)
class Info(Displayed):
    """Description of a store."""

    place: str
    format: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grid: Grid
    order: str
    n_bytes: int
    n_bytes_on_disk: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pattern: str | None = None
    """Pattern of the names of its block files."""
    inferred: str | None = None
    """Meaning of the numbers in file names, if the pattern was inferred from them."""
    n_files: int | None = None
    """Number of files, if each is decoded in several slabs: the blocks of `grid`."""

    def __str__(self) -> str:
        return info_text(self)

    def _where(self) -> Sequence[str]:
        return (self.place,)

    def _facts(self) -> Iterator[str]:
        yield self.format
        yield f"{by(self.shape)} of {self.dtype}"
        unit = "block" if self.n_files is None else "slab"
        yield f"{count(self.grid.n_blocks, unit)} of {self.grid}"
        yield format_bytes(self.n_bytes)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield from info_rows(self)


@dataclass(frozen=True, slots=True, repr=False)
class GroupInfo(Displayed):
    """Description of a group and, by path, of all its arrays.

    `others` are unsupported arrays, each with the reason. They are copied verbatim. Those in
    `uncopied` cannot be copied either, and a group with any of them is refused.
    """

    place: str
    format: str
    arrays: Mapping[str, Info]
    others: Mapping[str, str]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    uncopied: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return group_text(self)

    def _where(self) -> Sequence[str]:
        return (self.place,)

    def _facts(self) -> Iterator[str]:
        yield f"{len(self.arrays) + len(self.others):,} {self.format} arrays"
        yield format_bytes(sum(each.n_bytes for each in self.arrays.values()))

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "place", self.place
        yield "format", self.format
        for name, each in self.arrays.items():
            yield name, f"{by(each.shape)} of {each.dtype}, blocks of {each.grid}"
        for name, problem in self.others.items():
            yield name, f"cannot be copied: it {problem}" if name in self.uncopied else "copied"


def describe(source: Source) -> Info:
    """Describe an array."""
    names = source.block_names
    n_files = None
    if isinstance(source, GzipFiles) and source.is_indivisible:
        n_files = source.n_files
    return Info(
        place=source.place,
        format=source.format,
        shape=source.grid.shape,
        dtype=source.dtype,
        grid=source.grid,
        order=source.layout.name,
        n_bytes=source.grid.size * source.dtype.itemsize,
        n_bytes_on_disk=source.n_bytes_on_disk,
        # A read-only view of a mapping cannot be pickled.
        metadata=dict(source.metadata),
        pattern=None if names is None else names.pattern,
        inferred=names.meaning if names is not None and names.inferred else None,
        n_files=n_files,
    )


def describe_tree(tree: Tree) -> GroupInfo:
    """Describe a group or a file, and the arrays in it."""
    arrays = {name: _describe_in(tree, name, each) for name, each in tree.sources.items()}
    verbatim = {name: each.verbatim for name, each in tree.arrays.items() if each.source is None}
    return GroupInfo(
        place=tree.place,
        format=tree.dialect or tree.format,
        arrays=arrays,
        others={**verbatim, **tree.refused},
        attributes=tree.groups[""],
        uncopied=frozenset(tree.refused),
    )


def _describe_in(tree: Tree, name: str, source: Source) -> Info:
    """Describe an array, with the space that its group gives it."""
    found, space = describe(source), tree.arrays[name].space
    return found if space is None else replace(found, metadata={**found.metadata, SPACE: space})
