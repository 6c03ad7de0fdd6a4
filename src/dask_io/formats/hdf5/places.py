"""Where the bytes of a dataset are in its file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py  # type: ignore[import-untyped]
import numpy as np

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dask_io.formats.hdf5.dataset import Dataset


class Stored(NamedTuple):
    """Location of a block in the file; bits set in `mask` are filters that it skips."""

    offset: int
    n_bytes: int
    mask: int = 0


@dataclass(frozen=True)
class Places:
    """Locations of all stored blocks, sorted by block number.

    `compact` holds the values of a small dataset that is stored in the metadata of the file.
    `size_and_time` are those of the file when it was read, if known: another size or modification
    time means that the locations are out of date.
    """

    numbers: NDArray[np.int64]
    stored: NDArray[np.int64]
    compact: bytes | None = None
    size_and_time: tuple[int, int] | None = None

    def as_of(self, file: os.stat_result) -> Places:
        """Return the same locations, valid for a file with this size and time."""
        return replace(self, size_and_time=(file.st_size, file.st_mtime_ns))

    def find(self, number: int) -> Stored | None:
        """Return where a block is, None if it is not stored."""
        at = int(np.searchsorted(self.numbers, number))
        if at == len(self.numbers) or self.numbers[at] != number:
            return None
        offset, n_bytes, mask = self.stored[at].tolist()
        return Stored(offset, n_bytes, mask)

    @property
    def n_bytes(self) -> int:
        """Size of all stored blocks."""
        return int(self.stored[:, 1].sum()) + len(self.compact or b"")


def find_places(dataset: Any, array: Dataset, file_size: int) -> Places:
    """Ask HDF5 for the locations of all blocks of a dataset, once.

    Raises
    ------
    ValueError
        If the locations are invalid; the message completes "the file ...".
    """
    if not array.spec.grid.n_blocks:
        return _places([])
    if array.chunks is None:
        return _find_contiguous(dataset, array, file_size)
    n_chunks = dataset.id.get_num_chunks()
    if n_chunks > file_size:
        raise ValueError(f"claims to store {n_chunks} chunks, more than it has bytes")
    infos: list[Any] = []
    if n_chunks:
        dataset.id.chunk_iter(infos.append)
    offsets = np.array([info.chunk_offset for info in infos], np.int64).reshape(
        -1, len(array.shape)
    )
    numbers = _numbers(dataset, array, array.chunks, offsets)
    rest = ((info.byte_offset, info.size, info.filter_mask) for info in infos)
    places = _places([(number, *each) for number, each in zip(numbers, rest, strict=True)])
    _check(places, array, file_size)
    return places


def _numbers(
    dataset: Any, array: Dataset, chunks: tuple[int, ...], offsets: NDArray[np.int64]
) -> list[int]:
    """Return the numbers of chunks from the offsets that HDF5 reports.

    Raises
    ------
    ValueError
        If a chunk lies outside the array, or two are the same.
    """
    indices = _unswizzled(dataset, array.maxshape, chunks, offsets // chunks)
    is_off = np.any(offsets % chunks) or np.any(indices < 0)
    if is_off or np.any(indices >= np.array(array.spec.grid.counts)):
        raise ValueError("has a chunk outside its shape")
    numbers: list[int] = [array.spec.grid.flat(tuple(index)) for index in indices.tolist()]
    if len(set(numbers)) < len(numbers):
        raise ValueError("has two chunks with the same index")
    return numbers


def _unswizzled(
    dataset: Any,
    maxshape: tuple[int | None, ...],
    chunks: tuple[int, ...],
    indices: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the true indices of chunks, working around a bug of HDF5 2.0.

    It affects files in the newest file format with one unlimited axis that is not the first. The
    chunk index then moves the unlimited axis to the front. HDF5 reports 0 for the axes before the
    unlimited one, and the number of the chunk across all these axes along the unlimited one.
    """
    endless = [axis for axis, length in enumerate(maxshape) if length is None]
    if len(endless) != 1 or not len(indices):
        return indices
    (axis,) = endless
    pairs = zip(maxshape[:axis], chunks, strict=False)
    counts = tuple(-(-(length or 0) // chunk) for length, chunk in pairs)
    if prod(counts) <= 1 or np.any(indices[:, :axis]) or not np.any(indices[:, axis]):
        return indices
    # If these are true indices, HDF5 can read the last chunk at its position.
    last = indices[np.argmax(indices[:, axis])]
    if _is_stored(dataset, tuple((last * chunks).tolist())):
        return indices
    found = indices.copy()
    found[:, axis], before = np.divmod(indices[:, axis], prod(counts))
    found[:, :axis] = np.stack(np.unravel_index(before, counts), axis=1)
    return found


def _is_stored(dataset: Any, start: tuple[int, ...]) -> bool:
    """Tell whether HDF5 can read the chunk that begins at `start`."""
    if any(at >= length for at, length in zip(start, dataset.shape, strict=True)):
        return False
    try:
        dataset.id.read_direct_chunk(start)
    except (OSError, RuntimeError, ValueError):
        return False
    return True


def _places(found: list[tuple[int, int, int, int]]) -> Places:
    table = np.array(sorted(found), np.int64).reshape(-1, 4)
    return Places(np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1:]))


def _find_contiguous(dataset: Any, array: Dataset, file_size: int) -> Places:
    none = _places([])
    if dataset.id.get_create_plist().get_layout() == h5py.h5d.COMPACT:
        values = np.zeros(array.shape, f"V{array.spec.dtype.itemsize}")
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, dataset.id.get_type())
        return Places(none.numbers, none.stored, values.tobytes())
    offset = dataset.id.get_offset()
    if offset is None:
        return none
    places = _places([(0, offset, array.spec.chunk_bytes, 0)])
    _check(places, array, file_size)
    return places


def _check(places: Places, array: Dataset, file_size: int) -> None:
    offsets, sizes = places.stored[:, 0], places.stored[:, 1]
    if np.any(offsets < 0) or np.any(sizes < 0) or np.any(offsets > file_size - sizes):
        raise ValueError(f"is truncated: blocks lie beyond its end at {file_size} bytes")
    if not array.filters and np.any(sizes != array.spec.chunk_bytes):
        raise ValueError(f"has a chunk whose size is not {array.spec.chunk_bytes} bytes")
    if array.filters and np.any(sizes > array.spec.longest):
        raise ValueError(f"has a chunk that is longer than {array.spec.longest} bytes")
