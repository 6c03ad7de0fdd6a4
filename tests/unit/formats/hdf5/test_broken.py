"""Files that are broken in any way: one of our errors, or what HDF5 itself reads."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py  # type: ignore[import-untyped]
import hdf5plugin
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dask_io
from dask_io.errors import DaskIOError, DataError
from dask_io.formats.isolation import WORKER
from dask_io.jobs.tree_source import find_tree
from tests.refusals import may_refuse

KINDS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (4, 5)},
    "gzip": {"chunks": (4, 5), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"chunks": (4, 5), "compression": "lzf"},
    "may grow": {"chunks": (4, 5), "maxshape": (None, None), "compression": "gzip"},
}


def make(kind: str, libver: str) -> bytes:
    """Make a small file."""
    content = io.BytesIO()
    with h5py.File(content, "w", libver=libver) as file:
        data = np.arange(12 * 10, dtype="<i4").reshape(12, 10)
        made = file.create_dataset("g/x", data=data, fillvalue=3, **KINDS[kind])
        made.attrs["units"] = "K"
        made.attrs["words"] = ["a", "b"]
        file["s"] = np.arange(10)
        file["s"].make_scale("s")
        made.dims[1].attach_scale(file["s"])
        file["one"] = 7
    return content.getvalue()


FILES = {(kind, libver): make(kind, libver) for kind in KINDS for libver in ("earliest", "latest")}


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_flipped_bytes(kind: str, libver: str, data: st.DataObject) -> None:
    """Whatever byte is another, reading ends, and what is not read is one line."""
    content = bytearray(FILES[kind, libver])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.h5"
        path.write_bytes(content)
        _open(path)


@pytest.mark.parametrize("kind", ["chunked", "gzip"])
@settings(max_examples=12)
@given(data=st.data())
def test_flipped_bytes_of_a_file_as_a_whole(kind: str, data: st.DataObject) -> None:
    """Whatever byte is another, all is copied and complete, or it is one of our errors."""
    content = bytearray(FILES[kind, "earliest"])
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as folder:
        path, target = Path(folder) / "a.h5", Path(folder) / "b.h5"
        path.write_bytes(content)
        with may_refuse():
            file = find_tree(path)
            if file is not None and sum(each.grid.size for each in file.sources.values()) < 2**16:
                dask_io.resplit(path, target, chunks=5, workers=1, verify=True)
                assert dask_io.verify(path, target)
                assert target.exists()
        assert target.exists() == target.with_name(".b.h5.dask-io").exists()


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_truncated_files(kind: str, data: st.DataObject) -> None:
    """A file that ends anywhere is never taken for a whole one."""
    content = FILES[kind, "earliest"]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.h5"
        path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        with pytest.raises(DaskIOError):
            np.asarray(dask_io.open(f"{path}::/g/x"))


@pytest.mark.parametrize(
    ("behind", "at", "value"),
    [
        # libhdf5 1.14 aborts: a scale is none.
        (b"DIMENSION_SCALE", 1, 0xFF),
        # It does not come to an end: words of no length, and what is free behind them too.
        (b"GCOL", 24, 0),
        (b"GCOL", 120, 0),
        # It reads from where nothing is: types that are no types.
        (b"DIMENSION_LIST", 17, 0xD4),
        (b"words", 9, 0xFF),
    ],
)
def test_files_that_hdf5_fails_on(behind: bytes, at: int, value: int, tmp_path: Path) -> None:
    """A file that HDF5 itself does not survive is an error as any other."""
    content = bytearray(FILES["gzip", "earliest"])
    content[content.index(behind) + at] = value
    path = tmp_path / "a.h5"
    path.write_bytes(content)

    with pytest.raises(DaskIOError, match="its library fails"):
        np.asarray(dask_io.open(f"{path}::/g/x"))


def _open(path: Path) -> None:
    with may_refuse():
        opened = dask_io.open(f"{path}::/g/x")
        if opened.source.grid.size < 2**20:
            values = np.asarray(opened)
            assert values.shape == opened.shape


ONLY_HDF5: dict[str, dict[str, Any]] = {
    "lzf": {"compression": "lzf"},
    "scaleoffset": {"scaleoffset": 0},
    "lz4": dict(hdf5plugin.LZ4()),
    "bitshuffle": dict(hdf5plugin.Bitshuffle(cname="lz4")),
    "bitshuffle alone": dict(hdf5plugin.Bitshuffle(cname="none")),
    "blosc2": dict(hdf5plugin.Blosc2()),
    "zfp": dict(hdf5plugin.Zfp(reversible=True)),
}


@pytest.mark.parametrize("kind", ONLY_HDF5)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_broken_chunks_that_only_hdf5_decodes(
    kind: str, data: st.DataObject, capfd: pytest.CaptureFixture[str]
) -> None:
    """It says nothing in our name, and if it crashes, our process does not."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.h5"
        with h5py.File(path, "w") as file:
            values = np.cumsum(np.arange(4096) % 7, dtype="i4").reshape(8, 512)
            made = file.create_dataset("x", data=values, chunks=(8, 512), **ONLY_HDF5[kind])
            offset, size = made.id.get_chunk_info(0)[2:]
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[offset + data.draw(st.integers(0, size - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        with suppress(DataError):
            assert np.asarray(dask_io.open(path)).shape == (8, 512)
    assert capfd.readouterr() == ("", "")


def test_a_filter_that_crashes_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that decodes is gone, ours is not, and the error names the file."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(100), chunks=(50,), compression="lzf")
    opened, call = dask_io.open(tmp_path / "a.h5"), WORKER.call
    monkeypatch.setattr(WORKER, "call", lambda limits, *_: call(limits, os.abort))

    with pytest.raises(DataError, match=r"a\.h5: .*its library fails on it .SIGABRT"):
        np.asarray(opened)
    monkeypatch.undo()
    assert np.array_equal(np.asarray(opened), np.arange(100))
