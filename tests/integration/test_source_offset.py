"""Raw files may begin with a header that nobody parses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, InterruptedRunError, UsageError
from tests.commands import fail, run

if TYPE_CHECKING:
    from pathlib import Path

ARRAY = np.arange(12 * 10 * 8, dtype="<i2").reshape(12, 10, 8)
DESCRIPTION = ("--source-shape", "12,10,8", "--source-dtype", "<i2")


def make_blocks(folder: Path, offset: int) -> Path:
    """Make raw blocks of 4 x 10 x 8 in F order, each behind a header."""
    folder.mkdir()
    for n in range(3):
        content = ARRAY[4 * n : 4 * n + 4].tobytes("F")
        (folder / f"b_{n}_0_0.raw").write_bytes(b"h" * offset + content)
    return folder


def open_blocks(folder: Path, offset: int) -> dask_io.BlockArray:
    """Open these blocks."""
    return dask_io.open(
        folder, shape=ARRAY.shape, dtype="<i2", chunks=(4, 10, 8), order="F", offset=offset
    )


@pytest.mark.parametrize("offset", [0, 1, 352, 4096, 100_000])
def test_data_begins_behind_the_header(offset: int, tmp_path: Path) -> None:
    """Of one file, whatever the length of its header; each file is read in one seek."""
    (tmp_path / "a.raw").write_bytes(b"h" * offset + ARRAY.tobytes())

    shown = run("info", tmp_path / "a.raw", *DESCRIPTION, "--source-offset", offset)
    run(
        *("split", tmp_path / "a.raw", tmp_path / "out", "--chunks", "5,5,5", "--verify"),
        *(*DESCRIPTION, "--source-offset", offset),
    )

    assert "12 x 10 x 8" in shown
    assert np.array_equal(dask_io.open(tmp_path / "out")[...], ARRAY)
    same = dask_io.open(tmp_path / "a.raw", shape=ARRAY.shape, dtype="<i2", offset=offset)
    assert dask_io.verify(same, tmp_path / "out")


@pytest.mark.parametrize("offset", [7, 5000])
def test_blocks_with_headers(offset: int, tmp_path: Path) -> None:
    """Blocks are found by their names, in any order of elements, and read once."""
    source = open_blocks(make_blocks(tmp_path / "in", offset), offset)

    done = dask_io.plan(source, tmp_path / "out.zarr", chunks=(5, 5, 5)).run(verify=True)

    assert done.seeks.read == source.source.grid.n_blocks
    assert np.array_equal(dask_io.open(tmp_path / "out.zarr")[...], ARRAY)


def stop_midway(progress: dask_io.Progress) -> None:
    """Interrupt a run after half of the data."""
    if 2 * progress.n_bytes_written >= progress.n_bytes:
        raise KeyboardInterrupt


def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    """The journal says where the data begins."""
    source = open_blocks(make_blocks(tmp_path / "in", 100), 100)

    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            source, tmp_path / "out", chunks=3, workers=1, memory="64KiB", progress=stop_midway
        )
    dask_io.resume(tmp_path / "out", verify=True)

    assert np.array_equal(dask_io.open(tmp_path / "out")[...], ARRAY)


def test_a_manifest_says_the_offset(tmp_path: Path) -> None:
    """So that a directory with headers describes itself, as after a run with consume."""
    folder = make_blocks(tmp_path / "in", 100)
    described = open_blocks(folder, 100).source.describe()
    (folder / "dask-io.json").write_text(json.dumps(described))

    assert np.array_equal(dask_io.open(folder)[...], ARRAY)
    (folder / "dask-io.json").write_text(json.dumps({**described, "format": "npy"}))
    with pytest.raises(DataError, match="offset is 100, but npy files have headers"):
        dask_io.open(folder)


@pytest.mark.parametrize("offset", [99, 101])
def test_sizes_are_exact(offset: int, tmp_path: Path) -> None:
    """A byte more or less is an error that names all numbers."""
    make_blocks(tmp_path / "in", 100)

    with pytest.raises(DataError, match=f"it has 740 bytes, expected {offset} before the data and"):
        open_blocks(tmp_path / "in", offset)


def test_formats_that_describe_themselves_refuse_it(tmp_path: Path) -> None:
    """And so do offsets that make no sense."""
    np.save(tmp_path / "a.npy", ARRAY)
    dask_io.resplit(tmp_path / "a.npy", tmp_path / "a.zarr", chunks=5)
    dask_io.resplit(tmp_path / "a.npy", tmp_path / "a", chunks=5, format="raw")

    for name in ("a.npy", "a.zarr", "a"):
        line = fail("info", tmp_path / name, "--source-offset", 0, code=2)
        assert "an offset of 0 is given, but" in line
        assert "describes itself" in line
    nonsense: Any = (-1, 1.5, True)
    for offset in nonsense:
        with pytest.raises(UsageError, match="is not a number of bytes"):
            dask_io.open(tmp_path / "a.raw", offset=offset)
