"""Reading a Zarr array."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from stat import S_ISREG
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import DataError, StorageError, UsageError
from dask_io.stores.addressable import AddressableReader, view_as_array
from dask_io.stores.files import ALIGNMENT, FileReader, Tally, address_of, storage_errors
from dask_io.stores.filled import FilledReader
from dask_io.stores.listing import Problems
from dask_io.stores.naming import printable
from dask_io.stores.padded import PaddedReader, is_padded, plain, stretches
from dask_io.stores.store import Access, Extent
from dask_io.stores.zarr.documents import V2, V3, is_group, leads_into, read_documents
from dask_io.stores.zarr.metadata import understand
from dask_io.stores.zarr.shards import Shards

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout, Region
    from dask_io.stores.store import BlockReader
    from dask_io.stores.zarr.metadata import Metadata

_MOST_NAMED = 20


def open_zarr(path: Path, inside: str, *, strict: bool) -> ZarrSource:
    """Open an array in a directory, or in a group there.

    Raises
    ------
    DataError
        If its metadata is missing, unfinished, or none that can be trusted or is supported.
    UsageError
        If it is a group.
    """
    root = path / inside
    if not root.is_dir():
        raise StorageError(printable(str(root)), "no such directory", "check the path")
    _refuse_way_out(path, root)
    documents = read_documents(root)
    name = V3 if V3 in documents else V2
    try:
        if is_group(documents):
            raise UsageError(_which_array(root, path, inside))
        if name not in documents:
            raise DataError(printable(str(root)), [_why_no_array(root)])
        return ZarrSource(root, understand(documents), strict=strict)
    except ValueError as error:
        raise DataError(printable(str(root / name)), [printable(str(error))]) from error


def _refuse_way_out(path: Path, root: Path) -> None:
    if not leads_into(root, path.resolve()):
        raise DataError(printable(str(root)), [f"leads out of {printable(str(path))}"])


def _why_no_array(root: Path) -> str:
    if any((root / f".{name}.part").exists() for name in (V3, V2)):
        return "it is unfinished: the run that wrote it did not end; run it again with --overwrite"
    return "it holds no Zarr array: there is no zarr.json and no .zarray"


def _which_array(root: Path, path: Path, inside: str) -> str:
    names = []
    with storage_errors(root), os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and any(
                os.path.isfile(os.path.join(entry.path, mark))  # noqa: PTH113, PTH118 - may be many
                for mark in (V3, V2, ".zgroup")
            ):
                names.append(entry.name)
            if len(names) > _MOST_NAMED:
                break
    above = f"{path}::/{inside}".rstrip("/")
    if not names:
        return f"{printable(str(root))} is a group that holds no array"
    listed = ", ".join(printable(f"{above}/{name}") for name in sorted(names)[:_MOST_NAMED])
    more = " and more" if len(names) > _MOST_NAMED else ""
    return f"{printable(str(root))} is a group; name an array in it, such as {listed}{more}"


class ZarrStore:
    """What sources and targets have in common: their description."""

    def __init__(self, root: Path, metadata: Metadata) -> None:
        self.root, self.array = root, metadata
        self.tally = Tally()

    @property
    def place(self) -> str:
        """The array's directory."""
        return str(self.root)

    @property
    def format(self) -> str:
        """Name of the format."""
        return "zarr"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements, as stored."""
        return self.array.dtype

    @property
    def layout(self) -> Layout:
        """How elements lie in each chunk."""
        return self.array.layout

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Version, chunks, shards, codecs, fill value, names of dimensions, attributes."""
        return MappingProxyType(self.array.described())


class ZarrSource(ZarrStore):
    """A Zarr array that is read; any number of chunks may be read at once.

    A chunk that is not stored is filled with the fill value, which costs no visit; if the source
    is `strict` it is an error. A shard's index is read once for all its chunks, as long as the
    indices in use take no more than 16 MiB.
    """

    def __init__(self, root: Path, metadata: Metadata, *, strict: bool) -> None:
        super().__init__(root, metadata)
        self._strict = strict
        self._folder = root.resolve()
        self._shards = Shards(metadata) if metadata.index else None

    @property
    def grid(self) -> Grid:
        """The chunks; those of a shard are chunks of their own."""
        return self.array.read_grid

    @property
    def access(self) -> Access:
        """A part of a chunk costs its runs, if no codec is in the way."""
        return self.array.access

    @property
    def codec_bytes(self) -> int:
        """What a visit holds at most besides the region asked for."""
        array = self.array
        if array.access is Access.ADDRESSABLE:
            return array.chunk_bytes if array.has_padding else 0
        room = array.chain.longest + 3 * ALIGNMENT
        return room + array.chain.decoding_bytes + array.chunk_bytes

    @cached_property
    def n_bytes_on_disk(self) -> int:
        """Bytes of all files of the array."""
        return sum(size for _, size in self._files())

    @contextmanager
    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> Iterator[BlockReader]:
        """Visit a chunk.

        Raises
        ------
        DataError
            If it cannot be what it should be by its size, or is missing and may not be.
        """
        array, block = self.array, self.grid.block(index)
        stored = self._find(index)
        if stored is None:
            yield FilledReader(array.fill, array.layout)
            return
        path, extent, n_bytes = stored
        with FileReader(path, self.tally) as file:
            if array.access is Access.ATOMIC:
                if after is not None:
                    file.go_on_from(extent.offset)
                yield _AtomicReader(file, path, extent, n_bytes, array)
                return
            padded = is_padded(block.shape, extent.shape, array.layout)
            if after is not None:
                end = array.layout.end_of(after, extent.shape)
                if padded:
                    end = [*stretches(after, block.shape, extent.shape, array.layout)][-1].stop
                file.go_on_from(extent.offset + end * array.dtype.itemsize)
            if padded:
                yield PaddedReader(block.shape, extent, array.dtype, array.layout, file)
            else:
                yield AddressableReader(file, extent, array.dtype, array.layout)

    def _find(self, index: tuple[int, ...]) -> tuple[Path, Extent, int] | None:
        """Return where a chunk is and the bytes that it takes there; None if it is not stored."""
        array, shards = self.array, self._shards
        name = array.keys.name_of(shards.shard_of(index) if shards else index)
        path = self.root / name
        size = self._size_of(path)
        if size is None:
            place = None
        elif shards is None:
            place = (0, size)
        else:
            place = shards.find(index, path, size)
        if place is None:
            if self._strict:
                missing = f"chunk {','.join(map(str, index))} is missing"
                raise DataError(printable(str(path)), [missing], "leave out --strict to fill it in")
            return None
        offset, n_bytes = place
        problem = self._wrong_size(n_bytes)
        if problem:
            raise DataError(printable(str(path)), [problem])
        return path, Extent(name, offset, array.chunks), n_bytes

    def _size_of(self, path: Path) -> int | None:
        """Return the bytes of a file in the array's directory, None if there is none."""
        with storage_errors(path):
            try:
                found = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        if not leads_into(path, self._folder):
            raise DataError(printable(str(path)), [f"leads out of {printable(self.place)}"])
        if not S_ISREG(found.st_mode):
            raise DataError(printable(str(path)), ["is not a file"])
        return found.st_size

    def _wrong_size(self, n_bytes: int) -> str:
        """Say why a chunk cannot have so many bytes; empty if it can."""
        right = self.array.chain.longest
        if self.array.access is Access.ADDRESSABLE and n_bytes < right:
            return f"is truncated: its chunk has {n_bytes} bytes, expected {right}"
        if n_bytes > right:
            return f"is too long: its chunk has {n_bytes} bytes, expected {right} at most"
        return ""

    def check(self) -> None:
        """Look at the sizes of all chunks, and at the indices of all shards.

        Raises
        ------
        DataError
            If some cannot be right; it names them all.
        """
        problems, n_found = Problems(self.place), 0
        grid = self.array.write_grid
        for name, size in self._files():
            if self._is_chunk(name):
                n_found += 1
                for problem in self._problems_with(self.root / name, size):
                    problems.add(name, problem)
        if self._strict and n_found < grid.n_blocks:
            missing = f"{grid.n_blocks - n_found} of {grid.n_blocks} files of chunks are missing"
            problems.add(".", missing)
        problems.raise_if_any()

    def _is_chunk(self, name: str) -> bool:
        index, counts = self.array.keys.parse(name), self.array.write_grid.counts
        if index is None or len(index) != len(counts):
            return False
        return all(i < n for i, n in zip(index, counts, strict=True))

    def _problems_with(self, path: Path, size: int) -> Iterator[str]:
        try:
            self._size_of(path)
            sizes = self._shards.sizes(path, size) if self._shards else iter([size])
            yield from filter(None, map(self._wrong_size, sizes))
        except DataError as error:
            yield "; ".join(error.problems)

    def _files(self) -> Iterator[tuple[str, int]]:
        """Yield path and size of every file in the array's directory; links are not followed."""
        with storage_errors(self.root):
            for folder, _, names in os.walk(self.root, onerror=_raise):
                inside = os.path.relpath(folder, self.root)
                for name in names:
                    path = name if inside == "." else f"{inside}/{name}"
                    yield path, os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - may be many


def _raise(error: OSError) -> None:
    raise error


@dataclass(slots=True)
class _AtomicReader:
    """One visit to a chunk that is decoded as a whole, once."""

    file: FileReader
    path: Path
    extent: Extent
    n_bytes: int
    array: Metadata
    _decoded: NDArray[np.uint8] | None = field(default=None, init=False)

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Decode the chunk straight into the buffer if all of it is asked for, else aside."""
        array = self.array
        raw = np.frombuffer(buffer, np.uint8, region.size * array.dtype.itemsize)
        values = view_as_array(raw.data, region.shape, array.dtype, array.layout)
        if region.shape == array.chunks and self._decoded is None:
            self._decode(raw)
            return values
        if self._decoded is None:
            self._decoded = np.empty(array.chunk_bytes, np.uint8)
            self._decode(self._decoded)
        whole = view_as_array(self._decoded.data, array.chunks, array.dtype, array.layout)
        as_is = plain(array.dtype)
        values.view(as_is)[...] = whole.view(as_is)[region.slices]
        return values

    def _decode(self, out: NDArray[np.uint8]) -> None:
        encoded = self.file.read(self.extent.offset, self.n_bytes, _aligned(self.n_bytes))
        try:
            self.array.chain.decode(np.frombuffer(encoded, np.uint8), out)
        except ValueError as error:
            raise DataError(printable(str(self.path)), [printable(str(error))]) from error


def _aligned(n_bytes: int) -> memoryview:
    """Return a buffer with room for alignment, so that large reads go past the page cache."""
    buffer = memoryview(np.empty(n_bytes + 3 * ALIGNMENT, np.uint8).data)
    start = -address_of(buffer) % ALIGNMENT
    return buffer[start : start + n_bytes + 2 * ALIGNMENT]
