"""Other packages add formats from outside: one of block files, and a container."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.formats import make_target, open_source
from dask_io.formats.registry import ENTRY_POINTS
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    from dask_io.stores import Source, Target

ROOT = Path(__file__).parents[2]
PACKED = "tests.third_party.packed"
PACKED_TEXT = (ROOT / "tests" / "third_party" / "packed.py").read_text()
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL
)
(IDX_TEXT,) = [example for example in EXAMPLES if "idx" in example]
ARRAY = np.arange(60, dtype=">i2").reshape(10, 6)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the container, as an entry point does."""
    monkeypatch.setattr("dask_io.formats.registry._others", lambda: {"packed": f"{PACKED}:ROW"})


class TestPacked(StoreConformance):
    """A file of compressed chunks; it counts only once it is complete."""

    regular = True
    padded = True
    resumable = False

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make a file."""
        kind: Any = {"grid": case.grid, "dtype": case.dtype, "layout": case.layout}
        return make_target(folder / "x.pack", overwrite=overwrite, **kind)

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - describes itself
        """Open it."""
        return open_source(folder / "x.pack")


def test_formats_are_short() -> None:
    """A format of block files takes less than 100 lines, a container less than 250."""
    assert len(IDX_TEXT.splitlines()) < 100
    assert len(PACKED_TEXT.splitlines()) < 250


@pytest.mark.parametrize(
    ("name", "text", "entry", "file"),
    [("idx", IDX_TEXT, "FORMAT", "y.idx"), ("packed", PACKED_TEXT, "ROW", "y.pack")],
)
def test_a_package_adds_a_format(
    tmp_path: Path, name: str, text: str, entry: str, file: str
) -> None:
    """One module and an entry point are enough for every command."""
    (tmp_path / f"dask_io_{name}.py").write_text(text)
    described = tmp_path / f"dask_io_{name}-1.0.dist-info"
    described.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: dask-io-{name}\nVersion: 1.0\n"
    (described / "METADATA").write_text(metadata)
    entries = f"[{ENTRY_POINTS}]\n{name} = dask_io_{name}:{entry}\n"
    (described / "entry_points.txt").write_text(entries)
    np.save(tmp_path / "x.npy", ARRAY)
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    for arguments in (
        ["split", "x.npy", "blocks", "--chunks", "4,3"],
        ["merge" if name == "idx" else "resplit", "blocks", file]
        + (["--chunks", "5,6"] if name == "packed" else []),
        ["verify", "x.npy", file],
        ["verify", file],
        ["resplit", file, "out", "--chunks", "3,6"],
        ["verify", "x.npy", "out"],
    ):
        subprocess.run(
            [sys.executable, "-m", "dask_io.cli", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": paths},
            check=True,
        )
    if name == "idx":
        header = b"\0\0\x0b\x02\0\0\0\x0a\0\0\0\x06"
        assert (tmp_path / file).read_bytes() == header + ARRAY.tobytes()


def test_an_interrupted_container_is_written_again(tmp_path: Path) -> None:
    """A run that fails leaves no file; the next one succeeds."""
    target = make_target(
        tmp_path / "x.pack",
        grid=dask_io.open(np_file(tmp_path)).source.grid,
        dtype=ARRAY.dtype,
        layout=dask_io.open(tmp_path / "x.npy").source.layout,
    )
    target.create()
    assert not target.abandon()
    assert not (tmp_path / "x.pack").exists()
    dask_io.resplit(tmp_path / "x.npy", tmp_path / "x.pack", chunks=(4, 3))
    assert np.array_equal(np.asarray(dask_io.open(tmp_path / "x.pack")), ARRAY)


def np_file(folder: Path) -> Path:
    """Save an array."""
    np.save(folder / "x.npy", ARRAY)
    return folder / "x.npy"


def test_damage_is_reported(tmp_path: Path) -> None:
    """A damaged index, a damaged chunk, and an option that the container does not have."""
    path = tmp_path / "x.pack"
    dask_io.resplit(np_file(tmp_path), path, chunks=(4, 3))
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(DataError, match="has no index"):
        dask_io.open(path)
    path.write_bytes(whole[:10] + b"\xff\xff\xff" + whole[13:])
    with pytest.raises(DataError, match="cannot be decoded"):
        np.asarray(dask_io.open(path))
    with pytest.raises(UsageError, match="format packed has no codec"):
        dask_io.resplit(tmp_path / "x.npy", tmp_path / "y.pack", chunks=(4, 3), codec="zstd")
