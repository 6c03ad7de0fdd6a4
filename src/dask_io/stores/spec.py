"""The description of an array in blocks, which every format provides."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dask_io.geometry import Grid
from dask_io.stores.atomic import Padding
from dask_io.stores.padded import any_padded, scratch_bytes
from dask_io.stores.scaling import SCALING, scaling_in
from dask_io.stores.space import AxisType, Space, crop
from dask_io.stores.store import Access

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dask_io.geometry import Layout, Region
    from dask_io.stores.shards import ShardIndex

CODECS_OF_FILES = "codecs_of_files"
"""Key of the metadata for the codecs of files that are not all encoded alike."""
CHANNEL_NAMES = "channel_names"
"""Key of the names of channels in the metadata of a store, empty for those without a name."""
IMAGES, LEVELS = "images_of_file", "levels_of_image"
"""Keys of the metadata of an image for the other images in its file, and its smaller levels."""
SPACE = "space"
"""Key of the space in the metadata of a store."""


class Codec(Protocol):
    """Encodes and decodes chunks of one size."""

    @property
    def longest(self) -> int:
        """The most bytes of an encoded chunk."""

    @property
    def decoding_bytes(self) -> int:
        """The most bytes held to decode, apart from the encoded and the decoded chunk."""

    @property
    def encoding_bytes(self) -> int:
        """The most bytes held to encode, apart from the decoded chunk, with the encoded one."""

    def encode(self, data: NDArray[np.uint8]) -> Any:
        """Encode a chunk, in the form that the format's target stores."""

    def decode(self, data: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Decode a chunk so that it fills `out` exactly.

        Raises
        ------
        ValueError
            If it does not; the message completes "the file ...".
        """


@dataclass(frozen=True)
class ArraySpec:
    """An array in blocks, as a format describes it.

    Attributes
    ----------
    grid
        The blocks that are read at once.
    dtype
        Type of the elements, as stored.
    layout
        Order of the elements in a block.
    space
        Names and units of the axes, and their position in the world; None if unknown.
    metadata
        Other metadata of the array, as plain JSON values.
    codec
        How each block is encoded; None if its elements are stored as the layout states.
    stored_shape
        The shape in which every block is stored, if blocks at the edge are padded to it.
    fill_bytes
        The element that stands for blocks that are not stored. Not an array, because pickling
        may change the byte order of one.
    index
        How a shard of several blocks records where they are; None if blocks are not in shards.
    truncates_edges
        Whether blocks at the edge are encoded without padding, although other writers of the
        format may pad them to `stored_shape`.
    omits_fill
        Whether blocks that contain only the fill value are left out even if the array has no
        codec.
    encoding
        Everything that determines the stored bytes. Blocks can be copied verbatim between two
        stores with equal values; None if they cannot be copied.
    """

    grid: Grid
    dtype: np.dtype[Any]
    layout: Layout
    space: Space | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    codec: Codec | None = None
    stored_shape: tuple[int, ...] | None = None
    fill_bytes: bytes = b""
    index: ShardIndex | None = None
    truncates_edges: bool = False
    omits_fill: bool = False
    encoding: object | None = None

    @property
    def described(self) -> Mapping[str, Any]:
        """All metadata of the array except grid, dtype and layout."""
        if self.space is None:
            return self.metadata
        names = tuple(axis.name for axis in self.space.axes)
        named = {"dimension_names": names} if any(names) else {}
        return MappingProxyType({**self.metadata, **named, SPACE: self.space})

    @property
    def access(self) -> Access:
        """Whether a part of a block can be read by itself."""
        return Access.ADDRESSABLE if self.codec is None else Access.ATOMIC

    @property
    def fill(self) -> NDArray[Any]:
        """The value of blocks that are not stored."""
        return np.frombuffer(self.fill_bytes, self.dtype).reshape(())

    @property
    def shards(self) -> tuple[int, ...] | None:
        """The shape of a shard, if blocks are in shards."""
        if self.index is None:
            return None
        return tuple(n * c for n, c in zip(self.index.counts, self.chunks, strict=True))

    @cached_property
    def write_grid(self) -> Grid:
        """The grid of units that are written at once: shards, or else blocks."""
        return Grid.regular(self.grid.shape, self.shards) if self.shards else self.grid

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """The shape in which blocks are stored."""
        return self.stored_shape or self.grid.longest

    @cached_property
    def chunk_bytes(self) -> int:
        """Bytes of a block's elements, with padding."""
        return prod(self.chunks) * self.dtype.itemsize

    @cached_property
    def longest(self) -> int:
        """The most bytes of a stored block."""
        return self.chunk_bytes if self.codec is None else self.codec.longest

    @property
    def longest_file(self) -> int:
        """The most bytes that are written at once: a block, or a shard with its index."""
        if self.index is None:
            return self.longest
        return prod(self.index.counts) * self.longest + self.index.chain.longest

    @cached_property
    def scratch_bytes(self) -> int:
        """Staging bytes to move a part of a padded block; 0 if blocks have no padding."""
        if not any_padded(self.grid, self.chunks, self.layout):
            return 0
        return scratch_bytes(self.chunk_bytes, self.dtype.itemsize)

    @cached_property
    def padding(self) -> Padding:
        """How blocks at the edge are padded."""
        return Padding(self.chunks, self.dtype, self.layout, self.fill_bytes)

    def padding_for(self, shape: tuple[int, ...]) -> Padding:
        """How a block of this shape is padded before it is encoded."""
        return self.padding._replace(chunks=shape) if self.truncates_edges else self.padding


def crop_described(described: Mapping[str, Any], region: Region) -> Mapping[str, Any]:
    """Return the metadata of a region."""
    cropped = dict(described)
    if isinstance(space := described.get(SPACE), Space):
        cropped[SPACE] = crop(space, region.start)
        if names := described.get(CHANNEL_NAMES):
            cropped[CHANNEL_NAMES] = _crop_names(names, space, region)
    if (scaling := scaling_in(described)) is not None:
        cropped[SCALING] = scaling.crop(region).to_json()
    return cropped


def _crop_names(names: Sequence[str], space: Space, region: Region) -> Sequence[str]:
    """Return the names of the channels in a region."""
    kinds = [axis.type for axis in space.axes]
    if kinds.count(AxisType.CHANNEL) != 1:
        return names
    axis = kinds.index(AxisType.CHANNEL)
    return names[region.start[axis] : region.stop[axis]]
