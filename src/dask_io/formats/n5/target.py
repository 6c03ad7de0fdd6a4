"""Writing an N5 dataset."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.formats.n5.dataset import (
    DOCUMENT,
    BlockNames,
    describe_new,
    make_header,
    understand,
)
from dask_io.formats.n5.place import N5Place
from dask_io.formats.n5.source import FORMAT_NAME, N5Chunks, StoredDataset, read_description
from dask_io.stores.chunk_files import ChunkFilesTarget, is_valid
from dask_io.stores.chunked_source import ChunkedSource
from dask_io.stores.json_documents import read_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.encoded import AsStored


def make_n5(
    path: Location,
    inside: str,
    wanted: NewArray,
    *,
    overwrite: bool,
    durability: Durability,
    reserve: bool,  # noqa: ARG001 - blocks are compressed, or small
) -> N5Target:
    """Describe a dataset in a directory, or in a group of one; nothing is touched.

    Raises
    ------
    UsageError
        If N5 cannot hold it, or does not support an option.
    """
    options = wanted.options
    if options.fill_value is not None and wanted.fill_value != 0:
        raise UsageError("N5 has no fill value, blocks that are not stored are 0; leave it out")
    # The others are those that N5 does not have.
    replace(options, codec=None, fill_value=None, write_empty=False).refuse(FORMAT_NAME)
    return N5Target(
        StoredDataset(N5Place(path, inside), describe_new(wanted, is_root=not inside)),
        write_empty=options.write_empty,
        overwrite=overwrite,
        durability=durability,
    )


def remake_n5(
    described: Mapping[str, Any],
    at: Location,
    *,
    durability: Durability,
    reserve: bool,  # noqa: ARG001 - as above
) -> N5Target:
    """Describe a target of an earlier run again.

    Raises
    ------
    ValueError
        If the description is invalid.
    """
    return N5Target(
        read_description(described, at),
        write_empty=described.get("write_empty") is True,
        overwrite=False,
        durability=durability,
    )


class N5Target(ChunkFilesTarget):
    """A dataset that is written; its attributes are written last."""

    format = FORMAT_NAME

    def __init__(
        self,
        stored: StoredDataset,
        *,
        write_empty: bool,
        overwrite: bool,
        durability: Durability,
    ) -> None:
        self.stored, self.dataset = stored, stored.dataset
        super().__init__(
            stored.place.folder,
            self.dataset.spec,
            BlockNames(),
            write_empty=write_empty,
            overwrite=overwrite,
            durability=durability,
        )

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the dataset."""
        return MappingProxyType(self.dataset.described())

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the target can be created again."""
        return {**self.stored.describe(), "write_empty": self.write_empty}

    def header_of_chunk(self, index: tuple[int, ...]) -> bytes:
        """Return the header of a block, with its shape."""
        return make_header(self.grid.block(index).shape)

    def look_back(self) -> ChunkedSource[N5Chunks] | AsStored:
        """Open the written dataset, even if its attributes have changed."""
        return ChunkedSource(N5Chunks(self.stored)).as_written()

    def is_described(self) -> bool:
        """Tell whether the dataset's attributes are valid."""
        return is_valid(lambda: understand(read_document(self.folder.path, DOCUMENT)[0]))

    def _check_place(self, *, is_new: bool) -> None:  # noqa: ARG002 - the same for all
        self.stored.place.refuse_neighbours()

    def _old_files(self) -> list[Location]:
        self.stored.place.refuse_group()
        return super()._old_files()

    def _complete(self) -> None:
        self.stored.place.describe(self.stored.document)
