"""The interface of journal storage: append-only, by the process that holds a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

# Far longer than any line that we write.
LONGEST_LINE = 64 * 2**20


class Log(Protocol):
    """A journal that is being written."""

    def append(self, content: bytes) -> None:
        """Add lines; with `durable`, they are durable afterwards."""

    def replace(self, content: bytes) -> None:
        """Replace all lines in one step."""

    def fold(self) -> None:
        """Store the same lines in fewer pieces, if there are many."""

    def check_held(self) -> None:
        """Check that the lock has not been lost.

        Raises
        ------
        StorageError
            If it has been lost.
        """

    def confirm_held(self) -> None:
        """Check with the medium that the lock has not been lost; this may make a request.

        Raises
        ------
        StorageError
            If it has been lost.
        """

    def is_held(self) -> bool:
        """Tell whether this process certainly holds the lock; this may make a request."""

    def settle(self) -> None:
        """Release the journal of a complete target, in a form that is small and easy to move."""

    def close(self) -> None:
        """Release the lock, so that another process can continue."""

    def remove(self) -> None:
        """Remove the journal."""


class Logs(Protocol):
    """The journals on a medium, each a directory."""

    def exists(self, folder: Any) -> bool:
        """Tell whether a journal exists."""

    def lines(self, folder: Any, start: int = 0) -> Iterator[bytes]:
        """Yield all lines, including line ends, or those from a byte on at which one starts."""

    def tail(self, folder: Any, n_bytes: int) -> bytes:
        """Return the last bytes."""

    def begin(self, folder: Any, content: bytes, *, durable: bool) -> Log:
        """Create a journal with some lines, in one step.

        Raises
        ------
        FileExistsError
            If there is already one.
        """

    def resume(self, folder: Any, *, durable: bool) -> Log:
        """Continue an existing journal.

        Raises
        ------
        StorageError
            If another process holds its lock.
        """

    def refuse_locked(self, folder: Any) -> None:
        """Refuse a journal whose lock another process holds.

        Raises
        ------
        StorageError
            If another process holds it.
        """

    def holding(self, folder: Any) -> AbstractContextManager[None]:
        """Hold the lock of a journal, which need not exist.

        Raises
        ------
        LockedError
            If another process holds it, or held it a moment ago.
        """

    def remove(self, folder: Any) -> None:
        """Remove a journal that is not locked, if it exists."""

    def remove_stale(self, folder: Any) -> None:
        """Remove incomplete journals that killed runs have left."""
