"""TIFF, BigTIFF, OME-TIFF and ImageJ files.

tifffile reads the tags and the metadata, and imagecodecs decodes tiles. The transport of Dask IO
moves the bytes. A file that is written begins with the directories of all pages, then come the
elements, or the tiles in any order if they are compressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.formats.reopening import described_blocks, make_blocks, reopen_blocks
from dask_io.formats.tiff.blocks import FORMAT as BLOCKS
from dask_io.formats.tiff.source import NAME, open_tiff, reopen_tiff
from dask_io.geometry import Grid, Region
from dask_io.stores.block_files import Blocks
from dask_io.stores.block_names import OneName
from dask_io.stores.container import on_disk
from dask_io.stores.own_attribute import headers_in
from dask_io.stores.spec import SPACE, ArraySpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.store import Readback, Source, Target

# Describes a file whose elements follow its header, unlike the path of an image.
_FILE = "file"


@dataclass(frozen=True)
class TiffFormat:
    """Files with images, each of which is an array; a target has one image."""

    name: str = NAME
    suffixes: tuple[str, ...] = BLOCKS.all_suffixes

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open an image; only its metadata is read yet."""
        return open_tiff(path, inside, strict=strict)

    def make(
        self,
        path: Location,
        inside: str,
        wanted: NewArray,
        *,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> Target:
        """Describe a file with one image; nothing is touched.

        Raises
        ------
        UsageError
            If TIFF cannot hold the array, or does not support an option.
        """
        on_disk(path, self.name)
        if inside:
            raise UsageError(f"{path} gets one image; leave out ::/{inside}")
        wanted.options.refuse(self.name)
        try:
            blocks = _whole_file(path, wanted)
        except ValueError as error:
            raise UsageError(f"format {self.name} {error}") from error
        return make_blocks(blocks, overwrite=overwrite, durability=durability, reserve=reserve)

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],
    ) -> Source:
        """Open a source again."""
        if _FILE in described:
            return reopen_blocks(described, at, absent)
        return reopen_tiff(described, None if at is None else on_disk(at, self.name))

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open a former target, to verify its checksums."""
        if _FILE in described:
            return reopen_blocks(described, at)
        return reopen_tiff(described, on_disk(at, self.name)).as_written()

    def remake(
        self, described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target of an earlier run again.

        Raises
        ------
        ValueError
            If the description is invalid.
        """
        blocks = described_blocks(described, at)
        return make_blocks(blocks, overwrite=False, durability=durability, reserve=reserve)


def _whole_file(path: Location, wanted: NewArray) -> Blocks:
    """Return the file of an array whose elements follow the header in one piece.

    Raises
    ------
    ValueError
        If TIFF cannot hold the array; the message completes "the format ...".
    """
    shape = wanted.grid.shape
    metadata = headers_in(wanted.metadata)
    grid = Grid.regular(shape, [max(1, length) for length in shape])
    spec = ArraySpec(grid, wanted.dtype, wanted.layout, wanted.metadata.get(SPACE), metadata)
    names = OneName(path.name, len(shape))
    blocks = Blocks(path.parent, names, BLOCKS.of_file(path.name), spec)
    blocks.header_of(Region.whole(shape))
    return blocks


FORMAT = TiffFormat()
