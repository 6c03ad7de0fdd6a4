"""TIFF files that are damaged or malicious are refused in one line, within bounds."""

from __future__ import annotations

import json
import logging
import os
import struct
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np
import pytest
import tifffile

import dask_io
from dask_io.errors import DataError
from dask_io.formats.tiff.decoding import TiffCodec
from dask_io.formats.tiff.reading import read_with_tifffile

if TYPE_CHECKING:
    from pathlib import Path

START = 500
LONG, LONG8 = 4, 16


def tags(**changes: tuple[int, int, int]) -> list[tuple[int, int, int, int]]:
    """Return the tags of a page of 10 x 10 bytes, with other types, counts and values."""
    found = {
        "width": (256, LONG, 1, 10),
        "length": (257, LONG, 1, 10),
        "bits": (258, LONG, 1, 8),
        "compression": (259, LONG, 1, 1),
        "photometric": (262, LONG, 1, 1),
        "description": (270, 2, 1, 0),
        "offsets": (273, LONG, 1, START),
        "samples": (277, LONG, 1, 1),
        "rows": (278, LONG, 1, 10),
        "counts": (279, LONG, 1, 100),
    }
    for name, change in changes.items():
        found[name] = (found[name][0], *change)
    return list(found.values())


def make(path: Path, page: list[tuple[int, int, int, int]], rest: bytes = bytes(100)) -> Path:
    """Write a file of one page, and content from `START` on."""
    head = struct.pack("<2sHHHQQ", b"II", 43, 8, 0, 16, len(page))
    directory = b"".join(struct.pack("<HHQQ", *tag) for tag in page) + bytes(8)
    path.write_bytes((head + directory).ljust(START, b"\0") + rest)
    return path


def test_the_page_is_valid_unchanged(tmp_path: Path) -> None:
    """The page that the other tests break is read."""
    assert dask_io.open(make(tmp_path / "x.tif", tags()))[...].shape == (10, 10)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"width": (LONG, 1, 2**31 - 1), "length": (LONG, 1, 2**31 - 1)}, "truncated"),
        ({"offsets": (LONG, 1, 2**31)}, "truncated"),
        ({"offsets": (LONG8, 1, 2**64 - 8)}, "truncated|cannot|large|read"),
        ({"width": (LONG, 1, 0)}, "without elements"),
        ({"compression": (LONG, 1, 65535)}, "compressed with|COMPRESSION"),
        ({"bits": (LONG, 1, 77)}, "77 bits"),
        ({"rows": (LONG, 1, 1), "length": (LONG, 1, 2**26)}, "truncated"),
        ({"rows": (LONG, 1, 1), "compression": (LONG, 1, 5)}, "strips in a page, expected 10"),
        ({"description": (2, 2**40, 8)}, "truncated"),
    ],
)
def test_impossible_tags(
    tmp_path: Path, changes: dict[str, tuple[int, int, int]], problem: str
) -> None:
    """Sizes and offsets that cannot be true are refused."""
    path = make(tmp_path / "x.tif", tags(**changes))
    with pytest.raises(DataError, match=problem):
        dask_io.open(path)[...]


def test_counts_of_a_sparse_file(tmp_path: Path) -> None:
    """Tags that fill a huge sparse file do not fill the memory."""
    many = (LONG8, 2**31 - 1, START)
    changes = {"length": (LONG, 1, 2**31 - 1), "rows": (LONG, 1, 1)}
    path = make(tmp_path / "x.tif", tags(**changes, offsets=many, counts=many))
    os.truncate(path, 2**35)
    with pytest.raises(DataError, match="too much memory"):
        dask_io.open(path)
    path.unlink()


def test_a_loop_of_directories(tmp_path: Path) -> None:
    """A directory that is followed by itself is refused."""
    path = tmp_path / "x.tif"
    tifffile.imwrite(path, np.zeros((8, 8), "u1"), metadata=None)
    content = bytearray(path.read_bytes())
    (n_tags,) = struct.unpack_from("<H", content, 8)
    struct.pack_into("<I", content, 10 + 12 * n_tags, 8)
    path.write_bytes(content)
    with pytest.raises(DataError, match="circular"):
        dask_io.open(path)


@pytest.mark.parametrize("n_bytes", [0, 4, 9, 60, 150])
def test_truncated_files(tmp_path: Path, n_bytes: int) -> None:
    """A file that ends too early is refused."""
    path = tmp_path / "x.tif"
    tifffile.imwrite(path, np.zeros((5, 8, 8), "u1"))
    path.write_bytes(path.read_bytes()[:n_bytes])
    with pytest.raises(DataError):
        dask_io.open(path)


@pytest.mark.parametrize(
    "options", [{"imagej": True}, {"ome": True}, {"metadata": None}, {}], ids=str
)
def test_truncated_files_of_several_pages(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that lacks some of its pages is refused, even if tifffile logs nothing."""
    path = tmp_path / "x.tif"
    monkeypatch.setattr(logging.getLogger("tifffile"), "disabled", True)
    tifffile.imwrite(path, np.zeros((8, 64, 64), "u2"), photometric="minisblack", **options)
    content = path.read_bytes()
    for share in (0.5, 0.9, 0.99):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises((DataError, ValueError), match="truncated"):
            read_with_tifffile(path, "")


@pytest.mark.parametrize(
    ("text", "compression"),
    [
        ("ImageJ=1\nimages=8\nslices=8\n", None),
        (json.dumps({"shape": [8, 10, 10]}), None),
        (json.dumps({"shape": [8, 10, 10]}), "zlib"),
    ],
    ids=["imagej", "shaped", "shaped-zlib"],
)
def test_fewer_pages_than_described(tmp_path: Path, text: str, compression: str | None) -> None:
    """A file with fewer pages than its description states is refused."""
    path = tmp_path / "x.tif"
    options: dict[str, Any] = {"compression": compression, "metadata": None}
    tifffile.imwrite(path, np.zeros((10, 10), "u1"), description=text, **options)
    with pytest.raises(DataError, match="truncated"):
        dask_io.open(path)


@pytest.mark.parametrize(("n_bytes", "problem"), [(101, "decoded"), (99, "decoded")])
def test_a_tile_of_another_size(tmp_path: Path, n_bytes: int, problem: str) -> None:
    """A tile that decodes to more or less than its elements is refused."""
    packed = zlib.compress(bytes(n_bytes))
    changes = {"compression": (LONG, 1, 8), "counts": (LONG, 1, len(packed))}
    path = make(tmp_path / "x.tif", tags(**changes), packed)
    with pytest.raises(DataError, match=problem):
        dask_io.open(path)[...]


def test_a_tile_that_is_far_too_long(tmp_path: Path) -> None:
    """A compressed tile much larger than its elements is refused before it is read."""
    changes = {"compression": (LONG, 1, 8), "counts": (LONG, 1, 2**20)}
    path = make(tmp_path / "x.tif", tags(**changes), bytes(2**20))
    with pytest.raises(DataError, match="1048576 bytes for 100 bytes"):
        dask_io.open(path)


@pytest.mark.parametrize("codec", ["j2k", "jp2"])
def test_a_jpeg_2000_image_of_another_size(codec: str) -> None:
    """An image larger than its tile is refused from its header; the rest is never decoded."""
    image = np.zeros((64, 48, 3), "u1")
    packed = bytes(imagecodecs.jpeg2k_encode(image, codecformat=codec, level=0))
    at = packed.index(b"\xff\x4f\xff\x51") + 8
    huge = packed[:at] + struct.pack(">II", 2**20, 2**20) + packed[at + 8 :]
    tile = TiffCodec("jpeg2000", (1, 64, 48, 3), image.dtype, 8, len(packed))
    out = np.empty(image.nbytes, np.uint8)
    tile.decode(np.frombuffer(packed, np.uint8), out)
    assert not out.any()
    with pytest.raises(ValueError, match=r"shape \(1048576, 1048576, 3\), expected \(64, 48, 3\)"):
        tile.decode(np.frombuffer(huge, np.uint8), out)


BOMB = "".join(
    f'<!ENTITY {name} "{10 * f"&{before};"}">'
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        f'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">{BOMB}]><OME>&j;</OME>',
        "<OME>" + "<a>" * 10**5 + "</OME>",
        '{"shape": ' + "[" * 10**5,
        '{"shape": [1000000000, 1000000000, 1000, 10, 10]}',
        "ImageJ=1\nimages=2000000000\nslices=2000000000\n",
    ],
    ids=["entities", "deep-xml", "deep-json", "huge-shape", "imagej"],
)
def test_malicious_descriptions(tmp_path: Path, text: str) -> None:
    """Descriptions that would expand or nest without end are refused, or ignored."""
    content = text.encode() + b"\0"
    page = tags(description=(2, len(content), START + 100))
    path = make(tmp_path / "x.tif", page, bytes(100) + content)
    with suppress(DataError):
        assert dask_io.open(path)[...].shape == (10, 10)
