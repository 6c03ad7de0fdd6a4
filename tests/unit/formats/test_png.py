"""PNG pictures are read, as the slices of a volume or alone; nothing in them is trusted."""

from __future__ import annotations

import os
import struct
import zlib
from typing import TYPE_CHECKING

import imagecodecs
import numpy as np
import pytest
import tifffile

import dask_io
from dask_io.errors import DataError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

GREY = np.random.default_rng(0).integers(0, 2**16, (6, 40, 50)).astype("u2")


def save(folder: Path, array: np.ndarray) -> Path:
    """Save the slices of a volume."""
    folder.mkdir()
    for number, picture in enumerate(array):
        (folder / f"s{number:02}.png").write_bytes(imagecodecs.png_encode(picture))
    return folder


@pytest.mark.parametrize(
    "array",
    [
        GREY,
        GREY.astype("u1"),
        GREY[:3, :, :48].reshape(3, 40, 16, 3),
        GREY[:2, :, :48].reshape(2, 40, 12, 4),
    ],
    ids=["16", "8", "rgb", "rgba"],
)
def test_a_folder_of_pictures_is_a_volume(array: np.ndarray, tmp_path: Path) -> None:
    """Grey ones have three axes, coloured ones four; they are moved, and read again to repair."""
    folder = save(tmp_path / "s", np.ascontiguousarray(array))
    np.testing.assert_array_equal(dask_io.open(folder), array)
    assert dask_io.info(folder).metadata["dimension_names"] == ("z", "y", "x", "c")[: array.ndim]
    dask_io.resplit(folder, tmp_path / "out", chunks=(2, 8, 8, 1)[: array.ndim], memory="2MiB")
    next((tmp_path / "out").glob("*.npy")).unlink()
    dask_io.repair(tmp_path / "out")
    np.testing.assert_array_equal(dask_io.open(tmp_path / "out"), array)


def test_one_picture_is_an_array(tmp_path: Path) -> None:
    """It is read, moved and found again, but not written."""
    folder = save(tmp_path / "s", GREY[:1])
    dask_io.resplit(folder / "s00.png", tmp_path / "out", chunks=(20, 20))
    (tmp_path / "out" / "b_0_0.npy").unlink()
    dask_io.repair(tmp_path / "out")
    np.testing.assert_array_equal(dask_io.open(tmp_path / "out"), GREY[0])
    with pytest.raises(UsageError, match="is read, but not written"):
        dask_io.resplit(tmp_path / "out", tmp_path / "a.png", chunks=-1)


def chunk(kind: bytes, content: bytes) -> bytes:
    """Return a part of a PNG file."""
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def picture(width: int, height: int, bits: int = 8, colour: int = 0, data: bytes = b"") -> bytes:
    """Return a file that claims this size."""
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "truncated"),
        (b"\x89PNG\r\n", "truncated"),
        (b"GIF89a" + bytes(60), "is not a PNG file"),
        (picture(2**31 - 1, 2**31 - 1), "claims .* but has only"),
        (picture(40000, 40000, data=bytes(100)), "claims .* but has only"),
        (picture(0, 5), "without elements"),
        (picture(5, 5, bits=1), "elements of 1 bits"),
        (picture(5, 5, colour=3), "palette"),
        (picture(5, 5, colour=9), "supported are 8 and 16"),
        (picture(5, 5, data=bytes(7)), "cannot be decoded"),
        (picture(5, 5, data=bytes(30)).replace(b"IHDR", b"IHDX"), "no header"),
    ],
)
def test_hostile_pictures_are_refused(content: bytes, problem: str, tmp_path: Path) -> None:
    """In one line, without decoding more than a picture of that size."""
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(DataError, match=problem) as caught:
        np.asarray(dask_io.open(tmp_path / "a.png"))
    assert "\n" not in str(caught.value)


def test_slices_that_are_not_pictures_are_listed(tmp_path: Path) -> None:
    """A pipe, a directory and a picture of another size do not stop the others' check."""
    folder = save(tmp_path / "s", GREY)
    for number in (1, 2):
        (folder / f"s0{number}.png").unlink()
    os.mkfifo(folder / "s01.png")
    (folder / "s02.png").mkdir()
    (folder / "s03.png").write_bytes(imagecodecs.png_encode(GREY[0, :30]))
    (folder / "s04.png").write_bytes(picture(2**31 - 1, 2**31 - 1))
    with pytest.raises(DataError) as caught:
        dask_io.open(folder)
    assert [problem.split()[0] for problem in caught.value.problems] == [
        "s01.png",
        "s02.png",
        "s04.png",
        "s03.png",
    ]


@pytest.mark.parametrize("target", ["out/z_{0:03}.tif", "volume.tif", "volume.ome.tif"])
def test_colours_become_samples_of_tiff(target: str, tmp_path: Path) -> None:
    """Other readers see one RGB page per picture, in slices and in one file."""
    array = GREY[:2, :, :48].reshape(2, 40, 16, 3).astype("u1")
    folder = save(tmp_path / "s", np.ascontiguousarray(array))
    dask_io.resplit(folder, tmp_path / target, chunks=(1, -1, -1, -1))
    first = tmp_path / target.format(0)
    with tifffile.TiffFile(first) as file:
        page = file.pages[0]
        assert isinstance(page, tifffile.TiffPage)
        assert (page.shape, page.photometric) == ((40, 16, 3), tifffile.PHOTOMETRIC.RGB)
    expected = array[0] if "{" in target else array
    np.testing.assert_array_equal(tifffile.imread(first), expected)
    written = first.parent if "{" in target else first
    np.testing.assert_array_equal(dask_io.open(written), array)
    assert dask_io.info(written).metadata["dimension_names"] == ("z", "y", "x", "c")
