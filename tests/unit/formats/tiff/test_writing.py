"""Writing TIFF files: other readers agree on values, axes and sizes, and the space comes back."""

from __future__ import annotations

import subprocess
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tifffile

import dask_io
from dask_io.errors import UsageError
from dask_io.formats import open_source
from dask_io.formats.tiff.blocks import BIG, FORMAT, OME, parse_header
from dask_io.formats.tiff.header import pages_for
from dask_io.geometry import Layout
from dask_io.stores.block_format import Header
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis, crop
from dask_io.testing.faults import Faults, Killed, inject

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores.block_format import Format

RANDOM = np.random.default_rng(2017)
ARRAY = RANDOM.integers(0, 50, (5, 100, 90)).astype("u2")
TYPES = {"x": AxisType.SPACE, "y": AxisType.SPACE, "z": AxisType.SPACE, "t": AxisType.TIME}


def space_of(names: str, step: float = 0.5) -> Space:
    """Return a space in micrometres."""
    axes = tuple(
        SpaceAxis(name, "micrometer" if name in "xyz" else None, TYPES.get(name)) for name in names
    )
    return Space(axes, Affine.scaled([step] * len(names), [1.0] * len(names)))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Save an array."""
    np.save(tmp_path / "in.npy", ARRAY)
    return tmp_path / "in.npy"


def check_with_libtiff(path: Path) -> None:
    """Check that libtiff reads all pages without a complaint."""
    found = subprocess.run(["tiffinfo", "-D", path], capture_output=True, text=True, check=True)
    assert not found.stderr


@pytest.mark.parametrize(
    ("name", "options", "blocks"),
    [
        ("out.tif", {}, (5, 100, 90)),
        ("out.btf", {}, (5, 100, 90)),
        ("out.ome.tif", {}, (5, 100, 90)),
        ("out.tiff", {"chunks": (2, -1, -1)}, (5, 100, 90)),
        ("out.tif", {"chunks": (1, 32, 48)}, (1, 32, 48)),
        ("out.tif", {"chunks": (1, 32, 48), "codec": "zstd:3"}, (1, 32, 48)),
        ("out.tif", {"chunks": (1, -1, 16), "codec": "lzma"}, (1, 100, 16)),
        ("out.tif", {"chunks": (1, 30, -1), "codec": "zlib:9"}, (1, 30, 90)),
        ("out.ome.tif", {"codec": "zlib"}, (1, 100, 90)),
    ],
)
def test_other_readers_agree(
    source: Path, name: str, options: dict[str, Any], blocks: tuple[int, ...]
) -> None:
    """Two other libraries read what was written, and so does Dask IO, in the same blocks."""
    path = source.with_name(name)
    dask_io.resplit(source, path, **{"chunks": -1, **options})
    assert np.array_equal(tifffile.imread(path), ARRAY)
    check_with_libtiff(path)
    array = dask_io.open(path)
    assert np.array_equal(array[...], ARRAY)
    assert array.source.grid.longest == blocks
    assert dask_io.verify(path)
    with tifffile.TiffFile(path) as file:
        assert file.is_bigtiff == (name == "out.btf")
        assert file.series[0].kind == ("ome" if ".ome." in name else "shaped")


def test_libtiff_finds_no_difference(source: Path) -> None:
    """Strips with and without compression hold the same values for libtiff."""
    paths = [source.with_name(name) for name in ("a.tif", "b.tif")]
    for path, codec in zip(paths, ("none", "zlib"), strict=True):
        dask_io.resplit(source, path, chunks=-1, codec=codec)
    found = subprocess.run(["tiffcmp", *paths], capture_output=True, text=True, check=False)
    assert "Compression: 1 8" in found.stdout
    assert "Scanline" not in found.stdout


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"chunks": (1, 30, 48)}, "multiples of 16"),
        ({"chunks": (2, 32, 48)}, "part of one page"),
        ({"codec": "blosc"}, "none, zlib, lzma, zstd"),
        ({"codec": "lzw"}, "format tiff cannot write codec 'lzw'; choose one of none, zlib, lzma"),
        ({"codec": "zlib:x"}, "format tiff cannot use the codec: 'zlib:x' has level 'x'"),
        ({"codec": "zstd+crc32c"}, "none, zlib, lzma, zstd"),
        ({"fill_value": 3}, "no fill-value"),
        ({"chunks": ((1, 4), 100, 90), "codec": "zlib"}, "one length along axis 0"),
        ({"dtype": "bool", "casting": "unsafe"}, "no elements of type bool"),
    ],
)
def test_what_tiff_cannot_store_is_refused(
    source: Path, options: dict[str, Any], problem: str
) -> None:
    """Chunks, codecs and types that TIFF does not have are refused before anything is written."""
    path = source.with_name("out.tif")
    with pytest.raises(UsageError, match=problem):
        dask_io.resplit(source, path, **{"chunks": -1, **options})
    assert not path.exists()


def test_axes_that_ome_does_not_have(source: Path) -> None:
    """OME-TIFF needs y and x last; other axes are refused."""
    path = source.with_name("out.ome.tif")
    with pytest.raises(UsageError, match="then y, x; found axes x, y, z"):
        dask_io.resplit(source, path, chunks=-1, axes="x,y,z")
    np.save(source, ARRAY[0, 0])
    with pytest.raises(UsageError, match=r"found 1 axes; choose a target ending in \.tif"):
        dask_io.resplit(source, path, chunks=-1)


def test_one_image_for_a_file(source: Path) -> None:
    """A target file gets one image."""
    with pytest.raises(UsageError, match="gets one image"):
        dask_io.resplit(source, f"{source.with_name('out.tif')}::/1", chunks=-1)


CASES = [
    ((4, 6), None),
    ((5,), None),
    ((3, 1, 4, 6), space_of("tzyx")),
    ((2, 3, 1, 4, 6), space_of("tczyx", 0.1)),
    ((7, 8, 3), space_of("yxs")),
    ((2, 7, 8, 4), space_of("zyxs")),
    ((3, 4, 5), Space((SpaceAxis("a"), SpaceAxis(), SpaceAxis("x", "mm")))),
]


@pytest.mark.parametrize("kind", [FORMAT, BIG, OME], ids=["tif", "btf", "ome"])
@pytest.mark.parametrize(("shape", "space"), CASES)
def test_headers_come_back(
    tmp_path: Path, shape: tuple[int, ...], space: Space | None, kind: Format
) -> None:
    """A header is read as it was made, in either byte order, also by tifffile."""
    for dtype in map(np.dtype, ("<u1", ">u2", "<f4", ">c8")):
        array = (RANDOM.random(shape) * 99).astype(dtype)
        block = Header(shape, dtype, Layout.c(len(shape)), space=space)
        try:
            head = kind.make_header(block)
        except ValueError:
            assert kind is OME
            return
        found = parse_header(BytesIO(head).read)
        assert (found.shape, found.dtype, found.offset) == (shape, dtype, len(head))
        assert space is None or found.space == space
        path = tmp_path / f"x{kind.suffixes[0]}"
        path.write_bytes(head + array.tobytes())
        assert np.array_equal(tifffile.imread(path).reshape(shape), array)
        assert open_source(path).grid.shape == shape


def test_tifffile_reads_axes_and_sizes(tmp_path: Path) -> None:
    """Names of axes are stored where tifffile looks."""
    np.save(tmp_path / "in.npy", ARRAY)
    dask_io.resplit(tmp_path / "in.npy", tmp_path / "x.tif", chunks=-1, axes="z,y,x")
    with tifffile.TiffFile(tmp_path / "x.tif") as file:
        assert file.series[0].axes == "ZYX"


def test_sizes_in_ome_xml(tmp_path: Path) -> None:
    """OME-XML has the physical sizes with their units, and the page has a resolution."""
    block = Header((3, 4, 6), np.dtype("u1"), Layout.c(3), space=space_of("zyx"))
    path = tmp_path / "x.ome.tif"
    path.write_bytes(OME.make_header(block) + bytes(72))
    with tifffile.TiffFile(path) as file:
        found = tifffile.xml2dict(file.ome_metadata or "")["OME"]["Image"]["Pixels"]
        resolution = file.pages.first.tags["XResolution"].value
    assert (found["PhysicalSizeX"], found["PhysicalSizeXUnit"]) == (0.5, "\N{MICRO SIGN}m")
    assert resolution[0] / resolution[1] == pytest.approx(20000)
    # A reader that does not know Dask IO's annotation finds the same steps.
    text = path.read_bytes().replace(b'Namespace="dask-io"', b'Namespace="another"')
    path.write_bytes(text)
    space = open_source(path).metadata["space"]
    assert space.affine.steps == (0.5, 0.5, 0.5)
    assert {axis.unit for axis in space.axes} == {"micrometer"}


def test_blocks_lie_at_their_places(tmp_path: Path) -> None:
    """Every block file has its own origin; together they are the array in its space."""
    space = space_of("zyx")
    whole = tmp_path / "whole.tif"
    block = Header(ARRAY.shape, ARRAY.dtype, Layout.c(3), space=space)
    whole.write_bytes(FORMAT.make_header(block) + ARRAY.tobytes())
    dask_io.split(whole, tmp_path / "b", chunks=(2, 50, 60))
    first = open_source(tmp_path / "b" / "b_1_1_1.tif")
    assert first.metadata["space"] == crop(space, (2, 50, 60))
    (tmp_path / "b" / "dask-io.json").unlink()
    blocks = dask_io.open(tmp_path / "b")
    assert np.array_equal(blocks[...], ARRAY)
    assert blocks.source.metadata["space"] == space


def test_compressed_files_are_blocks_too(tmp_path: Path) -> None:
    """A directory of files of any encoding is one array."""
    (tmp_path / "b").mkdir()
    for number, options in enumerate([{"compression": "zlib"}, {}, {"rowsperstrip": 7}]):
        path = tmp_path / "b" / f"b_{number}_0.tif"
        tifffile.imwrite(path, ARRAY[0, 30 * number : 30 * number + 30], **options)  # type: ignore[arg-type]
    assert np.array_equal(dask_io.open(tmp_path / "b")[...], ARRAY[0, :90])


def test_big_files_become_bigtiff() -> None:
    """A file that may exceed 4 GiB is BigTIFF, also if only its compressed tiles might."""
    options: dict[str, Any] = {"dtype": np.dtype("u1"), "description": b"{}\0"}
    assert not pages_for((30, 10000, 10000), **options).is_big
    assert pages_for((50, 10000, 10000), **options).is_big
    assert pages_for((40, 10000, 10000), **options, compression=8, tile=(100, 0)).is_big
    # A page of several GiB has strips that other readers can hold.
    large = pages_for((100000, 100000), **options)
    assert large.per_page == 10
    assert large.plain_places()[1].sum() == 10**10


def test_killed_tiles_are_resumed(source: Path) -> None:
    """A run that is killed while it writes tiles is resumed to the same file."""
    options: dict[str, Any] = {"chunks": (1, 48, 48), "workers": 1, "strategy": "naive"}
    whole, counted = source.with_name("whole.tif"), Faults()
    with inject(counted):
        dask_io.resplit(source, whole, **options)
    for at in range(5, counted.n_calls, 9):
        path = source.parent / str(at) / "out.tif"
        with pytest.raises(Killed), inject(Faults(at)):
            dask_io.resplit(source, path, **options)
        if path.with_name("out.tif.dask-io").exists() or path.exists():
            dask_io.resume(path, workers=1)
        else:
            dask_io.resplit(source, path, **options)
        assert path.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("target", ["out/z_{0:02}.tif", "out.tif", "out.npy", "out.nii", "out.raw"])
def test_no_codec_is_always_accepted(source: Path, target: str) -> None:
    """Formats that do not compress accept codec none."""
    place, chunks = source.parent / target, (1 if "{" in target else -1, -1, -1)
    result = dask_io.resplit(source, place, chunks=chunks, codec="none")
    assert result.blocks_written == (5 if "{" in target else 1)


def test_slices_are_not_compressed(source: Path) -> None:
    """The message says which targets can be compressed."""
    with pytest.raises(UsageError, match=r"codec zlib: slices and block files .* one file"):
        dask_io.resplit(source, source.parent / "z_{0}.tif", chunks=(1, -1, -1), codec="zlib")
