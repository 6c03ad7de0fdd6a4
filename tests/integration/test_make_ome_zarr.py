"""OME-Zarr images are made from arrays of any format, and positions keep their meaning."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import netCDF4
import numpy as np
import pytest
import zarr
from ome_zarr_models import open_ome_zarr

import dask_io
from dask_io.errors import (
    DataError,
    InterruptedRunError,
    SpacingWarning,
    TargetExistsError,
    UsageError,
)
from dask_io.formats.zarr.quiet import quiet
from dask_io.journal.journal import Journal
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis, crop
from tests.commands import fail, invoke, run

if TYPE_CHECKING:
    from pathlib import Path

ARRAY = np.arange(12 * 10 * 8, dtype="<i2").reshape(12, 10, 8)
AXES = tuple(SpaceAxis(name, "mm", AxisType.SPACE) for name in "xyz")
ROTATED = Affine(
    ((0.0, -2.0, 0.0), (1.0, 0.0, 0.5), (0.0, 0.0, 3.0)),
    (5.0, -6.0, 7.0),
    ("right", "anterior", "superior"),
)
NIFTI = {"header": "bmlmdGk=", "extensions": [[6, "Y29tbWVudA=="]]}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """One file."""
    np.save(tmp_path / "a.npy", ARRAY)
    return tmp_path / "a.npy"


def make_array(place: Path, space: Space, **headers: Any) -> Path:
    """Make a Zarr array that lies somewhere in the world."""
    own = {"space": space.to_json(), **headers}
    with quiet():
        attributes: dict[str, Any] = {"mine": 1, "dask_io": own}
        made = zarr.create_array(
            place, shape=ARRAY.shape, chunks=(5, 5, 5), dtype="i2", attributes=attributes
        )
        made[...] = ARRAY
    return place


def about(image: Path) -> dict[str, Any]:
    """Return the attributes of an image's group."""
    with quiet():
        return dict(zarr.open_group(image, mode="r").attrs)


def read(image: Path) -> Any:
    """Read all of an image with zarr-python, after ome-zarr-models has found it valid."""
    with quiet():
        assert type(open_ome_zarr(image)).__name__ == "Image"
        return zarr.open_group(image, mode="r")["0"][...]  # type: ignore[index]


@pytest.mark.parametrize(
    "options",
    [
        {"format_version": 2},
        {"format_version": 2, "codec": "blosc:lz4:5:shuffle"},
        {"format_version": 3, "codec": "zstd:3", "shards": (6, 10, 8)},
        {},
    ],
)
def test_an_image_is_made_in_one_pass(
    options: dict[str, Any], source: Path, tmp_path: Path
) -> None:
    """In both versions, and valid; each block is read and written once."""
    image = tmp_path / "b.zarr"

    done = dask_io.resplit(
        source,
        image,
        chunks=(3, 5, 4),
        format="ome-zarr",
        spacing=(0.5, 0.1, 0.1),
        unit="um",
        verify=True,
        **options,
    )

    assert done.verified
    assert done.not_kept == ()
    assert np.array_equal(read(image), ARRAY)
    told = about(image)
    assert told.keys() == ({"multiscales"} if options.get("format_version") == 2 else {"ome"})
    found = told.get("ome", told)["multiscales"][0]
    assert found["axes"][0] == {"name": "z", "type": "space", "unit": "micrometer"}
    assert found["datasets"][0]["coordinateTransformations"] == [
        {"type": "scale", "scale": [0.5, 0.1, 0.1]}
    ]
    opened = dask_io.open(image)
    assert np.array_equal(opened[...], ARRAY)
    assert opened.source.metadata["space"].affine == Affine.scaled((0.5, 0.1, 0.1), (0.0,) * 3)
    assert dask_io.verify(image)
    assert dask_io.verify(source, image)


def test_images_from_every_format(source: Path, tmp_path: Path) -> None:
    """Block files, raw files, HDF5, NetCDF and Zarr; the names of their axes are used."""
    ARRAY.tofile(tmp_path / "a.raw")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = ARRAY
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as dataset:
        for name, length in zip(("time", "lat", "lon"), ARRAY.shape, strict=True):
            dataset.createDimension(name, length)
        dataset.createVariable("v", "i2", ("time", "lat", "lon"))[:] = ARRAY
    dask_io.resplit(source, tmp_path / "blocks", chunks=(5, 5, 5))
    dask_io.resplit(source, tmp_path / "a.zarr", chunks=(5, 5, 5))
    raw = dask_io.open(tmp_path / "a.raw", shape=ARRAY.shape, dtype=ARRAY.dtype)
    sources: list[Any] = [source, raw, tmp_path / "blocks", tmp_path / "a.zarr", tmp_path / "a.h5"]
    for n, each in enumerate(sources):
        dask_io.resplit(each, tmp_path / f"{n}.zarr", chunks=(4, 4, 4), format="ome-zarr")
        assert np.array_equal(read(tmp_path / f"{n}.zarr"), ARRAY)
    dask_io.resplit(
        f"{tmp_path}/a.nc::/v", tmp_path / "nc.zarr", chunks={"time": 1}, format="ome-zarr"
    )

    assert np.array_equal(read(tmp_path / "nc.zarr"), ARRAY)
    axes = about(tmp_path / "nc.zarr")["ome"]["multiscales"][0]["axes"]
    assert axes[0] == {"name": "time", "type": "time"}


def test_orientation_and_headers_come_back(tmp_path: Path) -> None:
    """From Zarr to an image to Zarr: exact numbers, and only our own attribute is added."""
    space = Space(AXES, ROTATED)
    array = make_array(tmp_path / "a.zarr", space, nifti=NIFTI)

    done = dask_io.resplit(array, tmp_path / "b.zarr", chunks=(6, 6, 6), format="ome-zarr")
    back = dask_io.resplit(
        f"{tmp_path}/b.zarr::/0", tmp_path / "c.zarr", chunks=(5, 5, 5), format="zarr"
    )

    assert done.not_kept == ("orientation_for_other_readers",)
    assert back.not_kept == ()
    found = about(tmp_path / "b.zarr")["ome"]["multiscales"][0]
    scale, translation = found["datasets"][0]["coordinateTransformations"]
    assert scale["scale"] == [1.0, 2.0, pytest.approx(3.0413812651491097)]
    assert translation["translation"][:2] == [-6.0, -5.0]
    for place in ("a.zarr", "b.zarr", "c.zarr"):
        metadata = dask_io.open(tmp_path / place).source.metadata
        assert metadata["space"] == space
        assert metadata["headers"]["nifti"] == NIFTI
        assert metadata["attributes"] == {"mine": 1}
    with quiet():
        plain = zarr.open_array(tmp_path / "c.zarr", mode="r")
        assert plain.attrs.keys() == {"mine", "dask_io"}


def test_regions_keep_their_place(tmp_path: Path) -> None:
    """An extracted image lies where it lay in the whole, with spacing of the user, too."""
    space = Space(AXES, ROTATED)
    array = make_array(tmp_path / "a.zarr", space)
    regions = ["2:9,:,3:", ":,4:6,:"]

    dask_io.extract(array, tmp_path / "rois", regions=regions, format="ome-zarr")
    given_by_user: Any = {"spacing": 2, "axes": "z,y,x", "format": "ome-zarr"}
    with pytest.warns(SpacingWarning, match="the spacing contradicts the source, which has"):
        dask_io.extract(array, tmp_path / "one.zarr", regions=["5:,:,2:"], **given_by_user)

    cut = dask_io.open(tmp_path / "rois/region_000.ome.zarr")
    assert cut.source.metadata["space"] == crop(space, (2, 0, 3))
    assert np.array_equal(cut[...], ARRAY[2:9, :, 3:])
    assert dask_io.verify(tmp_path / "rois")
    given = dask_io.open(tmp_path / "one.zarr").source.metadata["space"]
    assert given.affine.steps == pytest.approx((2.0, 2.0, 2.0))
    assert given.affine.origin != ROTATED.origin
    assert [axis.name for axis in given.axes] == ["z", "y", "x"]


def stop_midway(progress: dask_io.Progress) -> None:
    """Interrupt a run after half of the data."""
    if 2 * progress.n_bytes_written >= progress.n_bytes:
        raise KeyboardInterrupt


def test_interrupted_regions_are_resumed(source: Path, tmp_path: Path) -> None:
    """All images in the folder are completed, with the user's spacing and their own origins."""
    rois = tmp_path / "rois"
    regions = ["0:6", "6:12"]

    with pytest.raises(InterruptedRunError):
        dask_io.extract(
            source,
            rois,
            regions=regions,
            chunks=3,
            format="ome-zarr",
            spacing=2,
            workers=1,
            memory="64KiB",
            codec="none",
            progress=stop_midway,
        )
    done = dask_io.resume(rois)

    assert done.not_kept == ()
    for n, start in enumerate((0, 6)):
        image = rois / f"region_00{n}.ome.zarr"
        assert np.array_equal(read(image), ARRAY[start : start + 6])
        space = dask_io.open(image).source.metadata["space"]
        assert space.affine.origin == (2.0 * start, 0.0, 0.0)
    assert dask_io.verify(rois)


@pytest.mark.parametrize("version", [2, 3])
def test_an_interrupted_run_is_resumed(version: int, source: Path, tmp_path: Path) -> None:
    """Until then the directory is not an image; the user's spacing is not forgotten."""
    image = tmp_path / "b.zarr"
    options: dict[str, Any] = {
        "format": "ome-zarr",
        "format_version": version,
        "spacing": 2,
        "codec": "none",
    }

    with pytest.raises(InterruptedRunError, match=r"dask_io\.resume"):
        dask_io.resplit(
            source, image, chunks=3, workers=1, memory="64KiB", progress=stop_midway, **options
        )
    assert not (image / "zarr.json").exists()
    assert not (image / ".zgroup").exists()
    with pytest.raises(DataError, match=r"unfinished.*dask_io\.resume\(\".*/b\.zarr\"\)"):
        dask_io.open(image)
    done = dask_io.resume(image)

    assert done.not_kept == ()
    assert np.array_equal(read(image), ARRAY)
    assert dask_io.open(image).source.metadata["space"].affine.steps == (2.0, 2.0, 2.0)


def test_an_image_counts_when_its_journal_is_sealed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is stopped at the very end leaves an image that is refused, and resumed."""
    image = tmp_path / "b.zarr"

    def stop(_: Journal) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "seal", stop)
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(source, image, chunks=3, format="ome-zarr")
    monkeypatch.undo()
    with pytest.raises(DataError, match="unfinished"):
        dask_io.open(image)
    dask_io.resume(image)

    assert np.array_equal(read(image), ARRAY)
    assert np.array_equal(dask_io.open(image)[...], ARRAY)


def test_an_image_is_replaced_by_another_version(source: Path, tmp_path: Path) -> None:
    """Nothing of the old one is left, not even after a run that was killed while it replaced."""
    image = tmp_path / "b.zarr"
    options: dict[str, Any] = {"format": "ome-zarr", "chunks": 3}
    dask_io.resplit(source, image, format_version=2, **options)
    with pytest.raises(TargetExistsError):
        dask_io.resplit(source, image, **options)

    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            source,
            image,
            overwrite=True,
            format_version=3,
            workers=1,
            memory="64KiB",
            codec="none",
            progress=stop_midway,
            **options,
        )
    assert not (image / ".zgroup").exists()
    dask_io.resume(image)

    assert np.array_equal(read(image), ARRAY)
    assert sorted(path.name for path in image.iterdir()) == ["0", "zarr.json"]
    assert not list(image.rglob(".z*"))


def test_other_data_is_not_overwritten(source: Path, tmp_path: Path) -> None:
    """Not an image with more levels or labels, a plain array, or foreign files."""
    image = tmp_path / "b.zarr"
    dask_io.resplit(source, image, chunks=3, format="ome-zarr")
    (image / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"files that are not part of an image.*notes.txt"):
        dask_io.resplit(source, image, chunks=3, format="ome-zarr", overwrite=True)
    dask_io.resplit(source, tmp_path / "c.zarr", chunks=3)
    with pytest.raises(UsageError, match="is an array, so it cannot contain another one"):
        dask_io.resplit(source, tmp_path / "c.zarr", chunks=3, format="ome-zarr", overwrite=True)

    assert np.array_equal(read(image), ARRAY)


def test_damage_is_found_and_repaired(source: Path, tmp_path: Path) -> None:
    """Lost chunks, and the lost metadata of the group."""
    image = tmp_path / "b.zarr"
    dask_io.resplit(source, image, chunks=(6, 5, 4), format="ome-zarr")
    before = (image / "zarr.json").read_bytes()
    (image / "0/c/1/0/1").write_bytes(b"damage")
    (image / "zarr.json").unlink()

    found = dask_io.repair(image)

    assert found.n_damaged == 1
    assert (image / "zarr.json").read_bytes() == before
    assert np.array_equal(read(image), ARRAY)
    assert dask_io.verify(image)


def test_an_image_in_a_group(source: Path, tmp_path: Path) -> None:
    """Next to other images, in the version of the group around them."""
    root = tmp_path / "all.zarr"
    with quiet():
        zarr.create_group(root, zarr_format=2)

    dask_io.resplit(source, f"{root}::/day/1", chunks=6, format="ome-zarr")
    dask_io.resplit(source, f"{root}::/day/2", chunks=6, format="ome-zarr", axes="z,y,x")
    with pytest.raises(UsageError, match="is a group of Zarr 2"):
        dask_io.resplit(source, f"{root}::/3", chunks=6, format="ome-zarr", format_version=3)

    assert np.array_equal(read(root / "day/1"), ARRAY)
    assert np.array_equal(dask_io.open(f"{root}::/day/2")[...], ARRAY)


def test_images_become_other_formats(source: Path, tmp_path: Path) -> None:
    """An image with one level can be used like an array; the whole group stays a group."""
    image = tmp_path / "b.zarr"
    dask_io.resplit(source, image, chunks=5, format="ome-zarr", spacing=3, unit="mm")

    dask_io.merge(image, tmp_path / "back.npy")
    dask_io.resplit(image, tmp_path / "c.zarr", chunks=4)
    dask_io.resplit(image, tmp_path / "d.zarr", chunks=4, format="ome-zarr")
    part = dask_io.resplit(
        image, tmp_path / "e.zarr", chunks=4, format="ome-zarr", region="6:", axes="t,y,x"
    )

    assert part.not_kept == ()
    assert np.array_equal(read(tmp_path / "e.zarr"), ARRAY[6:])
    assert dask_io.open(tmp_path / "e.zarr").source.metadata["space"].affine.origin == (18, 0, 0)
    assert np.array_equal(np.load(tmp_path / "back.npy"), ARRAY)
    for name in ("c.zarr", "d.zarr"):
        assert np.array_equal(read(tmp_path / name), ARRAY)
        assert about(tmp_path / name) == about(image)
        with quiet():
            assert not dict(zarr.open_group(tmp_path / name, mode="r")["0"].attrs)


def test_what_is_inferred_is_shown(source: Path, tmp_path: Path) -> None:
    """Names of axes that nobody gave; names that were given are not shown."""
    chunks = ["--chunks", "6,5,4", "--format", "ome-zarr"]

    inferred = invoke("resplit", source, tmp_path / "b.zarr", *chunks)
    named = invoke("resplit", source, tmp_path / "c.zarr", *chunks, "--axes", "z,y,x")
    dry = invoke("resplit", source, tmp_path / "d.zarr", *chunks, "--dry-run")

    assert "axes are taken as z, y, x; give other names with --axes" in inferred.stderr
    assert "axes are taken as z, y, x" in dry.stderr
    assert "axes are taken as" not in named.stderr
    line = fail("resplit", source, tmp_path / "d.zarr", *chunks, "--axes", "x,y,t", code=2)
    assert "time comes first, then channel, then space, but the axes are x (space)" in line
    assert not (tmp_path / "d.zarr").exists()


def test_info_shows_the_space(tmp_path: Path) -> None:
    """Steps, units, types, origin and orientation, as text and as JSON."""
    array = make_array(tmp_path / "a.zarr", Space(AXES, ROTATED))
    dask_io.resplit(array, tmp_path / "b.zarr", chunks=6, format="ome-zarr")

    text, told = run("info", array), json.loads(run("info", array, "--json"))
    group, plain = run("info", tmp_path / "b.zarr"), json.loads(run("info", "--json", array))

    assert "spacing      x: 1 mm, y: 2 mm, z: 3.04138 mm" in text
    assert "types        space, space, space" in text
    assert "origin       right 5, anterior -6, superior 7" in text
    assert "orientation  x to anterior, y to left, z to superior, oblique" in text
    assert "affine       0 -2 0; 1 0 0.5; 0 0 3" in text
    assert told["space"]["axes"][1] == {"name": "y", "type": "space", "unit": "mm", "step": 2.0}
    assert told["space"]["orientation"] == ["anterior", "left", "superior"]
    assert told["space"]["origin"] == [5.0, -6.0, 7.0]
    assert "space of 0:\n  spacing: x: 1 mm" in group
    assert plain["space"] == told["space"]


def test_an_array_without_space_says_so(source: Path) -> None:
    """Nothing is made up."""
    assert json.loads(run("info", source, "--json"))["space"] is None


def test_given_spaces_for_other_targets(source: Path, tmp_path: Path) -> None:
    """Directories of blocks keep them in their manifest; one file has no place for them."""
    given: dict[str, Any] = {"axes": "z,y,x", "spacing": 0.5, "unit": "mm"}

    kept = dask_io.resplit(source, tmp_path / "blocks", chunks=5, **given)
    lost = dask_io.merge(source, tmp_path / "b.npy", **given)
    dask_io.resplit(tmp_path / "blocks", tmp_path / "c.zarr", chunks={"z": 1}, format="ome-zarr")

    assert kept.not_kept == ()
    assert lost.not_kept == ("space",)
    found = dask_io.open(tmp_path / "c.zarr").source.metadata["space"]
    assert found.affine == Affine.scaled((0.5,) * 3, (0.0,) * 3)


def test_several_arrays_have_no_common_axes(tmp_path: Path) -> None:
    """Options for one array are refused for a group."""
    with quiet():
        group = zarr.create_group(tmp_path / "a.zarr")
        for name in "ab":
            group.create_array(name, shape=(4, 4), dtype="i2")

    line = fail(
        "resplit",
        tmp_path / "a.zarr",
        tmp_path / "b.zarr",
        "--chunks",
        "2",
        "--spacing",
        "3",
        code=2,
    )

    assert "spacing is for one array, but the source holds several" in line


def test_hdf5_and_netcdf_keep_the_space(tmp_path: Path) -> None:
    """Through files of both, whole or cropped, and in files with several arrays."""
    space = Space(AXES, ROTATED)
    previous = make_array(tmp_path / "a.zarr", space, nifti=NIFTI)
    for name in ("b.h5", "c.h5", "d.nc", "e.nc", "f.zarr"):
        done = dask_io.resplit(previous, tmp_path / name, chunks=(6, 5, 4))
        previous = tmp_path / name
        metadata = dask_io.open(previous).source.metadata
        assert done.not_kept == ()
        assert (metadata["space"], metadata["headers"]["nifti"]) == (space, NIFTI)
        assert metadata["attributes"] == {"mine": 1}
    for name, cut in (("c.h5", "g.h5"), ("e.nc", "g.nc")):
        dask_io.resplit(tmp_path / name, tmp_path / cut, chunks=4, region="3:,:,2:")
        assert dask_io.open(tmp_path / cut).source.metadata["space"] == crop(space, (3, 0, 2))


def test_groups_keep_the_spaces_of_their_arrays(tmp_path: Path) -> None:
    """From Zarr to HDF5 and NetCDF files, and back."""
    space = Space(AXES, ROTATED)
    with quiet():
        zarr.create_group(tmp_path / "a.zarr")
    for name in ("one", "two"):
        make_array(tmp_path / "a.zarr" / name, space)
    for source, target in (("a.zarr", "b.h5"), ("a.zarr", "c.nc"), ("b.h5", "d.zarr")):
        dask_io.resplit(tmp_path / source, tmp_path / target, chunks=4)
        found = dask_io.open(f"{tmp_path / target}::/two").source.metadata
        assert found["space"] == space
        assert found["attributes"] == {"mine": 1}


def test_formats_without_a_place_say_so(tmp_path: Path) -> None:
    """One file of .npy keeps neither the space nor the header of another format."""
    array = make_array(tmp_path / "a.zarr", Space(AXES, ROTATED), nifti=NIFTI)

    done = dask_io.merge(array, tmp_path / "a.npy")

    assert done.not_kept == ("attributes", "space", "nifti_header", "codec")


def test_a_name_that_ends_in_ome_zarr_makes_an_image(source: Path, tmp_path: Path) -> None:
    """The longest suffix decides; an explicit format, or a path inside a group, wins."""
    dask_io.resplit(source, tmp_path / "a.ome.zarr", chunks=(5, 5, 5))
    assert "ome" in about(tmp_path / "a.ome.zarr")
    assert np.array_equal(read(tmp_path / "a.ome.zarr"), ARRAY)

    dask_io.resplit(tmp_path / "a.ome.zarr", tmp_path / "b.ome.zarr", chunks=(4, 5, 5))
    assert "ome" in about(tmp_path / "b.ome.zarr")
    assert dask_io.verify(source, tmp_path / "b.ome.zarr").equal

    dask_io.resplit(source, tmp_path / "c.ome.zarr", chunks=(5, 5, 5), format="zarr")
    dask_io.resplit(source, f"{tmp_path}/d.ome.zarr::/x", chunks=(5, 5, 5))
    with quiet():
        for place in ("c.ome.zarr", "d.ome.zarr/x"):
            found = zarr.open_array(tmp_path / place, mode="r")
            assert np.array_equal(np.asarray(found[...]), ARRAY)


def test_groups_of_arrays_keep_their_kind_under_any_suffix(tmp_path: Path) -> None:
    """Several arrays that are not an image stay a group, whatever the suffix."""
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["x"], file["y"] = ARRAY, ARRAY
    dask_io.resplit(tmp_path / "two.h5", tmp_path / "two.ome.zarr", chunks=(5, 5, 5))
    with quiet():
        group = zarr.open_group(tmp_path / "two.ome.zarr", mode="r")
        assert sorted(group.array_keys()) == ["x", "y"]


@pytest.mark.parametrize("suffix", ["zarr", "ome.zarr", "h5"])
def test_a_region_keeps_the_chunks_of_its_source(suffix: str, tmp_path: Path) -> None:
    """A viewer needs chunks in a crop as in the whole; other formats get one block as before."""
    np.save(tmp_path / "a.npy", ARRAY)
    dask_io.resplit(tmp_path / "a.npy", tmp_path / "a.ome.zarr", chunks=(5, 4, 3))
    one, several = tmp_path / f"one.{suffix}", tmp_path / "several"

    level = f"{tmp_path}/a.ome.zarr{'' if suffix == 'ome.zarr' else '::/0'}"
    dask_io.extract(level, one, regions="2:12,1:4,:")
    dask_io.extract(tmp_path / "a.ome.zarr", several, regions=["2:12,1:4,:", "0:3"])
    dask_io.extract(tmp_path / "a.ome.zarr", tmp_path / "b.ome.zarr", regions="2:", chunks=-1)
    dask_io.extract(tmp_path / "a.ome.zarr", tmp_path / "whole.npy", regions="2:")

    chunks = {
        name: dask_io.open(f"{tmp_path}/{name}").source.grid.longest
        for name in (
            f"one.{suffix}",
            "several/region_000.ome.zarr",
            "several/region_001.ome.zarr",
            "b.ome.zarr",
            "whole.npy",
        )
    }
    whole = (ARRAY.shape[0] - 2, *ARRAY.shape[1:])
    assert list(chunks.values()) == [(5, 3, 3), (5, 3, 3), (3, 4, 3), whole, whole]


def test_a_region_in_slices_needs_no_chunks(tmp_path: Path) -> None:
    """As for the other verbs, the pattern says that files are slices."""
    np.save(tmp_path / "a.npy", ARRAY)
    for verb in (dask_io.extract, dask_io.resplit):
        verb(tmp_path / "a.npy", tmp_path / verb.__name__ / "z_{0}.npy", region="2:4")
        found = [np.load(tmp_path / verb.__name__ / f"z_{n}.npy") for n in range(2)]
        assert np.array_equal(found, ARRAY[2:4])


@pytest.mark.parametrize(
    "text", [None, "garbage", "{}", '{"zarr_format": 3, "node_type": "group"}']
)
def test_damaged_metadata_of_an_image_is_found(
    text: str | None, source: Path, tmp_path: Path
) -> None:
    """`verify` of one target finds what `repair` finds, also if all blocks are right."""
    image = tmp_path / "a.ome.zarr"
    dask_io.resplit(source, image, chunks=5, spacing="1", unit="um")
    document = image / "zarr.json"
    document.unlink()
    if text is not None:
        document.write_text(text)

    line = fail("verify", image, code=1)

    assert "metadata that describes it is missing or invalid; repair it with" in line
    dask_io.repair(image)
    assert run("verify", image)


def test_a_level_without_metadata_is_found(source: Path, tmp_path: Path) -> None:
    """The group is intact, but is not taken for one without arrays or checksums."""
    image = tmp_path / "a.ome.zarr"
    dask_io.resplit(source, image, chunks=5, spacing="1", unit="um")
    (image / "0" / "zarr.json").unlink()

    assert "0: is not a Zarr array any more; repair it with" in fail("verify", image, code=1)
    line = fail("info", image, code=1)
    assert line.endswith(
        f"{image}: the metadata of array 0 is missing or invalid; repair it with: dask-io repair "
        f"{image}"
    )
    dask_io.repair(image)
    assert run("verify", image)


def test_one_of_several_arrays_without_metadata_is_found(source: Path, tmp_path: Path) -> None:
    """`verify` of a group that several runs have filled includes arrays that readers miss."""
    group = tmp_path / "g.zarr"
    for name in "ab":
        dask_io.resplit(source, f"{group}::/{name}", chunks=5)
    (group / "b" / "zarr.json").unlink()

    assert "b: is not a Zarr array any more; repair it with" in fail("verify", group, code=1)
