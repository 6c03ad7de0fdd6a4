"""Writing a dataset.

HDF5 makes the file, with all that belongs to the dataset. Where every block will lie is then known,
if there are no filters and the dataset stays as large as it is: blocks are written there without
HDF5, in parts if need be, and a run that was cut short is gone on with. Otherwise chunks are
encoded without HDF5 and handed to it; such a file counts only as a whole.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np
from xxhash import xxh3_64_intdigest

from dask_io.errors import DaskIOError, DataError, UsageError
from dask_io.stores import system
from dask_io.stores.addressable import AddressableWriter, view_as_array
from dask_io.stores.atomic import pad
from dask_io.stores.files import ALIGNMENT, FileWriter, Tally, Traffic, allocate, storage_errors
from dask_io.stores.filled import holds_only
from dask_io.stores.hdf5.create import DEFAULT_NAME, make_template, touch
from dask_io.stores.hdf5.dataset import contents_of, understand
from dask_io.stores.hdf5.file import (
    apart,
    in_memory,
    object_names,
    reading,
    writing,
)
from dask_io.stores.hdf5.places import find_places
from dask_io.stores.hdf5.source import look_into, read_description
from dask_io.stores.hdf5.store import Hdf5Store
from dask_io.stores.journal import is_unfinished
from dask_io.stores.ledger import NOTHING
from dask_io.stores.naming import printable
from dask_io.stores.onefile import OneFileTarget
from dask_io.stores.padded import PaddedWriter, is_padded
from dask_io.stores.store import Access, Extent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from dask_io.geometry import Region
    from dask_io.stores.container import Wanted
    from dask_io.stores.files import Durability
    from dask_io.stores.hdf5.places import Places
    from dask_io.stores.location import Location
    from dask_io.stores.store import BlockWriter

# Blocks from this size on begin at a multiple of `ALIGNMENT`, to be written past the page cache.
_LARGE = 128 * 2**10
_MOST_NAMED = 20


def make_hdf5(
    path: Path,
    inside: str,
    wanted: Wanted,
    *,
    overwrite: bool,
    durability: Durability,
    reserve: bool,
) -> Hdf5Target:
    """Describe a dataset in a file of its own; nothing is touched.

    Raises
    ------
    UsageError
        If HDF5 cannot hold it, or cannot honour a wish.
    """
    original = wanted.metadata.get("hdf5")
    named = inside or (original.inside if original else DEFAULT_NAME)
    return Hdf5Target(
        path,
        named,
        make_template(wanted, named),
        write_empty=wanted.wishes.write_empty,
        overwrite=overwrite,
        durability=durability,
        reserve=reserve,
    )


def remake_hdf5(
    described: Mapping[str, Any],
    at: Path,
    *,
    durability: Durability,
    reserve: bool,
    kind: type[Hdf5Target] | None = None,
) -> Hdf5Target:
    """Describe a target again that was described before.

    Raises
    ------
    ValueError
        If that is no description.
    """
    path, inside = read_description(described, at)
    template = described.get("template")
    if not isinstance(template, str):
        raise ValueError("is not that of an HDF5 dataset")  # noqa: TRY004 - wrong data
    try:
        return (kind or Hdf5Target)(
            path,
            inside,
            b64decode(template, validate=True),
            write_empty=described.get("write_empty") is True,
            overwrite=False,
            durability=durability,
            reserve=reserve,
        )
    except (KeyError, OSError, RuntimeError) as error:
        raise ValueError(f"is not that of an HDF5 dataset: {error}") from error


class Hdf5Target(Hdf5Store, OneFileTarget):
    """A dataset that is written, in a file of its own; any number of blocks at once.

    A chunk with filters that holds only the fill value is left out, unless `write_empty`.
    """

    def __init__(
        self,
        path: Path,
        inside: str,
        template: bytes,
        *,
        write_empty: bool,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> None:
        with in_memory(template) as file:
            array = understand(file[inside])
            self._beside = tuple(object_names(file))
        Hdf5Store.__init__(self, path, inside, array)
        self._template, self._write_empty, self._reserve = template, write_empty, reserve
        self._lock = Lock()
        OneFileTarget.__init__(
            self, path, is_one_file=True, overwrite=overwrite, durability=durability
        )

    def _forget_run(self) -> None:
        super()._forget_run()
        self._file: Any = None
        self._places: Places | None = None

    @property
    def access(self) -> Access:
        """Chunks with filters are written whole, and those of a dataset that may grow."""
        is_fixed = not self.array.filters and not self.array.is_resizable
        return Access.ADDRESSABLE if is_fixed else Access.ATOMIC

    @property
    def is_indivisible(self) -> bool:
        """HDF5 has no file in the making that could be gone on with."""
        return self.access is Access.ATOMIC

    @property
    def codec_bytes(self) -> int:
        """What a visit holds at most besides what it is given."""
        array = self.array
        if self.access is Access.ADDRESSABLE:
            return array.block_bytes if array.has_padding else 0
        return 2 * array.block_bytes + array.codec.encoding_bytes

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the dataset will say, and which others come along with it."""
        return MappingProxyType({**super().metadata, "coordinates": self._beside})

    def describe(self) -> dict[str, Any]:
        """Return what it takes to make the dataset again."""
        template = b64encode(self._template).decode()
        return {**super().describe(), "template": template, "write_empty": self._write_empty}

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[BlockWriter]:
        """Visit a block in the making."""
        array, shape = self.array, self.grid.block(index).shape
        if self.access is Access.ATOMIC:
            yield _ChunkWriter(self, index, shape)
            return
        path, places = self._lay_out()
        stored = places.find(self.grid.flat(index))
        assert stored is not None, "HDF5 has given every block its place"
        extent = Extent(self.inside, stored.offset, array.stored)
        with FileWriter(path, self.tally) as file:
            if is_padded(shape, array.stored, array.layout):
                yield PaddedWriter(shape, extent, array.dtype, array.layout, file, array.fill)
            else:
                yield AddressableWriter(file, extent, array.dtype, array.layout)

    @property
    def _partial(self) -> Path:
        return Path(self._publisher.partial(self._name))

    def _lay_out(self) -> tuple[Path, Places]:
        """Have HDF5 make the file and give every block its place, once."""
        path = self._partial
        with self._lock:
            if self._places is None:
                self._begin()
                with writing(path):
                    self._places = _lay_out(path, self.inside)
                if self._reserve:
                    _reserve(path)
            return path, self._places

    def _begin(self) -> Path:
        template = self._template
        with self._publisher.writer(
            self._name, Tally(), header=template, n_bytes=len(template), reserve=False
        ):
            return self._partial

    def store(self, index: tuple[int, ...], encoded: NDArray[np.uint8], mask: int) -> None:
        """Hand a chunk to HDF5, which takes one at a time."""
        if self.tally.pace is not None:
            self.tally.pace.wait_for(encoded.nbytes)
        corner = self.grid.block(index).start
        with self._lock, writing(self.path):
            self._open_file()[self.inside].id.write_direct_chunk(corner, encoded, mask)
        self.tally.add(self.tally.write, Traffic(1, 1, encoded.nbytes))

    def encode(self, values: NDArray[Any]) -> tuple[int, NDArray[np.uint8]] | None:
        """Encode a chunk, padded if it is at a far end; None if it is to be left out."""
        array = self.array
        raw = pad(values.view(array.dtype), array.stored, array.fill, array.layout)
        if not self._write_empty and holds_only(raw, array.fill):
            return None
        return array.codec.encode(raw)

    def _open_file(self) -> Any:
        if self._file is None:
            self._file = h5py.File(self._begin(), "r+", locking="best-effort")
        return self._file

    def _close_file(self) -> None:
        if self.access is Access.ADDRESSABLE:
            self._lay_out()
            return
        with self._lock, writing(self.path):
            self._open_file().flush()
            self._file.close()
            self._file = None

    def _open_again(self) -> bool:
        path = self._partial
        try:
            _, array, places = apart(path, look_into, path, self.inside)
        except DaskIOError:
            return False
        if array.stored_as != self.array.stored_as:
            return False
        self._places = places
        return True

    def abandon(self, *, keep: bool = False) -> bool:
        """Have HDF5 let go of the file, and remove it unless it can be gone on with."""
        if self._file is not None:
            # What it has not written yet would be lost anyhow.
            with suppress(OSError, RuntimeError, ValueError):
                self._file.close()
            self._file = None
        return super().abandon(keep=keep)

    def _find_old(self) -> list[Location]:
        found = super()._find_old()
        if self._overwrite and self.path.is_file():
            self._refuse_neighbours()
        return found

    def _refuse_neighbours(self) -> None:
        """Refuse to replace a file that holds more than the dataset and what comes with it."""
        with in_memory(self._template) as file:
            known = contents_of(file)
        try:
            found = apart(self.path, _contents_at, self.path)
        except DataError as error:
            if is_unfinished(self._journal_place):
                # A run of ours has left it so.
                return
            raise UsageError(
                f"{printable(self.place)} is not overwritten, as nobody can say what would be "
                f"lost: {'; '.join(error.problems)}; remove it, or choose another file"
            ) from error
        # What the dataset says about itself is replaced with it.
        own = f"{self.inside}@"
        others = sorted(name for name in found - known if not name.startswith(own))
        if others:
            listed = ", ".join(map(printable, others[:_MOST_NAMED]))
            more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
            raise UsageError(
                f"{printable(self.place)} holds more, which would be lost: {listed}{more}; "
                "choose another file"
            )


def _contents_at(path: Path) -> set[str]:
    with reading(path) as file:
        return contents_of(file)


def _lay_out(path: Path, inside: str) -> Places:
    """Have a file in the making give all blocks their places, and return them."""
    with h5py.File(
        path,
        "r+",
        locking="best-effort",
        alignment_threshold=_LARGE,
        alignment_interval=ALIGNMENT,
    ) as file:
        dataset = file[inside]
        array = understand(dataset)
        if array.grid.n_blocks:
            touch(dataset)
        file.flush()
        size = file.id.get_filesize()
        return find_places(dataset, array, size)


def _reserve(path: Path) -> None:
    """Reserve the space of all blocks, so that a full disk shows early."""
    with storage_errors(path):
        fd = system.calls.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            allocate(fd, os.fstat(fd).st_size, reserve=True)
        finally:
            system.calls.close(fd)


@dataclass(slots=True)
class _ChunkWriter:
    """One visit to a chunk that is encoded as a whole."""

    target: Hdf5Target
    index: tuple[int, ...]
    shape: tuple[int, ...]
    checksum: int = NOTHING

    def write_from(self, region: Region, array: NDArray[Any]) -> None:
        """Encode and write all of it."""
        assert region.shape == self.shape, "a part of a chunk would be read, changed and rewritten"
        found = self.target.encode(array)
        if found is not None:
            mask, encoded = found
            self.checksum = xxh3_64_intdigest(encoded.data)
            self.target.store(self.index, encoded, mask)

    def write_filled(
        self,
        region: Region,
        staging: memoryview,  # noqa: ARG002 - a part of a chunk cannot be encoded
        fill: Callable[[Region, NDArray[Any]], None],
    ) -> None:
        """Put all of it together in memory of its own, and write it."""
        dtype, layout = self.target.dtype, self.target.layout
        raw = np.empty(region.size * dtype.itemsize, np.uint8)
        values = view_as_array(raw.data, region.shape, dtype, layout)
        fill(region, values)
        self.write_from(region, values)
