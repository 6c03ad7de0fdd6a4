"""Recognising patterns of block names."""

from __future__ import annotations

import random
import re

import pytest

from dask_io.errors import DataError
from dask_io.stores.name_inference import guess_names


def guess(names: list[str], shape: tuple[int, ...], suffix: str = ".npy") -> str:
    """The pattern that names show, in whatever order they come."""
    shuffled = random.Random(0).sample(names, len(names))
    return guess_names("dir", shuffled, suffix=suffix, first_shape=shape).pattern


def test_block_numbers_are_recognised() -> None:
    """Numbers from 0 to n - 1 along every axis count blocks."""
    names = [f"b_{i}_{j}.npy" for i in range(12) for j in range(3)]
    assert guess(names, (1, 1)) == "b_{0}_{1}.npy"


def test_padding_is_recognised() -> None:
    """Zeros in front are part of the pattern if all numbers are equally wide."""
    assert guess([f"{i:03}.npy" for i in range(12)], (5,)) == "{0:03}.npy"
    assert guess([f"{i:01}.npy" for i in range(12)], (5,)) == "{0}.npy"


def test_offsets_are_recognised() -> None:
    """Numbers whose second is the first block's length are offsets, on all axes."""
    names = [f"y{i}x{j}.npy" for i in (0, 10, 15) for j in (0, 1, 2)]
    assert guess(names, (10, 1)) == "y{0:offset}x{1:offset}.npy"


def test_gaps_are_taken_for_missing_blocks() -> None:
    """Numbers that are neither are block numbers, so that missing ones can be named."""
    assert guess(["b_0.npy", "b_2.npy"], (10,)) == "b_{0}.npy"
    assert guess(["b_2.npy", "b_3.npy"], (1,)) == "b_{0}.npy"


def test_constant_numbers_are_no_axes() -> None:
    """Digits that never change are part of the name, unless they are needed as axes."""
    names = [f"sub07_2_{i}_{j}.npy" for i in range(2) for j in range(2)]
    assert guess(names, (1, 1)) == "sub07_2_{0}_{1}.npy"
    assert guess(["b_0_0.npy", "b_1_0.npy"], (1, 1)) == "b_{0}_{1}.npy"
    with pytest.raises(DataError, match=r"'dir/sub07_\{0:slice\}_0.npy' for slices"):
        guess(["sub07_0_0.npy", "sub07_1_0.npy"], (1, 1))
    assert guess(["7_0.npy"], (1, 1)) == "{0}_{1}.npy"
    assert guess([f"{{x}}{i}.npy" for i in range(2)], (1,)) == "{{x}}{0}.npy"


@pytest.mark.parametrize(
    "names",
    [
        ["a_0.npy", "b_1.npy"],
        ["a.npy"],
        ["5_7_0.npy"],
        ["1_1.npy", "2_2.npy"],
        ["0_0_0.npy", "1_1_1.npy"],
    ],
)
def test_names_without_one_pattern_are_refused(names: list[str]) -> None:
    """The message says how to name the pattern."""
    shape = (5, 5) if len(names[0]) > len("1_1.npy") else (5,)
    with pytest.raises(DataError, match=r"give the pattern, as in 'dir/b_\{0\}"):
        guess(names, shape)


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["b_1_1.npy", "b_1_2.npy", "b_2_1.npy", "b_2_2.npy"], "b_{0:from1}_{1:from1}.npy"),
        # Rather blocks that are missing than two ways to count.
        (["b_0_1.npy", "b_0_2.npy", "b_1_1.npy", "b_1_2.npy"], "b_{0}_{1}.npy"),
        (["v_01_1.npy"], "v_{0:from1:02}_{1:from1}.npy"),
    ],
)
def test_blocks_counted_from_1_are_recognised(names: list[str], pattern: str) -> None:
    """They count from 1 along all axes."""
    assert guess(names, (4, 4)) == pattern


def test_a_single_number_1_counts_as_the_others_do() -> None:
    """Where others count from 0, so does it, and the blocks before it are missing."""
    names = [f"b_{i}_1_{j}.npy" for i in range(2) for j in range(2)]
    assert guess(names, (4, 4, 4)) == "b_{0}_{1}_{2}.npy"


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("slice_{:04}", "slice_{0:slice:04}.npy"),
        ("scan3_slice_{}", "scan3_slice_{0:slice}.npy"),
        ("sub07_run1_z{:02}", "sub07_run1_z{0:slice:02}.npy"),
        ("T{}", "T{0:slice}.npy"),
    ],
)
def test_slices_are_recognised(name: str, pattern: str) -> None:
    """One number that varies among the names of 2-D files counts the slices of a volume."""
    assert guess([f"{name.format(n)}.npy" for n in range(3)], (4, 5)) == pattern
    from_1 = pattern.replace(":slice", ":slice:from1")
    assert guess([f"{name.format(n)}.npy" for n in range(1, 4)], (4, 5)) == from_1


@pytest.mark.parametrize(
    ("name", "n_first", "pattern"),
    [
        ("t0_z{1:03}", 1, "t0_z{0:slice:03}"),
        ("t{0}_z{1}", 2, "t{0:slice}_z{1:slice}"),
        ("c{0}_z{1}", 2, "c{0:slice}_z{1:slice}"),
        ("img_Time{0}_z{1}", 2, "img_Time{0:slice}_z{1:slice}"),
        ("T{0}Z{1}C", 2, "T{0:slice}Z{1:slice}C"),
        ("img_{1:03}_ch00", 1, "img_{0:slice:03}_ch00"),
        ("img_{1:03}_ch{0:02}", 2, "img_{0:slice:03}_ch{1:slice:02}"),
        ("Pos0_{1:03}", 1, "Pos0_{0:slice:03}"),
        ("y{1}_x0", 1, "y{0}_x{1}"),
    ],
)
def test_words_before_numbers_mean_slices(name: str, n_first: int, pattern: str) -> None:
    """Numbers after z, t, channel or similar words never number blocks along y and x."""
    names = [f"{name.format(i, j)}.npy" for i in range(n_first) for j in range(4)]
    assert guess(names, (9, 11)) == f"{pattern}.npy"


def test_slices_of_raw_files_are_recognised() -> None:
    """Raw files could hold blocks that are one slice: they need no number per axis."""
    names = [f"s{n}.raw" for n in range(3)]
    found = guess_names("dir", names, suffix=".raw", first_shape=(1, 4, 5), is_of_file=False)
    assert (found.pattern, found.n_axes) == ("s{0:slice}.raw", 3)


def test_slices_or_blocks_is_asked() -> None:
    """A constant 1 could belong to the name, or be the only number along an axis."""
    with pytest.raises(DataError) as caught:
        guess([f"scan1_{n}.npy" for n in range(1, 4)], (4, 5))
    assert "'dir/scan1_{0:slice:from1}.npy' for slices" in str(caught.value)
    assert "'dir/scan{0:from1}_{1:from1}.npy' for blocks" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "shape", "in_order", "by_letter"),
    [
        ("x{}_y{}_z{}", (5, 5, 5), "x{0}_y{1}_z{2}", "x{2}_y{1}_z{0}"),
        ("0_X={}Y={}", (5, 5, 5), "{0}_X={1}Y={2}", "{0}_X={2}Y={1}"),
        ("{}x_{}y", (5, 5), "{0}x_{1}y", "{1}x_{0}y"),
        ("vol2 z-{} t-{}", (5, 5), "vol2 z-{0:slice} t-{1:slice}", "vol2 z-{1:slice} t-{0:slice}"),
        ("x_{}", (5, 5), "x_{0:slice}", "x_{2:slice}"),
        ("y_{}", (5, 5), "y_{0:slice}", "y_{1:slice}"),
    ],
)
def test_letters_against_the_order_are_refused(
    name: str, shape: tuple[int, ...], in_order: str, by_letter: str
) -> None:
    """The message has both patterns: numbers by their order, and by their letters."""
    numbers = [(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1)]
    names = sorted({f"{name.format(*each)}.npy" for each in numbers})
    with pytest.raises(DataError) as caught:
        guess(names, shape)
    message = str(caught.value)
    assert f"'dir/{in_order}.npy' for axes in the order of the name" in message
    assert f"'dir/{by_letter}.npy' for axes in the order" in message
    assert "\n" not in message


def test_offsets_by_letter_are_offered() -> None:
    """Numbers that are positions only along the axes of their letters are offsets."""
    names = [f"x{x}_y{y}.npy" for x in (0, 7) for y in (0, 5)]
    with pytest.raises(DataError, match=r"x\{1:offset\}_y\{0:offset\}"):
        guess(names, (5, 7))


@pytest.mark.parametrize(
    "name",
    [
        "z{}_y{}_x{}",
        "t{}_c{}_z{}",
        "i{}_j{}_k{}",
        "max{}_army{}",
        "r{}_c{}",
        "{}x{}x{}",
        "tile_x{}",
    ],
)
def test_letters_that_agree_or_mean_nothing_are_accepted(name: str) -> None:
    """Words that end in such a letter, repeated letters and a single one decide nothing."""
    n_axes = name.count("{}")
    numbers = [(n >> 2, n >> 1 & 1, n & 1) for n in range(8)]
    names = sorted({f"{name.format(*each[-n_axes:])}.npy" for each in numbers})
    in_order = name
    for axis in range(n_axes):
        in_order = in_order.replace("{}", f"{{{axis}}}", 1)
    assert guess(names, (5,) * n_axes) == f"{in_order}.npy"


def test_one_file_needs_no_order() -> None:
    """Where there is only one block, letters cannot be wrong."""
    assert guess(["x0_y0_z0.npy"], (5, 5, 5)) == "x{0}_y{1}_z{2}.npy"


def test_the_few_names_that_do_not_fit_are_listed() -> None:
    """If most names follow one pattern, the error says which ones do not."""
    names = [f"b_{x}_{y}.npy" for x in range(3) for y in range(3)]
    found = (
        "9 files follow b_{0}_{1}.npy, these do not: mean.npy, old_b_0_0.npy; give 'dir/b_*_*.npy'"
    )
    with pytest.raises(DataError, match=re.escape(found)):
        guess([*names, "old_b_0_0.npy", "mean.npy"], (5, 5))
    with pytest.raises(DataError, match=r"these do not: b_0_mean_0\.npy; rename or move"):
        guess([*names, "b_0_mean_0.npy"], (5, 5))
    with pytest.raises(DataError, match="do not follow one pattern; give the pattern"):
        guess([*names, *(f"c_{name}" for name in names)], (5, 5))
