"""The requests by which objects are read and changed.

All of it goes through `calls`, so that a test can stand between us and the store: fail the Nth
request, or stop the process there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import obstore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore import ListResult, ObjectMeta
    from obstore.store import ObjectStore


class Requests:
    """Object stores as they are."""

    get = staticmethod(obstore.get)
    get_ranges = staticmethod(obstore.get_ranges)
    head = staticmethod(obstore.head)
    list = staticmethod(obstore.list)
    put = staticmethod(obstore.put)
    delete = staticmethod(obstore.delete)

    @staticmethod
    def list_with_delimiter(store: ObjectStore, prefix: str) -> ListResult[Sequence[ObjectMeta]]:
        """List what lies right in a place."""
        return obstore.list_with_delimiter(store, prefix)


calls = Requests()
