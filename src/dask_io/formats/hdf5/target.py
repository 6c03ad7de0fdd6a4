"""Writing a dataset, in a file of its own."""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import DaskIOError
from dask_io.formats.hdf5.dataset import contents_of, understand
from dask_io.formats.hdf5.file import in_memory, in_subprocess, object_names
from dask_io.formats.hdf5.making import FileInMaking, Hdf5Writing
from dask_io.formats.hdf5.overwrite import refuse_more
from dask_io.formats.hdf5.source import look_into, reopen_hdf5
from dask_io.journal.journal import is_unfinished
from dask_io.journal.one_file_target import OneFileTarget
from dask_io.storage.tally import Tally
from dask_io.stores.container import on_disk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.formats.hdf5.source import Dialect, Hdf5Chunks
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.chunked_source import ChunkedSource
    from dask_io.stores.encoded import AsStored


class Hdf5Target(Hdf5Writing, OneFileTarget):
    """A dataset that is written, in a file of its own; any number of blocks at once.

    An interrupted run can be resumed if the dataset has no filters and a fixed shape. Otherwise
    the file counts only once it is complete.
    """

    def __init__(
        self,
        path: Path,
        inside: str,
        template: bytes,
        *,
        dialect: Dialect,
        write_empty: bool,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> None:
        with in_memory(template) as file:
            array = understand(file[inside])
            self._added = {
                "coordinates": tuple(object_names(file)),
                **dialect.describe_new(file),
            }
        self._dialect, name = dialect, dialect.format
        Hdf5Writing.__init__(self, path, inside, array, format=name, write_empty=write_empty)
        self._template, self._reserve = template, reserve
        OneFileTarget.__init__(
            self, path, is_one_file=True, overwrite=overwrite, durability=durability
        )

    def _forget_run(self) -> None:
        super()._forget_run()
        self.making = FileInMaking(
            Path(self._publisher.partial(self._name)),
            self._begin,
            [] if self.is_indivisible else [self.inside],
            reserve=self._reserve,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The state of a run does not travel to other processes.
        remake = partial(
            Hdf5Target,
            dialect=self._dialect,
            write_empty=self.write_empty,
            overwrite=self._overwrite,
            durability=self.durability,
            reserve=self._reserve,
        )
        return remake, (self.path, self.inside, self._template)

    def _begin(self) -> None:
        template = self._template
        size = len(template)
        with self._publisher.writer(
            self._name, Tally(), header=template, n_bytes=size, reserve=False
        ):
            pass

    @property
    def is_indivisible(self) -> bool:
        """HDF5 cannot continue an unfinished file."""
        return not self.array.is_by_offset

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the dataset, names of datasets copied with it, and that of the dialect."""
        return MappingProxyType({**super().metadata, **self._added})

    def look_back(self) -> ChunkedSource[Hdf5Chunks] | AsStored:
        """Open the written dataset.

        Raises
        ------
        DataError
            If HDF5 no longer finds the dataset.
        """
        return reopen_hdf5(self.describe(), self.path).as_written()

    def refuse_loss(self, path: Location) -> None:
        """Refuse to replace a file with more than the dataset; a damaged file may be replaced."""
        if path.is_file():
            self._refuse_more(on_disk(path, self.format), may_be_broken=True)

    def _refuse_more(self, path: Path, *, may_be_broken: bool) -> None:
        with in_memory(self._template) as file:
            known = contents_of(file)
        # The dataset is replaced with its attributes.
        refuse_more(path, known, [self.inside], may_be_broken=may_be_broken)

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the target can be created again."""
        template = b64encode(self._template).decode()
        return {**super().describe(), "template": template, "write_empty": self.write_empty}

    def _close_file(self) -> None:
        self.making.complete()

    def _open_again(self) -> bool:
        path = self.making.path
        try:
            _, array, places = in_subprocess(path, look_into, path, self.inside)
        except DaskIOError:
            return False
        if array.stored_as != self.array.stored_as:
            return False
        self.making.go_on({self.inside: places})
        return True

    def abandon(self, *, keep: bool = False) -> bool:
        """Close the file, and remove it unless it can be continued."""
        self.making.abandon()
        return super().abandon(keep=keep)

    def _find_old(self) -> list[Location]:
        found = super()._find_old()
        if self._overwrite and self.path.is_file():
            self._refuse_more(self.path, may_be_broken=is_unfinished(self._journal_place))
        return found
