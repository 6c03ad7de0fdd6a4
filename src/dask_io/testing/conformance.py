"""Conformance tests that every format must pass.

Subclass `StoreConformance` in a test module, implement how a target is created and how it is
opened again, and run pytest::

    class TestMyFormat(StoreConformance):
        def make_target(self, folder, case, *, overwrite=False):
            return make_target(folder / "x", format="mine", **case.description, ...)

        def open_source(self, folder, case):
            return open_source(folder / "x")

Each test is a method that takes an empty directory, pytest's ``tmp_path``. It raises
`AssertionError` if the store does not conform.
"""

from __future__ import annotations

import pickle
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
from dask_io.stores.store import Access

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from numpy.typing import NDArray

    from dask_io.stores.store import Source, Target

_FIELDS = [("a", "<i2"), ("b", "u1", (3,)), ("c", ">f4")]
# Longest axes, by number of axes: an array has a few dozen blocks at most.
_LONGEST = ((12,), (7, 7), (5, 4, 3), (3, 2, 3, 2))
DTYPES = ("u1", "<i2", ">i2", "<f4", ">f8", "<c8", "S3", "<U2", ">M8[s]", "V5", _FIELDS)


@dataclass(frozen=True, slots=True)
class Case:
    """An array to store: its grid, its dtype, and the layout of its blocks."""

    grid: Grid
    dtype: np.dtype[Any]
    layout: Layout
    seed: int = 0

    @property
    def array(self) -> NDArray[Any]:
        """The array; compare its bytes and not its values, because they are random."""
        raw = random.Random(self.seed).randbytes(self.grid.size * self.dtype.itemsize)  # noqa: S311 - data, not a secret
        return np.frombuffer(raw, self.dtype).reshape(self.grid.shape)

    def part(self, region: Region) -> NDArray[Any]:
        """Return a region of the array, with its elements in the layout's order."""
        stored = self.array[region.slices].transpose(self.layout.axes)
        raw = memoryview(stored.tobytes())
        return view_as_array(raw, region.shape, self.dtype, self.layout)


class StoreConformance:
    """Tests for a format. Subclasses implement two methods and set these class attributes."""

    n_examples: ClassVar[int] = 8
    """Number of random arrays in each test."""
    layouts: ClassVar[str] = "any"
    """Orders that a block may have: ``"any"``, ``"CF"``, ``"C"`` or ``"F"``."""
    one_block: ClassVar[bool] = False
    """Whether the store holds its array as a single block."""
    regular: ClassVar[bool] = False
    """Whether all blocks must have one shape, except at the edge of the array."""
    padded: ClassVar[bool] = False
    """Whether blocks at the edge of the array are stored at full size."""
    resumable: ClassVar[bool] = True
    """Whether committed blocks survive an interrupted run."""
    dtypes: ClassVar[Sequence[Any]] = DTYPES
    """Types of elements that the format supports."""
    fewest_axes: ClassVar[int] = 1
    """The fewest axes that an array may have."""
    appears_at_once: ClassVar[bool] = False
    """Whether a block may be visible as soon as it is written, before it is committed."""

    def make_target(self, folder: Any, case: Case, *, overwrite: bool = False) -> Target:
        """Return a target for the array, in the directory."""
        raise NotImplementedError

    def open_source(self, folder: Any, case: Case) -> Source:
        """Open the array that has been written to the directory."""
        raise NotImplementedError

    def make_place(self, folder: Path, number: int) -> Any:
        """Return a new empty directory for an array; it need not be a local one."""
        place = folder / str(number)
        place.mkdir()
        return place

    def contents(self, place: Any) -> dict[str, bytes]:
        """Return the contents of all files in such a directory, by relative path."""
        files = (path for path in place.rglob("*") if path.is_file())
        return {str(path.relative_to(place)): path.read_bytes() for path in files}

    def visible(self, place: Any) -> AbstractSet[object]:
        """Return what readers see: the files, except hidden ones."""
        # Empty directories do not count.
        paths = self.contents(place)
        return {path for path in paths if not path.rpartition("/")[2].startswith(".")}

    def test_reads_back_what_was_written(self, tmp_path: Path) -> None:
        """Every block is read back bit for bit, for any grid, dtype and layout."""
        for folder, case in self.examples(tmp_path):
            self.write(folder, case)
            source = self.open_source(folder, case)
            for index in case.grid.indices():
                block = case.grid.block(index)
                read = read_region(source, index, Region.whole(block.shape))
                assert _same(read, case.part(block)), f"block {index} of {case} differs"

    def test_pickled_sources_read_the_same(self, tmp_path: Path) -> None:
        """A source can be sent to another process, also after its metadata was read."""
        for folder, case in self.examples(tmp_path):
            self.write(folder, case)
            source = self.open_source(folder, case)
            metadata = dict(source.metadata)
            sent = pickle.loads(pickle.dumps(source))  # noqa: S301 - our own bytes
            assert sent.metadata.keys() == metadata.keys()
            for index in case.grid.indices():
                block = case.grid.block(index)
                read = read_region(sent, index, Region.whole(block.shape))
                assert _same(read, case.part(block)), f"block {index} of {case} differs"

    def test_pickled_targets_describe_themselves(self, tmp_path: Path) -> None:
        """A target can be sent to another process before it is created."""
        for folder, case in self.examples(tmp_path):
            target = self.make_target(folder, case)
            sent = pickle.loads(pickle.dumps(target))  # noqa: S301 - our own bytes
            assert sent.describe() == target.describe()
            assert sent.inferred_axes == target.inferred_axes

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
        """Any part of a block equals that part of the array, also after other parts were read."""
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
        """A block written in parts, over several visits, equals one written as a whole.

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
        """The tally counts visits, bytes and, for each visit, the contiguous runs it moves.

        If blocks are decoded as a whole, reading a part counts as reading the whole block.
        """
        for folder, case in self.examples(tmp_path):
            target, n_blocks = self.write(folder, case), case.grid.n_blocks
            written = target.tally.write
            source, generator = self.open_source(folder, case), _generator(case)
            assert written.seeks == written.visits <= n_blocks, "a block took more than one seek"
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
        """A block that is written as a stream, plane by plane, takes one seek.

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
                            writer.go_on_at(plane)
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
        """A target cannot be opened before it is finished."""
        for folder, case in self.examples(tmp_path):
            target = self.make_target(folder, case)
            target.create()
            for index in case.grid.indices():
                before = self.visible(folder)
                written = self.write_block(target, index, case)
                if not self.appears_at_once:
                    shown = self.visible(folder)
                    assert shown == before, "a block is visible before it is published"
                with suppress(DaskIOError):
                    self.open_source(folder, case)
                    raise AssertionError("an incomplete target can be opened")
                target.commit([written])
            target.finish()
            self.assert_holds(folder, case)

    def test_abandoning_leaves_nothing(self, tmp_path: Path) -> None:
        """`abandon` removes everything that was not published."""
        for folder, case in self.examples(tmp_path):
            target = self.make_target(folder, case)
            target.create()
            for index in case.grid.indices():
                self.write_block(target, index, case)
            target.abandon()
            assert not self.contents(folder)

    def test_abandoning_what_was_not_created_touches_nothing(self, tmp_path: Path) -> None:
        """`abandon` without `create`, or after a refused one, keeps the files of other runs."""
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
                raise AssertionError("an incomplete target can be opened")

    def test_a_target_may_be_used_again(self, tmp_path: Path) -> None:
        """A finished target is refused; an abandoned one can be created again."""
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
        """Committed blocks survive an interrupted run, and a resumed one writes the rest."""
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
        """The writer's checksum of a block equals the one found when the target is read back."""
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
        """An existing target is refused and unchanged, unless `overwrite` is given."""
        for folder, case in self.examples(tmp_path):
            self.write(folder, case)
            _assert_refused(self.make_target(folder, case))
            self.assert_holds(folder, case)
            other = replace(case, seed=case.seed + 1)
            self.write(folder, other, overwrite=True)
            self.assert_holds(folder, other)

    def test_visits_may_be_concurrent(self, tmp_path: Path) -> None:
        """Many threads can write and read blocks at once; the tally is the same as with one."""
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
        """An array with an axis of length 0 has no blocks, but its metadata can be read."""
        for number, shape in enumerate([(0,), (3, 0), (0, 2, 5)][self.fewest_axes - 1 :]):
            folder = self.make_place(tmp_path, number)
            grid = Grid.regular(shape, [max(1, n) for n in shape])
            case = Case(grid, np.dtype(self.dtypes[0]), Layout.c(len(shape)))
            self.write(folder, case)
            source = self.open_source(folder, case)
            source.check()
            assert (source.grid.shape, source.dtype) == (shape, case.dtype)

    def examples(self, folder: Path) -> Iterator[tuple[Any, Case]]:
        """Yield arrays for a test, each with an empty directory."""
        generator = random.Random(2017)  # noqa: S311 - data, not a secret
        for number in range(self.n_examples):
            yield self.make_place(folder, number), self.random_case(generator)

    def random_case(self, generator: random.Random) -> Case:
        """Draw an array of 1 to 4 axes, some of length 1, with a regular or an uneven grid."""
        longest = generator.choice(_LONGEST[self.fewest_axes - 1 :])
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
        """Return the number of bytes from a block's first element to its last, with padding."""
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
        """Check that a target refuses parts of its blocks, and accepts whole ones afterwards."""
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
        """Check that the stored array equals that of the case, block by block."""
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
    """Check that reading a part of a block counts as reading all of it."""
    for index in source.grid.indices():
        shape = source.grid.block(index).shape
        counted = [_counted(source)]
        for region in (_random_part(generator, shape), Region.whole(shape)):
            read_region(source, index, region)
            counted.append(_counted(source))
        before, part, whole = counted
        assert np.array_equal(part - before, whole - part), f"block {index} is counted wrongly"


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
    """Return the order of the axes longer than 1; the position of the others has no effect."""
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
