"""The manifest: a directory of block files that describes itself in ``dask-io.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from dask_io.errors import DataError
from dask_io.geometry import Axis, Grid, Layout
from dask_io.storage.files import read_whole, write_whole
from dask_io.stores.block_names import BlockNames, OneName
from dask_io.stores.dtypes import dtype_from_json, dtype_to_json
from dask_io.stores.scaling import scaling_in
from dask_io.stores.slices import check_slices
from dask_io.stores.space import Space
from dask_io.stores.spec import ArraySpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from dask_io.storage.location import Location

NAME = "dask-io.json"
VERSION = 1
# Room for millions of uneven blocks; anything larger was not written by us.
_LONGEST = 64 * 2**20
_MOST_AXES = 64


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a directory of block files, or of a single file.

    Raises
    ------
    ValueError
        If pattern, grid and layout differ in their number of axes.
    """

    format: str
    grid: Grid
    dtype: np.dtype[Any]
    layout: Layout
    names: BlockNames | OneName
    space: Space | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    offset: int = 0
    """Bytes before the data in each file, if files do not describe themselves."""

    def __post_init__(self) -> None:
        n_axes = len(self.grid.axes)
        if self.names.n_axes != n_axes:
            raise ValueError(f"pattern has {self.names.n_axes} fields, but shape {n_axes} axes")
        if problem := check_slices(self.names, self.grid):
            raise ValueError(f"pattern and chunks differ: {problem}")
        if len(self.layout.axes) != n_axes:
            raise ValueError(f"order names {len(self.layout.axes)} axes, but shape has {n_axes}")
        if self.space is not None and len(self.space.axes) != n_axes:
            raise ValueError(f"space has {len(self.space.axes)} axes, but shape has {n_axes}")

    @property
    def spec(self) -> ArraySpec:
        """The array."""
        return ArraySpec(self.grid, self.dtype, self.layout, self.space, self.metadata)

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as plain values."""
        order = self.layout.name
        return {
            "version": VERSION,
            "format": self.format,
            "shape": list(self.grid.shape),
            "dtype": dtype_to_json(self.dtype),
            "chunks": [axis.chunk or list(axis.lengths()) for axis in self.grid.axes],
            "order": order if order in {"C", "F"} else list(self.layout.axes),
            ("pattern" if isinstance(self.names, BlockNames) else "file"): self.names.pattern,
            **self._header_file,
            "offset": self.offset,
            **({"space": self.space.to_json()} if self.space is not None else {}),
            **({"metadata": dict(self.metadata)} if self.metadata else {}),
        }

    @property
    def _header_file(self) -> dict[str, str]:
        header = self.names.header if isinstance(self.names, OneName) else ""
        return {"header": header} if header else {}

    @classmethod
    def from_json(cls, value: object) -> Manifest:
        """Read what `to_json` returned; unknown keys are ignored.

        Raises
        ------
        ValueError
            If a value is missing or invalid.
        """
        if not isinstance(value, dict):
            raise ValueError("is not an object")  # noqa: TRY004 - wrong data, not a wrong call
        version = value.get("version")
        if version != VERSION or isinstance(version, bool):
            raise ValueError(f"version is {version!r:.40}, but this Dask IO knows {VERSION}")
        naming = "file" if "file" in value else "pattern"
        missing = {"format", "shape", "dtype", "chunks", "order", naming} - value.keys()
        if missing:
            raise ValueError(f"does not say {', '.join(sorted(missing))}")
        offset = value.get("offset", 0)
        if type(offset) is not int or offset < 0:
            raise ValueError("offset is not a number of bytes")
        for key in ("format", naming):
            if not isinstance(value[key], str):
                raise ValueError(f"{key} is not a string")  # noqa: TRY004 - as above
        grid = _grid(value["shape"], value["chunks"])
        header = value.get("header", "") if naming == "file" else None
        names = _names(value[naming], len(grid.axes), header)
        dtype, layout = dtype_from_json(value["dtype"]), _layout(value["order"], len(grid.axes))
        space, metadata = _space(value.get("space")), value.get("metadata", {})
        if not isinstance(metadata, dict):
            raise ValueError("metadata is not an object")  # noqa: TRY004 - as above
        scaling = scaling_in(metadata)
        if scaling is not None and scaling.low.shape != grid.shape[: scaling.n_axes]:
            raise ValueError("scaling has other slices than the array")
        return cls(value["format"], grid, dtype, layout, names, space, metadata, offset)

    @classmethod
    def read(cls, folder: Location) -> Manifest:
        """Read the manifest of a directory.

        Raises
        ------
        DataError
            If it is not a valid manifest.
        StorageError
            If it cannot be read.
        """
        path = folder / NAME
        content = read_whole(path, _LONGEST)
        try:
            value = _parse(content)
            if isinstance(value, dict):
                # Only a description in a journal may refer to a single file.
                value.pop("file", None)
            return cls.from_json(value)
        except ValueError as error:
            advice = "repair or remove it, or give a pattern for the blocks"
            raise DataError(str(path), [str(error)], advice) from error

    def write(self, folder: Location) -> None:
        """Write the manifest to a directory, whole or not at all."""
        write_whole(folder / NAME, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return (json.dumps(self.to_json(), ensure_ascii=True) + "\n").encode()


def _space(value: object) -> Space | None:
    try:
        return None if value is None else Space.from_json(cast("Mapping[str, Any]", value))
    except ValueError as error:
        raise ValueError(f"space {error}") from error


def _parse(content: bytes) -> object:
    if len(content) > _LONGEST:
        raise ValueError(f"is longer than {_LONGEST} bytes")
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError("is not JSON") from error
    return value


def _names(text: str, n_axes: int, header: object | None) -> BlockNames | OneName:
    if header is not None:
        if "/" in text:
            raise ValueError("file is not the name of a file")
        if not isinstance(header, str) or header.startswith("/"):
            raise ValueError("header is not the name of a file")
        return OneName(text, n_axes, header=header)
    try:
        return BlockNames(text, n_axes)
    except ValueError as error:
        raise ValueError(f"pattern cannot be used: {error}") from error


def _lengths(value: object, what: str, least: int) -> list[int]:
    if not isinstance(value, list) or any(type(n) is not int or n < least for n in value):
        raise ValueError(f"{what} are not a list of whole numbers from {least} up")
    return value


def _grid(shape: object, chunks: object) -> Grid:
    lengths = _lengths(shape, "lengths in shape", 0)
    if not 1 <= len(lengths) <= _MOST_AXES:
        raise ValueError(f"shape has {len(lengths)} axes; 1 to {_MOST_AXES} are allowed")
    if not isinstance(chunks, list) or len(chunks) != len(lengths):
        raise ValueError(f"chunks do not have {len(lengths)} entries, one for each axis")
    return Grid(
        tuple(
            _axis(n, length, chunk)
            for n, (length, chunk) in enumerate(zip(lengths, chunks, strict=True))
        )
    )


def _axis(number: int, length: int, chunk: object) -> Axis:
    if isinstance(chunk, list):
        axis = Axis.of(_lengths(chunk, f"chunks along axis {number}", 1))
        if axis.length != length:
            raise ValueError(
                f"chunks along axis {number} add up to {axis.length}, but shape says {length}"
            )
        return axis
    if type(chunk) is not int or chunk < 1:
        raise ValueError(f"chunks along axis {number} are not a whole number above 0")
    return Axis.regular(length, chunk)


def _layout(order: object, n_axes: int) -> Layout:
    if order in ("C", "F"):
        return Layout.named(str(order), n_axes)
    if isinstance(order, list) and all(type(n) is int for n in order):
        try:
            return Layout(tuple(order))
        except ValueError:
            pass
    raise ValueError("order is not C, F or a list that names every axis once")
