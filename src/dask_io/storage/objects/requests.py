"""The requests that read and change objects.

All requests go through `calls`. So tests can replace it, to make the Nth request fail or to stop
the process there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import obstore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore import ListResult, ObjectMeta
    from obstore.store import ObjectStore


class Requests:
    """The real requests of obstore."""

    get = staticmethod(obstore.get)
    get_ranges = staticmethod(obstore.get_ranges)
    head = staticmethod(obstore.head)
    list = staticmethod(obstore.list)
    put = staticmethod(obstore.put)
    delete = staticmethod(obstore.delete)

    @staticmethod
    def list_with_delimiter(store: ObjectStore, prefix: str) -> ListResult[Sequence[ObjectMeta]]:
        """List the objects directly below a prefix."""
        return obstore.list_with_delimiter(store, prefix)


calls = Requests()
