"""Targets that are one file of many blocks: written aside, named when all of it is there."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from dask_io.errors import UsageError, printable
from dask_io.journal.journal import is_unfinished
from dask_io.journal.journalled_target import JournalledTarget
from dask_io.journal.ledger import line_of
from dask_io.storage.files import size_of
from dask_io.storage.location import is_taken

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dask_io.journal.ledger import Written
    from dask_io.storage.location import Location


class OneFileTarget(JournalledTarget):
    """A target whose blocks lie in one file; any number may be written at once.

    What a format has to say is how the file in the making is gone on with, if it can be, and what
    is to be done before it gets its name.
    """

    @property
    @abstractmethod
    def is_indivisible(self) -> bool:
        """Whether nothing of the file can be gone on with unless all of it is there."""

    @abstractmethod
    def _open_again(self) -> bool:
        """Go on with the file that another run has begun, as it is now; tell whether it can be."""

    @abstractmethod
    def _close_file(self) -> None:
        """Make the file whole: all blocks have been written. There may be none."""

    def _forget_run(self) -> None:
        super()._forget_run()
        self._is_gone_on: bool | None = None

    @property
    def _name(self) -> str:
        return self._target.name

    def _file_of(self, index: tuple[int, ...]) -> tuple[str, int | None]:  # noqa: ARG002 - one for all
        return self._name, None

    def _find_old(self) -> list[Location]:
        path = self._target
        is_there = is_taken(path) or is_unfinished(self._journal_place)
        if is_there and not self._overwrite:
            self._refuse()
        if path.is_dir():
            raise UsageError(f"{printable(str(path))} is a directory, not a file to overwrite")
        return []

    def _find_files(self) -> dict[str, int]:
        paths = [self._target, self._publisher.partial(self._name)]
        return {path.name: size_of(path) for path in paths if path.exists()}

    def _is_there(self, index: tuple[int, ...], files: Mapping[str, int]) -> bool:  # noqa: ARG002 - all or none
        return self._goes_on(files)

    def _take_over(self, index: tuple[int, ...], files: Mapping[str, int]) -> bool:  # noqa: ARG002 - all or none
        return self._goes_on(files)

    def _goes_on(self, files: Mapping[str, int]) -> bool:
        """Go on with the file that another run has begun, if it is there; tell whether it is."""
        if self._is_gone_on is None:
            self._is_gone_on = self._try_to_go_on(files)
        return self._is_gone_on

    def _try_to_go_on(self, files: Mapping[str, int]) -> bool:
        if self._publisher.partial(self._name).name not in files:
            if self._name not in files or self._is_old(self._name):
                return False
            # It was whole, but the run ended before it said so.
            self._publisher.take_back(self._name)
        elif self.is_indivisible:
            return False
        # One that is damaged is begun anew.
        if not self._open_again():
            return False
        self._publisher.go_on(self._name, b"")
        self._begun.add(self._name)
        return True

    def commit(self, cells: Collection[Written]) -> None:
        """Sync cells that have been written, and note it; the file gets its name at the end."""
        assert self._journal is not None, "nothing has been created"
        if not self.is_indivisible:
            self._any_committed = True
            self._begun.add(self._name)
            self._publisher.commit([self._name], [])
        # Of a file that counts only as a whole, `resume` believes the lines if it has its name.
        self._journal.append(line_of(cell, self.grid) for cell in cells)

    def _complete(self) -> None:
        self._close_file()
        # It may have got its name before something goes wrong.
        self._any_committed = True
        self._publisher.commit([self._name], [self._name])
