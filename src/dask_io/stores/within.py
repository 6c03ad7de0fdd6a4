"""A region of a store, as a store of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dask_io.stores.store import Store, block_names_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from dask_io.geometry import Grid, Layout, Region
    from dask_io.stores.files import Tally
    from dask_io.stores.naming import BlockNames
    from dask_io.stores.store import Access

AnyStore = TypeVar("AnyStore", bound=Store)


@dataclass(frozen=True)
class Within(Generic[AnyStore]):
    """What lies within a region of another store; positions count from the region's corner."""

    whole: AnyStore
    region: Region

    @property
    def place(self) -> str:
        """The whole store's place."""
        return self.whole.place

    @property
    def format(self) -> str:
        """Name of the format."""
        return self.whole.format

    @cached_property
    def grid(self) -> Grid:
        """The blocks, or their parts, within the region."""
        return self.whole.grid.clipped(self.region)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.whole.dtype

    @property
    def layout(self) -> Layout:
        """How elements lie in each block."""
        return self.whole.layout

    @property
    def access(self) -> Access:
        """What a part of a block costs."""
        return self.whole.access

    @property
    def reused_bytes(self) -> int:
        """What a visit to a block uses of staging besides its values."""
        return self.whole.reused_bytes

    @property
    def codec_bytes(self) -> int:
        """What a visit to a block holds besides."""
        return self.whole.codec_bytes

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the whole store says about the array."""
        return self.whole.metadata

    @property
    def tally(self) -> Tally:
        """What has been moved so far."""
        return self.whole.tally

    @property
    def block_names(self) -> BlockNames | None:
        """The pattern of the whole store's block files, if it has one."""
        return block_names_of(self.whole)

    def describe(self) -> dict[str, Any]:
        """Return what it takes to have the whole store again."""
        return self.whole.describe()

    def stored(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """Return which of the whole store's blocks one is."""
        axes = self.whole.grid.axes
        first = (axis.index_at(low) for axis, low in zip(axes, self.region.start, strict=True))
        return tuple(a + b for a, b in zip(first, index, strict=True))
