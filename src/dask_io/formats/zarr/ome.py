"""OME-Zarr: groups whose arrays are the levels of an image, or of labels of one.

Version 0.4 uses Zarr 2, version 0.5 Zarr 3. The metadata of an image (names and units of axes,
transformations, labels, colours) never changes, because arrays keep their shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError
from dask_io.formats.zarr.documents import attributes_of
from dask_io.formats.zarr.ome_space import multiscales
from dask_io.formats.zarr.quiet import quiet
from dask_io.stores.container import needs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dask_io.formats.zarr.group import Group

_LONGEST = 160


def level_axes(group: Group) -> dict[str, tuple[str, ...]]:
    """Return the names of the axes of every array that is a level of an image, by its path."""
    return {
        path: axes
        for inside, documents in group.groups.items()
        for path, axes in _levels(inside, attributes_of(documents))
        if path in group.arrays
    }


def image_groups(group: Group) -> list[str]:
    """Return the paths of the groups that are images, or labels of one."""
    return [path for path, each in group.groups.items() if multiscales(attributes_of(each))]


def _levels(inside: str, attributes: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for image in multiscales(attributes):
        if not isinstance(image, dict):
            continue
        axes, levels = image.get("axes") or [], image.get("datasets") or []
        names = tuple(str(axis.get("name")) for axis in axes if isinstance(axis, dict))
        for level in levels:
            path = str(level.get("path")).strip("/") if isinstance(level, dict) else ""
            yield (f"{inside}/{path}" if inside else path), names


def check_images(group: Group) -> None:
    """Validate the metadata of every image of a group with ome-zarr-models.

    Raises
    ------
    UsageError
        If it is not installed.
    DataError
        If an image is not valid OME-Zarr.
    """
    images = image_groups(group)
    if not images:
        return
    with needs("ome-zarr", "ome-zarr-models"), quiet():
        import zarr  # noqa: PLC0415 - as the next one, seconds, if needed
        from ome_zarr_models import v04, v05  # noqa: PLC0415

        from dask_io.formats.zarr.consolidation import in_memory  # noqa: PLC0415

    version, image = ("0.5", v05.Image) if group.version == 3 else ("0.4", v04.Image)  # noqa: PLR2004 - of Zarr
    store = in_memory({**group.groups, **group.arrays})
    for path in images:
        try:
            with quiet():
                image.from_zarr(zarr.open_group(store, path=path or None, mode="r"))
        except Exception as error:  # whatever hostile metadata makes it raise
            problem = f"is not valid OME-Zarr {version}: {_reason(error)}"
            raise DataError(str(group.root / path), [problem]) from error


def _reason(error: Exception) -> str:
    """Return the first problem that a model reports; one mistake may cause many."""
    from pydantic import ValidationError  # noqa: PLC0415 - comes with ome-zarr-models

    text = str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # The keys include the types that were tried.
        keys = [str(key) for key in first["loc"] if "[" not in str(key)]
        text = f"{'.'.join(keys) or 'image'}: {first['msg']}"
    return " ".join(text.split())[:_LONGEST]
