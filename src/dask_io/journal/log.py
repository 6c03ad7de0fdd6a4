"""How a journal is kept: bytes that are only ever added, by the one process that holds a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

# Far more than any line has to say; anything longer was not written by us.
LONGEST_LINE = 64 * 2**20


class Log(Protocol):
    """A journal that is written."""

    def append(self, content: bytes) -> None:
        """Add lines; they are durable afterwards, if they are meant to be."""

    def replace(self, content: bytes) -> None:
        """Have other lines in place of all that there are, at once."""

    def fold(self) -> None:
        """Keep the same lines in fewer pieces, if they are in many."""

    def check_held(self) -> None:
        """Refuse to go on if the lock has been lost.

        Raises
        ------
        StorageError
            If it has.
        """

    def is_held(self) -> bool:
        """Tell whether the lock is certainly this process's, even if that takes asking."""

    def close(self) -> None:
        """Let another process go on with it."""

    def remove(self) -> None:
        """Take the journal away."""


class Logs(Protocol):
    """The journals on a medium, each a directory."""

    def exists(self, folder: Any) -> bool:
        """Tell whether there is a journal."""

    def lines(self, folder: Any) -> Iterator[bytes]:
        """Yield all lines, with their ends."""

    def tail(self, folder: Any, n_bytes: int) -> bytes:
        """Return the last bytes."""

    def begin(self, folder: Any, content: bytes, *, durable: bool) -> Log:
        """Make a journal that holds some lines, which is there from then on, or not at all.

        Raises
        ------
        FileExistsError
            If there is one already.
        """

    def resume(self, folder: Any, *, durable: bool) -> Log:
        """Go on with a journal that is there.

        Raises
        ------
        StorageError
            If another process has it.
        """

    def refuse_locked(self, folder: Any) -> None:
        """Refuse a journal that another process has.

        Raises
        ------
        StorageError
            If one has.
        """

    def holding(self, folder: Any) -> AbstractContextManager[None]:
        """Hold the lock of a journal, which need not be there.

        Raises
        ------
        LockedError
            If another process has it, or had it a moment ago.
        """

    def remove(self, folder: Any) -> None:
        """Remove a journal that nobody has, if it is there."""

    def remove_stale(self, folder: Any) -> None:
        """Remove what killed runs left of journals that they were making or taking away."""
