"""Writing a Zarr array."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError, StorageError, UsageError
from dask_io.formats.zarr.create import describe_new
from dask_io.formats.zarr.documents import read_documents
from dask_io.formats.zarr.metadata import understand
from dask_io.formats.zarr.place import Place
from dask_io.formats.zarr.source import ZarrChunks
from dask_io.formats.zarr.store import DocumentedArray, read_description
from dask_io.journal.journalled_target import JournalledTarget
from dask_io.stores.chunked_source import ChunkedSource
from dask_io.stores.chunked_target import ChunkedTarget
from dask_io.stores.staging import room_for
from dask_io.stores.store import Access

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dask_io.journal.ledger import Ledger
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability, Writer
    from dask_io.stores.container import NewArray
    from dask_io.stores.encoded import AsStored

# Bytes that are written at once, past the page cache. Every thread has as much memory for this.
_GATHERED = 2**20


def make_zarr(
    path: Location,
    inside: str,
    wanted: NewArray,
    *,
    overwrite: bool,
    durability: Durability,
    reserve: bool,
) -> ZarrTarget:
    """Describe an array in a directory, or in a group of one; nothing is touched.

    Raises
    ------
    UsageError
        If Zarr cannot hold it, or does not support an option.
    """
    place = Place(path, inside)
    return ZarrTarget(
        DocumentedArray(place, describe_new(_as_around(place, wanted))),
        write_empty=wanted.options.write_empty,
        overwrite=overwrite,
        durability=durability,
        reserve=reserve,
    )


def _as_around(place: Place, wanted: NewArray) -> NewArray:
    """Use the Zarr version of the groups around the array, or readers would not find it."""
    version, options = place.version_around(), wanted.options
    if version is None:
        return wanted
    if options.format_version not in {None, version}:
        raise UsageError(
            f"{place.path} is a group of Zarr {version}, in which readers find no "
            f"array of version {options.format_version}; choose version {version}, or another place"
        )
    return replace(wanted, options=replace(options, format_version=version))


def remake_zarr(
    described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
) -> ZarrTarget:
    """Describe a target of an earlier run again.

    Raises
    ------
    ValueError
        If the description is invalid.
    """
    return ZarrTarget(
        read_description(described, at),
        write_empty=described.get("write_empty") is True,
        overwrite=False,
        durability=durability,
        reserve=reserve,
    )


class ZarrTarget(ChunkedTarget, JournalledTarget):
    """A Zarr array that is written; the metadata is written last."""

    format = "zarr"
    is_indivisible = False

    def __init__(
        self,
        stored: DocumentedArray,
        *,
        write_empty: bool,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> None:
        self.stored, self.site, self.array = stored, stored.site, stored.array
        self._reserve = reserve
        ChunkedTarget.__init__(self, self.array.spec, write_empty=write_empty)
        JournalledTarget.__init__(
            self, self.site.root, is_one_file=False, overwrite=overwrite, durability=durability
        )

    def _forget_run(self) -> None:
        super()._forget_run()
        self._kept.clear()

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the array."""
        return MappingProxyType(self.array.described())

    @property
    def puts_whole(self) -> bool:
        """Whether a file is written in one request, like an object."""
        return self._medium.writes_whole

    @property
    def gathered_bytes(self) -> int:
        """Bytes of a file that are written at once; an object is written as a whole."""
        return 0 if self.puts_whole else min(_GATHERED, room_for(self.spec.longest_file))

    @property
    def copying_bytes(self) -> int:
        """Other bytes held to write a file."""
        return self._medium.bytes_to_write(self.spec.longest_file)

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the target can be created again."""
        return {**self.stored.describe(self.format), "write_empty": self.write_empty}

    def resume(self) -> Ledger:
        """Continue where an interrupted run ended."""
        self.site.refuse_way_out()
        ledger = super().resume()
        for index in ledger.parts:
            if ledger.is_stored(index):
                self.keep(index)
        return ledger

    def look_back(self) -> ChunkedSource[ZarrChunks] | AsStored:
        """Open the written array, even if its metadata has changed."""
        return ChunkedSource(ZarrChunks(self.stored)).as_written()

    def is_described(self) -> bool:
        """Tell whether the array's metadata is valid."""
        try:
            documents = read_documents(self.site.root)
            return bool(documents) and understand(documents) is not None
        except (ValueError, DataError, StorageError):
            return False

    def put(self, index: tuple[int, ...], parts: Iterable[Any]) -> int:
        """Write the file of a chunk or a shard."""
        return self._write_parts(index, map(memoryview, parts))

    def write_encoded(
        self, index: tuple[int, ...], n_bytes: int, pieces: Iterable[memoryview]
    ) -> int:
        """Write a file that another store has encoded in the same way."""
        self.keep(index)
        return self._write_parts(index, pieces, n_bytes)

    def _write_parts(
        self, index: tuple[int, ...], parts: Iterable[memoryview], n_bytes: int | None = None
    ) -> int:
        offset = 0
        with self._open(index, n_bytes) as file:
            for part in parts:
                file.write(offset, part)
                offset += len(part)
        return file.checksum

    def open_at(self, index: tuple[int, ...]) -> tuple[Writer, int]:
        """Open the file of a chunk without a codec."""
        return self._open(index, self.spec.chunk_bytes), 0

    def _open(self, index: tuple[int, ...], n_bytes: int | None) -> Writer:
        name = self.array.keys.name_of(index)
        return self._write_file(name, self.tally, n_bytes=n_bytes, reserve=self._reserve)

    def _file_of(self, index: tuple[int, ...]) -> tuple[str, int | None]:
        n_bytes = None if self.access is Access.ATOMIC else self.spec.chunk_bytes
        return self.array.keys.name_of(index), n_bytes

    def _find_old(self) -> list[Location]:
        self.site.refuse_neighbours()
        if not self.site.holds_anything():
            return []
        if not self._overwrite:
            self._refuse()
        return self.site.old_files()

    def _remove_old(self, old: list[Location]) -> None:
        self.site.remove(old)

    def _find_left(self, words: Sequence[str]) -> list[Location]:  # noqa: ARG002 - there are none
        # Parts of an array are recognised by their names.
        return self.site.files_left()

    def _find_files(self) -> dict[str, int]:
        return dict(self.site.files())

    def _complete(self) -> None:
        self.site.describe(self.stored.documents)
