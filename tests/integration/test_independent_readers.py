"""Other libraries read our files, and we read theirs: values and positions agree."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import mrcfile
import nibabel as nib
import nrrd
import numpy as np
import pytest
from astropy.io import fits
from astropy.wcs import WCS

import dask_io
from dask_io.stores.space import Affine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    # The values of a file, and the position of an element in the order of our axes.
    Read = Callable[[Path], tuple[NDArray[Any], Callable[[tuple[int, ...]], NDArray[np.float64]]]]

SHAPE = (6, 5, 4)
ARRAY = np.arange(120, dtype="<i2").reshape(SHAPE)
DIRECTIONS = np.array([[0.0, 2.0, 0.0], [-1.5, 0.0, 0.0], [0.0, 0.0, 3.0]])
ORIGIN = np.array([10.0, -20.0, 30.0])
OPTIONS: dict[str, Any] = {"durability": "none", "memory": "8MiB", "workers": 1}


def _read_nrrd(path: Path) -> Any:
    data, header = nrrd.read(str(path))
    directions, origin = header["space directions"], header["space origin"]
    return data, lambda index: origin + np.array(index) @ directions


def _read_with_teem(path: Path) -> Any:
    """Let teem's ``unu`` decode the file and write it again; its own header gives the position."""
    again = path.with_name(f"{path.stem}-again.nrrd")
    command = ["teem-unu", "save", "-f", "nrrd", "-i", path.name, "-o", again.name]
    subprocess.run(command, cwd=path.parent, check=True, capture_output=True)
    data, position = _read_nrrd(again)
    again.unlink()
    return data, position


def _read_fits(path: Path) -> Any:
    with fits.open(path) as file:
        data, world = file[0].data.copy(), WCS(file[0].header)
    return data, lambda index: np.array(world.wcs_pix2world([index[::-1]], 0))[0][::-1]


def _read_mrc(path: Path) -> Any:
    with mrcfile.open(path) as file:
        data = file.data.copy()
        steps, origin = (
            np.array([record[axis] for axis in ("z", "y", "x")], float)
            for record in (file.voxel_size, file.header.origin)
        )
    return data, lambda index: origin + np.array(index) * steps


def _read_with_nibabel(path: Path) -> Any:
    image: Any = nib.load(path)
    affine = image.affine
    return np.asarray(image.dataobj), lambda index: affine[:3, :3] @ index + affine[:3, 3]


def _write_nrrd(path: Path) -> None:
    header: Any = {
        "space": "left-posterior-superior",
        "space directions": DIRECTIONS,
        "space origin": ORIGIN,
        "encoding": "raw",
    }
    nrrd.write(str(path), np.asfortranarray(ARRAY), header, detached_header=path.suffix == ".nhdr")


def _write_gzip_nrrd(path: Path) -> None:
    _write_nrrd(path.with_name("raw.nrrd"))
    command = ["teem-unu", "save", "-f", "nrrd", "-e", "gzip", "-i", "raw.nrrd", "-o", path.name]
    subprocess.run(command, cwd=path.parent, check=True, capture_output=True)


def _write_fits(path: Path) -> None:
    world = WCS(naxis=3)
    world.wcs.ctype = ["X", "Y", "Z"]
    world.wcs.crpix, world.wcs.crval = [2.0, 1.0, 3.5], [10.0, 20.0, 30.0]
    world.wcs.cd = DIRECTIONS
    fits.PrimaryHDU(ARRAY, header=world.to_header()).writeto(path)


def _write_mrc(path: Path) -> None:
    packed = "gzip" if path.suffix == ".gz" else None
    with mrcfile.new(path, ARRAY, compression=packed) as file:
        file.voxel_size = (1.5, 2.0, 3.0)
        file.header.origin = (10.0, -20.0, 30.0)


def _write_with_nibabel(path: Path) -> None:
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = DIRECTIONS.T, ORIGIN
    mgh = path.suffix.startswith(".mg")
    kind: Any = nib.freesurfer.MGHImage if mgh else nib.Nifti1Image
    nib.save(kind(ARRAY, affine), path)


# How a library writes a file, and reads it or our blocks of it; blocks have the last suffix.
LIBRARIES: dict[str, tuple[str, Callable[[Path], None], Read, str]] = {
    "pynrrd": ("x.nrrd", _write_nrrd, _read_nrrd, ".nrrd"),
    "pynrrd-detached": ("x.nhdr", _write_nrrd, _read_nrrd, ".nhdr"),
    "teem": ("x.nrrd", _write_gzip_nrrd, _read_with_teem, ".nrrd"),
    "teem-detached": ("x.nhdr", _write_nrrd, _read_with_teem, ".nhdr"),
    "astropy": ("x.fits", _write_fits, _read_fits, ".fits"),
    "astropy-gzip": ("x.fits.gz", _write_fits, _read_fits, ".fits"),
    "mrcfile": ("x.mrc", _write_mrc, _read_mrc, ".mrc"),
    "mrcfile-gzip": ("x.mrc.gz", _write_mrc, _read_mrc, ".mrc.gz"),
    "nibabel": ("x.nii.gz", _write_with_nibabel, _read_with_nibabel, ".nii.gz"),
    "nibabel-mgh": ("x.mgz", _write_with_nibabel, _read_with_nibabel, ".nii"),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_values_and_positions_agree(name: str, tmp_path: Path) -> None:
    """We read what the library writes; it reads our copy, and each of our blocks in its place."""
    file, write, read, suffix = LIBRARIES[name]
    write(tmp_path / file)
    data, position = read(tmp_path / file)
    source = dask_io.open(tmp_path / file)
    affine = source.source.metadata["space"].affine
    assert isinstance(affine, Affine)
    assert np.array_equal(source[...], data)
    for index in ((0, 0, 0), (1, 2, 3)):
        assert np.allclose(affine.at(index), position(index), rtol=0, atol=1e-5)

    whole = tmp_path / f"whole{suffix}"
    dask_io.resplit(tmp_path / file, whole, chunks=-1, **OPTIONS)
    again, moved = read(whole)
    assert np.array_equal(again, data)
    assert np.allclose(moved((1, 2, 3)), position((1, 2, 3)), rtol=0, atol=1e-5)

    pattern = f"{tmp_path}/b/b_{{0:offset}}_{{1:offset}}_{{2:offset}}{suffix}"
    dask_io.resplit(tmp_path / file, pattern, chunks=(4, 3, 4), **OPTIONS)
    for start in ((0, 0, 0), (4, 3, 0)):
        block, placed = read(tmp_path / "b" / f"b_{start[0]}_{start[1]}_{start[2]}{suffix}")
        assert np.array_equal(
            block, data[start[0] :, start[1] :][: block.shape[0], : block.shape[1]]
        )
        assert np.allclose(placed((0, 0, 0)), position(start), rtol=0, atol=1e-5)
