"""Compressed data of header formats: read within bounds, forward, and nothing is trusted."""

from __future__ import annotations

import bz2
import gzip
import zlib
from typing import TYPE_CHECKING, Any

import mrcfile
import nibabel as nib
import nrrd
import numpy as np
import pytest
from astropy.io import fits

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.stores import gzip_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ARRAY = np.asfortranarray(np.arange(840, dtype=">i2").reshape(12, 10, 7))
OPTIONS: dict[str, Any] = {"durability": "none", "memory": "8MiB", "workers": 1}
META = """ObjectType = Image
NDims = 3
DimSize = 12 10 7
ElementType = MET_SHORT
BinaryDataByteOrderMSB = True
CompressedData = True
ElementDataFile = """


def _nrrd(path: Path) -> None:
    nrrd.write(str(path), ARRAY)


def _detached_nrrd(path: Path) -> None:
    nrrd.write(str(path), ARRAY, detached_header=True)


def _mha(path: Path) -> None:
    path.write_bytes(f"{META}LOCAL\n".encode() + zlib.compress(ARRAY.tobytes("F")))


def _mhd(path: Path) -> None:
    path.write_text(f"{META}x.zraw")
    (path.parent / "x.zraw").write_bytes(zlib.compress(ARRAY.tobytes("F")))


def _gzipped_mha(path: Path) -> None:
    path.write_bytes(f"{META}LOCAL\n".encode() + gzip.compress(ARRAY.tobytes("F")))


def _mgz(path: Path) -> None:
    nib.save(nib.freesurfer.MGHImage(ARRAY, np.eye(4)), path)


def _fits(path: Path) -> None:
    fits.PrimaryHDU(ARRAY).writeto(path)


def _mrc(path: Path) -> None:
    with mrcfile.new(path, compression="gzip") as file:
        file.set_data(np.ascontiguousarray(ARRAY))


# Where the compressed bytes are, and how the file is made.
KINDS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "x.nrrd": ("x.nrrd", _nrrd),
    "x.nhdr": ("x.raw.gz", _detached_nrrd),
    "x.mha": ("x.mha", _mha),
    "x.mhd": ("x.zraw", _mhd),
    "gzipped.mha": ("gzipped.mha", _gzipped_mha),
    "x.mgz": ("x.mgz", _mgz),
    "x.fits.gz": ("x.fits.gz", _fits),
    "x.mrc.gz": ("x.mrc.gz", _mrc),
}

kinds = pytest.mark.parametrize("name", KINDS)


@pytest.fixture(autouse=True)
def small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut even small files into slabs."""
    monkeypatch.setattr(gzip_files, "SLAB_BYTES", 256)


@kinds
def test_compressed_data_of_other_programs_is_read(name: str, tmp_path: Path) -> None:
    """Values are the same, in one pass over slabs, and again backwards."""
    KINDS[name][1](tmp_path / name)
    array = dask_io.open(tmp_path / name)
    assert array.source.grid.n_blocks > 1
    assert np.array_equal(array[...], ARRAY)
    for at in reversed(range(ARRAY.shape[2])):
        assert np.array_equal(array[:, :, at], ARRAY[:, :, at])
    dask_io.split(tmp_path / name, tmp_path / "b", chunks=5, format="npy", **OPTIONS)
    assert np.array_equal(dask_io.open(tmp_path / "b")[...], ARRAY)


@kinds
def test_damage_is_reported_in_one_line(name: str, tmp_path: Path) -> None:
    """Truncated, changed and longer streams are refused, not read as something else."""
    KINDS[name][1](tmp_path / name)
    data = tmp_path / KINDS[name][0]
    whole = data.read_bytes()
    changed = bytearray(whole)
    changed[-30] ^= 255
    for content in (whole[:-60], bytes(changed)):
        data.write_bytes(content)
        with pytest.raises(DataError, match=r"is truncated|is damaged|is too long") as error:
            _ = dask_io.open(tmp_path / name)[...]
        assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("x.nrrd", b"sizes: 12 10 7", b"sizes: 120000 10000 7000"),
        ("x.mha", b"DimSize = 12 10 7", b"DimSize = 120000 10000 7000"),
        ("x.mha", b"DimSize = 12 10 7", b"DimSize = 12 10 8"),
        ("x.nrrd", b"sizes: 12 10 7", b"sizes: 12 10 6"),
    ],
)
def test_sizes_that_are_not_true_are_refused(
    name: str, old: bytes, new: bytes, tmp_path: Path
) -> None:
    """A few bytes cannot claim to be terabytes; data must end where it should."""
    KINDS[name][1](tmp_path / name)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content.replace(old, new))
    with pytest.raises(DataError, match=r"cannot be decoded to|is truncated|is too long"):
        _ = dask_io.open(tmp_path / name)[...]


def test_streams_that_never_end_are_refused(tmp_path: Path) -> None:
    """Only as much is decoded as a header announces, and what may follow in its format."""
    header = f"{META}LOCAL\n".encode()
    (tmp_path / "x.mha").write_bytes(header + zlib.compress(ARRAY.tobytes("F") + bytes(2**24)))
    with pytest.raises(DataError, match="is too long: its gzip stream continues"):
        _ = dask_io.open(tmp_path / "x.mha")[...]
    content = nib.freesurfer.MGHImage(ARRAY, np.eye(4)).to_bytes()
    (tmp_path / "x.mgz").write_bytes(gzip.compress(content + bytes(2**21)))
    with pytest.raises(DataError, match="is too long: its gzip stream continues"):
        _ = dask_io.open(tmp_path / "x.mgz")[...]


def test_other_compressions_are_refused(tmp_path: Path) -> None:
    """A .gz file that is not one, and a stream of another kind, are damaged."""
    (tmp_path / "x.mgz").write_bytes(b"not gzip" * 99)
    with pytest.raises(DataError, match="is not a gzip file"):
        dask_io.info(tmp_path / "x.mgz")
    header = f"{META}LOCAL\n".encode()
    (tmp_path / "x.mha").write_bytes(header + bz2.compress(ARRAY.tobytes("F")))
    with pytest.raises(DataError, match="cannot be decoded"):
        _ = dask_io.open(tmp_path / "x.mha")[...]


def test_blocks_share_one_encoding(tmp_path: Path) -> None:
    """Compressed blocks are one array; a block that is not compressed is refused."""
    for at in range(2):
        nrrd.write(
            str(tmp_path / f"b_{at}_0_0.nrrd"), np.asfortranarray(ARRAY[6 * at : 6 * at + 6])
        )
    assert np.array_equal(dask_io.open(tmp_path)[...], ARRAY)
    options: dict[str, Any] = {"header": {"encoding": "raw"}}
    nrrd.write(str(tmp_path / "b_1_0_0.nrrd"), np.asfortranarray(ARRAY[6:]), **options)
    with pytest.raises(DataError, match="has raw encoding, but the other blocks have gzip"):
        dask_io.open(tmp_path)


def test_new_files_are_not_compressed_unless_all_readers_can_read_them(tmp_path: Path) -> None:
    """Readers of NRRD and FITS expect one gzip member, so none are written; MRC is."""
    np.save(tmp_path / "a.npy", ARRAY)
    refused: list[tuple[str, Any, str]] = [
        ("x.nrrd", {"codec": "gzip"}, "format nrrd has no codec"),
        ("x.mhd", {"codec": "gzip"}, "format metaimage has no codec"),
        ("x.fits.gz", {}, "format fits is read, but not written, with gzip"),
        ("x.mgz", {}, "format mgh is read, but not written"),
    ]
    for name, options, problem in refused:
        with pytest.raises(UsageError, match=problem):
            dask_io.resplit(tmp_path / "a.npy", tmp_path / name, chunks=-1, **options)
    dask_io.resplit(tmp_path / "a.npy", tmp_path / "x.mrc.gz", chunks=-1, **OPTIONS)
    with mrcfile.open(tmp_path / "x.mrc.gz") as file:
        assert np.array_equal(file.data, ARRAY)
