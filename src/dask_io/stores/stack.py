"""Slices in files that their format opens: one array with more axes than each file.

Files of such formats are more than a header and elements. They may be compressed, for example. All
files are opened once to check that they fit together. After that, only those that were read last
stay open, so that a folder of 100,000 slices takes no more memory than one of 100.
"""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from math import prod
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from dask_io.errors import DataError, StorageError, UsageError
from dask_io.geometry import Axis, Grid
from dask_io.storage.files import medium_of
from dask_io.storage.location import locate
from dask_io.storage.medium import NOT_A_FILE
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Tally
from dask_io.stores.block_names import BlockNames
from dask_io.stores.listing import Problems, match_names, report_missing_slices, scan
from dask_io.stores.mosaic import FILES, Mosaic, agree, first_missing, open_mosaic
from dask_io.stores.not_kept import DIFFERING
from dask_io.stores.scaling import RealValues
from dask_io.stores.slice_file import SliceFile, open_slice
from dask_io.stores.slices import space_of_slices
from dask_io.stores.space import Space
from dask_io.stores.spec import CODECS_OF_FILES, SPACE
from dask_io.stores.store import Access, SourceDefaults

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from dask_io.geometry import Layout, Region
    from dask_io.storage.location import Location
    from dask_io.stores.block_format import Format, OpenAlike
    from dask_io.stores.store import BlockReader

# Files that are opened at once, and those that stay open.
_AT_ONCE, _MOST_OPEN = 8, 64


def open_files(
    folder: Location,
    files: Mapping[str, int],
    format: Format,  # noqa: A002 - the word that users know
    names: BlockNames,
) -> Mosaic | Stack:
    """Open all files that match a pattern, each by its format, and combine them.

    Raises
    ------
    DataError
        If they are not the blocks of one array; it lists those that do not fit.
    """
    if not names.slice_axes:
        return open_mosaic(folder, files, format, names)
    if names.axes == frozenset(names.slice_axes):
        return open_stack(folder, files, format, names)
    # Tiles of slices.
    as_slices = replace(format, open_file=partial(open_slice, format, names))
    return open_mosaic(folder, files, as_slices, names)


def reopen_files(
    described: Mapping[str, Any],
    at: Location | None,
    format: Format,  # noqa: A002 - the word that users know
) -> Mosaic | Stack:
    """Open files again from the description of a `Mosaic` or a `Stack`.

    Raises
    ------
    ValueError
        If the description is invalid; the message completes "its description ...".
    DataError
        If the files have changed.
    """
    pattern, folder, shape = (described.get(key) for key in (FILES, "folder", "shape"))
    if not (isinstance(pattern, str) and isinstance(folder, str) and isinstance(shape, list)):
        raise ValueError("is not that of block files")  # noqa: TRY004 - wrong data
    place = locate(folder) if at is None else at if at.is_dir() else at.parent
    found = open_files(place, scan(place), format, BlockNames(pattern, len(shape)))
    if list(found.grid.shape) != shape or str(found.dtype) != described.get("dtype"):
        raise DataError(str(place), ["does not hold the array that it held"])
    return found


class _Kind(NamedTuple):
    """What all slices of an array have in common."""

    grid: Grid
    dtype: np.dtype[Any]
    layout: Layout
    in_file: Grid

    @classmethod
    def of(cls, source: SliceFile) -> _Kind:
        return cls(source.grid, source.dtype, source.layout, source.file.grid)

    def problem_with(self, other: _Kind) -> str:
        """Return how another slice differs; empty if it does not."""
        if other.grid.shape != self.grid.shape:
            found, expected = _times(other.in_file.shape), _times(self.in_file.shape)
            return f"has shape {found}, expected {expected}"
        if other.dtype != self.dtype:
            return f"has dtype {other.dtype}, expected {self.dtype}"
        if other.grid != self.grid:
            return f"is stored in blocks of {other.in_file}, expected {self.in_file}"
        if other.layout != self.layout:
            return f"has order {other.layout.name}, expected {self.layout.name}"
        return ""


class _Seen(NamedTuple):
    """What is known of a file after it has been opened once."""

    kind: _Kind
    access: Access
    reused_bytes: int
    codec_bytes: int
    n_absent: int | None
    metadata: Mapping[str, Any]


def open_stack(
    folder: Location,
    files: Mapping[str, int],
    format: Format,  # noqa: A002 - the word that users know
    names: BlockNames,
) -> Stack:
    """Open a folder of slices; every file is opened once to check that it fits.

    Raises
    ------
    DataError
        If slices are missing or differ; it lists them.
    """
    matches, problems = match_names(files, names), Problems(str(folder))
    for name, first in matches.doubles:
        problems.add(name, f"is extra: {first} is the same slice")
    by_index = dict(sorted(matches.by_numbers.items()))
    for index, name in by_index.items():
        if min(index) < 0:
            problems.add(name, "is extra: its number is below the first one")
        elif files[name] == NOT_A_FILE:
            problems.add(name, "is not a file")
    counted = [index for index in by_index if min(index) >= 0]
    if not counted:
        raise DataError(str(folder), [f"no file is called like {names.pattern}"])
    counts = tuple(max(along) + 1 for along in zip(*counted, strict=True))
    if len(counted) < prod(counts):
        _report_missing(names, counted, counts, problems)
    wanted = {index: by_index[index] for index in counted if files[by_index[index]] != NOT_A_FILE}
    slices = _SliceFiles(folder, format, names, _odd_names(names, wanted))
    seen = _see_all(slices, wanted, problems)
    problems.raise_if_any()
    kind, metadata = next(iter(seen.kinds)), seen.metadata
    axes = [
        Axis.regular(count, 1) if axis in names.axes else along
        for axis, (count, along) in enumerate(zip(counts, kind.grid.axes, strict=True))
    ]
    n_bytes = sum(files[name] for name in wanted.values())
    return Stack(slices, Grid(tuple(axes)), kind, seen.needs, metadata=metadata, n_bytes=n_bytes)


def _report_missing(
    names: BlockNames,
    counted: list[tuple[int, ...]],
    counts: tuple[int, ...],
    problems: Problems,
) -> None:
    if names.only_slices:
        (axis,) = names.slice_axes
        present = (index[axis] for index in counted)
        report_missing_slices(names, present, counts[axis], problems)
        return
    for index in first_missing([range(n) for n in counts], set(counted)):
        problems.add(names.name_of(index, index), "is missing")


def _odd_names(names: BlockNames, files: Mapping[tuple[int, ...], str]) -> dict[Any, str]:
    """Return the names that have more zeros than the pattern."""
    return {index: name for index, name in files.items() if names.name_of(index, index) != name}


class _Needs(NamedTuple):
    """The most that any slice needs, and what is known of all."""

    access: Access
    reused_bytes: int
    codec_bytes: int
    n_absent: int | None


class _AllSeen(NamedTuple):
    kinds: list[_Kind]
    needs: _Needs
    metadata: dict[str, Any]


def _see_all(
    slices: _SliceFiles, wanted: Mapping[tuple[int, ...], str], problems: Problems
) -> _AllSeen:
    """Open every slice once, several at a time, and record those that differ from most."""
    kinds: dict[_Kind, list[str]] = {}
    needs, metadata = _Needs(Access.ADDRESSABLE, 0, 0, 0), dict[str, Any]()
    differing: dict[str, None] = {}
    codecs: list[Any] = []
    first: Mapping[str, Any] | None = None
    spaces: dict[tuple[int, ...], Space] = {}
    slices.see_first(next(iter(wanted)))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for (index, name), found in zip(wanted.items(), pool.map(slices.see, wanted), strict=True):
            if isinstance(found, str):
                problems.add(name, found)
                continue
            spaces[index] = found.metadata.get(SPACE) or Space.unknown(slices.names.n_axes)
            if not kinds:
                metadata, first = _without_space(found.metadata), found.metadata
            elif found.metadata is not first and (
                (described := _without_space(found.metadata)) != metadata
            ):
                metadata, others = agree([metadata, described])
                differing.update(dict.fromkeys(others))
            if "codecs" in found.metadata and found.metadata["codecs"] not in codecs:
                codecs.append(found.metadata["codecs"])
            kinds.setdefault(found.kind, []).append(name)
            absent = None if None in {found.n_absent, needs.n_absent} else found.n_absent
            needs = _Needs(
                Access.ATOMIC if Access.ATOMIC in {found.access, needs.access} else found.access,
                max(needs.reused_bytes, found.reused_bytes),
                max(needs.codec_bytes, found.codec_bytes),
                None if absent is None else (needs.n_absent or 0) + absent,
            )
    if spaces:
        space, is_of_all = space_of_slices(spaces, slices.names.slice_axes)
        metadata |= {SPACE: space} if space.is_known else {}
        differing.update({} if is_of_all else {SPACE: None})
    usual = _usual_kind(kinds, problems)
    if len(codecs) > 1:
        # Plans count on compressed blocks, even if the first slice is not compressed.
        metadata |= {"codecs": next(filter(None, codecs)), CODECS_OF_FILES: tuple(codecs)}
    if differing:
        metadata[DIFFERING] = tuple(differing)
    return _AllSeen([] if usual is None else [usual], needs, metadata)


def _usual_kind(kinds: Mapping[_Kind, list[str]], problems: Problems) -> _Kind | None:
    """Return the kind of most slices, if there is one, and record the slices of other kinds."""
    usual = max(kinds, key=lambda kind: len(kinds[kind]), default=None)
    for kind, odd in kinds.items():
        for name in odd if usual is not None and kind != usual else ():
            assert usual is not None, "there is a usual kind"
            problems.add(name, usual.problem_with(kind))
    return usual


def _without_space(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a slice without its place, which may differ from slice to slice."""
    return {key: value for key, value in metadata.items() if key != SPACE}


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


class _SliceFiles:
    """The files of an array, of which those that were used last stay open."""

    def __init__(
        self,
        folder: Location,
        format: Format,  # noqa: A002 - the word that users know
        names: BlockNames,
        odd_names: Mapping[tuple[int, ...], str],
    ) -> None:
        self.folder, self.format, self.names = folder, format, names
        self._odd_names = odd_names
        self._alike: OpenAlike | None = None
        self._first: _Seen | None = None
        self._open: OrderedDict[tuple[int, ...], SliceFile] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # Locks cannot be pickled, and open files need not be.
        return _SliceFiles, (self.folder, self.format, self.names, self._odd_names)

    def name_of(self, index: tuple[int, ...]) -> str:
        """Return the name of the file with a slice."""
        return self._odd_names.get(index) or self.names.name_of(index, index)

    def path_of(self, index: tuple[int, ...]) -> Location:
        """Return the path of the file with a slice."""
        return self.folder / self.name_of(index)

    def open(self, index: tuple[int, ...]) -> SliceFile:
        """Open a slice, without remembering it."""
        path = self.path_of(index)
        found = None if self._alike is None else self._alike(path)
        if found is not None:
            return SliceFile(found, self.names)
        return open_slice(self.format, self.names, path)

    def see_first(self, index: tuple[int, ...]) -> None:
        """Look at a slice to which the others can be compared."""
        found = self.see(index)
        if isinstance(found, str) or self.format.open_alike is None:
            return
        source = self.open(index).file
        if not isinstance(source, RealValues):
            self._alike = self.format.open_alike(self.path_of(index), source)
            self._first = found

    def see(self, index: tuple[int, ...]) -> _Seen | str:
        """Open a slice and return what is known of it, or the problem with it."""
        path = self.path_of(index)
        found = None if self._alike is None else self._alike(path)
        if found is not None and self._first is not None:
            return self._first._replace(
                access=found.access,
                reused_bytes=found.reused_bytes,
                codec_bytes=found.codec_bytes,
                n_absent=found.n_absent,
            )
        try:
            source = open_slice(self.format, self.names, path)
        except (DataError, UsageError, StorageError) as error:
            return str(error).removeprefix(f"{path}: ")
        if len(source.grid.axes) != self.names.n_axes:
            n_found = len(source.file.grid.axes)
            return f"has {n_found} axes, expected {self.names.n_axes - len(source.axes)}"
        return _Seen(
            _Kind.of(source),
            source.access,
            source.reused_bytes,
            source.codec_bytes,
            source.n_absent,
            source.metadata,
        )

    def recall(self, index: tuple[int, ...]) -> SliceFile | None:
        """Return an open slice."""
        with self._lock:
            found = self._open.get(index)
            if found is not None:
                self._open.move_to_end(index)
            return found

    def remember(self, index: tuple[int, ...], source: SliceFile) -> None:
        """Keep a slice open, instead of the one that has not been used for longest."""
        with self._lock:
            self._open[index] = source
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)

    def forget(self) -> None:
        """Close all slices."""
        with self._lock:
            self._open.clear()


class Stack(SourceDefaults):
    """An array whose slices are files; any number may be read at once.

    Parameters
    ----------
    slices
        The files.
    grid
        The blocks of all files.
    kind
        What all slices have in common.
    needs
        The most that a visit to any slice needs.
    metadata
        Metadata on which all files agree.
    n_bytes
        Bytes of all files.
    """

    is_indivisible = True

    def __init__(
        self,
        slices: _SliceFiles,
        grid: Grid,
        kind: _Kind,
        needs: _Needs,
        *,
        metadata: Mapping[str, Any],
        n_bytes: int,
    ) -> None:
        self._slices, self.grid, self._kind, self._needs = slices, grid, kind, needs
        # A plain dictionary, because a read-only view of one cannot be pickled.
        self._metadata, self.n_bytes_on_disk = dict(metadata), n_bytes
        self.dtype: np.dtype[Any] = kind.dtype
        self.layout: Layout = kind.layout
        self.format = slices.format.name
        self.place = str(slices.folder)
        self.tally = Tally()

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the array, read-only."""
        return MappingProxyType(self._metadata)

    @property
    def block_names(self) -> BlockNames:
        """The pattern of the files."""
        return self._slices.names

    @property
    def access(self) -> Access:
        """Blocks are decoded whole if those of any file are."""
        return self._needs.access

    @property
    def reused_bytes(self) -> int:
        """Staging bytes of a visit: the most that any file needs."""
        return self._needs.reused_bytes

    @property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds: the most that any file needs."""
        return self._needs.codec_bytes

    @property
    def n_absent(self) -> int | None:
        """Number of blocks that are not stored; None if unknown for some files."""
        return self._needs.n_absent

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the files can be opened again."""
        return {
            "format": self.format,
            "shape": list(self.grid.shape),
            "dtype": str(self.dtype),
            FILES: self._slices.names.pattern,
            "folder": str(self._slices.folder.absolute()),
        }

    def _split(self, index: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the index of the slice that contains a block, and the block's index in it."""
        axes = self._slices.names.axes
        place = tuple(i if axis in axes else 0 for axis, i in enumerate(index))
        return place, tuple(0 if axis in axes else i for axis, i in enumerate(index))

    def _opened(self, index: tuple[int, ...]) -> SliceFile:
        """Return an open slice.

        Raises
        ------
        DataError
            If it has changed since the array was opened.
        """
        source = self._slices.recall(index)
        if source is None:
            source = self._slices.open(index)
            problem, needs = self._kind.problem_with(_Kind.of(source)), self._needs
            is_larger = (
                source.reused_bytes > needs.reused_bytes or source.codec_bytes > needs.codec_bytes
            )
            if problem or is_larger or (source.access, needs.access) == ("atomic", "addressable"):
                raise DataError(source.place, [problem or "has changed since it was checked"])
            source.tally = self.tally
            self._slices.remember(index, source)
        return source

    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> AbstractContextManager[BlockReader]:
        """Visit a block of one of the slices."""
        place, inner = self._split(index)
        return self._opened(place).reader(inner, after=after)

    def check(self) -> None:
        """Check the blocks of every file.

        Raises
        ------
        DataError
            If some are wrong; it lists them.
        """
        problems, names = Problems(self.place), self._slices.names
        counts = [n if axis in names.axes else 1 for axis, n in enumerate(self.grid.counts)]
        for index in np.ndindex(*counts):
            try:
                self._slices.open(index).check()
            except DataError as error:
                problems.add(self._slices.name_of(index), "; ".join(error.problems))
        problems.raise_if_any()

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when the file of a block does."""
        name = self._slices.name_of(self._split(index)[0])
        with storage_errors(path := self._slices.folder / name):
            found = medium_of(path).find(path)
        if found is None:
            raise StorageError(str(path), "no such file or directory", "check the path")
        return xxh3_64_intdigest(f"{name}\0{found.size}\0{found.mark}".encode())

    def list_again(self) -> None:
        """Close all files, so that those that have changed are read again."""
        self._slices.forget()

    def discard(self, index: tuple[int, ...]) -> None:  # noqa: ARG002 - none can be
        """Refuse: a file may hold other blocks too."""
        raise UsageError(f"blocks of {self.format} files cannot be consumed one by one")

    def discard_rest(self) -> None:
        """Keep the files."""
