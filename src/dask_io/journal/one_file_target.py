"""Targets that are one file with many blocks, renamed to its final name when complete."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from dask_io.journal.journalled_target import JournalledTarget
from dask_io.journal.ledger import line_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dask_io.journal.ledger import Written
    from dask_io.storage.location import Location


class OneFileTarget(JournalledTarget):
    """A target whose blocks are in one file; any number may be written at once.

    A format defines how to continue an incomplete file, if possible, and how to complete it.
    """

    @property
    @abstractmethod
    def is_indivisible(self) -> bool:
        """Whether an incomplete file cannot be continued."""

    @abstractmethod
    def _open_again(self) -> bool:
        """Continue the file of an interrupted run, if possible; tell whether it is."""

    @abstractmethod
    def _close_file(self) -> None:
        """Complete the file after all blocks, possibly none, have been written."""

    def _forget_run(self) -> None:
        super()._forget_run()
        self._is_gone_on: bool | None = None

    @property
    def _name(self) -> str:
        return self._target.name

    def _file_of(self, index: tuple[int, ...]) -> tuple[str, int | None]:  # noqa: ARG002 - one for all
        return self._name, None

    def _find_old(self) -> list[Location]:
        self._refuse_file()
        return []

    def _find_files(self) -> dict[str, int]:
        return self._find_file()

    def _is_there(self, index: tuple[int, ...], files: Mapping[str, int]) -> bool:  # noqa: ARG002 - all or none
        return self._goes_on(files)

    def _take_over(self, index: tuple[int, ...], files: Mapping[str, int]) -> bool:  # noqa: ARG002 - all or none
        return self._goes_on(files)

    def _goes_on(self, files: Mapping[str, int]) -> bool:
        """Continue the file of an interrupted run, if it exists; tell whether it does."""
        if self._is_gone_on is None:
            self._is_gone_on = self._try_to_go_on(files)
        return self._is_gone_on

    def _try_to_go_on(self, files: Mapping[str, int]) -> bool:
        if self._publisher.partial(self._name).name not in files:
            if self._name not in files or self._is_old(self._name):
                return False
            # It was complete, but the run ended before it recorded this.
            self._publisher.take_back(self._name)
        elif self.is_indivisible:
            return False
        # A damaged file is started again.
        if not self._open_again():
            return False
        self._publisher.go_on(self._name, b"")
        self._begun.add(self._name)
        return True

    def commit(self, cells: Collection[Written]) -> None:
        """Sync written cells and record them; the file is renamed at the end."""
        assert self._journal is not None, "nothing has been created"
        if not self.is_indivisible:
            self._any_committed = True
            self._begun.add(self._name)
            self._publisher.commit([self._name], [])
        # For an indivisible file, `resume` uses these lines only if the file has its final name.
        self._journal.append(line_of(cell, self.grid) for cell in cells)

    def _complete(self) -> None:
        self._close_file()
        # The file may be renamed before an error occurs.
        self._any_committed = True
        self._publisher.commit([self._name], [self._name])
