"""Volumes in 2-D slices, blocks counted from 1, and what their names do not say."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st

import dask_io
from dask_io.errors import DataError, StorageError, UsageError
from dask_io.formats import open_source
from dask_io.stores.name_inference import guess_names
from dask_io.stores.slices import space_of_slices, stacked_space
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis

if TYPE_CHECKING:
    from pathlib import Path

VOLUME = np.arange(6 * 8 * 20, dtype="<i2").reshape(6, 8, 20)


def save_slices(folder: Path, name: str, numbers: range, **options: Any) -> Path:
    """Save every slice along axis 0 in a file of its own."""
    folder.mkdir()
    for number, each in zip(numbers, VOLUME, strict=True):
        np.save(folder / name.format(number), np.asarray(each, **options))
    return folder


def save_blocks(folder: Path, name: str, first: int = 0) -> Path:
    """Save eight blocks under a name with the fields i, j and k for axes 0, 1 and 2."""
    folder.mkdir()
    for i, j, k in product(range(2), repeat=3):
        part = VOLUME[3 * i : 3 * i + 3, 4 * j : 4 * j + 4, 10 * k : 10 * k + 10]
        np.save(folder / name.format(i=i + first, j=j + first, k=k + first), part)
    return folder


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("numbers", [range(6), range(1, 7)])
def test_a_folder_of_slices_is_a_volume(order: str, numbers: range, tmp_path: Path) -> None:
    """Its first axis is the slice number, it can be moved, and it is shown as inferred."""
    folder = save_slices(tmp_path / "s", "slice_{:04}.npy", numbers, order=order)
    array, info = dask_io.open(folder), dask_io.info(folder)
    first = ":from1" if numbers[0] else ""
    pattern = f"slice_{{0:slice{first}:04}}.npy"
    np.testing.assert_array_equal(array, VOLUME)
    assert (info.pattern, info.order) == (pattern, order)
    assert f"inferred as {pattern} (slice numbers" in repr(array)
    assert f"{pattern} (slice numbers" in str(dask_io.plan(folder, chunks=(6, 4, 4)))
    dask_io.resplit(folder, tmp_path / "out", chunks=(4, 3, 20))
    np.testing.assert_array_equal(dask_io.open(tmp_path / "out"), VOLUME)


def test_raw_slices_are_a_volume(tmp_path: Path) -> None:
    """The shape is enough: a slice along axis 0 is a block."""
    for number, each in enumerate(VOLUME):
        each.tofile(tmp_path / f"s{number}.raw")
    for place in (tmp_path, tmp_path / "s{0:slice}.raw"):
        array = dask_io.open(place, shape=VOLUME.shape, dtype=VOLUME.dtype)
        np.testing.assert_array_equal(array, VOLUME)
    with pytest.raises(UsageError, match="one slice along axis 0, but chunks are longer than 1"):
        open_source(tmp_path, shape=VOLUME.shape, dtype=VOLUME.dtype, chunks=(2, 8, 20))


def test_a_missing_slice_is_named(tmp_path: Path) -> None:
    """A gap is not closed, and a slice of another shape does not pass."""
    folder = save_slices(tmp_path / "s", "slice_{:04}.npy", range(1, 7))
    (folder / "slice_0003.npy").unlink()
    np.save(folder / "slice_0005.npy", VOLUME[0, :-1])
    with pytest.raises(DataError) as caught:
        open_source(folder)
    assert "slice 3 is missing: there is no slice_0003.npy" in str(caught.value)
    assert "slice_0005.npy has shape 1 x 7 x 20, expected 1 x 8 x 20" in str(caught.value)


def test_a_block_before_the_first_is_extra(tmp_path: Path) -> None:
    """A file 0 of a pattern that counts from 1 is not left out without a word."""
    folder = save_slices(tmp_path / "s", "slice_{}.npy", range(6))
    with pytest.raises(DataError, match=r"slice_0\.npy is extra"):
        open_source(folder / "slice_{0:slice:from1}.npy")


def test_slices_along_another_axis_are_named_by_a_pattern(tmp_path: Path) -> None:
    """The axis that files lack may be any, and tiles of slices have a number for each axis."""
    for number in range(20):
        np.save(tmp_path / f"x{number}.npy", VOLUME[:, :, number])
    np.testing.assert_array_equal(dask_io.open(tmp_path / "x{2:slice}.npy"), VOLUME)
    for number, half in product(range(6), range(2)):
        np.save(tmp_path / f"t{number}_{half + 1}_1.npy", VOLUME[number, 4 * half : 4 * half + 4])
    tiles = dask_io.open(tmp_path / "t{0:slice}_{1:from1}_{2:from1}.npy")
    np.testing.assert_array_equal(tiles, VOLUME)
    with pytest.raises(UsageError, match="1 fields for 3 axes"):
        open_source(tmp_path / "x{3:slice}.npy")


def test_slices_can_be_written(tmp_path: Path) -> None:
    """Each becomes a 2-D file that others can read, and the manifest says so."""
    np.save(tmp_path / "volume.npy", VOLUME)
    target = tmp_path / "out" / "z{0:slice:from1:02}.npy"
    with pytest.raises(UsageError, match="chunks are longer than 1 there; use chunks of 1"):
        dask_io.resplit(tmp_path / "volume.npy", target, chunks=(2, -1, -1))
    dask_io.resplit(tmp_path / "volume.npy", target, chunks=(1, -1, -1), verify=True)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "z06.npy"), VOLUME[5])
    np.testing.assert_array_equal(dask_io.open(tmp_path / "out"), VOLUME)
    assert dask_io.info(tmp_path / "out").inferred is None
    assert dask_io.verify(tmp_path / "out")


def test_blocks_counted_from_1_are_moved_and_resumed(tmp_path: Path) -> None:
    """They open by themselves, and their journal finds them again by their pattern."""
    folder = save_blocks(tmp_path / "b", "b_{i}_{j:02}_{k}.npy", first=1)
    source = open_source(folder)
    assert dask_io.info(folder).pattern == "b_{0:from1}_{1:from1:02}_{2:from1}.npy"
    np.testing.assert_array_equal(dask_io.open(folder), VOLUME)
    from_journal = dask_io.open(folder / source.describe()["pattern"])
    np.testing.assert_array_equal(from_journal, VOLUME)


def test_letters_against_the_order_are_refused(tmp_path: Path) -> None:
    """Names in the order x, y, z are not taken as axes 0, 1, 2; a pattern is always believed."""
    folder = save_blocks(tmp_path / "b", "x{k}_y{j}_z{i}.npy")
    with pytest.raises(DataError, match=r"x, y, z, but arrays usually have .* z, y, x"):
        open_source(folder)
    np.testing.assert_array_equal(dask_io.open(folder / "x{2}_y{1}_z{0}.npy"), VOLUME)
    assert dask_io.open(folder / "x{0}_y{1}_z{2}.npy").shape == (6, 8, 20)


def test_letters_in_the_usual_order_are_accepted(tmp_path: Path) -> None:
    """Names in the order z, y, x agree with axes 0, 1, 2."""
    folder = save_blocks(tmp_path / "b", "z{i}_y{j}_x{k}.npy")
    np.testing.assert_array_equal(dask_io.open(folder), VOLUME)
    assert dask_io.info(folder).inferred == "block numbers along axes 0, 1, 2"
    assert dask_io.info(folder / "z{0}_y{1}_x{2}.npy").inferred is None


@pytest.mark.parametrize("first", [0, 1, 7, 98])
def test_slices_may_have_any_first_number(first: int, tmp_path: Path) -> None:
    """Numbers are compared as numbers, so that 10 comes after 9, and the first one is shown."""
    folder = save_slices(tmp_path / "s", "slice_{}.npy", range(first, first + 6))
    start = f":from{first}" if first else ""
    assert dask_io.info(folder).pattern == f"slice_{{0:slice{start}}}.npy"
    for place in (folder, folder / "*.npy", folder / f"slice_{{0{start}}}.npy"):
        np.testing.assert_array_equal(dask_io.open(place), VOLUME)


def test_one_slice_is_a_volume(tmp_path: Path) -> None:
    """A folder with a single slice has one, whatever its number."""
    np.save(tmp_path / "slice_0042.npy", VOLUME[0])
    assert dask_io.open(tmp_path).shape == (1, 8, 20)


def test_slices_with_colours_have_a_last_axis(tmp_path: Path) -> None:
    """Files of shape (y, x, 3) are the slices of an array (z, y, x, c)."""
    for number in range(3):
        np.save(tmp_path / f"s{number}.npy", VOLUME[:5, :, :3] + number)
    for place in (tmp_path, tmp_path / "s{0}.npy"):
        assert dask_io.open(place).shape == (3, 5, 8, 3)


def test_blocks_of_three_axes_are_not_slices(tmp_path: Path) -> None:
    """Files of three axes with one number are refused, and the message says what to write."""
    for number in range(2):
        np.save(tmp_path / f"s{number}.npy", VOLUME)
    with pytest.raises(DataError, match=r"for slices along axis 0, write \{0:slice\}"):
        open_source(tmp_path / "s{0}.npy")
    with pytest.raises(DataError, match=r"hold 1 number, but the axes are .*with 4 axes") as caught:
        open_source(tmp_path)
    advised = str(caught.value).rpartition("give '")[2].rstrip("'")
    np.testing.assert_array_equal(dask_io.open(advised), [VOLUME, VOLUME])


def test_files_of_more_axes_are_advised_to_be_slices(tmp_path: Path) -> None:
    """TIFF files too, whose format opens them: the field says that they are slices."""
    for number in range(2):
        tifffile.imwrite(tmp_path / f"cell_t{number}.tif", VOLUME, photometric="minisblack")
    with pytest.raises(DataError, match=r"for slices along axis 0, write \{0:slice\}"):
        open_source(tmp_path / "cell_t{0}.tif")
    with pytest.raises(DataError, match=r"give '.*/cell_t\{0:slice\}.tif'"):
        open_source(tmp_path)
    found = dask_io.open(tmp_path / "cell_t{0:slice}.tif")
    np.testing.assert_array_equal(found, [VOLUME, VOLUME])


def test_slices_of_one_channel_are_advised_to_keep_its_axis(tmp_path: Path) -> None:
    """Their axis of length 1 comes before the one that is numbered, or after it."""
    for number in range(3):
        np.save(tmp_path / f"z_{number:03}.npy", VOLUME[:1])
    with pytest.raises(DataError) as caught:
        open_source(tmp_path)
    first, second = (tmp_path / f"z_{{{axis}:slice:03}}.npy" for axis in (1, 0))
    assert f"give '{first}', or '{second}' to number from axis 0" in str(caught.value)
    assert dask_io.open(first).shape == (1, 3, *VOLUME.shape[1:])


def test_gaps_between_slices_are_reported_together(tmp_path: Path) -> None:
    """Every gap is reported once, and the message does not grow with the number of gaps."""
    for number in range(100, 200):
        if number not in {103, 110, 111, 112}:
            np.save(tmp_path / f"s{number}.npy", VOLUME[0])
    np.save(tmp_path / "s0101.npy", VOLUME[0])
    with pytest.raises(DataError) as caught:
        open_source(tmp_path)
    assert caught.value.problems == (
        "s101.npy is extra: s0101.npy is the same block",
        "slice 103 is missing: there is no s103.npy",
        "slices 110 to 112 are missing, from s110.npy on",
    )
    for number in range(120, 160):
        np.save(tmp_path / f"s{number}.npy", VOLUME[0, :4])
    with pytest.raises(DataError, match=r"; and 40 more; add the missing slices, or link those"):
        open_source(tmp_path)


def test_slices_in_steps_are_refused(tmp_path: Path) -> None:
    """Numbers such as 0, 10, 20 are more likely a way to count than missing slices."""
    save_slices(tmp_path / "s", "slice_{}.npy", range(0, 60, 10))
    with pytest.raises(DataError, match=r"in steps of 10 \(0, 10, 20, \.\.\.\)"):
        open_source(tmp_path / "s")


def test_a_short_pattern_writes_slices(tmp_path: Path) -> None:
    """A target with fewer numbers than axes needs no chunks, and opens by the same pattern."""
    np.save(tmp_path / "volume.npy", VOLUME)
    target = tmp_path / "out" / "z_{0:04d}.npy"
    for wrong in ((2, -1, -1), (1, 4, -1)):
        with pytest.raises(UsageError, match="use chunks of 1,-1,-1"):
            dask_io.split(tmp_path / "volume.npy", target, chunks=wrong)
    dask_io.split(tmp_path / "volume.npy", target)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "z_0005.npy"), VOLUME[5])
    for place in (target, tmp_path / "out"):
        np.testing.assert_array_equal(dask_io.open(place), VOLUME)
    dask_io.resplit(target, tmp_path / "x" / "x{2}.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "x" / "x19.npy"), VOLUME[:, :, 19])


def test_a_wildcard_selects_the_files_of_one_array(tmp_path: Path) -> None:
    """Other files are left out; a part of the slices is not mistaken for the array."""
    folder = save_slices(tmp_path / "s", "z_{}.npy", range(8, 14))
    np.save(folder / "overview.npy", VOLUME[0])
    np.testing.assert_array_equal(dask_io.open(folder / "z_*.npy"), VOLUME)
    with pytest.raises(DataError, match=r"leaves out files such as z_10\.npy"):
        open_source(folder / "z_?.npy")
    with pytest.raises(StorageError, match="no file has such a name"):
        open_source(folder / "y_*.npy")
    with pytest.raises(StorageError, match="no such directory"):
        open_source(tmp_path / "none" / "*.npy")


@given(
    first=st.integers(0, 1200),
    n_slices=st.integers(2, 12),
    width=st.integers(0, 5),
    prefix=st.sampled_from(["slice_", "scan2_run10_z", "z", "b-", "img (3) ", "ch1_z"]),
)
@settings(max_examples=100)
def test_any_numbering_is_recognised(first: int, n_slices: int, width: int, prefix: str) -> None:
    """Slices are in the order of their numbers, for any first number and any padding."""
    names = [f"{prefix}{number:0{width}}.npy" for number in range(first, first + n_slices)]
    found = guess_names("dir", sorted(names), suffix=".npy", first_shape=(40, 50))
    assert [found.parse(name) for name in names] == [(n, 0, 0) for n in range(n_slices)]
    assert found.slice_axes == (0,)
    if len({len(name) for name in names}) == 1:
        assert [found.name_of((n, 0, 0), (n, 0, 0)) for n in range(n_slices)] == names


def test_a_unit_goes_with_its_step() -> None:
    """Slices whose positions cannot be placed keep the names of axes, but no unit alone."""
    axes = SpaceAxis("y", "mm", AxisType.SPACE), SpaceAxis("x", "mm", AxisType.SPACE)
    turned = Space(axes, Affine(((0.6, 0.8), (-0.8, 0.6)), (0, 0)))
    named = Space(axes, Affine.scaled((0.5, 0.5), (0, 0), ("right", "superior")))
    for space in (turned, named):
        found = stacked_space(space, (0,))
        assert [axis.name for axis in found.axes] == ["z", "y", "x"]
        assert found.affine is None
        assert not any(axis.unit for axis in found.axes)


def test_slices_at_one_place_keep_the_steps_within_them() -> None:
    """A single slice of an array with four axes does not tell where the next one lies."""
    axes = SpaceAxis("y", "mm", AxisType.SPACE), SpaceAxis("x", "mm", AxisType.SPACE)
    cut = Space(axes, Affine(((0, 0), (0, 0), (0.5, 0), (0, 0.25)), (1, 6, 2, 3)))
    spaces: dict[tuple[int, ...], Space] = {(n, 0, 0): stacked_space(cut, (0,)) for n in (0, 1)}
    space, is_of_all = space_of_slices(spaces, (0,))
    assert space.affine == Affine.scaled((1, 0.5, 0.25), (0, 2, 3))
    assert is_of_all
