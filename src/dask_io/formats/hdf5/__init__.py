"""HDF5: a dataset in a file, in chunks or not, with or without filters.

h5py reads and makes the metadata; values are read, decoded, encoded and, where HDF5 need not find
room for them first, written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.formats.hdf5.source import Hdf5Source, open_hdf5, reopen_hdf5, reopen_written
from dask_io.formats.hdf5.target import Hdf5Target, make_hdf5, remake_hdf5
from dask_io.formats.hdf5.whole import Hdf5Model, open_all
from dask_io.formats.hdf5.whole_target import make_all
from dask_io.stores.container import on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.hierarchy.whole import Content, Model, Whole, WholeTarget
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import Wanted
    from dask_io.stores.store import Readback, Source, Target


@dataclass(frozen=True)
class Hdf5Format:
    """Files that hold datasets, one of which is an array; also of formats that are HDF5 inside."""

    name: str = "hdf5"
    suffixes: tuple[str, ...] = (".h5", ".hdf5", ".hdf")
    source_kind: type[Hdf5Source] = Hdf5Source
    target_kind: type[Hdf5Target] = Hdf5Target
    making: Callable[[Any, Wanted, str], None] | None = None
    """Makes a dataset with all that another format stores next to it."""

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open a dataset; only metadata is read yet."""
        file = on_disk(path, self.name)
        return open_hdf5(file, inside, strict=strict, kind=self.source_kind)

    def make(
        self,
        path: Location,
        inside: str,
        wanted: Wanted,
        *,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> Target:
        """Describe a target."""
        return make_hdf5(
            on_disk(path, self.name),
            inside,
            wanted,
            overwrite=overwrite,
            durability=durability,
            reserve=reserve,
            kind=self.target_kind,
            make=self.making,
        )

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],  # noqa: ARG002 - no chunk can be removed alone
    ) -> Source:
        """Open a source again."""
        file = None if at is None else on_disk(at, self.name)
        return reopen_hdf5(described, file, kind=self.source_kind)

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open what was a target."""
        return reopen_written(described, on_disk(at, self.name))

    def remake(
        self, described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target again."""
        file, kind = on_disk(at, self.name), self.target_kind
        return remake_hdf5(described, file, durability=durability, reserve=reserve, kind=kind)

    def open_all(self, path: Location, *, each: bool = False) -> Whole:
        """Look at everything in a file."""
        return open_all(on_disk(path, self.name), each=each)

    def make_all(
        self,
        path: Location,
        model: Model,
        wanted: Mapping[str, Wanted],
        *,
        overwrite: bool,
        durability: Durability,
    ) -> WholeTarget:
        """Describe a file like another one."""
        file = on_disk(path, self.name)
        return make_all(
            file, model, wanted, format=self.name, overwrite=overwrite, durability=durability
        )

    def content_of(self, path: Location) -> Content:
        """Return what is in a file that has been written."""
        return Hdf5Model(on_disk(path, self.name))


FORMAT = Hdf5Format()
