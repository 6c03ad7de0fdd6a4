"""Read and write stacks: ``.npy`` block files whose names number the blocks along one axis."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError, StorageError
from dask_io.formats.npy import FORMAT as NPY
from dask_io.formats.npy_stack.info import NAME as INFO
from dask_io.formats.npy_stack.info import parse_chunks, read_info, write_info
from dask_io.geometry import Region
from dask_io.journal.logs import logs_of
from dask_io.storage.files import peeking, write_whole
from dask_io.storage.location import locate
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.block_files import BlockFiles, Blocks
from dask_io.stores.block_files_target import BlockFilesTarget
from dask_io.stores.block_names import OneName, StackNames
from dask_io.stores.dtypes import dtype_from_json, dtype_to_json
from dask_io.stores.listing import scan
from dask_io.stores.spec import ArraySpec
from dask_io.stores.user_description import parse_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import numpy as np

    from dask_io.geometry import Grid, Layout
    from dask_io.storage.location import Location
    from dask_io.stores.block_names import Names

FORMAT_NAME = "npy-stack"
_FILES = replace(NPY, name=FORMAT_NAME)


class StackSource(BlockFiles):
    """A stack that is read; many threads may read its files at once."""

    def __init__(
        self, blocks: Blocks, *, absent: AbstractSet[tuple[int, ...]] = frozenset()
    ) -> None:
        is_gone = len(absent) == blocks.grid.n_blocks and not blocks.folder.exists()
        super().__init__(blocks, {} if is_gone else scan(blocks.folder), absent=absent)

    def describe(self) -> dict[str, Any]:
        """Return the description from which the stack can be opened again."""
        return _describe(self._blocks)

    def describe_in_place(self) -> None:
        """Do nothing: the `info` file describes the stack."""

    def discard_rest(self) -> None:
        """Remove the journal and the `info` file, and the directory if it is empty then."""
        folder = self._blocks.folder
        with storage_errors(folder):
            logs_of(self._blocks.journal).remove(self._blocks.journal)
            self._medium.remove([folder / INFO])
            self._medium.remove_if_empty(folder)


class StackTarget(BlockFilesTarget):
    """A stack that is written; many threads may write files at once. `info` is written last."""

    def describe(self) -> dict[str, Any]:
        """Return the description from which the target can be made again."""
        return _describe(self._blocks)

    def is_described(self) -> bool:
        """Tell whether the `info` file, which Dask reads first, is valid."""
        try:
            read_info(self._folder)
        except (DataError, StorageError):
            return False
        return True

    def _patterns(self) -> list[Names]:
        """Return the names of a stack's files, if the directory is a stack or becomes one."""
        is_stack = self._journal_place.exists()
        with suppress(DataError, StorageError):
            is_stack = is_stack or bool(read_info(self._folder))
        n_axes = len(self.grid.axes)
        return [self._blocks.names, OneName(INFO, n_axes)] if is_stack else []

    def _find_old(self) -> list[Location]:
        return sorted(super()._find_old(), key=lambda path: path.name != INFO)

    def _find_left(self, words: Sequence[str]) -> list[Location]:  # noqa: ARG002 - there are none
        ours = [self._blocks.names, OneName(INFO, len(self.grid.axes))]
        return [
            self._folder / name
            for name in scan(self._folder)
            if any(names.parse(name) is not None for names in ours)
        ]

    def _complete(self) -> None:
        """Write the `info` file and, for an array without elements, an empty block."""
        grid, names = self.grid, self._blocks.names
        assert isinstance(names, StackNames)
        if not grid.n_blocks:
            write_whole(self._folder / "0.npy", self._header(Region.whole(grid.shape)))
        write_whole(self._folder / INFO, write_info(names.axis, grid, self.dtype))


def stack_blocks(
    path: Location, axis: int, grid: Grid, dtype: np.dtype[Any], layout: Layout
) -> Blocks:
    """Return the block files of a stack."""
    names = StackNames(axis, len(grid.axes))
    return Blocks(path, names, _FILES, ArraySpec(grid, dtype, layout))


def _describe(blocks: Blocks) -> dict[str, Any]:
    assert isinstance(blocks.names, StackNames)
    return {
        "format": FORMAT_NAME,
        "shape": list(blocks.grid.shape),
        "folder": str(blocks.folder.absolute()),
        "axis": blocks.names.axis,
        "chunks": [list(axis.lengths()) or [0] for axis in blocks.grid.axes],
        "dtype": dtype_to_json(blocks.dtype),
        "order": ",".join(map(str, blocks.layout.axes)),
    }


def read_description(described: Mapping[str, Any], at: Location | None) -> Blocks:
    """Return the block files of a described stack, which may have been moved to `at`.

    Raises
    ------
    ValueError
        If the description is invalid; the message completes "its description ...".
    """
    folder, order = described.get("folder"), described.get("order")
    if not (isinstance(folder, str) and isinstance(order, str)):
        raise ValueError("is not that of a stack")  # noqa: TRY004 - wrong data
    axis, grid = parse_chunks(described.get("chunks"), described.get("axis"))
    dtype = dtype_from_json(described.get("dtype"))
    return stack_blocks(at or locate(folder), axis, grid, dtype, parse_order(order, len(grid.axes)))


def read_stack(folder: Location) -> Blocks:
    """Read the `info` file of a stack, and the storage order of its first block.

    Raises
    ------
    DataError
        If the directory is not a valid stack.
    """
    info, first = read_info(folder), folder / "0.npy"
    try:
        with peeking(first) as peek:
            header = NPY.parse_header(peek)
    except ValueError as error:
        raise DataError(str(first), [str(error)]) from error
    if len(header.shape) != len(info.grid.axes):
        raise DataError(str(first), [f"has {len(header.shape)} axes"])
    if not info.grid.n_blocks and 0 not in header.shape:
        raise DataError(str(first), [f"has elements, but {INFO} describes an empty array"])
    return stack_blocks(folder, info.axis, info.grid, info.dtype, header.layout)
