"""A file that holds a slice of an array, as a source with the axes that the file does not have."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import UsageError
from dask_io.geometry import Axis, Grid, Region
from dask_io.stores.mosaic import OF_ONE_FILE
from dask_io.stores.scaling import RealValues, scaling_in
from dask_io.stores.slices import insert_axes, stacked_layout, stacked_space
from dask_io.stores.space import Space
from dask_io.stores.spec import SPACE
from dask_io.stores.store import SourceDefaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from dask_io.geometry import Layout
    from dask_io.storage.location import Location
    from dask_io.storage.tally import Tally
    from dask_io.stores.block_format import Format
    from dask_io.stores.block_names import BlockNames
    from dask_io.stores.store import Access, BlockReader, Source

_NAMES = "dimension_names"
# Metadata that describes a single file, not the array.
_OF_ONE_FILE = OF_ONE_FILE | {_NAMES, "series"}


def open_slice(
    format: Format,  # noqa: A002 - the word that users know
    names: BlockNames,
    path: Location,
) -> SliceFile:
    """Open a file with such a name as a slice of an array; scaled values become real values."""
    assert format.open_file is not None, f"files of {format.name} cannot be opened alone"
    source = format.open_file(path)
    scaling = scaling_in(source.metadata)
    if scaling is not None and not scaling.is_identity:
        source = RealValues(source, scaling)
    return SliceFile(source, names)


@dataclass(eq=False)
class SliceFile(SourceDefaults):
    """A source as a slice of an array: it has more axes, of length 1.

    Any number of blocks may be read at once.
    """

    file: Source
    names: BlockNames
    is_indivisible = True

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that the file does not have."""
        return self.names.slice_axes

    @property
    def place(self) -> str:
        """The place of the file."""
        return self.file.place

    @property
    def format(self) -> str:
        """Name of the format."""
        return self.file.format

    @cached_property
    def grid(self) -> Grid:
        """The blocks of the file."""
        return Grid(tuple(insert_axes(self.file.grid.axes, self.axes, Axis.regular(1, 1))))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.file.dtype

    @cached_property
    def layout(self) -> Layout:
        """Order of the elements in each block."""
        return stacked_layout(self.file.layout, self.axes)

    @property
    def access(self) -> Access:
        """The cost of moving a part of a block."""
        return self.file.access

    @property
    def reused_bytes(self) -> int:
        """Staging bytes of a visit, apart from its values."""
        return self.file.reused_bytes

    @property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds."""
        return self.file.codec_bytes

    @property
    def tally(self) -> Tally:
        """Counts of seeks, visits and bytes."""
        return self.file.tally

    @tally.setter
    def tally(self, tally: Tally) -> None:
        plain: Any = self.file.stored if isinstance(self.file, RealValues) else self.file
        plain.tally = tally

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes of the file."""
        return self.file.n_bytes_on_disk

    @property
    def n_absent(self) -> int | None:
        """Blocks that are not stored."""
        return self.file.n_absent

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the file, with its space extended by the axes that it does not have."""
        kept = {k: v for k, v in self.file.metadata.items() if k not in _OF_ONE_FILE}
        space = self.file.metadata.get(SPACE)
        if isinstance(space, Space):
            kept[SPACE] = stacked_space(space, self.axes, self.names.words)
            names = tuple(axis.name for axis in kept[SPACE].axes)
            return {**kept, **({_NAMES: names} if any(names) else {})}
        return kept

    def describe(self) -> dict[str, Any]:
        """Return the description of the file."""
        return self.file.describe()

    def inner(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """Return the values of the axes that the file has."""
        return tuple(value for axis, value in enumerate(values) if axis not in self.axes)

    def region(self, region: Region) -> Region:
        """Return a region of a block without the axes that the file does not have."""
        return Region(self.inner(region.start), self.inner(region.stop))

    @contextmanager
    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> Iterator[BlockReader]:
        """Visit a block of the file."""
        before = None if after is None else self.region(after)
        with self.file.reader(self.inner(index), after=before) as reader:
            yield _SliceReader(self, reader)

    def check(self) -> None:
        """Check the blocks of the file."""
        self.file.check()

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when a block does."""
        return self.file.fingerprint(self.inner(index))

    def discard(self, index: tuple[int, ...]) -> None:  # noqa: ARG002 - none can be
        """Refuse: a file may hold other blocks too."""
        raise UsageError(f"blocks of {self.format} files cannot be consumed one by one")

    def discard_rest(self) -> None:
        """Keep the file."""


@dataclass(frozen=True, slots=True)
class _SliceReader:
    """One visit to a block of a slice."""

    slice: SliceFile
    reader: BlockReader

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        found = self.reader.read_into(self.slice.region(region), buffer)
        return np.expand_dims(found, self.slice.axes)

    def expect(self, region: Region) -> None:
        self.reader.expect(self.slice.region(region))

    def checksum(self, region: Region, staging: memoryview) -> int:
        return self.reader.checksum(self.slice.region(region), staging)
