"""Writing a Zarr array."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.stores import system
from dask_io.stores.addressable import AddressableWriter, view_as_array, view_as_bytes
from dask_io.stores.files import FileWriter, Publisher, storage_errors
from dask_io.stores.filled import holds_only
from dask_io.stores.padded import PaddedWriter, is_padded, plain
from dask_io.stores.store import Access, Extent
from dask_io.stores.zarr.create import describe_new
from dask_io.stores.zarr.place import Place
from dask_io.stores.zarr.shards import pack
from dask_io.stores.zarr.source import ZarrStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Region
    from dask_io.stores.container import Wanted
    from dask_io.stores.store import BlockWriter
    from dask_io.stores.zarr.metadata import Metadata


def make_zarr(
    path: Path, inside: str, wanted: Wanted, *, overwrite: bool, durable: bool
) -> ZarrTarget:
    """Describe an array in a directory, or in a group there; nothing is touched.

    Raises
    ------
    UsageError
        If Zarr cannot hold it, or cannot honour a wish.
    """
    documents, metadata = describe_new(wanted)
    return ZarrTarget(
        Place(path, inside, documents),
        metadata,
        write_empty=wanted.wishes.write_empty,
        overwrite=overwrite,
        durable=durable,
    )


class ZarrTarget(ZarrStore):
    """A Zarr array that is written; any number of chunks may be written at once.

    A chunk, or a shard if there are such, is a file that is written aside. One that holds only
    the fill value is left out, unless `write_empty`.
    """

    def __init__(
        self,
        place: Place,
        metadata: Metadata,
        *,
        write_empty: bool,
        overwrite: bool,
        durable: bool,
    ) -> None:
        super().__init__(place.root, metadata)
        self._directory = place
        self._overwrite, self._durable = overwrite, durable
        self._contents = _Contents(metadata.fill, write_empty=write_empty)
        self._files = _ChunkFiles(self.root, durable=durable)
        self._forget_run()

    def _forget_run(self) -> None:
        """Be as new: what is there now belongs to whoever made it, not to the next run."""
        self._is_created = self._any_published = False

    @property
    def grid(self) -> Grid:
        """What is written at once: the shards, or else the chunks."""
        return self.array.write_grid

    @property
    def access(self) -> Access:
        """Shards, and chunks with a codec, are written whole."""
        return Access.ATOMIC if self.array.index else self.array.access

    @property
    def codec_bytes(self) -> int:
        """What a visit holds at most besides what it is given."""
        array = self.array
        if self.access is Access.ADDRESSABLE:
            return array.chunk_bytes if array.has_padding else 0
        index = array.index.chain if array.index else None
        assembled = prod(array.shards or array.chunks) * array.dtype.itemsize
        of_index = index.n_bytes + index.encoding_bytes if index else 0
        return assembled + array.chunk_bytes + array.chain.encoding_bytes + of_index

    def create(self) -> None:
        """Make the directory; what exists is refused or, if asked, replaced.

        A second call, before the target is finished or abandoned, does nothing.

        Raises
        ------
        TargetExistsError
            If the target exists and is not to be overwritten.
        UsageError
            If it is to be, but holds what is not part of an array, or lies in an array.
        """
        if not self._is_created:
            self._files = _ChunkFiles(self.root, durable=self._durable)
            self._directory.claim(overwrite=self._overwrite)
            self._is_created = True

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[BlockWriter]:
        """Visit a chunk or a shard in the making."""
        array, name = self.array, self.array.keys.name_of(index)
        shape = self.grid.block(index).shape
        if self.access is Access.ATOMIC:
            yield _WholeWriter(self, name, shape)
            return
        path = self._files.begin(name, b"", array.chunk_bytes)
        with FileWriter(path, self.tally) as file:
            extent = Extent(name, 0, array.chunks)
            writer: BlockWriter
            if is_padded(shape, array.chunks, array.layout):
                writer = PaddedWriter(shape, extent, array.dtype, array.layout, file, array.fill)
            else:
                writer = AddressableWriter(file, extent, array.dtype, array.layout)
            yield _WatchedWriter(writer, name, self)

    def encode(self, values: NDArray[Any]) -> NDArray[np.uint8] | None:
        """Encode a chunk, padded if it is at a far end; None if it is to be left out."""
        array = self.array
        stored = values.transpose(array.layout.axes)
        if values.shape == array.chunks and stored.flags.c_contiguous:
            raw = np.frombuffer(view_as_bytes(values, array.layout), np.uint8)
        else:
            raw = np.full(prod(array.chunks), array.fill, array.dtype).view(np.uint8)
            whole = view_as_array(raw.data, array.chunks, plain(array.dtype), array.layout)
            whole[tuple(map(slice, values.shape))] = values.view(plain(array.dtype))
        return array.chain.encode(raw) if self._contents.has_any(raw) else None

    def note(self, name: str, raw: NDArray[np.uint8]) -> None:
        """Take notice of what is written to a file."""
        self._contents.note(name, raw)

    def write_file(self, name: str, pieces: Iterator[NDArray[np.uint8]]) -> None:
        """Write a file from its pieces, in one go; none is made if there are none."""
        first = next(pieces, None)
        if first is None:
            return
        self._contents.keep(name)
        path, offset = self._files.begin(name, b"", 0), 0
        with FileWriter(path, self.tally) as file:
            for piece in chain([first], pieces):
                file.write(offset, piece.data)
                offset += piece.nbytes

    def publish(self, index: tuple[int, ...]) -> None:
        """Sync a file and give it its name, unless it is left out."""
        name = self.array.keys.name_of(index)
        if self._contents.forget(name):
            self._files.publish(name)
            self._any_published = True
        else:
            self._files.drop(name)

    def finish(self) -> None:
        """Make the array one: its metadata appears, in itself and in its groups."""
        self._directory.describe()
        self._forget_run()

    def abandon(self) -> None:
        """Remove what has not been published; chunks that have been stay marked as unfinished.

        Without a `create` that succeeded nothing is touched: what is there is not this run's.
        """
        if self._is_created:
            self._files.abandon()
            self._directory.give_up(any_published=self._any_published)
            self._forget_run()


class _ChunkFiles(Publisher):
    """Files that are written aside in the directory of their own, which is made if need be."""

    def __reduce__(self) -> tuple[Callable[[Path], Publisher], tuple[Path]]:
        return partial(_ChunkFiles, durable=self._durable), (self.folder,)

    def partial(self, name: str) -> Path:
        path = self.folder / name
        return path.with_name(f".{path.name}.part")

    def begin(self, name: str, header: bytes, n_bytes: int) -> Path:
        parent = self.partial(name).parent
        with storage_errors(parent):
            # Once all has been abandoned, nothing would remove the directory.
            if not self._is_abandoned:
                parent.mkdir(parents=True, exist_ok=True)
        return super().begin(name, header, n_bytes)

    def drop(self, name: str) -> None:
        """Remove a file in the making, if there is one."""
        with self._lock, storage_errors(self.partial(name)):
            if name in self._pending:
                self._pending.discard(name)
                system.calls.unlink(self.partial(name))


class _Contents:
    """Which files in the making hold something; safe to share between threads."""

    def __init__(self, fill: NDArray[Any], *, write_empty: bool) -> None:
        self._fill, self._write_empty = fill, write_empty
        self._kept: set[str] = set()
        self._lock = Lock()

    def __reduce__(self) -> tuple[Callable[[NDArray[Any]], _Contents], tuple[NDArray[Any]]]:
        # Locks do not travel to other processes.
        return partial(_Contents, write_empty=self._write_empty), (self._fill,)

    def has_any(self, raw: NDArray[np.uint8]) -> bool:
        """Tell whether bytes are to be stored."""
        return self._write_empty or not holds_only(raw, self._fill)

    def note(self, name: str, raw: NDArray[np.uint8]) -> None:
        if name not in self._kept and self.has_any(raw):
            self.keep(name)

    def keep(self, name: str) -> None:
        with self._lock:
            self._kept.add(name)

    def forget(self, name: str) -> bool:
        """Return whether a file holds something, and think no more of it."""
        with self._lock:
            is_kept = name in self._kept
            self._kept.discard(name)
            return is_kept


@dataclass(frozen=True, slots=True)
class _WatchedWriter:
    """One visit to a chunk that may be written in parts, of which notice is taken."""

    writer: BlockWriter
    name: str
    target: ZarrTarget

    def write_from(self, region: Region, array: NDArray[Any]) -> None:
        """Write a region."""
        self._note(array)
        self.writer.write_from(region, array)

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Write a region that is put together in a staging buffer."""

        def watched(part: Region, values: NDArray[Any]) -> None:
            fill(part, values)
            self._note(values)

        self.writer.write_filled(region, staging, watched)

    def _note(self, array: NDArray[Any]) -> None:
        raw = view_as_bytes(array, self.target.layout)
        self.target.note(self.name, np.frombuffer(raw, np.uint8))


@dataclass(frozen=True, slots=True)
class _WholeWriter:
    """One visit to a chunk or shard that is encoded as a whole."""

    target: ZarrTarget
    name: str
    shape: tuple[int, ...]

    def write_from(self, region: Region, array: NDArray[Any]) -> None:
        """Encode and write all of it."""
        assert region.shape == self.shape, "a part of a chunk would be read, changed and rewritten"
        target = self.target
        if target.array.index:
            target.write_file(self.name, pack(array, target.array, target.encode))
        else:
            encoded = target.encode(array)
            target.write_file(self.name, iter(() if encoded is None else (encoded,)))

    def write_filled(
        self,
        region: Region,
        staging: memoryview,  # noqa: ARG002 - a part of a chunk cannot be encoded
        fill: Callable[[Region, NDArray[Any]], None],
    ) -> None:
        """Put all of it together in memory of its own, and write it."""
        target = self.target
        raw = np.empty(region.size * target.dtype.itemsize, np.uint8)
        values = view_as_array(raw.data, region.shape, target.dtype, target.layout)
        fill(region, values)
        self.write_from(region, values)
