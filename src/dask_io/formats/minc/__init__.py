"""MINC: one volume per file; version 2, based on HDF5, and for reading also version 1 (NetCDF).

The array contains the stored values, and its metadata has their scaling to real values. libminc is
not needed: files are read and created with the HDF5 format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError, UsageError
from dask_io.formats.hdf5.dialects import Dialect, Hdf5Format, read_description
from dask_io.formats.minc.blocks import FORMAT as BLOCKS
from dask_io.formats.minc.hdf5_file import PATH_OF_IMAGE, make_described, volume_in
from dask_io.formats.minc.source import REAL, open_image
from dask_io.formats.minc.volume import volume_for
from dask_io.stores.container import INSIDE, on_disk
from dask_io.stores.mosaic import is_mosaic
from dask_io.stores.scaling import RealValues
from dask_io.stores.stack import reopen_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.store import Source, Target


def _describe_new(file: Any) -> Mapping[str, Any]:
    """Return the metadata of the volume in a new file."""
    # MINC cannot store coordinates of other formats, or uneven positions.
    return {"coordinates": (), **volume_in(file).described}


@dataclass(frozen=True)
class MincFormat(Hdf5Format):
    """Files with one volume each. Targets are always of version 2."""

    name: str = "minc"
    suffixes: tuple[str, ...] = (".mnc",)
    native_formats: frozenset[str] = frozenset({"minc"})
    dialect: Dialect = Dialect("minc", describe_new=_describe_new)  # noqa: RUF009 - immutable
    making: Callable[[Any, NewArray, str], None] | None = make_described

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open an image; only metadata is read yet."""
        return open_image(path, inside, strict=strict)

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
        """Describe a target."""
        if inside not in {"", "image", PATH_OF_IMAGE}:
            raise UsageError(
                f"{path}{INSIDE}/{inside} cannot be written: a MINC file holds one image; "
                f"leave {INSIDE}/{inside} out"
            )
        if wanted.options.format_version is not None:
            raise UsageError("MINC files are written in version 2 only; leave --format-version out")
        try:
            volume_for(wanted.metadata, wanted.grid.shape, wanted.dtype)
        except ValueError as error:
            raise UsageError(f"format {self.name} {error}") from error
        return super().make(
            path,
            PATH_OF_IMAGE,
            wanted,
            overwrite=overwrite,
            durability=durability,
            reserve=reserve,
        )

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],  # noqa: ARG002 - no chunk can be removed alone
    ) -> Source:
        """Open a source again."""
        if is_mosaic(described):
            return reopen_files(described, at, BLOCKS)
        path, _ = read_description(described, None if at is None else on_disk(at, self.name))
        is_real = described.get("values") == REAL
        source = open_image(path, REAL if is_real else "", strict=described.get("strict") is True)
        stored = source.stored if isinstance(source, RealValues) else source
        if described.get("stored_as") not in {None, stored.describe()["stored_as"]}:
            raise DataError(str(path), ["has changed: it is another image"])
        return source


FORMAT = MincFormat()
