"""PNG pictures, for reading: mostly the slices of a volume, one picture per file.

Pictures of 8 or 16 bits have the axes y and x, and a last axis for colours or transparency if there
are any. imagecodecs decodes a picture whole, into a buffer of exactly its size. Any number may be
read at once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import imagecodecs
import numpy as np

from dask_io.codecs.cores import CORES
from dask_io.errors import DataError, StorageError
from dask_io.geometry import Grid, Layout
from dask_io.storage.files import medium_of, open_reader
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Tally
from dask_io.stores.block_format import Format, Header
from dask_io.stores.chunked_source import ChunkedSource, Chunks, Located
from dask_io.stores.header_parsing import check_shape
from dask_io.stores.space import AxisType, Space, SpaceAxis
from dask_io.stores.spec import ArraySpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Reader
    from dask_io.stores.block_format import Peek

NAME = "png"
SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = struct.Struct(">8sI4sIIBBBBB")
# Elements of a pixel by its type of colour. Palettes are not supported.
_SAMPLES = {0: 1, 2: 3, 4: 2, 6: 4}
_DTYPES: dict[int, np.dtype[Any]] = {8: np.dtype("u1"), 16: np.dtype("u2")}
_PALETTE = 3
# Compressed data cannot be more than about 1032 times shorter than what it decodes to.
_MOST_RATIO = 1040
# Bytes that libpng and zlib hold, and for each row a pointer.
_WORKSPACE, _PER_ROW = 2**19, 8


def parse_header(peek: Peek) -> Header:
    """Read the size and type of a picture."""
    head = peek(_HEADER.size)
    if head[: len(SIGNATURE)] != SIGNATURE[: len(head)]:
        raise ValueError("is not a PNG file: it does not begin as one")
    if len(head) < _HEADER.size:
        raise ValueError("is truncated: it ends within its header")
    _, _, kind, width, height, bits, color, *_ = _HEADER.unpack(head)
    if kind != b"IHDR":
        raise ValueError("is damaged: it has no header")
    if color == _PALETTE:
        raise ValueError("has a palette of colours, which is not supported")
    if color not in _SAMPLES or bits not in _DTYPES:
        raise ValueError(f"has elements of {bits} bits; supported are 8 and 16")
    samples, dtype = _SAMPLES[color], _DTYPES[bits]
    shape = (height, width, samples) if samples > 1 else (height, width)
    if not prod(shape):
        raise ValueError("has a picture without elements")
    check_shape(shape, dtype)
    axes = (SpaceAxis("y", None, AxisType.SPACE), SpaceAxis("x", None, AxisType.SPACE))
    colours = (SpaceAxis("c", None, AxisType.CHANNEL),) * (samples > 1)
    return Header(shape, dtype, Layout.c(len(shape)), 0, Space((*axes, *colours)))


def make_header(block: Header) -> NoReturn:
    """Refuse to write."""
    raise ValueError(f"is read, but not written; write {block.dtype} elements with --format npy")


@dataclass(frozen=True)
class PngCodec:
    """Decodes pictures of one shape, from files of at most `longest` bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    longest: int

    @property
    def decoding_bytes(self) -> int:
        """Bytes that the decoder holds."""
        return _WORKSPACE + _PER_ROW * self.shape[0]

    @property
    def encoding_bytes(self) -> int:
        """Nothing is encoded."""
        return 0

    def encode(self, data: NDArray[np.uint8]) -> NoReturn:
        """Refuse: pictures are not written."""
        raise NotImplementedError

    def decode(self, data: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Decode a picture into `out`.

        Raises
        ------
        ValueError
            If it is damaged, or has another size; the message completes "the file ...".
        """
        room = out.view(self.dtype).reshape(self.shape)
        try:
            with CORES:
                imagecodecs.png_decode(data, out=room)  # type: ignore[arg-type]  # not copied
        except MemoryError:
            raise
        except Exception as error:  # the library has errors of its own
            raise ValueError(f"cannot be decoded: {error}") from error


class PngChunks(Chunks):
    """The only block of a picture."""

    format = NAME

    def __init__(self, path: Location, n_bytes: int, header: Header) -> None:
        self.path, self._n_bytes = path, n_bytes
        self.spec = ArraySpec(
            Grid.regular(header.shape, header.shape),
            header.dtype,
            header.layout,
            header.space,
            codec=PngCodec(header.shape, header.dtype, n_bytes),
        )

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes of the file."""
        return self._n_bytes

    @property
    def n_stored(self) -> int:
        """The picture is always stored."""
        return 1

    def describe(self) -> dict[str, Any]:
        """Return the path of the file."""
        shape = list(self.spec.grid.shape)
        return {"format": NAME, "shape": shape, "path": str(self.path.absolute())}

    def locate(self, index: tuple[int, ...]) -> Located:  # noqa: ARG002 - there is one block
        """Return the whole file."""
        return Located(self.path, self._n_bytes)

    def open(self, located: Located, tally: Tally) -> Reader:  # noqa: ARG002 - there is one file
        """Open the file."""
        return open_reader(self.path, tally)

    def identify(self, index: tuple[int, ...]) -> str:  # noqa: ARG002 - there is one block
        """Return a text that changes when the file does."""
        with storage_errors(self.path):
            found = medium_of(self.path).find(self.path)
        if found is None:
            raise StorageError(str(self.path), "no such file or directory", "check the path")
        return f"{found.size}\0{found.mark}"

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Names of the axes."""
        return self.spec.described


def open_picture(path: Location) -> ChunkedSource[PngChunks]:
    """Open a picture; only its header is read yet.

    Raises
    ------
    DataError
        If it is damaged or not supported, or claims more elements than its bytes can hold.
    """
    try:
        with open_reader(path, Tally()) as file:
            header, n_bytes = parse_header(file.peek), file.size
    except ValueError as error:
        raise DataError(str(path), [str(error)]) from error
    n_decoded = prod(header.shape) * header.dtype.itemsize
    if n_decoded > n_bytes * _MOST_RATIO:
        problem = f"claims {n_decoded} bytes of elements, but has only {n_bytes} bytes"
        raise DataError(str(path), [problem])
    return ChunkedSource(PngChunks(path, n_bytes, header))


FORMAT = Format(
    NAME,
    (".png",),
    _HEADER.size,
    parse_header,
    make_header,
    has_space=False,
    order="C",
    is_read_only=True,
    open_file=open_picture,
)
