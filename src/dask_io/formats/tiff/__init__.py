"""TIFF, BigTIFF, OME-TIFF and ImageJ files.

tifffile reads the tags and the metadata, and imagecodecs decodes tiles. The transport of Dask IO
moves the bytes. A file that is written begins with the directories of all pages, then come the
elements, or the tiles in any order if they are compressed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.formats.reopening import described_blocks, make_blocks, reopen_blocks
from dask_io.formats.tiff.blocks import BIG, OME, pages_of
from dask_io.formats.tiff.blocks import FORMAT as BLOCKS
from dask_io.formats.tiff.description import (
    describe_ome,
    describe_plain,
    has_samples,
    names_of_channels,
    ome_axes,
)
from dask_io.formats.tiff.source import NAME, open_tiff, reopen_tiff
from dask_io.formats.tiff.space import axis_of
from dask_io.formats.tiff.target import NewImage, TiffTarget
from dask_io.formats.tiff.tiling import parse_tiff_codec, tile_for
from dask_io.geometry import Grid, Layout, Region
from dask_io.stores.block_files import Blocks
from dask_io.stores.block_format import Header
from dask_io.stores.block_names import OneName
from dask_io.stores.container import on_disk
from dask_io.stores.kept_headers import HEADERS, headers_in
from dask_io.stores.space import Space
from dask_io.stores.spec import CHANNEL_NAMES, SPACE, ArraySpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

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
        file = on_disk(path, self.name)
        if inside:
            raise UsageError(f"{path} gets one image; leave out ::/{inside}")
        replace(wanted.options, codec=None).refuse(self.name)
        try:
            space, inferred = _space_for(file, wanted)
            codecs = parse_tiff_codec(wanted.options.codec)
            n_samples_axes = int(has_samples(space, wanted.grid.shape, wanted.dtype))
            tile = tile_for(
                wanted.grid,
                is_compressed=bool(codecs),
                n_samples_axes=n_samples_axes,
                itemsize=wanted.dtype.itemsize,
            )
            headers = headers_in(wanted.metadata)
            kept: dict[str, Any] = {HEADERS: headers} if headers else {}
            if names := _channel_names(file, wanted, space):
                kept[CHANNEL_NAMES] = names
            if tile is None:
                blocks = _whole_file(file, wanted, space, kept)
                target = make_blocks(
                    blocks, overwrite=overwrite, durability=durability, reserve=reserve
                )
                target.inferred_axes = inferred  # type: ignore[misc]
                return target
            image = NewImage(
                wanted.grid.shape, wanted.dtype, space, kept, tile, n_samples_axes, tuple(codecs)
            )
            return _tiled_file(
                file, image, inferred, overwrite=overwrite, durability=durability, reserve=reserve
            )
        except ValueError as error:
            raise UsageError(f"format {self.name} {error}") from error

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
        if _FILE in described:
            blocks = described_blocks(described, at)
            return make_blocks(blocks, overwrite=False, durability=durability, reserve=reserve)
        image = NewImage.from_json(described.get("shape"), described.get("image"))
        return _tiled_file(
            on_disk(at, self.name),
            image,
            "",
            overwrite=False,
            durability=durability,
            reserve=reserve,
        )


def _space_for(path: Path, wanted: NewArray) -> tuple[Space | None, str]:
    """Return the space of a new file, and the names of its axes if they were inferred.

    OME-TIFF needs names of axes.
    """
    space: Space | None = wanted.metadata.get(SPACE)
    if BLOCKS.of_file(path.name) is not OME:
        return space, ""
    n_axes = len(wanted.grid.shape)
    codes, is_inferred = ome_axes(space, wanted.grid.shape, wanted.dtype)
    if not is_inferred:
        return space, ""
    known = (space or Space.unknown(n_axes)).axes
    axes = tuple(
        replace(axis_of(code), unit=axis.unit) for code, axis in zip(codes, known, strict=True)
    )
    names = ", ".join(str(axis.name) for axis in axes)
    return Space(axes, space.affine if space else None), names


def _channel_names(path: Path, wanted: NewArray, space: Space | None) -> Sequence[str]:
    """Return the names of channels that a new file keeps."""
    if BLOCKS.of_file(path.name) is not OME:
        return ()
    metadata = {**wanted.metadata, SPACE: space}
    return names_of_channels(wanted.grid.shape, wanted.dtype, metadata)


def _whole_file(
    path: Path, wanted: NewArray, space: Space | None, metadata: Mapping[str, Any]
) -> Blocks:
    """Return the file of an array whose elements follow the header in one piece."""
    shape = wanted.grid.shape
    grid = Grid.regular(shape, [max(1, length) for length in shape])
    spec = ArraySpec(grid, wanted.dtype, wanted.layout, space, metadata)
    names = OneName(path.name, len(shape))
    blocks = Blocks(path.parent, names, BLOCKS.of_file(path.name), spec)
    blocks.header_of(Region.whole(shape))
    return blocks


def _tiled_file(
    path: Path,
    image: NewImage,
    inferred_axes: str,
    *,
    overwrite: bool,
    durability: Durability,
    reserve: bool,
) -> TiffTarget:
    """Return the target for a file in tiles or strips."""
    kind = BLOCKS.of_file(path.name)
    layout = Layout.c(len(image.shape))
    pages = pages_of(
        Header(image.shape, image.dtype, layout, space=image.space, metadata=image.metadata),
        describe_ome if kind is OME else describe_plain,
        is_big=kind is BIG,
        tile=image.tile,
        compression=image.compression,
    )
    return TiffTarget(
        path,
        image,
        pages,
        inferred_axes=inferred_axes,
        overwrite=overwrite,
        durability=durability,
        reserve=reserve,
    )


FORMAT = TiffFormat()
