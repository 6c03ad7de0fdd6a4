"""TIFF files that hold one block each: the directories of all pages, then the elements.

`FORMAT` writes such files, and reads them by their headers. `FORMAT.open_file` opens any other TIFF
file, such as one that is compressed, or whose directory comes last.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from dask_io.formats.tiff.alike import open_alike
from dask_io.formats.tiff.description import describe_ome, describe_plain, has_samples
from dask_io.formats.tiff.header import pages_for
from dask_io.formats.tiff.reading import read_head
from dask_io.formats.tiff.source import NAME, open_tiff
from dask_io.formats.tiff.space import resolution_of
from dask_io.geometry import Layout
from dask_io.stores.block_format import Format, Header
from dask_io.stores.kept_headers import HEADERS, headers_in
from dask_io.stores.spec import SPACE

if TYPE_CHECKING:
    from dask_io.formats.tiff.header import Pages
    from dask_io.formats.tiff.image import Image
    from dask_io.stores.block_format import Peek

LONGEST_HEADER = 2**28
"""Greatest accepted size of a header: 16 bytes for each of 2**24 tiles."""
_FIRST_LOOK = 2**14


def parse_header(peek: Peek) -> Header:
    """Read everything before the elements of a block."""
    n_bytes = _FIRST_LOOK
    while True:
        head = peek(n_bytes)
        try:
            return _header_of(read_head(head), len(head))
        except ValueError as error:
            # Perhaps the header is longer.
            if len(head) < n_bytes or n_bytes >= LONGEST_HEADER:
                raise ValueError(f"is not a TIFF file of one block: it {error}") from error
        n_bytes *= 16


def _header_of(image: Image, n_bytes: int) -> Header:
    offset = int(image.offsets[0])
    if image.codec is not None or image.offsets.size > 1:
        raise ValueError("has tiles, or is compressed")
    if offset > n_bytes:
        raise ValueError("has other content before its elements")
    metadata = {HEADERS: found} if (found := headers_in(image.metadata)) else {}
    layout = Layout.c(len(image.shape))
    return Header(image.shape, image.dtype, layout, offset, image.space, metadata)


def pages_of(block: Header, describe: Any, *, is_big: bool = False, **options: Any) -> Pages:
    """Return the pages of a block.

    Raises
    ------
    ValueError
        If TIFF cannot hold the block; the message completes "the format ...".
    """
    shape, space = block.shape, block.space
    if not shape or not prod(shape):
        raise ValueError("has no images without elements")
    samples_last = has_samples(space, shape, block.dtype)
    text = describe(shape, block.dtype, {**block.metadata, SPACE: space})
    last = len(shape) - 1 - samples_last
    resolution = resolution_of(space, (last, last - 1)) if last > 0 else None
    return pages_for(
        shape,
        block.dtype,
        text,
        samples_last=samples_last,
        resolution=resolution,
        is_big=is_big,
        **options,
    )


def _make_header(block: Header, describe: Any, *, is_big: bool = False) -> bytes:
    pages = pages_of(block, describe, is_big=is_big)
    return pages.make(*pages.plain_places())


def make_header(block: Header) -> bytes:
    """Return everything before the elements of a block, with JSON for tifffile."""
    return _make_header(block, describe_plain)


def _make_ome_header(block: Header) -> bytes:
    return _make_header(block, describe_ome)


def _make_big_header(block: Header) -> bytes:
    return _make_header(block, describe_plain, is_big=True)


def _format(suffixes: tuple[str, ...], make: Any, *variants: Format) -> Format:
    return Format(
        NAME,
        suffixes,
        LONGEST_HEADER,
        parse_header,
        make,
        has_space=True,
        keeps=frozenset({HEADERS}),
        order="C",
        open_file=open_tiff,
        open_alike=open_alike,
        variants=variants,
    )


OME = _format((".ome.tif", ".ome.tiff"), _make_ome_header)
"""Files that describe themselves in OME-XML."""
BIG = _format((".btf",), _make_big_header)
"""Files that are always BigTIFF."""
FORMAT = _format((".tif", ".tiff"), make_header, OME, BIG)
