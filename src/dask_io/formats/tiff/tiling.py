"""The tiles or strips of a new TIFF file, from the chunks and the codec that the user gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask_io.codecs.parsing import parse_codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.geometry import Grid

_UNIT = 16
# Strips of this size are compressed at once, if the user gives no chunks.
_STRIP_BYTES = 2**20
NUMBERS = {"zlib": 8, "lzma": 34925, "zstd": 50000}
"""Numbers of the compressions in TIFF that can be written, by codec."""


def parse_tiff_codec(text: str | None) -> list[dict[str, Any]]:
    """Return the codec of tiles; empty if they are not compressed.

    Raises
    ------
    ValueError
        If TIFF does not have it; the message completes "the format ...".

    Examples
    --------
    >>> parse_tiff_codec("zstd:3"), parse_tiff_codec(None)
    ([{'id': 'zstd', 'level': 3}], [])
    """
    if text is None:
        return []
    if "+" in text or text.partition(":")[0] not in {"none", *NUMBERS}:
        raise ValueError(f"cannot write codec '{text}'; choose one of none, {', '.join(NUMBERS)}")
    try:
        return parse_codec(text)
    except ValueError as error:
        raise ValueError(f"cannot use the codec: {error}") from error


def tile_for(
    grid: Grid, *, is_compressed: bool, n_samples_axes: int, itemsize: int
) -> tuple[int, int] | None:
    """Return rows and columns of a tile; columns are 0 for strips.

    None if the elements follow the header in one piece.

    Raises
    ------
    ValueError
        If TIFF does not have such tiles; the message completes "the format ...".

    Examples
    --------
    >>> from dask_io.geometry import Grid
    >>> options = {"is_compressed": True, "n_samples_axes": 0, "itemsize": 1}
    >>> tile_for(Grid.regular((3, 100, 90), (1, 32, 48)), **options)
    (32, 48)
    >>> tile_for(Grid.regular((3, 100, 90), (1, 20, 90)), **options)
    (20, 0)
    """
    shape = grid.shape[: len(grid.shape) - n_samples_axes]
    lengths = [_length(axis, number) for number, axis in enumerate(grid.axes)]
    samples, chunks = lengths[len(shape) :], lengths[: len(shape)]
    if samples != list(grid.shape[len(shape) :]):
        raise ValueError("stores all samples of an element together; use chunks of -1 along them")
    *_, n_rows, n_columns = (1, 1, *shape)
    *many, rows, columns = (1, 1, *chunks)
    is_page = rows == n_rows and columns == n_columns
    if columns == n_columns and not is_compressed:
        return None
    if any(length > 1 for length in many) and not is_page:
        raise ValueError(_advice(chunks, "a tile is part of one page; use chunks of 1"))
    if columns < n_columns:
        if columns % _UNIT or (rows % _UNIT and rows < n_rows):
            unit = f"tiles have multiples of {_UNIT} rows and columns; change the chunks"
            raise ValueError(_advice(chunks, unit))
        return -(-rows // _UNIT) * _UNIT, columns
    if is_page and grid.n_blocks == 1:
        row_bytes = columns * itemsize
        for length in samples:
            row_bytes *= length
        return min(rows, max(1, _STRIP_BYTES // row_bytes)), 0
    return rows, 0


def _advice(chunks: Sequence[int], reason: str) -> str:
    found = ",".join(map(str, chunks))
    last = "along all axes but the last two" if "page" in reason else "along the last two axes"
    return f"cannot use chunks {found}: {reason} {last}"


def _length(axis: Any, number: int) -> int:
    """Return the length of all blocks along an axis, except the last."""
    if axis.n_blocks > 1 and axis.chunk is None:
        raise ValueError(f"has tiles of one shape; use chunks of one length along axis {number}")
    return int(axis.longest)
