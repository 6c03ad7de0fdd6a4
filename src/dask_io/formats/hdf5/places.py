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
    """Where a block is, and which filters it goes without."""

    offset: int
    n_bytes: int
    mask: int = 0


@dataclass(frozen=True)
class Places:
    """Where all blocks are that are stored, by their numbers in order; the others are not.

    A dataset so small that its values are among the metadata has them as `compact`. All of that
    holds as long as the file has this `size_and_time`, if they are known.
    """

    numbers: NDArray[np.int64]
    stored: NDArray[np.int64]
    compact: bytes | None = None
    size_and_time: tuple[int, int] | None = None

    def as_of(self, file: os.stat_result) -> Places:
        """Return the same, to hold for a file as it was found."""
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
        """Bytes that all blocks take."""
        return int(self.stored[:, 1].sum()) + len(self.compact or b"")


def find_places(dataset: Any, array: Dataset, file_size: int) -> Places:
    """Ask HDF5 where the blocks of a dataset are; it is not asked again.

    Raises
    ------
    ValueError
        If they cannot be there; the message completes "the file ...".
    """
    if not array.spec.grid.n_blocks:
        return _places([])
    if array.chunks is None:
        return _find_contiguous(dataset, array, file_size)
    n_chunks = dataset.id.get_num_chunks()
    if n_chunks > file_size:
        raise ValueError(f"says that it stores {n_chunks} chunks, more than it has bytes")
    told: list[Any] = []
    if n_chunks:
        dataset.id.chunk_iter(told.append)
    offsets = np.array([chunk.chunk_offset for chunk in told], np.int64).reshape(
        -1, len(array.shape)
    )
    numbers = _numbers(dataset, array, array.chunks, offsets)
    rest = ((chunk.byte_offset, chunk.size, chunk.filter_mask) for chunk in told)
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
        If there are no such, or two are the same.
    """
    indices = _unswizzled(dataset, array.maxshape, chunks, offsets // chunks)
    is_off = np.any(offsets % chunks) or np.any(indices < 0)
    if is_off or np.any(indices >= np.array(array.spec.grid.counts)):
        raise ValueError("has a chunk where its shape has none")
    numbers: list[int] = [array.spec.grid.flat(tuple(index)) for index in indices.tolist()]
    if len(set(numbers)) < len(numbers):
        raise ValueError("has two chunks in one place")
    return numbers


def _unswizzled(
    dataset: Any,
    maxshape: tuple[int | None, ...],
    chunks: tuple[int, ...],
    indices: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the true indices of chunks, which HDF5 2.0 mixes up in one of its kinds of index.

    In files for its newest versions, if one axis has no limit and is not the first, chunks lie in
    the index by that axis first, then by those in front. What it tells of a chunk is 0 along these,
    and all of its number along the axis without a limit.
    """
    endless = [axis for axis, length in enumerate(maxshape) if length is None]
    if len(endless) != 1 or not len(indices):
        return indices
    (axis,) = endless
    pairs = zip(maxshape[:axis], chunks, strict=False)
    counts = tuple(-(-(length or 0) // chunk) for length, chunk in pairs)
    if prod(counts) <= 1 or np.any(indices[:, :axis]) or not np.any(indices[:, axis]):
        return indices
    # If these are numbers, a chunk at the place of the last one would have a larger one still.
    last = indices[np.argmax(indices[:, axis])]
    if _is_stored(dataset, tuple((last * chunks).tolist())):
        return indices
    found = indices.copy()
    found[:, axis], before = np.divmod(indices[:, axis], prod(counts))
    found[:, :axis] = np.stack(np.unravel_index(before, counts), axis=1)
    return found


def _is_stored(dataset: Any, start: tuple[int, ...]) -> bool:
    """Tell whether HDF5 finds the chunk that begins somewhere."""
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
        raise ValueError(f"is truncated: it has {file_size} bytes, blocks lie beyond")
    if not array.filters and np.any(sizes != array.spec.chunk_bytes):
        raise ValueError(f"has a chunk that is not of {array.spec.chunk_bytes} bytes")
    if array.filters and np.any(sizes > array.spec.longest):
        raise ValueError(f"has a chunk that is longer than {array.spec.longest} bytes")
