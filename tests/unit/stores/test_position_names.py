"""Numbers in the names of blocks are matched to axes by where the blocks lie."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import nibabel as nib
import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

SHAPE, BLOCK = (8, 9, 10), (4, 3, 5)
AFFINE = np.array([[0, -2.0, 0, 5], [1.5, 0, 0, -7], [0, 0, 3, 11], [0, 0, 0, 1]])


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """Save a volume that is rotated in the world."""
    array = np.arange(np.prod(SHAPE), dtype="<i2").reshape(SHAPE)
    image = nib.Nifti1Image(array, AFFINE)
    nib.save(image, tmp_path / "x.nii")
    return tmp_path / "x.nii"


def blocks_of(scan: Path, pattern: str, chunks: tuple[int, ...] = BLOCK) -> Path:
    """Split a volume into blocks of some names, without a manifest."""
    folder = scan.parent / "b"
    dask_io.split(scan, folder / pattern, chunks=chunks)
    (folder / "dask-io.json").unlink()
    shutil.rmtree(folder / ".dask-io")
    return folder


@pytest.mark.parametrize(
    "pattern",
    [
        "big_brain_{1:offset}_{2:offset}_{0:offset}.nii",
        "b_{2}_{0}_{1}.nii",
        "x{0:from1}_y{1:from1}_z{2:from1}.nii",
        "run7_{2:03}_{1:03}_{0:03}.nii",
        "sub-01_block_{0}_{1}_{2}.nii",
        "sub-007_ses-02_{2:offset}_{1:offset}_{0:offset}.nii",
        "b_{0}_{1}_{2}.nii",
    ],
)
def test_axes_come_in_any_order(scan: Path, pattern: str) -> None:
    """Names number the axes as they like, and the merged file is the same."""
    folder = blocks_of(scan, pattern)
    dask_io.merge(folder, scan.parent / "y.nii")
    assert (scan.parent / "y.nii").read_bytes() == scan.read_bytes()


def test_axes_that_are_not_cut(scan: Path) -> None:
    """Slabs have zeros in their names for the other axes."""
    folder = blocks_of(scan, "s_{2:offset}_{1:offset}_{0:offset}.nii", (8, 9, 5))
    assert dask_io.info(folder).shape == SHAPE
    assert dask_io.verify(scan, folder).equal


def test_a_legend_lists_the_blocks(scan: Path) -> None:
    """Only the files that it lists are opened, by names or by paths."""
    folder = blocks_of(scan, "b_{1:offset}_{2:offset}_{0:offset}.nii")
    names = sorted(path.name for path in folder.glob("*.nii"))
    shutil.copy(folder / names[0], folder / "other.nii")
    (folder / "legend.txt").write_text("\n".join(f"{folder}/{name}" for name in names) + "\n")
    assert dask_io.verify(scan, folder / "legend.txt").equal
    (folder / "legend.txt").write_text("\n".join(names))
    dask_io.merge(folder / "legend.txt", scan.parent / "y.nii")
    assert (scan.parent / "y.nii").read_bytes() == scan.read_bytes()


def test_a_legend_must_be_true(scan: Path) -> None:
    """Files that are missing or elsewhere are named."""
    folder = blocks_of(scan, "b_{0}_{1}_{2}.nii")
    (folder / "legend.txt").write_text("b_0_0_0.nii\nb_9_9_9.nii\n")
    with pytest.raises(DataError, match=r"b_9_9_9.nii is missing"):
        dask_io.info(folder / "legend.txt")
    (folder / "legend.txt").write_text("../x.nii\n")
    with pytest.raises(DataError, match=r"'../x.nii', which is not in the same directory"):
        dask_io.info(folder / "legend.txt")


def test_names_that_contradict_the_positions_are_refused(scan: Path) -> None:
    """Two blocks that have changed their names are found by their places."""
    folder = blocks_of(scan, "b_{0}_{1}_{2}.nii")
    (folder / "b_1_1_1.nii").rename(folder / "aside.nii")
    (folder / "b_1_2_1.nii").rename(folder / "b_1_1_1.nii")
    (folder / "aside.nii").rename(folder / "b_1_2_1.nii")
    with pytest.raises(DataError, match=r"b_1_[12]_1.nii.*begins at.*swapped.*check=True lists"):
        dask_io.merge(folder, scan.parent / "y.nii")
    with pytest.raises(DataError, match=r"b_1_1_1.nii.*b_1_2_1.nii"):
        dask_io.merge(folder, scan.parent / "z.nii", check=True)
    assert not (scan.parent / "z.nii").exists()


@pytest.mark.parametrize("code", [1, 0])
def test_blocks_with_the_affine_of_the_whole_volume(code: int, scan: Path) -> None:
    """The error tells what it means; its way out, blocks without an affine, works."""
    folder = scan.parent / "cut"
    folder.mkdir()
    array = np.asanyarray(nib.load(scan).dataobj)
    for x in range(2):
        for y in range(3):
            for z in range(2):
                block = array[4 * x : 4 * x + 4, 3 * y : 3 * y + 3, 5 * z : 5 * z + 5]
                image = nib.Nifti1Image(block, AFFINE if code else None)
                nib.save(image, folder / f"b_{x}_{y}_{z}.nii")
    if code:
        with pytest.raises(DataError, match="same position; they were probably cut without"):
            dask_io.merge(folder, scan.parent / "y.nii")
    else:
        dask_io.merge(folder, scan.parent / "y.nii")
        assert np.array_equal(nib.load(scan.parent / "y.nii").dataobj, array)
