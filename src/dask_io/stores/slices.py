"""Files that hold slices of an array, each without the axes along which it is a slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.geometry import Layout
from dask_io.stores.block_format import Header
from dask_io.stores.block_names import BlockNames

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from dask_io.geometry import Grid
    from dask_io.stores.block_format import Format
    from dask_io.stores.block_names import Names


def format_of_files(names: Names, format: Format) -> Format:  # noqa: A002 - the word that users know
    """Return how files with these names hold blocks: unchanged, or as slices."""
    axes = names.slice_axes if isinstance(names, BlockNames) else ()
    return SliceFormat(format, axes) if axes else format


def thick_slices(names: Names, grid: Grid) -> str:
    """Say along which axis a file would hold more than one slice; empty if there is none."""
    for axis in names.slice_axes if isinstance(names, BlockNames) else ():
        if grid.axes[axis].longest > 1:
            return f"files hold one slice along axis {axis}, but chunks are longer than 1 there"
    return ""


@dataclass(frozen=True, slots=True)
class SliceFormat:
    """Files of another format that hold blocks without some of their axes of length 1."""

    whole: Format
    axes: tuple[int, ...]

    @property
    def name(self) -> str:
        """What users call the format."""
        return self.whole.name

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Endings of its files."""
        return self.whole.suffixes

    @property
    def longest_header(self) -> int:
        """Bytes of the longest header accepted."""
        return self.whole.longest_header

    def parse_header(self, peek: Callable[[int], bytes]) -> Header:
        """Read a header, and add the axes that the file does not have."""
        header = self.whole.parse_header(peek)
        shape, n_axes = list(header.shape), len(header.shape) + len(self.axes)
        for axis in self.axes:
            shape.insert(axis, 1)
        # An axis of length 1 fits anywhere, so keep C and F, which all formats can store.
        if header.layout.name in {"C", "F"}:
            layout = Layout.named(header.layout.name, n_axes)
        else:
            there = self._axes_in_file(n_axes)
            layout = Layout((*self.axes, *(there[axis] for axis in header.layout.axes)))
        return Header(tuple(shape), header.dtype, layout, header.offset)

    def make_header(self, shape: tuple[int, ...], dtype: np.dtype[Any], layout: Layout) -> bytes:
        """Return the header of a block, without the axes that files do not have."""
        there = self._axes_in_file(len(shape))
        order = Layout(tuple(there.index(axis) for axis in layout.axes if axis in there))
        return self.whole.make_header(tuple(shape[axis] for axis in there), dtype, order)

    def _axes_in_file(self, n_axes: int) -> list[int]:
        return [axis for axis in range(n_axes) if axis not in self.axes]
