"""Writing an OME-Zarr image with one level.

The target is the array of the level, with its journal, inside the group of the image. The metadata
of the group is written last and removed first, so that no reader finds an incomplete image.
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError, StorageError, UsageError
from dask_io.formats.zarr.create import describe_new
from dask_io.formats.zarr.documents import (
    V2,
    V2_ATTRIBUTES,
    V2_GROUP,
    V3,
    attributes_of,
    make_group_documents,
    read_documents,
)
from dask_io.formats.zarr.group import DOCUMENTS, Group, join
from dask_io.formats.zarr.ome import check_images
from dask_io.formats.zarr.ome_space import (
    LEVEL,
    image_attributes,
    read_level,
    space_of,
)
from dask_io.formats.zarr.place import METADATA, Place
from dask_io.formats.zarr.store import DocumentedArray, read_description
from dask_io.formats.zarr.target import ZarrTarget
from dask_io.hierarchy.tree import ROOT
from dask_io.journal.logs import logs_of
from dask_io.storage.files import write_whole
from dask_io.storage.location import is_taken
from dask_io.storage.own_names import JOURNAL, whole_name
from dask_io.stores.chunk_files import refuse_foreign
from dask_io.stores.json_documents import parse_json
from dask_io.stores.kept_headers import HEADERS
from dask_io.stores.orientation import hidden_from_others
from dask_io.stores.spec import CHANNEL_NAMES, SPACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray

_NEWEST = 3
# The mark of a group comes last.
_GROUP = (V3, V2_ATTRIBUTES, V2_GROUP)


def make_image_target(
    path: Location,
    inside: str,
    wanted: NewArray,
    *,
    overwrite: bool,
    durability: Durability,
    reserve: bool,
) -> ImageTarget:
    """Describe an image in a directory, or in a group there; nothing is touched.

    Raises
    ------
    UsageError
        If OME-Zarr cannot hold the array, or does not support an option.
    """
    version = _choose_version(Place(path, inside), wanted)
    n_axes, metadata = len(wanted.grid.axes), wanted.metadata
    name = (inside.rpartition("/")[2] or path.name).removesuffix(".zarr").removesuffix(".ome")
    attributes = image_attributes(
        metadata, wanted.grid.shape, wanted.dtype, name=name, version=version
    )
    level = read_level(attributes, LEVEL, n_axes)
    assert level is not None, "an image describes its level"
    kept = {key: value for key, value in metadata.items() if key not in {SPACE, HEADERS}}
    array = replace(
        wanted,
        options=replace(wanted.options, format_version=version),
        metadata={**kept, "dimension_names": level.axes},
    )
    named = any(axis.name for axis in space_of(metadata, n_axes).axes)
    documents, group = _nested(describe_new(array)), _group_documents(attributes, version)
    # Validated now, not only at the end, so that an invalid image is never begun.
    _validate(path / inside, documents, group)
    return ImageTarget(
        DocumentedArray(Place(path, join(inside, LEVEL)), documents),
        group,
        inferred_axes="" if named else ", ".join(str(axis) for axis in level.axes),
        write_empty=wanted.options.write_empty,
        overwrite=overwrite,
        durability=durability,
        reserve=reserve,
    )


def _choose_version(image: Place, wanted: NewArray) -> int:
    """Return the version of Zarr: that of the groups around the image, or else the chosen one."""
    asked, around = wanted.options.format_version, image.version_around()
    if around is not None and asked not in {None, around}:
        raise UsageError(
            f"{image.path} is a group of Zarr {around}, in which readers find no image of version "
            f"{asked}; choose version {around}, or another place"
        )
    return around or asked or wanted.metadata.get("zarr_format") or _NEWEST


def _nested(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return documents of an array with chunks in nested directories, as OME-Zarr requires."""
    if V2 not in documents:
        return dict(documents)
    array = {**parse_json(documents[V2]), "dimension_separator": "/"}
    return {**documents, V2: json.dumps(array, indent=2).encode()}


def _group_documents(attributes: Mapping[str, Any], version: int) -> dict[str, bytes]:
    documents = make_group_documents(version)
    if V3 in documents:
        group = {**parse_json(documents[V3]), "attributes": dict(attributes)}
        return {V3: json.dumps(group, indent=2).encode()}
    return {V2_GROUP: documents[V2_GROUP], V2_ATTRIBUTES: json.dumps(attributes, indent=2).encode()}


def _validate(image: Location, documents: Mapping[str, bytes], group: Mapping[str, bytes]) -> None:
    """Validate the metadata of an image.

    Raises
    ------
    DataError
        If it is not valid OME-Zarr.
    """
    check_images(Group(image, {ROOT: group}, {LEVEL: documents}, consolidated=(), files=()))


def remake_image_target(
    described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
) -> ImageTarget:
    """Describe a target of an earlier run again.

    Raises
    ------
    ValueError
        If the description is invalid.
    """
    group = described.get("group")
    if not isinstance(group, dict) or not all(isinstance(text, str) for text in group.values()):
        raise ValueError("does not describe the group of the image")
    if group.keys() - set(_GROUP):
        raise ValueError("describes other files than those of a group")
    return ImageTarget(
        read_description(described, at),
        {name: text.encode() for name, text in group.items()},
        write_empty=described.get("write_empty") is True,
        overwrite=False,
        durability=durability,
        reserve=reserve,
    )


class ImageTarget(ZarrTarget):
    """An image with one level that is written; any number of chunks may be written at once.

    `group` has the documents of the image's group. `inferred_axes` are the names of the axes, if
    neither the source nor the user has named them.
    """

    format = "ome-zarr"

    def __init__(
        self,
        stored: DocumentedArray,
        group: Mapping[str, bytes],
        *,
        inferred_axes: str = "",
        write_empty: bool,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> None:
        self._group, self.inferred_axes = group, inferred_axes
        super().__init__(
            stored,
            write_empty=write_empty,
            overwrite=overwrite,
            durability=durability,
            reserve=reserve,
        )

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the array and of the image."""
        level = read_level(attributes_of(self._group), LEVEL, len(self.grid.axes))
        if level is None:
            return super().metadata
        hidden = hidden_from_others(level.space)
        added = {SPACE: level.space, **level.headers, "hidden": hidden}
        if level.channel_names:
            added[CHANNEL_NAMES] = level.channel_names
        return MappingProxyType({**super().metadata, **added})

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the image can be created again."""
        return {
            **super().describe(),
            "group": {n: each.decode() for n, each in self._group.items()},
        }

    @property
    def _image(self) -> Location | None:
        """The directory of the image; None if the array was put somewhere else, for a repair."""
        return self.site.root.parent if self.site.inside else None

    def is_described(self) -> bool:
        """Tell whether the metadata of the array and of the image is valid."""
        if self._image is None:
            return super().is_described()
        try:
            attributes = attributes_of(read_documents(self._image))
        except (ValueError, DataError, StorageError):
            return False
        level = read_level(attributes, LEVEL, len(self.grid.axes))
        return level is not None and super().is_described()

    def _find_old(self) -> list[Location]:
        image = self._image
        if image is None or not is_taken(image):
            return super()._find_old()
        files = (name.partition("/")[0] for name, _ in self._medium.files(image))
        if image.is_dir() and all(map(_is_stale_journal, files)):
            return super()._find_old()
        if not self._overwrite:
            self._refuse()
        if not image.is_dir():
            raise UsageError(f"{image} is a file, not an image to overwrite")
        self.site.refuse_neighbours()
        known = {LEVEL, JOURNAL, *DOCUMENTS}
        names = (
            name
            for name in self._medium.names(image)
            if whole_name(name) not in known and not _is_stale_journal(name)
        )
        refuse_foreign(image, "an image with one level", names)
        return [*self._group_files(image), *super()._find_old()]

    def _group_files(self, image: Location) -> list[Location]:
        names = (V3, V2_GROUP, *sorted(DOCUMENTS - {V3, V2_GROUP}))
        return [image / name for name in names if (image / name).is_file()]

    def _remove_old(self, old: list[Location]) -> None:
        image = self._image
        if image is not None:
            self._medium.remove(self._group_files(image))
            # That of a run that wrote all of a group.
            logs_of(image).remove(image / JOURNAL)
        super()._remove_old([path for path in old if path.parent != image])

    def _find_left(self, words: Sequence[str]) -> list[Location]:
        image = self._image
        return [*(self._group_files(image) if image else ()), *super()._find_left(words)]

    def _complete(self) -> None:
        image = self._image
        if image is None:
            super()._complete()
            return
        _validate(image, self.stored.documents, self._group)
        for name in sorted(self.stored.documents, key=METADATA.index, reverse=True):
            write_whole(self.site.root / name, self.stored.documents[name])
        outer = Place(self.site.path, self.site.inside.rpartition("/")[0])
        outer.describe_group({n: self._group[n] for n in _GROUP if n in self._group})
        self._medium.sync_names([image])


def _is_stale_journal(name: str) -> bool:
    """Tell whether a name in an image is a journal that a killed run has left unfinished."""
    return name.startswith(f".{LEVEL}{JOURNAL}.") and name.endswith(".part")
