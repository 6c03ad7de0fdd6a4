"""MGH: read as nibabel reads it, and nothing is trusted."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from nibabel.freesurfer import mghformat

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.formats.mgh import parse_header

if TYPE_CHECKING:
    from pathlib import Path

MGHImage: Any = mghformat.MGHImage
AFFINE = np.array([[-1.0, 0, 0, 5], [0, 0.6, 1.6, -7], [0, -0.8, 1.2, 9], [0, 0, 0, 1]])


@pytest.mark.parametrize("shape", [(5, 6, 7), (3, 4, 5, 2), (1, 6, 1)])
@pytest.mark.parametrize("dtype", ["u1", ">i2", ">i4", ">f4"])
def test_values_and_positions_are_those_of_nibabel(
    shape: tuple[int, ...], dtype: str, tmp_path: Path
) -> None:
    """Also with what nibabel writes after the data."""
    array = (np.arange(np.prod(shape)) % 200).astype(dtype).reshape(shape)
    content = MGHImage(array, AFFINE).to_bytes()
    (tmp_path / "a.mgh").write_bytes(content)
    info = dask_io.info(tmp_path / "a.mgh")
    there: Any = MGHImage.from_bytes(content)
    affine = info.metadata["space"].affine
    assert (info.shape, info.dtype) == (there.shape, np.dtype(dtype))
    assert np.allclose(np.array(affine.matrix)[:, :3], there.affine[:3, :3], rtol=0, atol=1e-6)
    assert np.allclose(affine.origin, there.affine[:3, 3], rtol=0, atol=1e-5)
    assert affine.coordinates == ("right", "anterior", "superior")

    dask_io.resplit(tmp_path / "a.mgh", tmp_path / "blocks", chunks=2)
    dask_io.merge(tmp_path / "blocks", tmp_path / "a.npy")
    assert np.array_equal(np.load(tmp_path / "a.npy"), there.dataobj)


def test_files_without_a_position_have_none() -> None:
    """Programs disagree on where such volumes lie."""
    content = bytearray(MGHImage(np.zeros((4, 5, 6), "u1"), AFFINE).to_bytes())
    content[28:30] = b"\0\0"
    space = parse_header(lambda n_bytes: bytes(content[:n_bytes])).space
    assert space is not None
    assert space.affine is None


def header(*words: int) -> bytes:
    """Begin a header with these words."""
    return struct.pack(f">{len(words)}i", *words).ljust(284, b"\0")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not an MGH file of version 1"),
        (header(1)[:100], "ends within its header"),
        (header(1, 2, 3, -4, 1, 0), "impossible shape"),
        (header(1, 2**30, 2**30, 2**30, 1, 0), "impossible shape"),
        (header(1, 2, 3, 4, 1, 99), "type 99, which is not supported"),
    ],
)
def test_hostile_headers_are_refused_in_one_line(content: bytes, problem: str) -> None:
    """Nothing is trusted, and nothing large is made."""
    with pytest.raises(ValueError, match=problem):
        parse_header(lambda n_bytes: content[:n_bytes])


def test_other_sizes_and_writing_are_refused(tmp_path: Path) -> None:
    """A file may be longer than its data, but not without end; new files are not made."""
    path = tmp_path / "a.mgh"
    content = header(1, 2, 3, 4, 1, 0)
    for n_bytes, problem in ((23, "is truncated"), (24 + 2**20 + 1, "is too long")):
        path.write_bytes(content + bytes(n_bytes))
        with pytest.raises(DataError, match=problem):
            dask_io.info(path)
    np.save(tmp_path / "a.npy", np.zeros((2, 3, 4), "u1"))
    with pytest.raises(UsageError, match="format mgh is read, but not written"):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "b.mgh", chunks=-1)
