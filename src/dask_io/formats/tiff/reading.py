"""Read the structure of a TIFF file with tifffile, in a subprocess with limits.

TIFF files may come from anywhere: their directories may form loops, and their tags may claim any
size. tifffile runs in a subprocess whose memory and time are limited. It reads tags and metadata
only; tiles are read and decoded elsewhere.
"""

from __future__ import annotations

import io
import logging
import re
from dataclasses import replace
from math import prod
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, Self

import numpy as np
import tifffile

from dask_io.errors import DaskIOError, DataError, StorageError, UsageError, list_names
from dask_io.formats.isolation import WORKER, Limits
from dask_io.formats.tiff.completeness import find_missing
from dask_io.formats.tiff.decoding import NAMES, PREDICTORS, TiffCodec
from dask_io.formats.tiff.image import Image
from dask_io.formats.tiff.series_metadata import OnePage, describe, own_metadata, shape_of
from dask_io.formats.tiff.small_files import PLAIN_TAGS, is_small, is_small_file
from dask_io.storage.files import size_of
from dask_io.storage.medium import NOT_A_FILE
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.container import INSIDE
from dask_io.stores.header_parsing import check_shape
from dask_io.stores.spec import IMAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

# Time for a file with a hundred thousand pages; more for each byte of larger files.
_SECONDS, _PER_SECOND, _LARGEST = 10, 2**24, 2**30
_ENDLESS = 2**63
# Pages or files that cannot be found; tifffile would leave them out, or fill in zeros.
_DAMAGE = re.compile("circular|invalid page offset|failed to read")
_MOST_BLOCKS = 2**24
_MOST_BITS = 32
_JPEG = "jpeg"
_COMPLEX_INTEGERS = 5
_SCALAR = 2
# The most that a compressed tile may exceed its elements.
_MOST_GROWTH, _FEW_BYTES = 4, 2**16


def read_image(path: Path, inside: str) -> Image:
    """Read the description of an image; `inside` is its number, empty for the first.

    Raises
    ------
    DataError
        If the file is damaged, or holds something that is not supported.
    UsageError
        If there is no such image.
    StorageError
        If the file is absent.
    """
    size = size_of(path)
    if size == NOT_A_FILE:
        raise StorageError(str(path), "is not a file", "check the path")
    if not size:
        raise DataError(str(path), ["is empty: it has 0 bytes"])
    size = min(size, _LARGEST)
    limits = Limits(_SECONDS + size // _PER_SECOND, _LARGEST + size)
    try:
        if is_small_file(path):
            return read_with_tifffile(path, inside)
        return WORKER.call(limits, read_with_tifffile, path, inside)
    except ValueError as error:
        raise DataError(str(path), [str(error)]) from error


def read_with_tifffile(path: Path, inside: str) -> Image:
    """Read the description of an image with tifffile; see `read_image`.

    Raises
    ------
    ValueError
        If the file is damaged, or not supported; the message completes "the file ...".
    """
    with storage_errors(path):
        found = path.stat()
    return _read(path, path, inside, found.st_size, found.st_mtime_ns)


def read_head(head: bytes) -> Image:
    """Read the description of an image from the beginning of its file.

    Raises
    ------
    ValueError
        If it is damaged, not supported, or incomplete; the message completes "the file ...".
    """
    if is_small(lambda offset, n_bytes: head[offset : offset + n_bytes]):
        return _read_head(head)
    return WORKER.call(Limits.for_file(len(head)), _read_head, head)


def _read_head(head: bytes) -> Image:
    return _read(io.BytesIO(head), Path("block"), "", _ENDLESS, 0)


def _read(file: Path | BinaryIO, path: Path, inside: str, size: int, time: int) -> Image:
    try:
        with _Complaints() as complaints, tifffile.TiffFile(file) as opened:
            found = _Reader(path, opened, size, time).read(inside)
            complaints.raise_if_any()
            return found
    except (DaskIOError, _UnsupportedError):
        raise
    except MemoryError as error:
        raise ValueError("needs too much memory to be read; it is damaged") from error
    except RecursionError as error:
        raise ValueError("is nested too deeply; it is damaged") from error
    except Exception as error:  # tifffile raises many types
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"is not a TIFF file that can be read: {reason[:200]}") from error


class _Complaints(logging.Handler):
    """Collects the messages of tifffile about damage that it works around."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._thread, self._found = get_ident(), list[str]()

    def __enter__(self) -> Self:
        logging.getLogger("tifffile").addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logging.getLogger("tifffile").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message about damage; other threads may read other files."""
        message = record.getMessage()
        if record.thread == self._thread and _DAMAGE.search(message):
            self._found.append(message.rpartition("> ")[2].partition(". Missing")[0])

    def raise_if_any(self) -> None:
        """Refuse a file whose pages are not all found."""
        if self._found:
            _refuse(f"is damaged: {self._found[0][:200]}")


class _UnsupportedError(ValueError):
    """The file holds something that is not supported."""


def _refuse(reason: str) -> NoReturn:
    raise _UnsupportedError(reason)


class _Reader:
    """Describes one image of an open file."""

    def __init__(self, path: Path, file: Any, size: int, time: int) -> None:
        self.path, self.file, self.size, self.time = path, file, size, time

    def read(self, inside: str) -> Image:
        number, level, series = self._find(inside)
        page = series.keyframe
        self._check(page)
        if (problem := find_missing(self.file, series, self.size)) is not None:
            _refuse(problem)
        own = own_metadata(self.file, series, page) if level == 0 else {}
        shape, axes = shape_of(series, own)
        dtype = np.dtype(page.dtype).newbyteorder(self.file.byteorder)
        _check_shape(shape, dtype)
        if not prod(shape):
            _refuse("has an image without elements")
        space, metadata = describe(self.file, series, own, axes, place=(number, level), shape=shape)
        if not inside and not isinstance(series, OnePage) and len(self.file.series) > 1:
            metadata[IMAGES] = tuple(map(str, range(1, len(self.file.series))))
        image = self._locate(series, page, shape, dtype)
        stored = 0.0 if page.nodata is None else page.nodata
        return Image(
            inside=f"{number}/{level}" if level else str(number),
            shape=shape,
            dtype=dtype,
            fill_bytes=np.array(stored).astype(dtype).tobytes(),
            space=space,
            metadata=metadata,
            size_and_time=(self.size, self.time),
            **image,
        )

    def _find(self, inside: str) -> tuple[int, int, Any]:
        """Return the number, the level and the series of an image."""
        pages = self.file.pages
        if not inside and self._is_simple(pages):
            return 0, 0, OnePage(pages[0], self.file)
        series = self.file.series
        if not series:
            _refuse("has no images")
        words = inside.split("/") if inside else ["0"]
        by_name = {one.name: number for number, one in enumerate(series) if one.name}
        number = int(words[0]) if words[0].isdecimal() else by_name.get(words[0], -1)
        level = int(words[1]) if len(words) == _SCALAR and words[1].isdecimal() else 0
        is_known = 0 <= number < len(series) and level < len(series[number].levels)
        if not is_known or (len(words) > 1 and words[1] != str(level)) or len(words) > _SCALAR:
            names = [
                f"{self.path}{INSIDE}/{n}" + (f"/{m}" if m else "")
                for n, one in enumerate(series)
                for m in range(len(one.levels))
            ]
            raise UsageError(
                f"{self.path}{INSIDE}/{inside} does not exist; give an image of {self.path}, "
                f"such as {list_names(names)}"
            )
        return number, level, series[number].levels[level]

    def _is_simple(self, pages: Any) -> bool:
        """Whether the file has one page that says nothing about more axes."""
        page = pages[0]
        return len(pages) == 1 and not page.description and PLAIN_TAGS.issuperset(page.tags.keys())

    def _check(self, page: Any) -> None:
        """Refuse what cannot be decoded."""
        number = int(page.compression)
        if number not in NAMES:
            _refuse(f"is compressed with {_word(page.compression)}, which is not supported")
        bits, dtype = page.bitspersample, page.dtype
        if dtype is None or not isinstance(bits, int) or page.sampleformat == _COMPLEX_INTEGERS:
            _refuse(f"has elements of {bits} bits and format {page.sampleformat}, not supported")
        is_packed = bits != 8 * np.dtype(dtype).itemsize
        if is_packed and (bits > _MOST_BITS or np.dtype(dtype).kind not in "bu"):
            _refuse(f"has elements of {bits} bits in {dtype}, which is not supported")
        if int(page.predictor) not in PREDICTORS or (is_packed and page.predictor != 1):
            _refuse(f"has predictor {int(page.predictor)}, which is not supported")
        if page.is_subsampled and NAMES[number] != _JPEG:
            _refuse("has colours at a lower resolution, which is supported for JPEG only")
        formats = page.tags.get(339)
        if formats is not None and formats.count != 1 and len(set(formats.value)) > 1:
            _refuse("has samples of different types")

    def _locate(
        self, series: Any, page: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> dict[str, Any]:
        """Return where the blocks of an image are, and how they are encoded."""
        codec = self._codec(page, dtype)
        files = _files_of(self.path, series)
        contiguous = series.dataoffset if len(files) == 1 and codec.is_plain else None
        if contiguous is not None:
            n_bytes = prod(shape) * dtype.itemsize
            self._check_size(contiguous + n_bytes)
            return self._one_block(shape, files, contiguous, n_bytes)
        n_pages, per_page = len(series), prod(page.chunked)
        if not 0 < n_pages * per_page <= _MOST_BLOCKS:
            _refuse(f"has {n_pages * per_page} tiles or strips; {_MOST_BLOCKS} are supported")
        offsets = np.zeros((n_pages, per_page), np.uint64)
        counts = np.zeros((n_pages, per_page), np.uint64)
        numbers = np.zeros(n_pages if len(files) > 1 else 0, np.uint32)
        for number, one in enumerate(series):
            here, sizes = one.dataoffsets, one.databytecounts
            if len(here) < per_page or len(sizes) < per_page:
                _refuse(f"has {len(here)} tiles or strips in a page, expected {per_page}")
            offsets[number], counts[number] = here[:per_page], sizes[:per_page]
            if len(files) > 1:
                numbers[number] = files.index(_path_of(one))
            if codec.jpeg is not None and one.jpegtables != page.jpegtables:
                _refuse("has pages with different JPEG tables, which are not supported")
        counts[offsets == 0], offsets[counts == 0] = 0, 0
        if len(files) == 1:
            self._check_size(int((offsets + counts).max()))
        return self._grid(page, shape, dtype, codec, files, offsets, counts, numbers)

    def _check_size(self, end: int) -> None:
        if end > self.size:
            _refuse(f"is truncated: it has {self.size} bytes, but its image ends at {end}")

    def _one_block(
        self, shape: tuple[int, ...], files: tuple[Path, ...], offset: int, n_bytes: int
    ) -> dict[str, Any]:
        return {
            "chunks": shape,
            "stored_shape": shape,
            "offsets": np.array([offset], np.uint64),
            "counts": np.array([n_bytes], np.uint64),
            "rows": None,
            "files": files,
            "numbers": np.zeros(0, np.uint32),
            "codec": None,
        }

    def _grid(  # noqa: PLR0917 - each is a part of the description
        self,
        page: Any,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        codec: TiffCodec,
        files: tuple[Path, ...],
        offsets: NDArray[np.uint64],
        counts: NDArray[np.uint64],
        numbers: NDArray[np.uint32],
    ) -> dict[str, Any]:
        tiles = (1, *codec.shape)
        fitted = _fit(shape, page.shaped)
        leading = [length for length, at in zip(shape, fitted, strict=True) if at is None]
        if prod(leading) != len(offsets):
            _refuse(f"has {len(offsets)} pages, expected {prod(leading)}")
        if any(tiles[at] > 1 for at in range(5) if at not in fitted and page.shaped[at] == 1):
            _refuse("has tiles that are larger than an axis of length 1")
        page_bytes = prod(page.shaped) * dtype.itemsize
        if codec.is_plain and not page.is_tiled and is_joined(offsets, counts, page_bytes):
            # Strips that follow each other are read as one.
            per_page = [
                1 if at is None else length for length, at in zip(shape, fitted, strict=True)
            ]
            starts = offsets[:, 0]
            is_whole = len(files) == 1 and bool((np.diff(starts) == np.uint64(page_bytes)).all())
            if is_whole and starts[0]:
                n_bytes = page_bytes * len(starts)
                return self._one_block(shape, files, int(starts[0]), n_bytes)
            found = self._one_block(shape, files, 0, page_bytes)
            found |= {"chunks": tuple(per_page), "stored_shape": tuple(per_page)}
            found |= {
                "offsets": starts,
                "counts": np.where(starts, page_bytes, 0).astype(np.uint64),
            }
            return {**found, "numbers": numbers}
        stored = [1 if at is None else tiles[at] for at in fitted]
        chunks = [min(tile, length) for tile, length in zip(stored, shape, strict=True)]
        rows = None if page.is_tiled or _SCALAR not in fitted else fitted.index(_SCALAR)
        largest = int(counts.max())
        if is_too_long(largest, stored, dtype):
            longest = prod(stored) * dtype.itemsize
            _refuse(f"has a tile of {largest} bytes for {longest} bytes of elements")
        return {
            "chunks": tuple(chunks),
            "stored_shape": tuple(stored) if page.is_tiled else tuple(chunks),
            "offsets": offsets.reshape(-1),
            "counts": counts.reshape(-1),
            "rows": rows,
            "files": files,
            "numbers": np.repeat(numbers, counts.shape[1]),
            "codec": None if codec.is_plain else replace(codec, longest=largest),
        }

    def _codec(self, page: Any, dtype: np.dtype[Any]) -> TiffCodec:
        name = NAMES[int(page.compression)]
        _, _, length, width, samples = page.shaped
        shape = (
            (page.tiledepth, page.tilelength, page.tilewidth, samples)
            if page.is_tiled
            else (1, min(page.rowsperstrip, length), width, samples)
        )
        if min(shape) < 1:
            _refuse(f"has tiles of shape {shape}")
        _check_shape(shape, dtype)
        jpeg = None
        if name == _JPEG:
            colors = tifffile.tifffile.jpeg_decode_colorspace(
                page.photometric, page.planarconfig, page.extrasamples, page.is_jfif
            )
            jpeg = (page.jpegtables, page.jpegheader, *colors)
        options = page.tags.valueof(292) if name == "ccitt-fax3" else 0
        return TiffCodec(
            name,
            shape,
            dtype,
            int(page.bitspersample),
            0,
            int(page.predictor),
            int(page.fillorder),
            jpeg,
            int(options or 0),
        )


def is_too_long(n_bytes: int, shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """Tell whether a compressed tile has more bytes than any codec makes of its elements."""
    return n_bytes > _MOST_GROWTH * prod(shape) * dtype.itemsize + _FEW_BYTES


def _check_shape(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    try:
        check_shape(shape, dtype)
    except ValueError as error:
        _refuse(str(error))


def _word(compression: Any) -> str:
    return str(getattr(compression, "name", compression)).lower()


def _fit(shape: Sequence[int], page: Sequence[int]) -> list[int | None]:
    """Return which axis of a page each axis of an array is; None for axes across pages.

    Axes of length 1 may be missing in either.

    Examples
    --------
    >>> _fit((4, 5, 7), (1, 1, 5, 7, 1)), _fit((7,), (1, 1, 1, 7, 1)), _fit((5, 1), (1, 1, 5, 1, 1))
    ([None, 2, 3], [3], [2, 3])
    """
    found: list[int | None] = [None] * len(shape)
    # A single sample needs no axis. An axis of length 1 is then a row or a column.
    at = len(page) - (2 if page[-1] == 1 else 1)
    for axis in reversed(range(len(shape))):
        while at >= 0 and page[at] == 1 and shape[axis] != 1:
            at -= 1
        if at < 0:
            break
        if page[at] == shape[axis]:
            found[axis], at = at, at - 1
        elif shape[axis] != 1:
            break
    if any(length != 1 for length in page[: at + 1]):
        _refuse(f"has pages of shape {tuple(page)} in an image of shape {tuple(shape)}")
    return found


def is_joined(offsets: NDArray[np.uint64], counts: NDArray[np.uint64], n_bytes: int) -> bool:
    """Tell whether the strips of every page are stored one after another."""
    is_next = offsets[:, 1:] == offsets[:, :-1] + counts[:, :-1]
    sizes = counts.sum(axis=1)
    is_missing = (offsets == 0).all(axis=1)
    return bool(((is_next.all(axis=1) & (sizes >= n_bytes)) | is_missing).all())


def _path_of(page: Any) -> Path:
    handle = page.parent.filehandle
    return Path(handle.dirname, handle.name)


def _files_of(path: Path, series: Any) -> tuple[Path, ...]:
    """Return the files of an image, which must be in one directory."""
    if not getattr(series, "is_multifile", False):
        return (path,)
    files = dict.fromkeys(_path_of(page) for page in series if page is not None)
    _check_folder(path, files)
    return tuple(files)


def _check_folder(path: Path, files: Iterable[Path]) -> None:
    folder = path.resolve().parent
    for file in files:
        if file.resolve().parent != folder:
            raise DataError(
                str(path), [f"has pages in {file}, outside its directory"], "move them together"
            )
