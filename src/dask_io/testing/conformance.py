"""The laws that every store keeps, for a format's author to run against the format.

Subclass `StoreConformance` in a test module, say how a target is made and how it is opened
again, and run pytest::

    class TestMyFormat(StoreConformance):
        def make_target(self, folder, case, *, overwrite=False):
            return make_target(folder / "x", format="mine", **case.description, ...)

        def open_source(self, folder, case):
            return open_source(folder / "x")

The laws are plain methods that take an empty directory, pytest's ``tmp_path``; a store that
breaks one makes it raise `AssertionError`.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dask_io.errors import DaskIOError, StorageError, TargetExistsError
from dask_io.formats.reopening import read_back
from dask_io.geometry import Axis, Grid, Layout, Region
from dask_io.journal.ledger import Ledger, Written
from dask_io.storage.location import locate
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.addressable import view_as_array
from dask_io.stores.staging import new_staging
from dask_io.stores.store import Access, go_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from numpy.typing import NDArray

    from dask_io.stores.store import Source, Target

_FIELDS = [("a", "<i2"), ("b", "u1", (3,)), ("c", ">f4")]
# By number of axes, so that there are some tens of blocks at most.
_LONGEST = ((12,), (7, 7), (5, 4, 3), (3, 2, 3, 2))
DTYPES = ("u1", "<i2", ">i2", "<f4", ">f8", "<c8", "S3", "<U2", ">M8[s]", "V5", _FIELDS)


@dataclass(frozen=True, slots=True)
class Case:
    """An array to store: how it is cut, its dtype, and how its blocks lie."""

    grid: Grid
    dtype: np.dtype[Any]
    layout: Layout
    seed: int = 0

    @property
    def array(self) -> NDArray[Any]:
        """The array; its bytes are random, so compare it by them."""
        raw = random.Random(self.seed).randbytes(self.grid.size * self.dtype.itemsize)  # noqa: S311 - data, not a secret
        return np.frombuffer(raw, self.dtype).reshape(self.grid.shape)

    def part(self, region: Region) -> NDArray[Any]:
        """Return a region of the array, lying in the layout's order."""
        stored = self.array[region.slices].transpose(self.layout.axes)
        raw = memoryview(stored.tobytes())
        return view_as_array(raw, region.shape, self.dtype, self.layout)


class StoreConformance:
    """What a format promises. Make it one's own by the two methods and the settings."""

    n_examples: ClassVar[int] = 8
    """How many random arrays each law is tried on."""
    layouts: ClassVar[str] = "any"
    """Which orders a block may have: ``"any"``, ``"CF"``, ``"C"`` or ``"F"``."""
    one_block: ClassVar[bool] = False
    """Whether the store holds its array as a single block."""
    regular: ClassVar[bool] = False
    """Whether all blocks but those at the far ends must be of one shape."""
    padded: ClassVar[bool] = False
    """Whether blocks at the far ends are stored as large as all others."""
    resumable: ClassVar[bool] = True
    """Whether what is committed outlasts a run that was cut short."""
    dtypes: ClassVar[Sequence[Any]] = DTYPES
    """Which types of elements it can hold."""
    appears_at_once: ClassVar[bool] = False
    """Whether a block is written in one go, so that it may show before it is committed."""

    def make_target(self, folder: Any, case: Case, *, overwrite: bool = False) -> Target:
        """Return a target for the array somewhere in the directory."""
        raise NotImplementedError

    def open_source(self, folder: Any, case: Case) -> Source:
        """Open what has been written to the directory."""
        raise NotImplementedError

    def make_place(self, folder: Path, number: int) -> Any:
        """Return an empty directory of its own for an array; it need not be a local one."""
        place = folder / str(number)
        place.mkdir()
        return place

    def contents(self, place: Any) -> dict[str, bytes]:
        """Return what is in all files of such a directory, by their paths in it."""
        files = (path for path in place.rglob("*") if path.is_file())
        return {str(path.relative_to(place)): path.read_bytes() for path in files}

    def visible(self, place: Any) -> AbstractSet[object]:
        """Return what readers see of what has been written: files, unless the format hides them."""
        # Directories alone hold nothing of a block.
        paths = self.contents(place)
        return {path for path in paths if not path.rpartition("/")[2].startswith(".")}

    def test_reads_back_what_was_written(self, tmp_path: Path) -> None:
        """Every block, for any grid, dtype and layout, comes back bit by bit."""
        for folder, case in self.examples(tmp_path):
            self.write(folder, case)
            source = self.open_source(folder, case)
            for index in case.grid.indices():
                block = case.grid.block(index)
                read = read_region(source, index, Region.whole(block.shape))
                assert _same(read, case.part(block)), f"block {index} of {case} differs"

    def test_describes_what_was_written(self, tmp_path: Path) -> None:
        """Shape, dtype, grid and layout survive, in the target and in the source."""
        for folder, case in self.examples(tmp_path):
            for store in (self.write(folder, case), self.open_source(folder, case)):
                assert store.grid == case.grid
                assert store.dtype == case.dtype
                assert _orders(store.layout, case.grid) == _orders(case.layout, case.grid)
                assert store.access in Access
                assert store.place
                assert store.format

    def test_regions_equal_slices(self, tmp_path: Path) -> None:
        """Any part of a block, read alone or after another, is that part of the array."""
        for folder, case in self.examples(tmp_path):
            self.write(folder, case)
            source = self.open_source(folder, case)
            generator = _generator(case)
            for index in case.grid.indices():
                block = case.grid.block(index)
                staging = new_staging(source, block.size * case.dtype.itemsize)
                with source.reader(index) as reader:
                    for _ in range(3):
                        part = _random_part(generator, block.shape)
                        read = reader.read_into(part, staging)
                        assert _same(read, case.part(_moved(part, block.start)))

    def test_parts_may_be_written_in_any_order(self, tmp_path: Path) -> None:
        """A block written in parts, over several visits, equals one written at once.

        A target that encodes whole blocks refuses a part of one.
        """
        for folder, case in self.examples(tmp_path):
            target, generator = self.make_target(folder, case), _generator(case)
            if target.access is Access.ATOMIC:
                parts = {
                    index: _random_part(generator, case.grid.block(index).shape)
                    for index in case.grid.indices()
                }
                self.check_refuses(target, parts, folder, case)
                continue
            target.create()
            for index in _shuffled(generator, case.grid.indices()):
                block = case.grid.block(index)
                cells = Grid.regular(block.shape, [generator.randint(1, n) for n in block.shape])
                for number, cell in enumerate(_shuffled(generator, cells.indices()), 1):
                    region = cells.block(cell)
                    moved = _moved(region, block.start)
                    with target.writer(index) as writer:
                        writer.write_from(region, case.part(moved), new_staging(target, 0))
                        checksum = writer.checksum
                    is_last = number == cells.n_blocks
                    target.commit([Written(index, moved, checksum, is_last)])
            target.finish()
            self.assert_holds(folder, case)

    def test_seeks_are_the_runs_of_each_visit(self, tmp_path: Path) -> None:
        """The tally counts visits, bytes, and for each visit the runs of what it moved.

        If blocks are decoded as a whole, a part counts as all of its block.
        """
        for folder, case in self.examples(tmp_path):
            target, n_blocks = self.write(folder, case), case.grid.n_blocks
            written = target.tally.write
            source, generator = self.open_source(folder, case), _generator(case)
            assert written.seeks == written.visits <= n_blocks, "each block is written in one go"
            if target.access is Access.ADDRESSABLE:
                n_bytes = sum(map(self.stored_size, repeat(case), case.grid.indices()))
                assert (written.visits, written.n_bytes) == (n_blocks, n_bytes)
            assert source.tally.read.seeks == 0, "headers and listings are not counted"
            if source.access is Access.ATOMIC:
                check_parts_count_as_blocks(source, generator)
                continue
            runs = 0
            for index in case.grid.indices():
                shape = case.grid.block(index).shape
                part = _random_part(generator, shape)
                runs += source.layout.count_runs(part, shape)
                read_region(source, index, part)
            assert source.tally.read.seeks == runs
            assert source.tally.read.visits == n_blocks

    def test_parts_that_go_on_where_the_last_ended_are_one_visit(self, tmp_path: Path) -> None:
        """A block is written as a stream, plane by plane, in one seek.

        A target that encodes whole blocks refuses the first plane.
        """
        for folder, case in self.examples(tmp_path):
            target = self.make_target(folder, case)
            slowest = target.layout.axes[0]
            if target.access is Access.ATOMIC:
                planes = {
                    index: _plane(case.grid.block(index).shape, slowest, 0)
                    for index in case.grid.indices()
                }
                self.check_refuses(target, planes, folder, case)
                continue
            target.create()
            for index in case.grid.indices():
                block, written = case.grid.block(index), []
                for at in range(block.shape[slowest]):
                    plane = _plane(block.shape, slowest, at)
                    moved = _moved(plane, block.start)
                    with target.writer(index) as writer:
                        if at:
                            go_on(writer, plane)
                        writer.write_from(plane, case.part(moved), new_staging(target, 0))
                        checksum = writer.checksum
                    is_last = at + 1 == block.shape[slowest]
                    written.append(Written(index, moved, checksum, is_last))
                target.commit(written)
            target.finish()
            self.assert_holds(folder, case)
            counted = target.tally.write
            assert (counted.seeks, counted.visits) == (case.grid.n_blocks, case.grid.n_blocks)

    def test_blocks_appear_when_published(self, tmp_path: Path) -> None:
        """Until a target is finished it cannot be opened as a whole one."""
        for folder, case in self.examples(tmp_path):
            target = self.make_target(folder, case)
            target.create()
            for index in case.grid.indices():
                before = self.visible(folder)
                written = self.write_block(target, index, case)
                if not self.appears_at_once:
                    shown = self.visible(folder)
                    assert shown == before, "a block shows before it is published"
                with suppress(DaskIOError):
                    self.open_source(folder, case)
                    raise AssertionError("a target that is not whole can be opened")
                target.commit([written])
            target.finish()
            self.assert_holds(folder, case)

    def test_abandoning_leaves_nothing(self, tmp_path: Path) -> None:
        """What was begun and not published is gone after `abandon`."""
        for folder, case in self.examples(tmp_path):
            target = self.make_target(folder, case)
            target.create()
            for index in case.grid.indices():
                self.write_block(target, index, case)
            target.abandon()
            assert not self.contents(folder)

    def test_abandoning_what_was_not_created_touches_nothing(self, tmp_path: Path) -> None:
        """A target that was refused, or never asked for, leaves alone what others wrote."""
        for folder, case in self.examples(tmp_path):
            self.make_target(folder, case).abandon()
            assert not self.contents(folder)
            killed = self.make_target(folder, case)
            killed.create()
            for index in list(case.grid.indices())[:-1]:
                killed.commit([self.write_block(killed, index, case)])
            self.write_block(killed, list(case.grid.indices())[-1], case)
            before = self.contents(folder)
            for overwrite in (False, True):
                refused = self.make_target(folder, case, overwrite=overwrite)
                if not overwrite and not self.one_block:
                    _assert_refused(refused)
                refused.abandon()
                assert self.contents(folder) == before
            with suppress(DaskIOError):
                self.open_source(folder, case)
                raise AssertionError("a target that is not whole can be opened")

    def test_a_target_may_be_used_again(self, tmp_path: Path) -> None:
        """After `finish` a target exists and is refused; after `abandon` it can be made anew."""
        for folder, case in self.examples(tmp_path):
            target = self.make_target(folder, case)
            target.create()
            self.write_block(target, next(case.grid.indices()), case)
            target.abandon()
            target.create()
            for index in case.grid.indices():
                target.commit([self.write_block(target, index, case)])
            target.finish()
            _assert_refused(target)
            target.abandon()
            self.assert_holds(folder, case)

    def test_what_is_committed_is_there_to_go_on_with(self, tmp_path: Path) -> None:
        """A run that was cut short is resumed by another, which writes the rest."""
        for folder, case in self.examples(tmp_path):
            target, indices = self.make_target(folder, case), list(case.grid.indices())
            n_done = len(indices) // 2
            target.create()
            for index in indices[:n_done]:
                target.commit([self.write_block(target, index, case)])
            self.write_block(target, indices[n_done], case)
            if target.abandon():
                again = self.make_target(folder, case)
                ledger = again.resume()
            else:
                again, ledger = target, Ledger(case.grid)
                again.create()
            n_kept = n_done if self.resumable else 0
            assert [ledger.has_block(index) for index in indices] == [
                number < n_kept for number in range(len(indices))
            ]
            for index in indices[n_kept:]:
                again.commit([self.write_block(again, index, case)])
            again.finish()
            self.assert_holds(folder, case)

    def test_checksums_are_those_of_what_is_read(self, tmp_path: Path) -> None:
        """What a writer says of a block is what is found when the target is read back."""
        for folder, case in self.examples(tmp_path):
            target = self.make_target(folder, case)
            target.create()
            written = [self.write_block(target, index, case) for index in case.grid.indices()]
            target.commit(written)
            target.finish()
            found = read_back(target.describe(), at=locate(target.place))
            for cell in written:
                shape = case.grid.block(cell.index).shape
                with found.reader(cell.index) as reader:
                    checksum = reader.checksum(Region.whole(shape), _buffer(shape, case.dtype))
                assert checksum == cell.checksum

    def test_existing_target_is_refused(self, tmp_path: Path) -> None:
        """A target that is there stays as it is, unless it is to be overwritten."""
        for folder, case in self.examples(tmp_path):
            self.write(folder, case)
            _assert_refused(self.make_target(folder, case))
            self.assert_holds(folder, case)
            other = replace(case, seed=case.seed + 1)
            self.write(folder, other, overwrite=True)
            self.assert_holds(folder, other)

    def test_visits_may_be_concurrent(self, tmp_path: Path) -> None:
        """Blocks are written and read by many threads at once, and counted as by one."""
        for folder, case in self.examples(tmp_path):
            target = self.make_target(folder, case)
            target.create()

            def write(index: tuple[int, ...], case: Case = case, target: Target = target) -> None:
                target.commit([self.write_block(target, index, case)])

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(write, case.grid.indices()))
                target.finish()
                source = self.open_source(folder, case)
                _read_by(pool, source, case)
                _read_by(pool, source, case)
            if source.access is Access.ADDRESSABLE:
                assert target.tally.write.seeks == case.grid.n_blocks
                assert source.tally.read.seeks == 2 * case.grid.n_blocks

    def test_arrays_without_elements(self, tmp_path: Path) -> None:
        """An axis of length 0 means no blocks, but the array is there and describes itself."""
        for number, shape in enumerate([(0,), (3, 0), (0, 2, 5)]):
            folder = self.make_place(tmp_path, number)
            grid = Grid.regular(shape, [max(1, n) for n in shape])
            case = Case(grid, np.dtype(self.dtypes[0]), Layout.c(len(shape)))
            self.write(folder, case)
            source = self.open_source(folder, case)
            source.check()
            assert (source.grid.shape, source.dtype) == (shape, case.dtype)

    def examples(self, folder: Path) -> Iterator[tuple[Any, Case]]:
        """Yield arrays to try a law on, each with an empty directory."""
        generator = random.Random(2017)  # noqa: S311 - data, not a secret
        for number in range(self.n_examples):
            yield self.make_place(folder, number), self.random_case(generator)

    def random_case(self, generator: random.Random) -> Case:
        """Draw an array of 1 to 4 axes, some of length 1, cut regularly or not."""
        longest = generator.choice(_LONGEST)
        shape = [generator.randint(1, n) for n in longest]
        axes = [_random_axis(generator, length, regular=self.regular) for length in shape]
        grid = Grid.regular(shape, shape) if self.one_block else Grid(tuple(axes))
        dtype = np.dtype(generator.choice(self.dtypes))
        orders = {
            "C": [Layout.c(len(shape))],
            "F": [Layout.f(len(shape))],
            "CF": [Layout.c(len(shape)), Layout.f(len(shape))],
            "any": [Layout(tuple(generator.sample(range(len(shape)), len(shape))))],
        }
        layout = generator.choice(orders[self.layouts])
        return Case(grid, dtype, layout, generator.randrange(2**32))

    def stored_size(self, case: Case, index: tuple[int, ...]) -> int:
        """Return the bytes from a block's first element to its last, with padding between."""
        shape = case.grid.block(index).shape
        stored = case.grid.longest if self.padded else shape
        return case.layout.end_of(Region.whole(shape), stored) * case.dtype.itemsize

    def write(self, folder: Any, case: Case, *, overwrite: bool = False) -> Target:
        """Write an array block by block."""
        target = self.make_target(folder, case, overwrite=overwrite)
        target.create()
        for index in case.grid.indices():
            target.commit([self.write_block(target, index, case)])
        target.finish()
        return target

    def write_block(self, target: Target, index: tuple[int, ...], case: Case) -> Written:
        """Write a block in one visit, without committing it."""
        block = case.grid.block(index)
        with target.writer(index) as writer:
            values = case.part(block)
            writer.write_from(Region.whole(block.shape), values, new_staging(target, 0))
            return Written(index, block, writer.checksum, is_last=True)

    def check_refuses(
        self, target: Target, parts: dict[tuple[int, ...], Region], folder: Any, case: Case
    ) -> None:
        """Check that a target refuses parts of its blocks, and takes whole ones afterwards."""
        target.create()
        for index, part in parts.items():
            block = case.grid.block(index)
            if part.shape != block.shape:
                values = case.part(_moved(part, block.start))
                _assert_part_refused(target, index, part, values)
            target.commit([self.write_block(target, index, case)])
        target.finish()
        self.assert_holds(folder, case)

    def assert_holds(self, folder: Any, case: Case) -> None:
        """Read an array block by block and compare it."""
        source = self.open_source(folder, case)
        source.check()
        for index in case.grid.indices():
            block = case.grid.block(index)
            assert _same(read_region(source, index, Region.whole(block.shape)), case.part(block))


def read_region(source: Source, index: tuple[int, ...], region: Region) -> NDArray[Any]:
    """Read a region of a block in one visit."""
    staging = new_staging(source, region.size * source.dtype.itemsize)
    with source.reader(index) as reader:
        return reader.read_into(region, staging)


def check_parts_count_as_blocks(source: Source, generator: random.Random) -> None:
    """Check that reading a part of a block counts as much as reading all of it."""
    for index in source.grid.indices():
        shape = source.grid.block(index).shape
        counted = [_counted(source)]
        for region in (_random_part(generator, shape), Region.whole(shape)):
            read_region(source, index, region)
            counted.append(_counted(source))
        before, part, whole = counted
        assert np.array_equal(part - before, whole - part), f"a part of block {index}"


def _buffer(shape: tuple[int, ...], dtype: np.dtype[Any]) -> memoryview:
    return memoryview(bytearray(2 * prod(shape) * dtype.itemsize + 2 * ALIGNMENT))


def _read_by(pool: ThreadPoolExecutor, source: Source, case: Case) -> None:
    def read(index: tuple[int, ...]) -> bool:
        block = case.grid.block(index)
        return _same(read_region(source, index, Region.whole(block.shape)), case.part(block))

    assert all(pool.map(read, case.grid.indices())), "a block differs when read concurrently"


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())


def _orders(layout: Layout, grid: Grid) -> list[int]:
    """Return the order of the axes along which blocks extend; the others can be anywhere."""
    return [axis for axis in layout.axes if grid.axes[axis].longest > 1]


def _assert_refused(target: Target) -> None:
    try:
        target.create()
    except (TargetExistsError, StorageError):
        # It exists, or another run is writing it.
        return
    raise AssertionError("an existing target was not refused")


def _assert_part_refused(
    target: Target, index: tuple[int, ...], part: Region, values: NDArray[Any]
) -> None:
    try:
        with target.writer(index) as writer:
            writer.write_from(part, values, new_staging(target, 0))
    except (AssertionError, DaskIOError, ValueError):
        return
    raise AssertionError("a part of a block that is encoded as a whole was not refused")


def _counted(source: Source) -> NDArray[np.int64]:
    read = source.tally.read
    return np.array([read.seeks, read.visits, read.n_bytes])


def _plane(shape: tuple[int, ...], axis: int, at: int) -> Region:
    bounds = [(0, length) for length in shape]
    bounds[axis] = (at, at + 1)
    return Region.of(bounds)


def _generator(case: Case) -> random.Random:
    return random.Random(case.seed)  # noqa: S311 - data, not a secret


def _shuffled(
    generator: random.Random, indices: Iterator[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    return sorted(indices, key=lambda _: generator.random())


def _random_axis(generator: random.Random, length: int, *, regular: bool) -> Axis:
    if generator.choice([True, False]) or regular:
        return Axis.regular(length, generator.randint(1, length))
    cuts = sorted(generator.sample(range(1, length), generator.randint(0, length - 1)))
    return Axis.of(high - low for low, high in zip([0, *cuts], [*cuts, length], strict=True))


def _random_part(generator: random.Random, shape: tuple[int, ...]) -> Region:
    bounds = [sorted(generator.sample(range(length + 1), 2)) for length in shape]
    return Region.of((low, high) for low, high in bounds)


def _moved(region: Region, by: tuple[int, ...]) -> Region:
    return region.relative_to(tuple(-start for start in by))
