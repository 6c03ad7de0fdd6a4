"""Find the files of chunks in the directory of an array."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.errors import DataError
from dask_io.storage.medium import NOT_A_FILE
from dask_io.storage.os_errors import storage_error
from dask_io.stores.chunked_source import Located

if TYPE_CHECKING:
    from dask_io.storage.location import Location
    from dask_io.storage.medium import FileInfo, Medium


class ChunkFinder:
    """Finds the files of chunks by their names, and checks that they are inside the directory."""

    def __init__(self, medium: Medium, folder: Location) -> None:
        self._medium, self._folder = medium, folder
        # Joining paths takes longer than joining strings.
        self._prefix = f"{folder}/" if isinstance(folder, Path) else ""
        self.list_again()

    def list_again(self) -> None:
        """Drop the cached listing of objects."""
        self._find = self._medium.finder_inside(self._folder)

    def locate(self, name: str) -> Located | None:
        """Return a file, None if it does not exist.

        Raises
        ------
        DataError
            If it is not a regular file in the directory.
        """
        found = self._look(name)
        if found is None:
            return None
        path = f"{self._prefix}{name}" if self._prefix else self._folder / name
        if found.size == NOT_A_FILE:
            raise DataError(str(path), ["is not a file"])
        return Located(path, found.size, 0, found.mark)

    def identify(self, name: str) -> str:
        """Return name, size and mark of a file."""
        found = self._look(name)
        if found is None:
            return "is not stored"
        return f"{name.rpartition('/')[2]}\0{found.size}\0{found.mark}"

    def _look(self, name: str) -> FileInfo | None:
        try:
            return self._find(name)
        except OSError as error:
            raise storage_error(f"{self._folder}/{name}", error) from error
