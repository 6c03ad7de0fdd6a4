"""A container of another package: one file of zlib-compressed chunks, with an index at its end.

The file begins with a mark, then the chunks follow in the order in which they were written, then a
JSON document with shape, chunks, dtype, order and the place of each chunk, then its length.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from dask_io.codecs.chain import Chain
from dask_io.errors import DataError, UsageError
from dask_io.formats.registry import Bytes, Row
from dask_io.geometry import Grid, Layout
from dask_io.journal.one_file_target import OneFileTarget
from dask_io.storage.files import open_reader
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Tally
from dask_io.stores.chunked_source import ChunkedSource, Chunks, Located
from dask_io.stores.chunked_target import ChunkedTarget
from dask_io.stores.container import on_disk
from dask_io.stores.dtypes import dtype_from_json, dtype_to_json
from dask_io.stores.spec import ArraySpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    import numpy as np

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability, Reader
    from dask_io.stores.container import NewArray

MARK = b"PACKED1\n"
LENGTH = 8
ZLIB = {"id": "zlib", "level": 1}


def make_spec(
    shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype[Any], layout: Layout
) -> ArraySpec:
    """Describe an array in compressed chunks, all stored in one shape."""
    return ArraySpec(
        Grid.regular(shape, chunks),
        dtype,
        layout,
        metadata={"codecs": [ZLIB]},
        codec=Chain([ZLIB], dtype, prod(chunks) * dtype.itemsize),
        stored_shape=chunks,
        fill_bytes=bytes(dtype.itemsize),
    )


def spec_to_json(spec: ArraySpec) -> dict[str, Any]:
    """Return shape, chunks, dtype and order as plain values."""
    return {
        "shape": list(spec.grid.shape),
        "chunks": list(spec.chunks),
        "dtype": dtype_to_json(spec.dtype),
        "order": list(spec.layout.axes),
    }


def spec_from_json(found: Mapping[str, Any]) -> ArraySpec:
    """Read shape, chunks, dtype and order."""
    try:
        shape, chunks = tuple(map(int, found["shape"])), tuple(map(int, found["chunks"]))
        dtype, layout = dtype_from_json(found["dtype"]), Layout(tuple(found["order"]))
    except (KeyError, TypeError) as error:
        raise ValueError("does not describe an array") from error
    return make_spec(shape, chunks, dtype, layout)


class PackedChunks(Chunks):
    """The chunks of one file."""

    format = "packed"

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with storage_errors(path), open_reader(path, Tally()) as file:
                index = json.loads(self._read_index(file))
            self.spec = spec_from_json(index)
            self._entries = {tuple(at): (offset, n) for at, offset, n in index["entries"]}
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(str(path), [f"has no index: {error}"]) from error

    def _read_index(self, file: Reader) -> bytes:
        if file.peek(len(MARK)) != MARK:
            raise ValueError("it does not begin with its mark")
        buffer, end = memoryview(bytearray(file.size)), file.size - LENGTH
        n_bytes = int.from_bytes(file.read(end, LENGTH, buffer), "little")
        if n_bytes > end - len(MARK):
            raise ValueError("it is longer than the file")
        return bytes(file.read(end - n_bytes, n_bytes, buffer))

    @property
    def n_bytes_on_disk(self) -> int:
        """Size of the file."""
        return int(self.path.stat().st_size)

    @property
    def n_stored(self) -> int:
        """Number of chunks in the file."""
        return len(self._entries)

    def describe(self) -> dict[str, Any]:
        """Return the path, and what the file contains."""
        return describe(self.path, self.spec)

    def locate(self, index: tuple[int, ...]) -> Located | None:
        """Look up a chunk in the index."""
        found = self._entries.get(index)
        return None if found is None else Located(self.path, found[1], found[0])

    def open(self, located: Located, tally: Tally) -> Reader:  # noqa: ARG002 - there is one file
        """Open the file."""
        return open_reader(self.path, tally)


def describe(path: Path, spec: ArraySpec) -> dict[str, Any]:
    """Return plain values from which a file can be opened again."""
    return {"format": "packed", "path": str(path.absolute()), **spec_to_json(spec)}


class PackedTarget(ChunkedTarget, OneFileTarget):
    """A file that is written: chunks are appended in any order, and the index is written last."""

    format = "packed"
    has_files = False
    is_indivisible = True

    def __init__(
        self, path: Path, spec: ArraySpec, *, overwrite: bool, durability: Durability
    ) -> None:
        self.path = path
        ChunkedTarget.__init__(self, spec, write_empty=False)
        OneFileTarget.__init__(
            self, path, is_one_file=True, overwrite=overwrite, durability=durability
        )

    def _forget_run(self) -> None:
        super()._forget_run()
        self._entries: list[tuple[tuple[int, ...], int, int]] = []
        self._end, self._appending = len(MARK), Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_appending": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_appending": Lock()})

    def describe(self) -> dict[str, Any]:
        """Return the path, and what the file will contain."""
        return describe(self.path, self.spec)

    def put(self, index: tuple[int, ...], parts: Iterable[Any]) -> int:
        """Append a chunk."""
        (encoded,) = parts
        with self._appending:
            offset, self._end = self._end, self._end + encoded.nbytes
            self._entries.append((index, offset, encoded.nbytes))
        with self._write_file(self._name, self.tally, header=MARK) as file:
            file.write(offset, memoryview(encoded))
        return file.checksum

    def look_back(self) -> ChunkedSource[PackedChunks]:
        """Open the written file."""
        return ChunkedSource(PackedChunks(self.path))

    def _open_again(self) -> bool:
        return False

    def _close_file(self) -> None:
        index = json.dumps({**spec_to_json(self.spec), "entries": self._entries}).encode()
        footer = index + len(index).to_bytes(LENGTH, "little")
        with self._write_file(self._name, Tally(), header=MARK) as file:
            file.write(self._end, memoryview(footer))


class PackedFormat:
    """Opens and creates packed files."""

    name = "packed"
    suffixes = (".pack",)

    def open(self, path: Location, inside: str, *, strict: bool) -> ChunkedSource[PackedChunks]:
        """Open a file."""
        if inside:
            raise UsageError(f"{path} has one array, so no path inside it can be given")
        return ChunkedSource(PackedChunks(on_disk(path, self.name)), strict=strict)

    def make(
        self,
        path: Location,
        inside: str,  # noqa: ARG002 - there is one array
        wanted: NewArray,
        *,
        overwrite: bool,
        durability: Durability,
        reserve: bool,  # noqa: ARG002 - compressed chunks have no fixed size
    ) -> PackedTarget:
        """Describe a file to write."""
        wanted.options.refuse(self.name)
        if any(axis.chunk is None for axis in wanted.grid.axes):
            raise UsageError("packed files have chunks of one shape; give one length per axis")
        chunks = tuple(max(1, length) for length in wanted.grid.longest)
        spec = make_spec(wanted.grid.shape, chunks, wanted.dtype, wanted.layout)
        file = on_disk(path, self.name)
        return PackedTarget(file, spec, overwrite=overwrite, durability=durability)

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]] = frozenset(),  # noqa: ARG002 - none can be removed
    ) -> ChunkedSource[PackedChunks]:
        """Open a file again."""
        path = at or Path(str(described.get("path")))
        source = self.open(path, "", strict=described.get("strict") is True)
        if spec_to_json(source.spec) != spec_to_json(spec_from_json(described)):
            raise DataError(source.place, ["is not the same array as before"])
        return source

    read_back = reopen

    def remake(
        self,
        described: Mapping[str, Any],
        at: Location,
        *,
        durability: Durability,
        reserve: bool,  # noqa: ARG002 - as above
    ) -> PackedTarget:
        """Describe an unfinished file again."""
        spec, path = spec_from_json(described), on_disk(at, self.name)
        return PackedTarget(path, spec, overwrite=False, durability=durability)


FORMAT = PackedFormat()
ROW = Row(
    "packed", (".pack",), container=f"{__name__}:FORMAT", marks=(Bytes(MARK),), is_one_file=True
)
