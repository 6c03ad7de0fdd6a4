"""Which files contain the blocks of an array, and checks of their headers."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError
from dask_io.journal.journal import journal_of
from dask_io.storage.files import peeking
from dask_io.stores.block_format import ENCODING, Header
from dask_io.stores.block_names import OneName, StackNames
from dask_io.stores.manifest import Manifest
from dask_io.stores.space import Space, crop, is_close

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from dask_io.geometry import Grid, Layout, Region
    from dask_io.storage.location import Location
    from dask_io.stores.block_format import Format, Streamed
    from dask_io.stores.block_names import Names
    from dask_io.stores.spec import ArraySpec

# Positions of blocks may differ by this part of a step: single precision stores few digits.
_OF_A_STEP = 0.1


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of an array and their files."""

    folder: Location
    names: Names
    format: Format
    spec: ArraySpec
    offset: int = 0
    """Bytes before the data in each file, if files do not describe themselves."""

    @property
    def grid(self) -> Grid:
        """Grid of the blocks."""
        return self.spec.grid

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.spec.dtype

    @property
    def layout(self) -> Layout:
        """Order of the elements in each block."""
        return self.spec.layout

    @property
    def path(self) -> Location:
        """The directory, or the file if there is only one."""
        return self.folder / self.names.pattern if self.is_one_file else self.folder

    @property
    def is_one_file(self) -> bool:
        """Whether the array is a file and not a directory."""
        return isinstance(self.names, OneName)

    @property
    def journal(self) -> Location:
        """Journal of the run that writes or wrote the blocks."""
        return journal_of(self.path, is_one_file=self.is_one_file)

    @property
    def manifest(self) -> Manifest:
        """Manifest of the blocks."""
        assert not isinstance(self.names, StackNames), "a stack describes itself in its own way"
        spec, format_name = self.spec, self.format.name
        known = spec.space, spec.metadata
        return Manifest(
            format_name, spec.grid, spec.dtype, spec.layout, self.names, *known, self.offset
        )

    @property
    def stream(self) -> Streamed | None:
        """Reads and writes the files if they are compressed, entirely or after their headers."""
        encoding = self.spec.metadata.get(ENCODING)
        return self.format.stream if encoding is None else self.format.encodings.get(encoding)

    def header_of(self, region: Region) -> bytes:
        """Return everything before the data of a block, which is a region of the array.

        Raises
        ------
        ValueError
            If the format cannot hold it; the message completes "the format ...".
        """
        spec, space = self.spec, self.spec.space
        if space is not None:
            space = crop(space, region.start) if self.format.has_space else None
        block = Header(
            region.shape,
            spec.dtype,
            spec.layout,
            space=space,
            metadata=spec.metadata,
            start=region.start,
            data_file=self._name_at(region.start) if self.format.is_detached else "",
        )
        return self.format.make_header(block)

    def _name_at(self, start: tuple[int, ...]) -> str:
        index = self.grid.index_at(start) if self.grid.n_blocks else (0,) * len(start)
        return self.names.name_of(index, start if self.names.by_offset else index)

    def problem_with(self, header: Header | None, region: Region, size: int) -> str:
        """Return the problem with a block's header or size; empty if there is none."""
        problem = self._mismatch(header, region) if header else ""
        if self.stream is not None:
            return problem
        data = self.format.size_of_data(region.size * self.dtype.itemsize)
        right = (header.offset if header else self.offset) + data
        if problem or right <= size <= right + self.format.most_after:
            return problem
        word = "truncated" if size < right else "too long"
        return f"is {word}: it has {size} bytes, expected {right}"

    def _mismatch(self, header: Header, region: Region) -> str:
        shape = region.shape
        if header.shape != shape:
            return f"has shape {_times(header.shape)}, expected {_times(shape)}"
        if header.dtype != self.dtype:
            return f"has dtype {header.dtype}, expected {self.dtype}"
        if order_of(header.layout, shape) != order_of(self.layout, shape):
            return f"has order {header.layout.name}, expected {self.layout.name}"
        found, expected = (each.metadata.get(ENCODING, "raw") for each in (header, self.spec))
        if found != expected:
            return f"has {found} encoding, but the other blocks have {expected}"
        # The header of one file was followed to its data; those of blocks must agree with names.
        own = self._name_at(region.start)
        if header.data_file and not self.is_one_file and header.data_file != own:
            return f"has its data in {header.data_file!r}, expected {own}"
        compare = self.format.compare
        problem = compare(header.metadata, self.spec.metadata) if compare is not None else ""
        return problem or self._misplacement(header, region)

    def _misplacement(self, header: Header, region: Region) -> str:
        """Return the problem if a block's position does not match its index; else empty."""
        if header.space is None or self.spec.space is None:
            return ""
        found, whole = header.space.affine, self.spec.space.affine
        if found is None or whole is None or found.coordinates != whole.coordinates:
            return ""
        # Positions without named coordinates cannot be compared.
        origin = whole.at(region.start) if found.coordinates else found.origin
        expected, axes = replace(whole, origin=origin), Space.unknown(len(region.shape)).axes
        if is_close(Space(axes, found), Space(axes, expected), region.shape, _OF_A_STEP):
            return ""
        if found.origin != origin:
            return f"begins at {_position(found.origin)}, expected {_position(origin)}"
        return "has another affine than the other blocks"


def order_of(layout: Layout, shape: tuple[int, ...]) -> list[int]:
    """Return the storage order of the axes along which a block extends.

    NumPy calls a block C order whenever it is both, so orders are compared by this.
    """
    return [axis for axis in layout.axes if shape[axis] > 1]


@contextmanager
def peeking_at_header(
    folder: Location,
    name: str,
    format: Format,  # noqa: A002 - the word that users know
) -> Iterator[Callable[[int], bytes]]:
    """Open the file with the header of a block's data, which may be a separate file.

    Raises
    ------
    DataError
        If the header's file is missing.
    """
    path = folder / format.header_name(name)
    if format.is_detached and not path.is_file():
        raise DataError(f"{folder}/{name}", [f"has no header: {path.name} is missing"])
    with peeking(path) as peek:
        yield peek


def _position(coordinates: tuple[float, ...]) -> str:
    return f"({', '.join(f'{n:.6g}' for n in coordinates)})"


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
