"""Directories of blocks as sources: what is found, and what is wrong with them."""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest

from dask_io.errors import DataError, StorageError
from dask_io.formats import open_source
from dask_io.geometry import Axis, Grid, Layout, Region
from dask_io.storage.local import system
from dask_io.storage.local.transport import FileReader
from dask_io.stores.block_names import BlockNames
from dask_io.stores.manifest import Manifest
from dask_io.testing.conformance import read_region

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from dask_io.stores import Source

GRID = Grid.regular((10, 7), (4, 3))
ARRAY = np.arange(70, dtype="<i4").reshape(10, 7)


def save(folder: Path, pattern: str = "b_{0}_{1}.npy", grid: Grid = GRID, order: str = "C") -> None:
    """Save the array's blocks as NumPy does."""
    names = BlockNames(pattern)
    for index in grid.indices():
        block = grid.block(index)
        part = np.asarray(ARRAY[block.slices], order="F" if order == "F" else "C")
        np.save(folder / names.name_of(index, block.start), part)


def describe(folder: Path, grid: Grid = GRID, order: str = "C") -> None:
    """Add a manifest."""
    names = BlockNames("b_{0}_{1}.npy")
    Manifest("npy", grid, ARRAY.dtype, Layout.named(order, 2), names).write(folder)


def whole(source: Source) -> NDArray[Any]:
    """The array that a source holds."""
    array = np.empty(source.grid.shape, source.dtype)
    for index in source.grid.indices():
        block = source.grid.block(index)
        array[block.slices] = read_region(source, index, Region.whole(block.shape))
    return array


def cut(path: Path, n_bytes: int) -> None:
    """Shorten a file, or lengthen it."""
    os.truncate(path, path.stat().st_size + n_bytes)


@pytest.mark.parametrize("pattern", ["b_{0}_{1}.npy", "{0:offset:04}-{1:offset:04}.npy"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "grid",
    [GRID, Grid((Axis.of([1, 9]), Axis.of([1, 5, 1]))), Grid.regular((10, 7), (1, 1))],
)
def test_blocks_saved_by_numpy_are_found(
    pattern: str, order: str, grid: Grid, tmp_path: Path
) -> None:
    """Grid and order of a plain directory come from names and headers, whatever the cuts."""
    save(tmp_path, pattern, grid, order)
    source = open_source(tmp_path)
    source.check()
    assert source.grid == grid
    assert np.array_equal(whole(source), ARRAY)
    if max(axis.longest for axis in grid.axes) > 1:
        assert source.layout.name == order


def test_headers_are_read_along_the_axes_only(tmp_path: Path) -> None:
    """A header off the axes is looked at when its block is read, or by `check`."""
    save(tmp_path)
    for name, wrong in [("b_1_1.npy", ">i4"), ("b_2_2.npy", "<f4")]:
        np.save(tmp_path / name, np.load(tmp_path / name).astype(wrong))
    source = open_source(tmp_path)
    with pytest.raises(DataError, match=r"b_1_1\.npy: has dtype >i4, expected int32"):
        read_region(source, (1, 1), Region.whole((4, 3)))
    with pytest.raises(DataError, match=r"b_1_1\.npy has dtype .*; b_2_2\.npy has dtype float32"):
        source.check()


def test_headers_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first read begins a block, its header comes with it; it is not looked at again."""
    save(tmp_path)
    source = open_source(tmp_path)
    looks: list[int] = []
    offsets: list[int] = []

    def peek(_: FileReader, n_bytes: int) -> bytes:
        raise AssertionError(n_bytes)

    def read_fully(
        reader: FileReader, fd: int, offset: int, buffer: memoryview, n_needed: int
    ) -> int:
        (looks if offset == 0 else offsets).append(offset)
        return original(reader, fd, offset, buffer, n_needed)

    original = FileReader._read_fully  # noqa: SLF001
    monkeypatch.setattr(FileReader, "peek", peek)
    monkeypatch.setattr(FileReader, "_read_fully", read_fully)
    assert np.array_equal(whole(source), ARRAY)
    assert (len(looks), len(offsets)) == (GRID.n_blocks - 5, 5)
    assert np.array_equal(whole(source), ARRAY)
    source.check()
    assert (len(looks), len(offsets)) == (GRID.n_blocks - 5, 5 + GRID.n_blocks)
    assert source.tally.read.n_bytes == 2 * ARRAY.nbytes
    assert source.tally.read.seeks == 2 * GRID.n_blocks


@pytest.mark.parametrize("part", [Region((0, 0), (2, 3)), Region((1, 0), (3, 2))])
def test_a_first_visit_reads_what_later_ones_do(tmp_path: Path, part: Region) -> None:
    """Whether a header comes with the data or not, data and counts are those without it."""
    save(tmp_path)
    # One header is longer than the others, which shows only when it is read.
    text = b"{'descr': '<i4', 'fortran_order': False, 'shape': (4, 3)}".ljust(499) + b"\n"
    data = np.load(tmp_path / "b_1_1.npy").tobytes()
    head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    (tmp_path / "b_1_1.npy").write_bytes(head + data)
    first, later = open_source(tmp_path), open_source(tmp_path)
    later.check()

    for index in [(1, 1), (0, 1)]:
        expected = ARRAY[GRID.block(index).slices][part.slices]
        assert np.array_equal(read_region(first, index, part), expected)
        assert np.array_equal(read_region(later, index, part), expected)

    assert first.tally.read == later.tally.read


@pytest.mark.parametrize(
    ("old", "new"), [(b"<i4", b"<u4"), (b"False", b"True "), (b"(2, 3)", b"(3, 2)")]
)
def test_a_header_that_changes_is_found_among_equal_ones(
    tmp_path: Path, old: bytes, new: bytes
) -> None:
    """Headers like those seen before are not parsed again; one that differs in a byte is."""
    save(tmp_path, grid=Grid.regular((10, 7), (2, 3)))
    source, path = open_source(tmp_path), tmp_path / "b_3_1.npy"
    read_region(source, (1, 1), Region((0, 0), (2, 3)))
    read_region(source, (2, 1), Region((0, 0), (2, 3)))
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(DataError, match=r"has (dtype|order|shape)"):
        read_region(source, (3, 1), Region((0, 0), (2, 3)))


@pytest.mark.parametrize("n_bytes", [12, 160 * 2**10, 160 * 2**10 - 128])
def test_a_file_that_grows_is_found_though_sizes_are_not_asked_for(
    n_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read says where a file ends, past the page cache too."""
    # Of a directory without a manifest, the first files along each axis are looked at in any case.
    for i, j in np.ndindex(3, 3):
        np.save(tmp_path / f"{i}_{j}.npy", np.full((1, n_bytes), 3 * i + j, np.uint8))
    source, block = open_source(tmp_path), Region((0, 0), (1, n_bytes))
    asked = mock.Mock(wraps=os.fstat)
    monkeypatch.setattr(os, "fstat", asked)

    assert np.all(read_region(source, (1, 1), block) == 4)
    asked.assert_not_called()
    cut(tmp_path / "1_2.npy", 1)
    cut(tmp_path / "2_1.npy", -1)
    with pytest.raises(DataError, match=r"1_2\.npy: is too long"):
        read_region(source, (1, 2), block)
    with pytest.raises(DataError, match=r"2_1\.npy: is truncated"):
        read_region(source, (2, 1), block)


def test_headers_may_differ_in_length(tmp_path: Path) -> None:
    """Each file's data begins where its own header ends."""
    save(tmp_path)
    describe(tmp_path)
    text = b"{'descr': '<i4', 'fortran_order': False, 'shape': (4, 3)}"
    for name, padding in [("b_1_1.npy", 500), ("b_0_0.npy", 9000)]:
        body = text.ljust(padding - 1) + b"\n"
        part = np.load(tmp_path / name).tobytes()
        head = b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body
        (tmp_path / name).write_bytes(head + part)
    source = open_source(tmp_path)
    assert np.array_equal(whole(source), ARRAY)
    assert np.array_equal(whole(source), ARRAY)


def test_all_wrong_blocks_are_in_one_error(tmp_path: Path) -> None:
    """Missing, extra, truncated and overlong blocks and strangers like them are named together."""
    save(tmp_path)
    describe(tmp_path)
    (tmp_path / "b_1_1.npy").unlink()
    (tmp_path / "b_0_2.npy").unlink()
    cut(tmp_path / "b_2_0.npy", -1)
    cut(tmp_path / "b_2_1.npy", -100)
    cut(tmp_path / "b_1_2.npy", 10**5)
    (tmp_path / "b_0_0.npy").write_bytes(b"")
    np.save(tmp_path / "b_3_0.npy", ARRAY)
    np.save(tmp_path / "b_01_0.npy", ARRAY[4:8, :3])
    (tmp_path / "b\x1b[2J.npy").write_bytes(b"")
    (tmp_path / ".hidden").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"")
    with pytest.raises(DataError) as caught:
        open_source(tmp_path)
    problems = "; ".join(caught.value.problems)
    found = set(re.findall(r"(b[^ ]*) is (?:missing|extra|truncated|too long)", problems))
    blocks = {"b_1_1", "b_0_2", "b_2_0", "b_2_1", "b_1_2", "b_0_0", "b_3_0"}
    assert found == {f"{name}.npy" for name in [*blocks, "b_1_0"]} | {"b\x1b[2J.npy"}
    assert str(caught.value).isprintable()
    assert "hidden" not in str(caught.value)
    assert "notes" not in str(caught.value)


def test_wrong_blocks_without_a_manifest(tmp_path: Path) -> None:
    """Missing and truncated blocks are named even where the grid has to be found first."""
    save(tmp_path)
    (tmp_path / "b_1_0.npy").unlink()
    (tmp_path / "b_0_0.npy").write_bytes(b"")
    cut(tmp_path / "b_2_2.npy", -3)
    with pytest.raises(DataError) as caught:
        open_source(tmp_path)
    for name, what in [("b_1_0", "missing"), ("b_0_0", "truncated"), ("b_2_2", "truncated")]:
        assert f"{name}.npy is {what}" in str(caught.value)


def test_a_missing_slab_is_missing(tmp_path: Path) -> None:
    """Numbers that jump over a row of blocks mean that the row is missing."""
    save(tmp_path)
    for column in range(3):
        (tmp_path / f"b_1_{column}.npy").unlink()
    with pytest.raises(DataError, match=r"b_1_0\.npy is missing; b_1_1\.npy is missing; b_1_2"):
        open_source(tmp_path)


def test_a_missing_offset_is_missing(tmp_path: Path) -> None:
    """Offsets that leave a gap mean that a block is missing there."""
    save(tmp_path, "{0:offset}_{1:offset}.npy", Grid.regular((10, 7), (2, 7)))
    (tmp_path / "4_0.npy").unlink()
    (tmp_path / "6_0.npy").unlink()
    with pytest.raises(DataError, match=r"4_0\.npy is missing; 6_0\.npy is missing"):
        open_source(tmp_path)


def test_blocks_that_overlap_are_refused(tmp_path: Path) -> None:
    """Offsets closer than the blocks are long are an error."""
    for start in (0, 4, 7):
        np.save(tmp_path / f"b_{start}.npy", np.zeros(4))
    with pytest.raises(DataError, match="blocks at 7 along axis 0 begin within those before"):
        open_source(tmp_path / "b_{0:offset}.npy")


def test_many_missing_blocks_are_counted(tmp_path: Path) -> None:
    """The message lists three and the error a thousand; the rest, however many, cost no time."""
    describe(tmp_path, Grid.regular((10**9, 10**9), (1, 1)))
    with pytest.raises(DataError, match=f"and {10**18 - 3} more; copy") as caught:
        open_source(tmp_path)
    assert len(caught.value.problems) == 1000
    (tmp_path / "dask-io.json").unlink()
    np.save(tmp_path / "b_0.npy", np.zeros(4))
    np.save(tmp_path / "b_999999999999999999.npy", np.zeros(4))
    with pytest.raises(DataError, match=r"b_1\.npy is missing"):
        open_source(tmp_path)


def test_mixed_orders_are_refused(tmp_path: Path) -> None:
    """All blocks lie in one order; a block one element wide is in both."""
    save(tmp_path)
    np.save(tmp_path / "b_1_0.npy", np.asfortranarray(np.load(tmp_path / "b_1_0.npy")))
    with pytest.raises(DataError, match=r"b_1_0\.npy has order F, expected C"):
        open_source(tmp_path)


def test_mismatched_blocks_along_an_axis_are_named(tmp_path: Path) -> None:
    """Shape and dtype of what is looked at have to fit the first block."""
    save(tmp_path)
    np.save(tmp_path / "b_0_1.npy", np.zeros((3, 4), "<i4"))
    np.save(tmp_path / "b_1_0.npy", np.zeros((4, 3), "<u4"))
    with pytest.raises(DataError) as caught:
        open_source(tmp_path)
    assert "b_0_1.npy has shape 3 x 4, expected 4 x 4" in str(caught.value)
    assert "b_1_0.npy has dtype uint32, expected int32" in str(caught.value)


def test_blocks_with_other_axes_are_refused(tmp_path: Path) -> None:
    """The names number as many axes as the blocks have."""
    np.save(tmp_path / "b_0_0.npy", np.zeros((2, 2, 2)))
    with pytest.raises(DataError, match="3 axes, but their names number 2"):
        open_source(tmp_path / "b_{0}_{1}.npy")


def test_links_are_followed(tmp_path: Path) -> None:
    """A block may lie elsewhere; a link to nowhere, or a directory, is no file."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    blocks = tmp_path / "blocks"
    blocks.mkdir()
    save(blocks)
    (blocks / "b_1_1.npy").rename(elsewhere / "x")
    (blocks / "b_1_1.npy").symlink_to(elsewhere / "x")
    assert np.array_equal(whole(open_source(blocks)), ARRAY)
    (elsewhere / "x").unlink()
    (blocks / "b_2_2.npy").unlink()
    (blocks / "b_2_2.npy").mkdir()
    with pytest.raises(DataError, match=r"b_1_1\.npy is not a file; b_2_2\.npy is not a file"):
        open_source(blocks / "b_{0}_{1}.npy")


def test_zeros_in_front_are_read(tmp_path: Path) -> None:
    """Files with more zeros than the pattern are blocks all the same."""
    save(tmp_path, "b_{0:04}_{1:02}.npy")
    describe(tmp_path)
    assert np.array_equal(whole(open_source(tmp_path)), ARRAY)


def test_a_block_that_shrinks_meanwhile_is_an_error(tmp_path: Path) -> None:
    """A file cut after it was listed is noticed when it is read."""
    save(tmp_path)
    source = open_source(tmp_path)
    cut(tmp_path / "b_1_1.npy", -8)
    with pytest.raises(DataError, match=r"b_1_1\.npy: is truncated: it has .* bytes, expected"):
        read_region(source, (1, 1), Region.whole((4, 3)))


def test_raw_blocks_match_exactly(tmp_path: Path) -> None:
    """One byte too many or too few is an error before anything is read."""
    for index in GRID.indices():
        part = ARRAY[GRID.block(index).slices]
        (tmp_path / "{}_{}.raw".format(*index)).write_bytes(part.tobytes())

    def described() -> Source:
        return open_source(tmp_path, shape=(10, 7), dtype="<i4", chunks=(4, 3))

    assert np.array_equal(whole(described()), ARRAY)
    cut(tmp_path / "0_0.raw", -1)
    cut(tmp_path / "2_2.raw", 1)
    with pytest.raises(DataError, match=r"0_0\.raw is truncated.*2_2\.raw is too long"):
        described()


def test_size_on_disk_counts_headers(tmp_path: Path) -> None:
    """What the store occupies is the size of its files."""
    save(tmp_path)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert open_source(tmp_path).n_bytes_on_disk == sum(sizes)


def test_a_folder_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the way of removing an empty folder is told, unless it is not ours to go."""
    folder = tmp_path / "blocks"
    folder.mkdir()
    save(folder)
    source, code = open_source(folder), errno.EIO

    def refuse(_: Path) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(system.calls, "rmdir", refuse)
    with pytest.raises(StorageError, match="error"):
        source.discard_rest()
    code = errno.EACCES
    source.discard_rest()
