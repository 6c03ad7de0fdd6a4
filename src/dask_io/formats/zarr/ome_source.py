"""Reading an array that is a level of an OME-Zarr image."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError, StorageError, UsageError
from dask_io.formats.places import refuse_unfinished
from dask_io.formats.zarr.documents import attributes_of, read_documents
from dask_io.formats.zarr.group import join
from dask_io.formats.zarr.ome_space import LEVEL, only_level, read_level
from dask_io.formats.zarr.source import ZarrChunks, open_zarr, reopen_zarr
from dask_io.hierarchy.tree import checked_path
from dask_io.stores.chunked_source import ChunkedSource
from dask_io.stores.spec import CHANNEL_NAMES, SPACE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.formats.zarr.ome_space import Level
    from dask_io.formats.zarr.place import Place
    from dask_io.formats.zarr.store import DocumentedArray
    from dask_io.storage.location import Location
    from dask_io.stores.store import Source


class LevelChunks(ZarrChunks):
    """The chunks of a level of an image, whose metadata describes the space of the level."""

    def __init__(self, stored: DocumentedArray, level: Level, image: Location) -> None:
        super().__init__(stored)
        self.level, self._image = level, image

    def __reduce__(self) -> tuple[Any, ...]:
        return LevelChunks, (self.stored, self.level, self._image)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the array and of the image."""
        found, level = super().metadata, self.level
        translated = {f"{self._image.name}@{name}" for name in level.translated}
        around = found["attributes_of_groups"]
        return MappingProxyType(
            {
                **found,
                "dimension_names": found["dimension_names"] or level.axes,
                "attributes_of_groups": tuple(name for name in around if name not in translated),
                **level.headers,
                **({CHANNEL_NAMES: level.channel_names} if level.channel_names else {}),
                SPACE: level.space,
            }
        )


def open_level(path: Location, inside: str, *, strict: bool) -> ChunkedSource[ZarrChunks]:
    """Open an array, or the only level of an image; otherwise as `open_zarr`."""
    try:
        source = open_zarr(path, inside, strict=strict)
    except DataError:
        refuse_unfinished(path / inside / LEVEL, named=path / inside)
        raise
    except UsageError:
        # It is a group.
        level = _find_only_level(path / inside)
        if level is None:
            raise
        refuse_unfinished(path / inside / level, named=path / inside)
        source = open_zarr(path, join(inside, level), strict=strict)
    return _in_image(source)


def _find_only_level(group: Location) -> str | None:
    with suppress(ValueError, DataError, StorageError):
        found = only_level(attributes_of(read_documents(group)))
        return checked_path(found) if found else None
    return None


def reopen_level(
    described: Mapping[str, Any], at: Location | None, absent: AbstractSet[tuple[int, ...]]
) -> ChunkedSource[ZarrChunks]:
    """Open a described array or level again; otherwise as `reopen_zarr`.

    Its new place may be that of an image with a single level, as for `open_level`.
    """
    if at is not None and (level := _find_only_level(at)) is not None:
        at /= level
    return _in_image(reopen_zarr(described, at, absent))


def _in_image(source: ChunkedSource[ZarrChunks]) -> ChunkedSource[ZarrChunks]:
    """Add the metadata of the image to a source, if its array is a level of one."""
    stored, root = source.chunks.stored, str(source.chunks.path)
    for image in _groups_around(stored.site):
        path = root[len(str(image)) :].strip("/")
        # Problems of groups that are not images do not matter here.
        with suppress(ValueError, DataError, StorageError):
            level = read_level(attributes_of(read_documents(image)), path, len(source.grid.axes))
            if level is not None:
                return ChunkedSource(LevelChunks(stored, level, image), strict=source.strict)
    return source


def without_image(source: Source) -> Source:
    """Return a source without the metadata of the image, if its array is a level of one."""
    if isinstance(source, ChunkedSource) and isinstance(source.chunks, LevelChunks):
        return ChunkedSource(ZarrChunks(source.chunks.stored), strict=source.strict)
    return source


def _groups_around(site: Place) -> list[Location]:
    """Return the groups that an array may belong to, innermost first."""
    if site.inside:
        return site.groups[::-1]
    # In an object store, each check costs a request.
    return [site.path.parent] if isinstance(site.path, Path) else []
