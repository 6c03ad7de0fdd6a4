"""Choose the journal storage of a path: local disk or object store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.journal.local_log import FileLogs

if TYPE_CHECKING:
    from dask_io.journal.log import Logs
    from dask_io.storage.location import Location

_LOCAL = FileLogs()


def logs_of(path: Location) -> Logs:
    """Return the journal storage for the medium of a path."""
    if isinstance(path, Path):
        return _LOCAL
    from dask_io.journal.object_log import ObjectLogs  # noqa: PLC0415 - needs obstore

    return ObjectLogs()
