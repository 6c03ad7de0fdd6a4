"""Write all arrays of a tree into one file, which gets its name at the end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple, runtime_checkable

from dask_io.errors import UsageError
from dask_io.formats.hdf5.create import check_codec, make_dataset, refuse
from dask_io.formats.hdf5.dataset import understand
from dask_io.formats.hdf5.file import brief, in_memory, in_subprocess_for_long
from dask_io.formats.hdf5.filters import type_of
from dask_io.formats.hdf5.making import FileInMaking, Hdf5Writing
from dask_io.formats.hdf5.overwrite import refuse_more
from dask_io.geometry import Grid
from dask_io.hierarchy.tree import Content
from dask_io.journal.journal import about, find_journal, is_unfinished
from dask_io.journal.ledger import Ledger, line_of
from dask_io.journal.one_file_target import OneFileTarget
from dask_io.storage.tally import Tally
from dask_io.stores.container import on_disk
from dask_io.stores.store import Unjournalled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from dask_io.formats.hdf5.dataset import Dataset
    from dask_io.hierarchy.tree import Tree
    from dask_io.journal.ledger import Written
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

# The most lines about written cells that wait to be added to the journal together.
_MOST_LINES = 4096


@runtime_checkable
class Model(Content, Protocol):
    """A tree from which a file can be created, in a subprocess if necessary."""

    @property
    def file(self) -> Path | None:
        """The file that values are read from, which may be damaged."""

    def contents(self) -> set[str]:
        """Return the names of everything in the file, those of attributes after an ``@``."""

    def build(self, path: Path, wanted: Mapping[str, NewArray]) -> tuple[str, ...]:
        """Create a file without the values of the `wanted` arrays.

        Returns names for everything that the file cannot store.
        """


def write_tree(
    path: Path,
    tree: Tree,
    wanted: Mapping[str, NewArray],
    *,
    format: str,  # noqa: A002 - the word that users know
    overwrite: bool,
    durability: Durability,
) -> TreeFile:
    """Describe a file for a converted tree; nothing is touched.

    Raises
    ------
    UsageError
        If HDF5 cannot hold an array, or does not support an option.
    """
    model = tree.content
    assert isinstance(model, Model), "a converted tree has one"
    if any(each.options.shards for each in wanted.values()):
        raise UsageError(f"format {format} has no shards; leave them out")
    plain = {name: replace(each, metadata=dict(each.metadata)) for name, each in wanted.items()}
    arrays = _in_subprocess(model, _describe, plain)
    return TreeFile(
        path,
        model,
        plain,
        arrays,
        copies=[name for name in tree.arrays if name not in wanted],
        format=format,
        overwrite=overwrite,
        durability=durability,
    )


def _in_subprocess(model: Model, function: Callable[[*Ts], R], *args: *Ts) -> R:
    """Call a function in a subprocess if it opens a file on which HDF5 may crash."""
    return (
        function(*args)
        if model.file is None
        else in_subprocess_for_long(model.file, function, *args)
    )


def _describe(wanted: Mapping[str, NewArray]) -> dict[str, Dataset]:
    """Return the datasets that arrays would become."""
    arrays = {}
    with in_memory() as file:
        for name, each in wanted.items():
            # The codec is given for all arrays, so no single one is blamed.
            check_codec(each)
            try:
                refuse(each)
                kind = type_of(each.dtype)
                made = make_dataset(file, each, name, in_order=False, kind=kind)
                arrays[name] = understand(made)
            except UsageError as error:
                raise UsageError(f"array {name}: {error}") from error
            except (OSError, RuntimeError, TypeError, ValueError) as error:
                reason = f"HDF5 cannot hold array {name}: {brief(error)}"
                raise UsageError(reason) from error
    return arrays


class TreeFile(OneFileTarget):
    """A file that is written with all its arrays; it counts only once it is complete."""

    # The file has no blocks except those of its arrays.
    grid = Grid.regular((0,), (1,))

    def __init__(
        self,
        path: Path,
        model: Model,
        wanted: Mapping[str, NewArray],
        arrays: Mapping[str, Dataset],
        *,
        copies: Sequence[str],
        format: str,  # noqa: A002 - the word that users know
        overwrite: bool,
        durability: Durability,
    ) -> None:
        self._path, self._model, self._wanted, self._format = path, model, wanted, format
        self._copies = copies
        self.arrays = {
            name: Member(
                self,
                number,
                name,
                array,
                format=format,
                write_empty=wanted[name].options.write_empty,
            )
            for number, (name, array) in enumerate(arrays.items())
        }
        self.not_kept: tuple[str, ...] = ()
        super().__init__(path, is_one_file=True, overwrite=overwrite, durability=durability)

    def __reduce__(self) -> tuple[Any, ...]:
        # The state of a run does not travel to other processes.
        remake = partial(
            type(self),
            copies=self._copies,
            format=self._format,
            overwrite=self._overwrite,
            durability=self.durability,
        )
        arrays = {name: each.array for name, each in self.arrays.items()}
        return remake, (self._path, self._model, self._wanted, arrays)

    @property
    def place(self) -> str:
        """The file."""
        return str(self._path)

    @property
    def is_indivisible(self) -> bool:
        """An unfinished file cannot be continued."""
        return True

    @property
    def is_resumable(self) -> bool:
        """Whether there is a journal, from which the file can be made again."""
        return find_journal(self._path) is not None

    def describe(self) -> dict[str, Any]:
        """Return nothing: the file is made again from its source."""
        return {}

    def digests(self) -> dict[str, str]:
        """Return the checksums of the arrays that are copied verbatim."""
        return self._model.digests(self._copies)

    def copy_verbatim(self) -> None:
        """Do nothing: they were copied when the file was made."""

    def _forget_run(self) -> None:
        super()._forget_run()
        by_offset = [name for name, each in self.arrays.items() if each.array.is_by_offset]
        path = Path(self._publisher.partial(self._name))
        self._making = FileInMaking(path, self._begin, by_offset, reserve=True)
        self._waiting: list[str] = []
        self._appending = Lock()
        for each in self.arrays.values():
            each.making = self._making

    def _begin(self) -> None:
        with self._publisher.writer(self._name, Tally(), n_bytes=0):
            pass
        model, path = self._model, self._making.path
        self.not_kept = _in_subprocess(model, model.build, path, self._wanted)

    def restart(self, job: bytes) -> None:
        """Begin the file of an interrupted run again.

        Raises
        ------
        StorageError
            If another run is writing it.
        """
        self.resume()
        assert self._journal is not None, "it has just been resumed"
        try:
            self._journal.begin_again(job, [])
        except BaseException:
            self.abandon()
            raise

    def give_up(self) -> None:
        """Remove the unfinished file."""
        self.abandon()

    def append(self, number: int, lines: Iterable[str], *, now: bool = True) -> None:
        """Add lines about one of the arrays to the journal, `now` or later together with others."""
        with self._appending:
            self._waiting += about(number, lines)
            if now or len(self._waiting) >= _MOST_LINES:
                self._append_waiting()

    def _append_waiting(self) -> None:
        assert self._journal is not None, "nothing has been created"
        lines, self._waiting = self._waiting, []
        self._journal.append(lines)

    def _find_old(self) -> list[Location]:
        found = super()._find_old()
        if self._overwrite and self._path.is_file():
            self._refuse_more(self._path, may_be_broken=is_unfinished(self._journal_place))
        return found

    def refuse_loss(self, path: Location) -> None:
        """Refuse to replace a file that contains more; a damaged file may be replaced."""
        if path.is_file():
            self._refuse_more(on_disk(path, self._format), may_be_broken=True)

    def _refuse_more(self, path: Path, *, may_be_broken: bool) -> None:
        known = self._model.contents()
        refuse_more(path, known, known, may_be_broken=may_be_broken)

    def _open_again(self) -> bool:
        return False

    def _close_file(self) -> None:
        # A file with its final name is verified with the checksums in these lines.
        with self._appending:
            self._append_waiting()
        self._making.complete()

    def abandon(self, *, keep: bool = False) -> bool:
        """Close the file, and remove it."""
        self._making.abandon()
        return super().abandon(keep=keep)


class Member(Unjournalled, Hdf5Writing):
    """One array of a file; only the file is created, completed or abandoned."""

    is_indivisible = True

    def __init__(
        self,
        file: TreeFile,
        number: int,
        inside: str,
        array: Dataset,
        *,
        format: str,  # noqa: A002 - the word that users know
        write_empty: bool,
    ) -> None:
        path = Path(file.place)
        super().__init__(path, inside, array, format=format, write_empty=write_empty)
        self._file, self._number = file, number

    def __reduce__(self) -> tuple[Any, ...]:
        return _member_of, (self._file, self.inside)

    @property
    def durability(self) -> Durability:
        """What the complete file survives."""
        return self._file.durability

    def resume(self) -> Ledger:
        """Return an empty ledger: nothing of an unfinished file can be reused."""
        return Ledger(self.grid)

    def commit(self, cells: Collection[Written]) -> None:
        """Count what has been written; it is durable when the file is complete.

        Until then nobody reads the lines, so those of many small arrays are synced together.
        """
        self._file.append(self._number, (line_of(cell, self.grid) for cell in cells), now=False)

    def note(self, lines: Iterable[str]) -> None:
        """Add lines to the file's journal."""
        self._file.append(self._number, lines)


def _member_of(file: TreeFile, inside: str) -> Member:
    return file.arrays[inside]
