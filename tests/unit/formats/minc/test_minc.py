"""MINC files keep real values and places in the world, whatever is done with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import zarr

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis
from dask_io.stores.spec import SPACE
from tests.unit.formats.minc.volumes import (
    IMAGE,
    REAL_FILES,
    corner,
    info_of,
    load,
    make_raw,
    rewrite,
    run,
    stored,
)

if TYPE_CHECKING:
    from pathlib import Path

GOOD_FILES = [
    *("small", "tiny", "minc1-no-att", "minc1_1_scale", "minc1_4d"),
    *("minc2-no-att", "minc2_1_scale", "minc2_4d", "minc2-4d-d", "minc2_baddim"),
]
OPTIONS: dict[str, Any] = {"memory": "4MiB", "workers": 1, "durability": "none"}


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """Make a file whose slices are scaled differently, at an angle to the world."""
    values = np.random.default_rng(1).normal(size=(5, 6, 7)) * np.arange(1, 6)[:, None, None]
    path = tmp_path / "scan.mnc"
    cosines = ("-xdircos", 0.8, 0.6, 0, "-ydircos", -0.6, 0.8, 0)
    make_raw(path, values, "-xstart", 10, "-ystart", -4.5, "-zstart", 3, "-zstep", -2.5, *cosines)
    return path


@pytest.mark.parametrize("name", GOOD_FILES)
def test_real_files_keep_their_values_and_places(name: str, tmp_path: Path) -> None:
    """A copy of a real file has the same real values and affine, for nibabel and for us."""
    source, target = REAL_FILES / f"{name}.mnc", tmp_path / "copy.mnc"

    dask_io.resplit(source, target, chunks=-1, **OPTIONS)

    values, affine = load(source)
    copied, placed = load(target)
    assert np.array_equal(copied, values)
    assert np.allclose(placed, affine, atol=0, rtol=1e-12)
    assert np.array_equal(dask_io.open(f"{target}::/real")[...], values)
    assert np.array_equal(dask_io.open(f"{source}::/real")[...], values)
    assert dask_io.verify(source, target, memory="4MiB").equal


@pytest.mark.parametrize("name", ["small", "minc1_4d", "minc2-4d-d"])
def test_every_block_of_a_real_file_lies_where_it_was(name: str, tmp_path: Path) -> None:
    """Each block, opened alone in nibabel, has the values and world coordinates of its region."""
    source = REAL_FILES / f"{name}.mnc"
    values, affine = load(source)

    dask_io.resplit(source, tmp_path / "blocks", chunks=7, format="minc", **OPTIONS)

    grid = dask_io.open(tmp_path / "blocks").source.grid
    for index in grid.indices():
        block = grid.block(index)
        path = tmp_path / "blocks" / f"b_{'_'.join(map(str, index))}.mnc"
        found, placed = load(path)
        assert np.array_equal(found, values[block.slices])
        assert np.allclose(corner(placed, (0, 0, 0)), corner(affine, block.start))
        assert np.array_equal(placed[:3, :3], affine[:3, :3])


def test_minc_tools_see_a_block_at_its_place(scan: Path, tmp_path: Path) -> None:
    """Steps and starts are as mincreshape computes them, and mincextract reads the same values."""
    dask_io.split(scan, tmp_path / "blocks", chunks=(2, 6, 3), format="minc", **OPTIONS)
    run("mincreshape", "-start", "2,0,3", "-count", "2,6,3", scan, tmp_path / "expected.mnc")

    block = tmp_path / "blocks" / "b_1_0_1.mnc"

    found, expected = info_of(block), info_of(tmp_path / "expected.mnc")
    assert [*found] == [*expected]
    assert [*found.values()] == [pytest.approx(row) for row in expected.values()]
    values = np.frombuffer(run("mincextract", "-double", block)).reshape(2, 6, 3)
    assert np.allclose(values, load(scan)[0][2:4, :, 3:6], rtol=1e-12, atol=0)
    assert b"zspace:step = -2.5" in run("mincheader", block)


def test_blocks_come_back_bit_by_bit(scan: Path, tmp_path: Path) -> None:
    """Split, resplit and merge keep integers, scaling, starts, steps and cosines."""
    before = stored(scan)
    dask_io.split(scan, tmp_path / "a", chunks=(2, 4, 7), format="minc", **OPTIONS)
    dask_io.resplit(tmp_path / "a", tmp_path / "b", chunks=3, **OPTIONS)

    result = dask_io.merge(tmp_path / "b", tmp_path / "whole.mnc", **OPTIONS)

    assert result.not_kept == ()
    assert np.array_equal(stored(tmp_path / "whole.mnc"), before)
    with h5py.File(scan) as old, h5py.File(tmp_path / "whole.mnc") as new:
        for name in ("image-min", "image-max"):
            path = f"minc-2.0/image/0/{name}"
            assert np.array_equal(old[path], new[path])
        for name in ("xspace", "yspace", "zspace"):
            ours, theirs = (file[f"minc-2.0/dimensions/{name}"].attrs for file in (new, old))
            assert ours["start"] == pytest.approx(theirs.get("start", 0), rel=1e-14)
            assert ours["step"] == theirs.get("step", 1)
            cosines = theirs.get("direction_cosines", [0, 0, 1])
            assert np.array_equal(ours["direction_cosines"], cosines)


def test_regions_keep_their_scaling_and_place(scan: Path, tmp_path: Path) -> None:
    """Regions extracted to one file and to block files are those of the whole, for nibabel."""
    values, affine = load(scan)

    region = "1:4,2:5,3:"
    dask_io.extract(scan, tmp_path / "part.mnc", regions=[region], **OPTIONS)
    dask_io.resplit(scan, tmp_path / "parts", region=region, chunks=2, format="minc", **OPTIONS)
    dask_io.extract(scan, tmp_path / "rois", regions=[region, "0:1,0:2,:"], **OPTIONS)

    part, placed = load(tmp_path / "part.mnc")
    assert np.array_equal(part, values[1:4, 2:5, 3:])
    assert np.allclose(corner(placed, (0, 0, 0)), corner(affine, (1, 2, 3)))
    assert np.array_equal(load(tmp_path / "rois" / "region_000.mnc")[1], placed)
    assert np.array_equal(load(tmp_path / "rois" / "region_001.mnc")[0], values[:1, :2])
    block, placed = load(tmp_path / "parts" / "b_1_0_1.mnc")
    assert np.array_equal(block, values[3:4, 2:4, 5:7])
    assert np.allclose(corner(placed, (0, 0, 0)), corner(affine, (3, 2, 5)))


def test_compressed_chunks_are_read(scan: Path, tmp_path: Path) -> None:
    """Files as most programs write them, in gzip chunks, are read and keep their codec."""
    rewrite(scan, tmp_path / "z.mnc", chunks=(2, 3, 4), compression="gzip", shuffle=True)

    dask_io.resplit(tmp_path / "z.mnc", tmp_path / "copy.mnc", chunks=(3, 3, 3), **OPTIONS)

    assert np.array_equal(load(tmp_path / "copy.mnc")[0], load(scan)[0])
    with h5py.File(tmp_path / "copy.mnc") as file:
        assert file[IMAGE].compression == "gzip"
    assert np.array_equal(dask_io.open(f"{tmp_path / 'z.mnc'}::/real")[...], load(scan)[0])


def test_attributes_are_kept(tmp_path: Path) -> None:
    """History, modality and attributes of patients and studies follow, from either version."""
    for name in ("minc1_4d", "minc2_1_scale"):
        target = tmp_path / f"{name}.mnc"
        result = dask_io.resplit(REAL_FILES / f"{name}.mnc", target, chunks=-1, **OPTIONS)
        assert result.not_kept == ()
    first = run("mincheader", tmp_path / "minc1_4d.mnc").decode("latin-1")
    assert 'study:modality = "MRI__"' in first
    assert "Wed Nov 13 21:00:21 2013>>> mincconvert" in first
    second = run("mincheader", tmp_path / "minc2_1_scale.mnc").decode("latin-1")
    assert 'patient:full_name = "mnc2nii tiny.mnc tiny.nii"' in second


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", ">i2", "i4", "u4", "f4", ">f8"])
def test_new_files_hold_the_values_of_any_source(dtype: str, tmp_path: Path) -> None:
    """Integers and floats from elsewhere are their own real values, for nibabel and mincextract."""
    info = np.finfo(dtype) if "f" in dtype else np.iinfo(dtype)
    values = np.linspace(0, 100, 60).reshape(3, 4, 5).astype(dtype)
    values[0, 0, 0], values[0, 0, 1] = info.min, info.max
    np.save(tmp_path / "x.npy", values)

    dask_io.resplit(tmp_path / "x.npy", tmp_path / "x.mnc", chunks=-1, **OPTIONS)

    found, affine = load(tmp_path / "x.mnc")
    assert np.array_equal(found, values)
    assert np.array_equal(affine, np.eye(4)[[2, 1, 0, 3]])
    extracted = np.frombuffer(run("mincextract", "-double", tmp_path / "x.mnc"))
    assert np.allclose(extracted, values.ravel().astype("f8"), rtol=1e-12, atol=1e-6)
    dask_io.resplit(tmp_path / "x.mnc", tmp_path / "y.npy", chunks=-1, **OPTIONS)
    back = np.load(tmp_path / "y.npy")
    assert (back.dtype, back.tobytes()) == (values.dtype, values.tobytes())


@pytest.mark.parametrize("n_axes", [1, 2, 4, 5])
def test_any_number_of_axes_is_stored(n_axes: int, tmp_path: Path) -> None:
    """Arrays of other than three axes come back, and mincinfo shows their lengths."""
    values = np.arange(3 * 2 ** (n_axes - 1), dtype="i2").reshape(3, *(2,) * (n_axes - 1))
    np.save(tmp_path / "x.npy", values)

    dask_io.resplit(tmp_path / "x.npy", tmp_path / "x.mnc", chunks=-1, **OPTIONS)

    assert np.array_equal(dask_io.open(tmp_path / "x.mnc")[...], values)
    assert [row[0] for row in info_of(tmp_path / "x.mnc").values()] == list(values.shape)


@pytest.mark.parametrize("target", ["x.zarr", "x.h5", "x.nc", "blocks", "x.npy"])
def test_other_formats_take_stored_values(target: str, scan: Path, tmp_path: Path) -> None:
    """Other formats get the integers and report that the scaling is lost; real values need none."""
    result = dask_io.resplit(scan, tmp_path / target, chunks=-1, format=_format(target), **OPTIONS)

    assert "scaling" in result.not_kept
    assert np.array_equal(dask_io.open(tmp_path / target)[...], stored(scan))
    real = dask_io.resplit(
        f"{scan}::/real",
        tmp_path / f"real-{target}",
        chunks=-1,
        format=_format(target),
        **OPTIONS,
    )
    assert "scaling" not in real.not_kept
    assert "stored_integers" in real.not_kept
    assert np.array_equal(dask_io.open(tmp_path / f"real-{target}")[...], load(scan)[0])


def _format(target: str) -> str | None:
    return None if "." in target else "raw"


@pytest.mark.parametrize("name", ["x.zarr", "x.h5", "x.nc"])
def test_minc_keeps_what_other_formats_say(name: str, tmp_path: Path) -> None:
    """Attributes and names of axes come from containers to one file and to block files."""
    start = zarr.create_array(
        tmp_path / "start.zarr",
        shape=(4, 5, 6),
        chunks=(2, 5, 6),
        dtype="i2",
        attributes={"units": "K", "factor": 0.5, "flags": [1, 2, 3]},
        dimension_names=("z", "y", "x"),
    )
    start[...] = np.arange(120).reshape(4, 5, 6)
    dask_io.resplit(tmp_path / "start.zarr", tmp_path / name, chunks=3, codec="none")

    one = dask_io.resplit(tmp_path / name, tmp_path / "one.mnc", chunks=-1, **OPTIONS)
    several = dask_io.resplit(tmp_path / name, tmp_path / "b", chunks=3, format="minc", **OPTIONS)
    dask_io.resplit(tmp_path / "b", tmp_path / "back.zarr", chunks=2, **OPTIONS)

    assert one.not_kept == ()
    assert set(several.not_kept) <= {"dimension_names"}
    assert np.array_equal(load(tmp_path / "one.mnc")[0], start[...])
    back = zarr.open_array(tmp_path / "back.zarr", mode="r")
    assert dict(back.attrs) == {"units": "K", "factor": 0.5, "flags": [1, 2, 3]}
    assert np.array_equal(back[...], start[...])


def test_real_values_are_read_within_the_budget(tmp_path: Path) -> None:
    """Integers in plain and in compressed chunks become real values in parts, by many threads."""
    values = np.random.default_rng(3).normal(size=(40, 50, 60))
    make_raw(tmp_path / "plain.mnc", values)
    rewrite(tmp_path / "plain.mnc", tmp_path / "gzip.mnc", chunks=(7, 9, 60), compression="gzip")
    for name in ("plain", "gzip"):
        dask_io.resplit(
            f"{tmp_path}/{name}.mnc::/real",
            tmp_path / f"{name}.zarr",
            chunks=(11, 13, 17),
            memory="6MiB",
            workers=3,
            durability="none",
        )

        expected = load(tmp_path / "plain.mnc")[0]
        assert np.array_equal(dask_io.open(tmp_path / f"{name}.zarr")[...], expected)
        target = tmp_path / f"{name}.zarr"
        assert dask_io.verify(f"{tmp_path}/{name}.mnc::/real", target, memory="6MiB").equal


def test_the_space_of_blocks_goes_back_to_minc(scan: Path, tmp_path: Path) -> None:
    """A directory of .npy blocks keeps the place in its manifest, and a MINC file gets it back."""
    dask_io.resplit(scan, tmp_path / "blocks", chunks=4, format="npy", **OPTIONS)

    dask_io.merge(tmp_path / "blocks", tmp_path / "back.mnc", **OPTIONS)

    assert np.allclose(load(tmp_path / "back.mnc")[1], load(scan)[1], rtol=1e-12, atol=1e-12)


def test_the_space_names_axes_units_and_the_world() -> None:
    """Axes are z, y, x in mm, and coordinates grow to the right, the front and the top."""
    space = dask_io.open(REAL_FILES / "small.mnc").source.metadata[SPACE]

    axes = tuple(SpaceAxis(name, "mm", AxisType.SPACE) for name in "zyx")
    matrix = ((0.0, 0.0, 7.0), (0.0, 8.0, 0.0), (9.0, 0.0, 0.0))
    world = ("right", "anterior", "superior")
    assert space == Space(axes, Affine(matrix, (-98.0, -134.0, -72.0), world))


def test_metadata_is_plain(tmp_path: Path) -> None:
    """What only MINC says can be written as JSON, and is read back from the manifest."""
    source = REAL_FILES / "minc2_1_scale.mnc"
    dask_io.resplit(source, tmp_path / "b", chunks=8, format="minc", **OPTIONS)

    kept = dask_io.open(tmp_path / "b").source.metadata["headers"]["minc"]

    assert json.loads(json.dumps(kept)) == kept
    assert kept["attributes"]["info/patient"]["full_name"] == "mnc2nii tiny.mnc tiny.nii"


def test_uneven_dimensions_are_reported(tmp_path: Path) -> None:
    """Positions along an unevenly spaced axis are not kept, and the copy does not claim them."""
    source, target = tmp_path / "uneven.mnc", tmp_path / "copy.mnc"
    source.write_bytes((REAL_FILES / "minc2-4d-d.mnc").read_bytes())
    with h5py.File(source, "r+") as file:
        file["minc-2.0/dimensions/time"].attrs["spacing"] = np.bytes_("irregular")

    result = dask_io.resplit(source, target, chunks=-1, **OPTIONS)

    assert result.not_kept == ("coordinates",)
    assert np.array_equal(load(target)[0], stored(source))
    assert b'time:spacing = "regular__"' in run("mincheader", target)


def test_casting_keeps_real_values(scan: Path, tmp_path: Path) -> None:
    """Wider integers keep their scaling, and floats are not made of stored integers."""
    dask_io.resplit(scan, tmp_path / "wide.mnc", chunks=-1, dtype="int32", **OPTIONS)

    assert np.array_equal(load(tmp_path / "wide.mnc")[0], load(scan)[0])
    with pytest.raises(UsageError, match=r"scaled integers; give the source as FILE\.mnc::/real"):
        dask_io.resplit(scan, tmp_path / "float.mnc", chunks=-1, dtype="float32", **OPTIONS)
    dask_io.resplit(
        f"{scan}::/real",
        tmp_path / "float.mnc",
        chunks=-1,
        dtype="float32",
        casting="same_kind",
        **OPTIONS,
    )
    assert np.array_equal(load(tmp_path / "float.mnc")[0], load(scan)[0].astype("f4"))


def test_what_minc_cannot_hold_is_refused(tmp_path: Path) -> None:
    """Types without a place, other paths in a file and version 1 are refused in one line."""
    np.save(tmp_path / "x.npy", np.zeros((2, 2), "i8"))
    with pytest.raises(UsageError, match=r"not int64; convert elements with dtype=\.\.\."):
        dask_io.resplit(tmp_path / "x.npy", tmp_path / "x.mnc", chunks=-1, **OPTIONS)
    with pytest.raises(UsageError, match="not int64"):
        dask_io.resplit(tmp_path / "x.npy", tmp_path / "b", chunks=1, format="minc", **OPTIONS)
    with pytest.raises(UsageError, match="holds one image"):
        dask_io.open(f"{REAL_FILES / 'small.mnc'}::/other")
    np.save(tmp_path / "y.npy", np.zeros((2, 2), "i2"))
    with pytest.raises(UsageError, match="version 2 only"):
        dask_io.resplit(
            tmp_path / "y.npy", tmp_path / "y.mnc", chunks=-1, format_version=1, **OPTIONS
        )


def _break(path: Path, name: str) -> None:
    with h5py.File(path, "r+") as file:
        image, x = file[IMAGE], file["minc-2.0/dimensions/xspace"]
        match name:
            case "dimorder":
                image.attrs["dimorder"] = b"zspace,yspace"
            case "twice":
                image.attrs["dimorder"] = b"zspace,xspace,xspace"
            case "step":
                x.attrs["step"] = np.inf
            case "cosines":
                x.attrs["direction_cosines"] = np.zeros(3)
            case "slices":
                del file["minc-2.0/image/0/image-max"]
                file["minc-2.0/image/0/image-max"] = np.ones(4)
                file["minc-2.0/image/0/image-max"].attrs["dimorder"] = b"zspace"
            case "range":
                image.attrs["valid_range"] = [5.0, 5.0]
            case "link":
                del file["minc-2.0/image/0/image"]
                file["minc-2.0/image/0/image"] = h5py.ExternalLink("other.mnc", IMAGE)
            case _:
                pytest.fail(f"{name} is not known")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dimorder", "dimorder names 2 dimensions of 3 axes"),
        ("twice", "with the same name twice"),
        ("step", "a step of xspace that is not a finite number"),
        ("cosines", "direction_cosines of xspace that are all zero"),
        ("slices", "minima and maxima of different slices"),
        ("range", "the valid range 5 to 5"),
        ("link", "is not a MINC 2 file"),
    ],
)
def test_broken_files_are_refused(name: str, message: str, scan: Path) -> None:
    """What a file says wrongly about its image is one line that tells what it is."""
    _break(scan, name)

    with pytest.raises(DataError, match=message) as caught:
        dask_io.open(scan)

    assert "\n" not in str(caught.value)


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    """Files of either version that end early are refused."""
    for name in ("small", "tiny"):
        content = (REAL_FILES / f"{name}.mnc").read_bytes()
        (tmp_path / f"{name}.mnc").write_bytes(content[:-100])
        with pytest.raises(DataError):
            _ = dask_io.open(tmp_path / f"{name}.mnc")[...]
