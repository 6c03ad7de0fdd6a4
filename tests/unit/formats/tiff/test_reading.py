"""Reading TIFF files that other programs write: every encoding, and every convention of axes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tifffile
import zarr
from ome_zarr_models import v04, v05

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.formats import open_source
from dask_io.formats.reopening import reopen_source
from dask_io.formats.tiff.reading import read_image, read_with_tifffile
from dask_io.formats.tiff.small_files import is_small_file
from dask_io.stores.own_attribute import KEY, own_value
from dask_io.stores.space import AxisType, Space, SpaceAxis
from dask_io.stores.spec import SPACE
from tests.commands import invoke

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

RANDOM = np.random.default_rng(2017)
PAGES = RANDOM.integers(0, 200, (5, 37, 45)).astype("u2")
COLOURS = RANDOM.integers(0, 255, (40, 50, 3)).astype("u1")


def check(path: Path, expected: NDArray[Any] | None = None, inside: str = "") -> Any:
    """Compare what Dask IO reads with what tifffile reads, and return the source."""
    array = dask_io.open(f"{path}{inside}")
    expected = tifffile.imread(path) if expected is None else expected
    assert array.shape == expected.shape
    assert np.array_equal(array[...], expected)
    return array.source


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tile": (16, 32)},
        {"rowsperstrip": 7},
        {"rowsperstrip": 7, "compression": "zlib"},
        {"tile": (16, 32), "compression": "zlib", "predictor": True},
        {"rowsperstrip": 7, "compression": "lzw", "predictor": True},
        {"compression": "zstd"},
        {"compression": "packbits"},
        {"compression": "lzma", "predictor": True},
    ],
    ids=lambda options: "-".join(map(str, options.values())) or "plain",
)
def test_every_encoding_of_bytes(tmp_path: Path, order: Any, options: dict[str, Any]) -> None:
    """Tiles and strips of any byte order, compression and predictor are decoded exactly."""
    for dtype in ("u1", "i2", "f4", "f8"):
        path = tmp_path / f"{dtype}.tif"
        tifffile.imwrite(path, PAGES.astype(dtype), byteorder=order, **options)
        assert check(path).dtype == np.dtype(dtype).newbyteorder(order)


@pytest.mark.parametrize(
    "compression", ["jpeg", "jpeg2000", "png", "webp", "jpegxl", "jpegxr", "lerc"]
)
def test_every_encoding_of_images(tmp_path: Path, compression: str) -> None:
    """Codecs of images are decoded as tifffile does, in tiles and in strips."""
    kinds: list[dict[str, Any]] = [{"tile": (32, 32)}, {"rowsperstrip": 16}]
    for number, options in enumerate(kinds):
        path = tmp_path / f"{number}.tif"
        tifffile.imwrite(path, COLOURS, compression=compression, photometric="rgb", **options)
        check(path)


def test_samples_in_planes_and_packed_bits(tmp_path: Path) -> None:
    """Planes of samples and elements of one bit are read, compressed or not."""
    planes = np.moveaxis(COLOURS, -1, 0).copy()
    bits = RANDOM.random((30, 21)) > 0.5
    for compression in (None, "zlib"):
        path = tmp_path / "x.tif"
        options: dict[str, Any] = {"compression": compression}
        tifffile.imwrite(path, planes, planarconfig="separate", photometric="rgb", **options)
        assert check(path).metadata["dimension_names"] == ("s", "y", "x")
        tifffile.imwrite(path, bits, **options)
        check(path)


@pytest.mark.parametrize("shape", [(5, 1), (1, 5), (1, 1), (3, 5, 1), (5, 7, 1), (5, 1, 1)])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_tiles_of_narrow_images(
    tmp_path: Path, shape: tuple[int, ...], compression: str | None
) -> None:
    """Tiles may be larger than an image with one row or column."""
    path, array = tmp_path / "x.tif", np.arange(np.prod(shape), dtype="u2").reshape(shape)
    options: dict[str, Any] = {"photometric": "minisblack", "compression": compression}
    tifffile.imwrite(path, array, tile=(16, 16), **options)
    check(path, array)


def test_contiguous_pages_are_one_block(tmp_path: Path) -> None:
    """Pages and strips that follow each other are read as one block, in one seek."""
    path = tmp_path / "x.tif"
    tifffile.imwrite(path, PAGES, rowsperstrip=7)
    source = check(path)
    assert source.grid.n_blocks == 1
    assert source.tally.read.seeks == 1
    tifffile.imwrite(path, PAGES, rowsperstrip=7, compression="zlib")
    assert check(path).grid.longest == (1, 7, 45)


def test_axes_and_sizes_of_ome(tmp_path: Path) -> None:
    """OME-XML gives names, steps and units of axes."""
    path = tmp_path / "x.ome.tif"
    sizes = {"PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "nm", "PhysicalSizeZ": 2.0}
    array = RANDOM.integers(0, 9, (2, 3, 4, 20, 30)).astype("u2")
    tifffile.imwrite(path, array, metadata={"axes": "TCZYX", "TimeIncrement": 1.5, **sizes})
    space = check(path).metadata["space"]
    assert [axis.name for axis in space.axes] == ["t", "c", "z", "y", "x"]
    units = [axis.unit for axis in space.axes]
    assert units == ["second", None, "micrometer", None, "nanometer"]
    assert space.affine.steps == (1.5, 1.0, 2.0, 1.0, 0.5)
    assert space.axes[1].type is AxisType.CHANNEL


def test_axes_and_spacing_of_imagej(tmp_path: Path) -> None:
    """ImageJ's description and the resolution give the steps."""
    path = tmp_path / "x.tif"
    spacing = {"axes": "ZCYX", "spacing": 3.0, "unit": "um", "finterval": 0.1}
    array = RANDOM.integers(0, 9, (2, 3, 20, 30)).astype("u2")
    tifffile.imwrite(path, array, imagej=True, resolution=(2, 4), metadata=spacing)
    space = check(path).metadata["space"]
    assert [axis.name for axis in space.axes] == ["z", "c", "y", "x"]
    assert space.affine.steps == (3.0, 1.0, 0.25, 0.5)
    assert space.axes[3].unit == "micrometer"


def test_resolution_of_a_plain_file(tmp_path: Path) -> None:
    """The resolution tags give steps in micrometres if they have a unit."""
    path = tmp_path / "x.tif"
    options: dict[str, Any] = {"resolution": (20000, 1e4 / 0.325), "metadata": None}
    tifffile.imwrite(path, PAGES[0], resolutionunit="CENTIMETER", **options)
    space = check(path).metadata["space"]
    assert space.affine.steps == (0.325, 0.5)
    assert {axis.unit for axis in space.axes} == {"micrometer"}
    dask_io.resplit(path, tmp_path / "x.ome.tif", chunks=-1)
    assert b'PhysicalSizeY="0.325"' in (tmp_path / "x.ome.tif").read_bytes()
    tifffile.imwrite(path, PAGES[0], resolution=(254, 254), resolutionunit="INCH", metadata=None)
    assert check(path).metadata["space"].affine.steps == (100, 100)
    tifffile.imwrite(path, PAGES[0], resolutionunit="NONE", **options)
    assert check(path).metadata["space"].affine is None


def test_images_and_levels_have_numbers(tmp_path: Path) -> None:
    """Other images and the levels of a pyramid are chosen by number, and listed if wrong."""
    path, page = tmp_path / "x.ome.tif", np.tile(PAGES[0, :32, :32], (2, 2))
    with tifffile.TiffWriter(path) as file:
        sizes = {"axes": "YX", "PhysicalSizeX": 1.0, "PhysicalSizeY": 1.0}
        file.write(page, subifds=1, tile=(16, 16), metadata=sizes)
        file.write(page[::2, ::2], subfiletype=1, tile=(16, 16))
        file.write(COLOURS[..., 0], metadata={"axes": "YX", "Name": "other"})
    check(path, page)
    level = check(path, page[::2, ::2], "::/0/1")
    assert level.metadata["space"].affine.steps == (2.0, 2.0)
    assert level.metadata["space"].affine.origin == (0.5, 0.5)
    assert "2 levels" in level.metadata["note"]
    check(path, COLOURS[..., 0], "::/1")
    check(path, COLOURS[..., 0], "::/other")
    for inside in ("::/2", "::/0/2", "::/0/0/0", "::/none"):
        with pytest.raises(UsageError, match=r"::/0, .*::/0/1, .*::/1"):
            dask_io.open(f"{path}{inside}")


def test_a_description_of_another_shape_is_ignored(tmp_path: Path) -> None:
    """The pages count if a program has copied the description but changed the elements."""
    path, square = tmp_path / "x.tif", np.arange(27, dtype="u1").reshape(3, 3, 3)
    space = Space(tuple(SpaceAxis(name) for name in "yxs"))
    own = own_value({SPACE: space})
    for array, shape, names in (
        (np.moveaxis(COLOURS, -1, 0), COLOURS.shape, ("s", "y", "x")),
        (PAGES[0], PAGES[0].T.shape, ("y", "x")),
        (square, square.shape, ("s", "y", "x")),
    ):
        text = json.dumps({"shape": shape, KEY: own})
        options: dict[str, Any] = {"photometric": "rgb", "planarconfig": "separate"}
        options = options if array.ndim == 3 else {}
        tifffile.imwrite(path, array.copy(), description=text, metadata=None, **options)
        source = check(path, array)
        assert source.metadata["dimension_names"] == names


def test_missing_tiles_are_zeros(tmp_path: Path) -> None:
    """A tile without bytes is the fill value, or an error if the source is strict."""
    path, expected = tmp_path / "x.tif", PAGES[0].copy()
    tifffile.imwrite(path, PAGES[0], tile=(16, 16), compression="zlib")
    with tifffile.TiffFile(path, mode="r+") as file:
        counts = list(file.pages.first.databytecounts)
        counts[0] = 0
        file.pages.first.tags["TileByteCounts"].overwrite(counts)
    expected[:16, :16] = 0
    source = check(path, expected)
    assert source.n_absent == 1
    with pytest.raises(DataError, match="missing"):
        dask_io.open(path, strict=True)[...]


def _ome(names: list[str], number: int) -> str:
    identities = [f"urn:uuid:{n}{n}{n}{n}-1111-1111-1111-111111111111" for n in ("11", "22")]
    planes = "".join(
        f'<TiffData IFD="{z % 2}" FirstZ="{z}" PlaneCount="1">'
        f'<UUID FileName="{names[z // 2]}">{identities[z // 2]}</UUID></TiffData>'
        for z in range(4)
    )
    return (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" '
        f'UUID="{identities[number]}"><Image ID="Image:0"><Pixels ID="Pixels:0" '
        'DimensionOrder="XYZCT" Type="uint16" SizeX="45" SizeY="37" SizeZ="4" SizeC="1" SizeT="1">'
        f'<Channel ID="C:0" SamplesPerPixel="1"/>{planes}</Pixels></Image></OME>'
    )


def _write_ome(folder: Path, names: list[str], array: NDArray[Any]) -> None:
    for number, name in enumerate(names):
        with tifffile.TiffWriter(folder / name) as file:
            for page, text in ((0, _ome(names, number)), (1, None)):
                values = array[2 * number + page]
                file.write(values, description=text, metadata=None, contiguous=False)


def test_an_image_in_several_files(tmp_path: Path) -> None:
    """OME-XML may name other files of the same directory; others are refused."""
    array = PAGES[:4]
    _write_ome(tmp_path, ["a.ome.tif", "b.ome.tif"], array)
    source = check(tmp_path / "a.ome.tif", array)
    assert source.grid.longest == (1, 37, 45)
    (tmp_path / "b.ome.tif").unlink()
    with pytest.raises(DataError, match=r"refers to b\.ome\.tif, which does not exist"):
        dask_io.open(tmp_path / "a.ome.tif")
    (tmp_path / "sub").mkdir()
    _write_ome(tmp_path, ["a.ome.tif", "sub/b.ome.tif"], array)
    with pytest.raises(DataError, match="outside its directory"):
        dask_io.open(tmp_path / "a.ome.tif")


def test_small_files_are_read_alike_in_this_process(tmp_path: Path) -> None:
    """A file with one page and short tags is parsed here, with the result of the full reader."""
    path = tmp_path / "x.tif"
    for options in ({}, {"metadata": None}, {"tile": (16, 16), "compression": "zlib"}):
        tifffile.imwrite(path, PAGES[0], **options)
        assert is_small_file(path)
        here, there = read_image(path, ""), read_with_tifffile(path, "0")
        assert (here.stored_as, here.space) == (there.stored_as, there.space)
    tifffile.imwrite(path, PAGES)
    assert not is_small_file(path)


def test_a_file_larger_than_4_gib(tmp_path: Path) -> None:
    """BigTIFF files are read at any offset."""
    path = tmp_path / "x.btf"
    values = tifffile.memmap(path, shape=(5, 30000, 30000), dtype="u1", bigtiff=True)
    values[4, 29999, -5:] = 7
    values.flush()
    del values
    assert dask_io.open(path)[4, 29999, -6:].tolist() == [0, 7, 7, 7, 7, 7]
    path.unlink()


@pytest.mark.parametrize(("version", "model"), [(2, v04.Image), (3, v05.Image)])
def test_names_of_channels_go_to_ome_zarr_and_back(
    version: int, model: Any, tmp_path: Path
) -> None:
    """Other readers find them there; a region has the names of its channels."""
    array, path, image = (
        np.zeros((3, 32, 48), "u2"),
        tmp_path / "x.ome.tif",
        tmp_path / "i.ome.zarr",
    )
    tifffile.imwrite(
        path, array, metadata={"axes": "CYX", "Channel": {"Name": ["DAPI", "GFP", "Cy5"]}}
    )

    there: Any = dask_io.resplit(path, image, chunks=16, format_version=version)
    back: Any = dask_io.resplit(image, tmp_path / "y.ome.tif", chunks=(1, 16, 16))
    whole: Any = dask_io.merge(image, tmp_path / "z.ome.tif")
    part: Any = dask_io.extract(path, tmp_path / "part.ome.tif", regions=["1:,:,:"])

    assert [each.not_kept for each in (there, back, whole, part)] == [(), (), ("codec",), ()]
    assert model.from_zarr(zarr.open_group(image, mode="r"))
    about: Any = zarr.open_group(image, mode="r").attrs
    channels = about.get("ome", about)["omero"]["channels"]
    assert [each["label"] for each in channels] == ["DAPI", "GFP", "Cy5"]
    for name, names in {"y": "DAPI GFP Cy5", "z": "DAPI GFP Cy5", "part": "GFP Cy5"}.items():
        with tifffile.TiffFile(tmp_path / f"{name}.ome.tif") as file:
            text = file.ome_metadata or ""
        found = tifffile.xml2dict(text)["OME"]["Image"]["Pixels"]["Channel"]
        assert [each["Name"] for each in found] == names.split()


def test_what_a_target_does_not_keep_is_reported(tmp_path: Path) -> None:
    """Names of channels, the levels of a pyramid, and free text are reported if they are lost."""
    array, path = np.zeros((2, 32, 48), "u1"), tmp_path / "x.ome.tif"
    names = {"axes": "CYX", "Channel": {"Name": ["DAPI", "GFP"]}}
    with tifffile.TiffWriter(path) as file:
        file.write(array, subifds=1, metadata=names)
        file.write(array[:, ::2, ::2], subfiletype=1)
    result = dask_io.resplit(path, tmp_path / "a.tif", chunks=-1)
    assert set(result.not_kept) == {"channel_names", "levels"}
    names |= {"Description": "Slide 7"}
    tifffile.imwrite(path, array, metadata=names)
    result = dask_io.resplit(path, tmp_path / "b.tif", chunks=-1)
    assert set(result.not_kept) == {"channel_names", "description"}
    tifffile.imwrite(path.with_name("y.tif"), array[0], description="Slide 7", metadata=None)
    result = dask_io.resplit(path.with_name("y.tif"), tmp_path / "c.tif", chunks=-1)
    assert result.not_kept == ("description",)
    result = dask_io.resplit(tmp_path / "c.tif", tmp_path / "d.ome.tif", chunks=-1)
    assert result.not_kept == ()
    result = dask_io.resplit(tmp_path / "d.ome.tif", tmp_path / "e.tif", chunks=-1)
    assert result.not_kept == ()


def test_other_images_and_levels_are_reported_before_a_run(tmp_path: Path) -> None:
    """A file with several positions is not silently reduced to the first, not even if resumed."""
    path = tmp_path / "x.ome.tif"
    with tifffile.TiffWriter(path) as file:
        for picture in PAGES[:3, :32, :32]:
            file.write(picture, subifds=1, tile=(16, 16), metadata={"axes": "YX"})
            file.write(picture[::2, ::2], subfiletype=1, tile=(16, 16))
    images = "has 3 images, of which only the first is read; choose another one, as in"
    levels = "the image has a smaller level (a pyramid), of which nothing is kept"

    planned = invoke("plan", path, "--chunks", "-1").stderr
    done = invoke("resplit", path, tmp_path / "a.tif", "--chunks", "-1")
    chosen = invoke("resplit", f"{path}::/1", tmp_path / "b.tif", "--chunks", "-1")

    for text in (planned, done.stderr):
        assert f"{images} {path}::/1" in text
        assert levels in text
    assert "not kept: other images, levels" in done.stdout
    assert images not in chosen.stderr
    assert "not kept: levels" in chosen.stdout
    described = open_source(path).describe()
    assert "images_of_file" in reopen_source(described).metadata
    part = invoke("extract", path, tmp_path / "c.npy", "--region", "0:8,0:8")
    assert images in part.stderr
