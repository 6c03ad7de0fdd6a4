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
from dask_io.formats.zarr.source import ZarrSource, open_zarr
from dask_io.hierarchy.tree import checked_path
from dask_io.stores.spec import SPACE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.formats.zarr.ome_space import Level
    from dask_io.formats.zarr.place import Place
    from dask_io.storage.location import Location


class LevelSource(ZarrSource):
    """An array of an image: the metadata of the image says what its positions mean."""

    def __init__(self, source: ZarrSource, level: Level, image: Location) -> None:
        super().__init__(source.site, source.documents, strict=source.describe()["strict"])
        self.level, self._image = level, image

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the array, and what the image says about it."""
        found, level = super().metadata, self.level
        translated = {f"{self._image.name}@{name}" for name in level.translated}
        around = found["attributes_of_groups"]
        return MappingProxyType(
            {
                **found,
                "dimension_names": found["dimension_names"] or level.axes,
                "attributes_of_groups": tuple(name for name in around if name not in translated),
                **level.headers,
                SPACE: level.space,
            }
        )

    def as_array(self) -> ZarrSource:
        """Return the array without its image."""
        return ZarrSource(self.site, self.documents, strict=self.describe()["strict"])


def open_level(path: Location, inside: str, *, strict: bool) -> ZarrSource:
    """Open an array, or the only level of an image; otherwise as `open_zarr`."""
    try:
        source = open_zarr(path, inside, strict=strict)
    except DataError:
        refuse_unfinished(path / inside / LEVEL)
        raise
    except UsageError:
        # It is a group.
        level = _find_only_level(path / inside)
        if level is None:
            raise
        refuse_unfinished(path / inside / level)
        source = open_zarr(path, join(inside, level), strict=strict)
    return in_image(source)


def _find_only_level(group: Location) -> str | None:
    with suppress(ValueError, DataError, StorageError):
        found = only_level(attributes_of(read_documents(group)))
        return checked_path(found) if found else None
    return None


def in_image(source: ZarrSource) -> ZarrSource:
    """Return a source that knows the image that its array is a level of, if it is one."""
    n_axes = len(source.array.shape)
    for image in _groups_around(source.site):
        path = str(source.root)[len(str(image)) :].strip("/")
        # What is wrong with other groups does not matter here.
        with suppress(ValueError, DataError, StorageError):
            level = read_level(attributes_of(read_documents(image)), path, n_axes)
            if level is not None:
                return LevelSource(source, level, image)
    return source


def _groups_around(site: Place) -> list[Location]:
    """Return the groups that an array may belong to, innermost first."""
    if site.inside:
        return site.groups[::-1]
    # Elsewhere a look costs a request.
    return [site.path.parent] if isinstance(site.path, Path) else []
