"""The short way to open TIFF files that are stored like another one equals the long way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tifffile

from dask_io.formats.tiff.alike import open_alike
from dask_io.formats.tiff.source import open_tiff

if TYPE_CHECKING:
    from pathlib import Path

PICTURE = np.arange(96 * 80, dtype=np.uint16).reshape(96, 80)
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "strips": {"rowsperstrip": 8},
    "compressed": {"rowsperstrip": 16, "compression": "zlib", "predictor": True},
    "tiles": {"tile": (32, 32)},
    "compressed-tiles": {"tile": (32, 32), "compression": "lzw"},
    "big-endian": {"byteorder": ">"},
    "bigtiff": {"bigtiff": True, "compression": "zstd"},
    "resolution": {"resolution": (100.0, 50.0), "resolutionunit": "CENTIMETER"},
    "imagej": {"imagej": True},
    "ome": {"ome": True},
    "no-description": {"metadata": None, "datetime": True},
}


def described(source: Any) -> tuple[Any, ...]:
    """Everything that a reader needs to know about a file."""
    image, chunks = source.chunks.image, source.chunks
    return (
        (image.stored_as, image.files, image.size_and_time, image.fill_bytes, image.codec),
        (source.grid, source.dtype, source.layout, source.access, dict(source.metadata)),
        (source.reused_bytes, source.codec_bytes, source.n_absent, chunks.describe()),
    )


@pytest.mark.parametrize("way", WAYS)
def test_alike_files_are_opened_as_always(way: str, tmp_path: Path) -> None:
    """Pictures of other values are opened by the first one's description, or else as always."""
    for number, picture in enumerate((PICTURE, PICTURE[::-1] // 7, PICTURE * 0)):
        tifffile.imwrite(tmp_path / f"{number}.tif", picture, **WAYS[way])
    first = open_tiff(tmp_path / "0.tif")
    opened = open_alike(tmp_path / "0.tif", first)
    assert opened is not None
    for number in range(3):
        found = opened(tmp_path / f"{number}.tif")
        # The description of OME has an identifier of each file.
        if found is None:
            assert way == "ome"
        else:
            assert described(found) == described(open_tiff(tmp_path / f"{number}.tif"))


@pytest.mark.parametrize("other", ["compressed", "strips", "tiles", "big-endian", "resolution"])
def test_other_files_are_opened_the_long_way(other: str, tmp_path: Path) -> None:
    """A file that is stored in another way is not described by the first one."""
    tifffile.imwrite(tmp_path / "0.tif", PICTURE, compression="lzma")
    tifffile.imwrite(tmp_path / "1.tif", PICTURE, **WAYS[other])
    tifffile.imwrite(tmp_path / "2.tif", PICTURE[:50], compression="lzma")
    tifffile.imwrite(tmp_path / "3.tif", np.stack([PICTURE] * 2), compression="lzma")
    opened = open_alike(tmp_path / "0.tif", open_tiff(tmp_path / "0.tif"))
    assert opened is not None
    assert [opened(tmp_path / f"{number}.tif") for number in (1, 2, 3)] == [None] * 3


def test_damaged_files_are_opened_the_long_way(tmp_path: Path) -> None:
    """Whatever byte is changed or cut off, the short way gives up or agrees with the long way."""
    tifffile.imwrite(tmp_path / "0.tif", PICTURE[:8, :8], compression="zlib")
    content = (tmp_path / "0.tif").read_bytes()
    opened = open_alike(tmp_path / "0.tif", open_tiff(tmp_path / "0.tif"))
    assert opened is not None
    damaged = tmp_path / "1.tif"
    n_opened = 0
    for at in range(0, len(content), 3):
        damaged.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        found = opened(damaged)
        if found is not None:
            n_opened += 1
            assert described(found) == described(open_tiff(damaged))
        damaged.write_bytes(content[:at])
        assert opened(damaged) is None
    assert n_opened
