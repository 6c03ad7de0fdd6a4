"""The user's description of a source whose files do not describe themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import UsageError
from dask_io.geometry import Layout
from dask_io.geometry.chunks import normalize_chunks
from dask_io.stores.dtypes import check_dtype

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import DTypeLike

    from dask_io.geometry import Grid
    from dask_io.geometry.chunks import Chunks
    from dask_io.storage.location import Location
    from dask_io.stores.block_format import Format
    from dask_io.stores.store import Source


@dataclass(frozen=True, slots=True)
class Description:
    """The user's description of a source; None for fields that were not given."""

    shape: tuple[int, ...] | None
    dtype: np.dtype[Any] | None
    chunks: Chunks
    order: str | None
    offset: int | None = None
    """Bytes before the data in each file."""

    def needed_by(
        self,
        path: Location,
        format: Format,  # noqa: A002 - the word that users know
        slice_axes: Collection[int] = (),
    ) -> tuple[Grid, np.dtype[Any], Layout]:
        """Return grid, dtype and layout for files that do not describe themselves."""
        if self.shape is None or self.dtype is None:
            missing = " and ".join(
                f"--source-{word}" for word in ("shape", "dtype") if getattr(self, word) is None
            )
            raise UsageError(
                f"{path} holds {format.name} data, which does not describe itself; give {missing}"
            )
        whole = tuple(1 if axis in slice_axes else -1 for axis in range(len(self.shape)))
        chunks = whole if self.chunks is None else self.chunks
        grid = normalize_chunks(chunks, self.shape, self.dtype.itemsize)
        return grid, self.dtype, parse_order(self.order or "C", len(self.shape))

    def agree_with(self, source: Source) -> None:
        """Check the description against a source that describes itself.

        Raises
        ------
        UsageError
            If they disagree.
        """
        compared: list[tuple[str, object, object]] = []
        if self.shape is not None:
            compared.append(("shape", self.shape, source.grid.shape))
        if self.dtype is not None:
            compared.append(("dtype", self.dtype, source.dtype))
        if self.order is not None:
            layout = parse_order(self.order, len(source.grid.axes))
            compared.append(("order", layout.name, source.layout.name))
        for word, given, found in compared:
            if given != found:
                raise UsageError(
                    f"{source.place} has {word} {found}, but {word} {given} is given; "
                    f"leave it out, the source describes itself"
                )
        if self.offset is not None:
            raise UsageError(
                f"an offset of {self.offset} is given, but {source.place} describes itself; "
                "leave it out, it is for raw files"
            )
        if self.chunks is not None:
            grid = normalize_chunks(self.chunks, source.grid.shape, source.dtype.itemsize)
            if grid != source.grid:
                raise UsageError(
                    f"{source.place} has blocks of {source.grid}, but {grid} are given; "
                    "leave it out, the source describes itself"
                )


def parse_order(order: str, n_axes: int) -> Layout:
    """Parse an order: C, F, or the axes, slowest first.

    Raises
    ------
    UsageError
        If it is anything else.

    Examples
    --------
    >>> parse_order("F", 3).axes, parse_order("1,0,2", 3).axes
    ((2, 1, 0), (1, 0, 2))
    """
    if order.upper() in {"C", "F"}:
        return Layout.named(order, n_axes)
    try:
        layout = Layout(tuple(int(axis) for axis in order.split(",")))
    except ValueError:
        layout = None
    if layout is None or len(layout.axes) != n_axes:
        raise UsageError(
            f"order {order!r} is not C, F or the {n_axes} axes slowest first, such as "
            f"{','.join(map(str, range(n_axes)))}"
        )
    return layout


def parse_dtype(dtype: DTypeLike | None) -> np.dtype[Any] | None:
    """Parse a dtype.

    Raises
    ------
    UsageError
        If NumPy does not know it, or it cannot be stored.
    """
    if dtype is None:
        return None
    try:
        parsed = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise UsageError(f"dtype {dtype!r} is not known to NumPy; give one like float32") from error
    problem = check_dtype(parsed)
    if problem:
        raise UsageError(f"dtype {dtype!r} means {problem}")
    return parsed
