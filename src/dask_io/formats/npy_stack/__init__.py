"""Stacks of ``.npy`` files, as ``dask.array.to_npy_stack`` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.formats.npy import FORMAT as NPY
from dask_io.formats.npy_stack.stack import (
    FORMAT_NAME,
    StackSource,
    StackTarget,
    read_description,
    read_stack,
    stack_blocks,
)
from dask_io.stores.block_format import Header
from dask_io.stores.dtypes import check_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.store import Readback, Source, Target


@dataclass(frozen=True, slots=True)
class NpyStackFormat:
    """Directories with blocks ``0.npy``, ``1.npy``, ... along one axis, and a file ``info``."""

    name: str = FORMAT_NAME
    suffixes: tuple[str, ...] = (".npystack",)

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:  # noqa: ARG002 - a stack has all its blocks
        """Open a stack."""
        _refuse_inside(path, inside)
        return StackSource(read_stack(path))

    def make(
        self,
        path: Location,
        inside: str,
        wanted: NewArray,
        *,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> Target:
        """Describe a target."""
        _refuse_inside(path, inside)
        wanted.options.refuse(self.name)
        problem = check_dtype(wanted.dtype)
        if problem:
            raise UsageError(f"a target cannot hold {problem}")
        cut = [axis for axis, n_blocks in enumerate(wanted.grid.counts) if n_blocks > 1]
        if len(cut) > 1:
            raise UsageError(
                f"chunks of {wanted.grid} cut {len(cut)} axes, but a stack can be cut along one "
                "only; give -1 for all others"
            )
        blocks = stack_blocks(path, cut[0] if cut else 0, wanted.grid, wanted.dtype, wanted.layout)
        try:
            NPY.make_header(Header(wanted.grid.longest, wanted.dtype, wanted.layout))
        except ValueError as error:
            raise UsageError(f"format {self.name} {error}") from error
        return StackTarget(blocks, overwrite=overwrite, durability=durability, reserve=reserve)

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],
    ) -> Source:
        """Open a source again."""
        return StackSource(read_description(described, at), absent=absent)

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open a former target for reading."""
        return StackSource(read_description(described, at))

    def remake(
        self, described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target again."""
        blocks = read_description(described, at)
        return StackTarget(blocks, durability=durability, reserve=reserve)


def _refuse_inside(path: Location, inside: str) -> None:
    if inside:
        raise UsageError(f"{path} is a stack of .npy files, so it cannot contain {inside}")


FORMAT = NpyStackFormat()
