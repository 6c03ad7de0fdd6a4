"""A folder of TIFF slices becomes a sharded OME-Zarr image in a hundredth of its size, and back."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tifffile
import zarr

import dask_io
from dask_io.errors import DataError, SpacingWarning, UsageError
from dask_io.report.text import info_text
from tests.commands import fail, invoke, run

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

SHAPE = (128, 256, 512)
BUDGET = np.prod(SHAPE) // 100
# Ends the process, as a cluster or an operator does, as soon as a quarter has been written.
KILLED = """
import os, signal, sys, dask_io
def watch(progress):
    if progress.n_bytes_written > progress.n_bytes / 4:
        os.kill(os.getpid(), signal.SIGKILL)
dask_io.resplit(
    sys.argv[1], sys.argv[2], chunks=16, shards=32, memory=int(sys.argv[3]),
    spacing="5,0.5,0.5", unit="micrometer", codec="none", progress=watch,
)
"""


def save(folder: Path, array: NDArray[Any], first: int = 1, **options: Any) -> Path:
    """Save the slices of a volume as a microscope does."""
    folder.mkdir()
    for number, picture in enumerate(array, first):
        tifffile.imwrite(folder / f"slice_{number}.tif", picture, **options)
    return folder


def volume(*shape: int, dtype: str = "u1") -> NDArray[Any]:
    """Return random values."""
    return np.random.default_rng(0).integers(0, 250, shape).astype(dtype)


def test_slices_become_a_sharded_image_in_a_hundredth_of_their_size(tmp_path: Path) -> None:
    """The run is killed, resumed within the same budget, and equals what tifffile reads."""
    folder, target = save(tmp_path / "scan", volume(*SHAPE)), tmp_path / "scan.ome.zarr"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, folder / "*.tif", target, str(BUDGET)],
        capture_output=True,
        check=False,
        text=True,
    )
    assert killed.returncode == -9, killed.stderr
    assert "unfinished" in fail("info", target / "0", code=1)

    done = json.loads(run("resume", target, "--memory", BUDGET, "--verify", "--json"))

    result = done["result"]
    n_shards = 4 * 8 * 16
    assert result["verified"] is True
    assert 0 < result["blocks_skipped"] < n_shards
    assert done["plan"]["memory"]["peak"] <= BUDGET
    names = sorted(folder.glob("*.tif"), key=lambda path: int(path.stem.removeprefix("slice_")))
    found: Any = zarr.open_array(target / "0", mode="r")
    assert (found.chunks, found.shards) == ((16,) * 3, (32,) * 3)
    np.testing.assert_array_equal(found[...], tifffile.imread(names))
    image = zarr.open_group(target, mode="r").attrs["ome"]
    assert isinstance(image, dict)
    (level,) = image["multiscales"][0]["datasets"]
    assert level["coordinateTransformations"][0]["scale"] == [5.0, 0.5, 0.5]


def test_a_budget_below_a_shard_is_refused_with_the_least_one(tmp_path: Path) -> None:
    """A shard is written whole; the least budget is told, and is enough."""
    folder, target = save(tmp_path / "scan", volume(8, 64, 64)), tmp_path / "a.ome.zarr"
    command = ("resplit", folder, target, "--chunks", 4, "--shards", "8,32,32")
    line = fail(*command, "--memory", 1000, code=2)
    assert "use smaller --chunks or --shards, or at least --memory" in line
    least = line.rpartition("--memory ")[2]
    run(*command, "--memory", least)
    np.testing.assert_array_equal(dask_io.open(f"{target}::/0"), volume(8, 64, 64))


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zlib", "rowsperstrip": 7},
        {"compression": "lzw", "tile": (16, 16)},
        {"rowsperstrip": 8},
        {"byteorder": ">", "bigtiff": True},
    ],
    ids=["zlib", "tiles", "strips", "big"],
)
def test_slices_of_any_kind_are_a_volume(options: dict[str, Any], tmp_path: Path) -> None:
    """Compressed or not, in strips or tiles; the way back gives slices for every reader."""
    array = volume(11, 40, 50, dtype="u2")
    folder = save(tmp_path / "scan", array, first=8, **options)
    for place in (
        folder,
        folder / "slice_*.tif",
        folder / "slice_{0:from8}.tif",
        folder / "slice_{0}.tif",
    ):
        np.testing.assert_array_equal(dask_io.open(place), array)
    dask_io.resplit(folder, tmp_path / "a.zarr", chunks=(4, 16, 16), memory="8MiB", codec="none")
    run("resplit", tmp_path / "a.zarr", tmp_path / "out" / "z_{0:03d}.tif", "--memory", "1MiB")
    names = sorted((tmp_path / "out").glob("*.tif"))
    assert names[0].name == "z_000.tif"
    np.testing.assert_array_equal(tifffile.imread(names), array)
    assert tifffile.imread(names[0]).shape == (40, 50)
    np.testing.assert_array_equal(dask_io.open(tmp_path / "out"), array)
    assert dask_io.verify(tmp_path / "out")


@pytest.mark.parametrize(
    ("compression", "target", "codec", "lost"),
    [("zlib", "a.zarr", "gzip", []), ("lzw", "a.ome.zarr", "zstd", ["codec"])],
)
def test_zarr_3_gets_codecs_that_every_reader_has(
    compression: str, target: str, codec: str, lost: list[str], tmp_path: Path
) -> None:
    """Deflate becomes gzip, and a codec that Zarr lacks becomes zstd, which is reported."""
    folder = save(tmp_path / "scan", volume(3, 40, 50, dtype="u2"), compression=compression)
    result: Any = dask_io.resplit(folder, tmp_path / target, chunks=(3, 16, 16))
    array = tmp_path / target / ("0" if lost else "")
    document = json.loads((array / "zarr.json").read_text())
    assert [each["name"] for each in document["codecs"]] == ["bytes", codec]
    assert [word for word in result.not_kept if word == "codec"] == lost
    np.testing.assert_array_equal(zarr.open_array(array, mode="r")[...], dask_io.open(folder))


def test_colours_and_the_resolution_are_kept(tmp_path: Path) -> None:
    """Coloured slices have a last axis, and the steps of a slice are those of the volume."""
    folder = tmp_path / "scan"
    folder.mkdir()
    for number in range(3):
        picture = volume(20, 30, 3) + np.uint8(number)
        options: dict[str, Any] = {"resolution": (2e4, 1e4), "resolutionunit": "CENTIMETER"}
        tifffile.imwrite(folder / f"{number}.tif", picture, photometric="rgb", **options)
    found = dask_io.info(folder)
    assert found.shape == (3, 20, 30, 3)
    space = found.metadata["space"]
    assert [axis.name for axis in space.axes][:3] == ["z", "y", "x"]
    assert space.affine.steps[1:3] == (1, 0.5)
    assert found.pattern == "{0:slice}.tif"


def test_spacing_is_shown_and_compared_with_the_slices(tmp_path: Path) -> None:
    """Steps in the wrong order are found by the resolution of the slices, before a run."""
    resolution: dict[str, Any] = {"resolution": (2e4, 2e4), "resolutionunit": "CENTIMETER"}
    folder = save(tmp_path / "scan", volume(3, 20, 30), **resolution)
    plan = ("plan", folder, tmp_path / "a.ome.zarr", "--chunks", 3)

    wrong = invoke(*plan, "--spacing", "0.5,0.5,2").stderr.splitlines()
    right = invoke(*plan, "--spacing", "z=2,y=0.5,x=0.5").stderr.splitlines()
    unknown = invoke(*plan).stderr.splitlines()

    found = "has x: 0.5 micrometer; its order is z,y,x"
    assert wrong == [
        f"dask-io: the spacing contradicts the source, which {found}",
        "dask-io: spacing z: 0.5, y: 0.5, x: 2 micrometer",
    ]
    assert right == ["dask-io: spacing z: 2, y: 0.5, x: 0.5 micrometer"]
    assert unknown == [
        "dask-io: spacing z: 1, y: 0.5 micrometer, x: 0.5 micrometer",
        "dask-io: the step along z is not known and written as 1; give --spacing and --unit",
    ]
    with pytest.warns(SpacingWarning, match="x: 0.5 micrometer"):
        dask_io.plan(folder, tmp_path / "b.tif", chunks=-1, spacing=(0.5, 0.5, 2))


@pytest.mark.parametrize(
    ("options", "along", "advice"),
    [
        ((), "z, y and x", "--spacing and --unit"),
        (("--axes", "z,y,x"), "z, y and x", "--spacing and --unit"),
        (("--axes", "c,y,x"), "y and x", "--spacing and --unit"),
        (("--unit", "micrometer"), "z, y and x", "--spacing"),
        (("--spacing", "1,1,1"), "", ""),
        (("--spacing", "z=2", "--unit", "um"), "", ""),
    ],
)
def test_unknown_steps_are_reported_unless_the_user_gives_them(
    options: tuple[str, ...], along: str, advice: str, tmp_path: Path
) -> None:
    """Neither names of axes nor units make a step known."""
    array = volume(3, 20, 30)
    tifffile.imwrite(tmp_path / "a.tif", array, metadata={"axes": "ZYX"}, photometric="minisblack")
    shown = invoke("plan", tmp_path / "a.tif", tmp_path / "a.ome.zarr", "--chunks", 3, *options)
    found = [line for line in shown.stderr.splitlines() if "not known" in line]
    expected = f"dask-io: the steps along {along} are not known and written as 1; give {advice}"
    assert found == ([expected] if along else [])


@pytest.mark.parametrize("target", ["a.ome.zarr", "a.ome.tif"])
@pytest.mark.parametrize(
    ("unit", "problem"),
    [
        ("micormeter", "no unit of length in .*; did you mean micrometer"),
        ("pixels", "no unit of length in .*; write one such as micrometer or nm"),
        ("second", "unit 'second' is no unit of length"),
        ("parsecond,um,um", "no unit of time in .*; did you mean"),
    ],
)
def test_units_that_no_program_knows_are_refused(
    target: str, unit: str, problem: str, tmp_path: Path
) -> None:
    """A misspelled unit is found before a day of writing; other formats have any unit."""
    folder, axes = save(tmp_path / "scan", volume(3, 20, 30)), "t,y,x" if "," in unit else "z,y,x"
    options: dict[str, Any] = {"axes": axes, "spacing": (1, 2, 3), "unit": unit}
    with pytest.raises(UsageError, match=problem):
        dask_io.plan(folder, tmp_path / target, chunks=-1, **options)
    dask_io.plan(folder, tmp_path / "a.nc", chunks=-1, **options)
    for known in ("um", "micron", "millimetre", "inch", "angstrom"):
        kinds = f"{known if axes[0] == 'z' else 'ms'},{known},um"
        dask_io.plan(folder, tmp_path / target, chunks=-1, **{**options, "unit": kinds})


def test_codecs_of_slices_that_differ_are_all_shown(tmp_path: Path) -> None:
    """The first slice does not stand for the others."""
    folder = save(tmp_path / "scan", volume(3, 20, 30))
    tifffile.imwrite(folder / "slice_2.tif", volume(3, 20, 30)[1], compression="zlib")
    assert "none and zlib" in info_text(dask_io.info(folder))
    np.testing.assert_array_equal(dask_io.open(folder), volume(3, 20, 30))


def test_slices_that_do_not_fit_are_listed(tmp_path: Path) -> None:
    """Most slices decide what is right, wherever an odd one is; gaps and links are reported."""
    folder = save(tmp_path / "scan", volume(40, 20, 30), first=1)
    tifffile.imwrite(folder / "slice_1.tif", volume(20, 31))
    tifffile.imwrite(folder / "slice_20.tif", volume(20, 30).astype("f4"))
    tifffile.imwrite(folder / "slice_21.tif", volume(2, 20, 30))
    (folder / "slice_22.tif").write_bytes(b"II*\0")
    (folder / "slice_23.tif").unlink()
    (folder / "slice_24.tif").unlink()
    (folder / "slice_24.tif").symlink_to(folder / "nowhere.tif")
    (folder / "slice_25.tif").unlink()
    (folder / "slice_25.tif").mkdir()
    assert "and 4 more" in fail("info", folder, code=1)
    with pytest.raises(DataError) as refused:
        dask_io.open(folder)
    listed = "; ".join(refused.value.problems)
    for found in (
        "slice_1.tif has shape 20 x 31, expected 20 x 30",
        "slice_20.tif has dtype float32, expected uint8",
        "slice_21.tif has 3 axes, expected 2",
        "slice_22.tif is not a TIFF file",
        "slice 23 is missing: there is no slice_23.tif",
        "slice_24.tif is not a file",
        "slice_25.tif is not a file",
    ):
        assert found in listed


def test_slices_on_one_side_of_a_gap_are_linked(tmp_path: Path) -> None:
    """As the message says; an empty file is called empty."""
    array = volume(12, 20, 30)
    folder, part = save(tmp_path / "scan", array, first=10), tmp_path / "part"
    (folder / "slice_20.tif").unlink()
    line = fail("info", folder, code=1)
    assert "slice 20 is missing" in line
    assert line.endswith("or link those before or after the gap into a folder of their own")
    assert "or link the wanted files" in fail("info", folder / "slice_1*.tif", code=1)
    part.mkdir()
    for path in folder.glob("slice_1*.tif"):
        (part / path.name).symlink_to(path)
    np.testing.assert_array_equal(dask_io.open(part), array[:10])
    (folder / "slice_20.tif").touch()
    assert "slice_20.tif is empty: it has 0 bytes" in fail("info", folder, code=1)


def test_wildcards_are_advised_that_work(tmp_path: Path) -> None:
    """For a folder with files of several formats, and with other files of the same format."""
    folder = save(tmp_path / "scan", volume(12, 20, 30))
    np.save(folder / "a.npy", volume(20, 30))
    assert f"as in '{folder}/*.tif'" in fail("info", folder, code=1)
    tifffile.imwrite(folder / "overview.tif", volume(20, 30))
    advice = f"these do not: overview.tif; give '{folder}/slice_*.tif'"
    assert advice in fail("info", folder / "*.tif", code=1)
    assert dask_io.open(folder / "slice_*.tif").shape == (12, 20, 30)
    assert "only * and ? stand for" in fail("info", folder / "slice_[1-9].tif", code=3)
    assert "only * and ? stand for" in fail("info", folder / "s_[1-9]*.tif", code=3)


def test_shards_and_their_chunks_are_shown(tmp_path: Path) -> None:
    """Also without a target."""
    folder = save(tmp_path / "scan", volume(8, 64, 64))
    options = ("--chunks", 4, "--shards", "8,32,32")
    shown = "4 zarr shards of 8 x 32 x 32 with chunks of 4 x 4 x 4"
    assert shown in run("plan", folder, "--format", "zarr", *options)
    assert shown in invoke("resplit", folder, tmp_path / "a.zarr", *options).stderr


def test_a_slice_that_changes_after_it_was_checked_is_refused(tmp_path: Path) -> None:
    """A run does not put a slice of another size into the array."""
    folder = save(tmp_path / "scan", volume(4, 20, 30))
    array = dask_io.open(folder)
    tifffile.imwrite(folder / "slice_3.tif", volume(20, 31))
    with pytest.raises(DataError, match="has shape 20 x 31, expected 20 x 30"):
        np.asarray(array)


def test_what_was_inferred_is_shown(tmp_path: Path) -> None:
    """By info, by the plan, and in the first line of a run."""
    folder = save(tmp_path / "scan", volume(4, 20, 30), first=7)
    said = "slice_{0:slice:from7}.tif (slice numbers from 7 along axis 0)"
    assert "slice_{0:slice:from7}.tif" in run("info", folder)
    assert said in run("plan", folder, "--chunks", 2)
    done = invoke("resplit", folder, tmp_path / "out.zarr", "--chunks", 2)
    assert said in done.stderr.splitlines()[0]


def test_our_own_slices_keep_their_place_without_our_notes(tmp_path: Path) -> None:
    """Each slice says where it lies, so the steps and the origin come back from the files alone."""
    folder = save(tmp_path / "scan", volume(6, 20, 30))
    spacing: dict[str, Any] = {"spacing": (0.5, 0.1, 0.2), "unit": "micrometer"}
    dask_io.resplit(folder, tmp_path / "a.ome.zarr", chunks=4, **spacing)
    dask_io.resplit(f"{tmp_path}/a.ome.zarr::/0", tmp_path / "back" / "z_{0:04}.tif")
    (tmp_path / "part").mkdir()
    for number in range(2, 6):
        path = tmp_path / "back" / f"z_{number:04}.tif"
        path.rename(tmp_path / "part" / path.name)

    found = dask_io.info(tmp_path / "part").metadata["space"]
    assert [axis.name for axis in found.axes] == ["z", "y", "x"]
    assert (found.affine.steps, found.affine.origin) == ((0.5, 0.1, 0.2), (1, 0, 0))
    done = dask_io.resplit(tmp_path / "part", tmp_path / "b.ome.zarr", chunks=4)
    assert "space" not in done.not_kept
    again = dask_io.info(tmp_path / "b.ome.zarr::/0").metadata["space"]
    assert (again.affine.steps, again.affine.origin) == ((0.5, 0.1, 0.2), (1, 0, 0))


def test_an_unknown_unit_is_reported(tmp_path: Path) -> None:
    """Slices without their manifest know the step along z, but not its unit."""
    array = volume(4, 20, 30)
    given: dict[str, Any] = {"spacing": (2, 0.5, 0.5), "unit": "nm"}
    dask_io.resplit(save(tmp_path / "scan", array), tmp_path / "cut" / "z_{0}.tif", **given)
    (tmp_path / "cut" / "dask-io.json").unlink()
    plan = ("plan", tmp_path / "cut", tmp_path / "a.ome.zarr", "--chunks", 4)

    assert invoke(*plan).stderr.splitlines() == [
        "dask-io: spacing z: 2, y: 0.5 nanometer, x: 0.5 nanometer",
        "dask-io: the unit along z is not known; give --unit z=nanometer",
    ]
    assert invoke(*plan, "--unit", "z=nanometer").stderr.splitlines() == [
        "dask-io: spacing z: 2, y: 0.5, x: 0.5 nanometer"
    ]


def test_our_own_tiles_of_slices_keep_their_place(tmp_path: Path) -> None:
    """The distance between slices is known, so that no tile seems to lie elsewhere."""
    array = volume(6, 32, 48)
    spacing: dict[str, Any] = {"spacing": (0.5, 0.1, 0.2), "unit": "micrometer"}
    names = "z{0:slice}_{1}_{2}.tif"
    dask_io.resplit(
        save(tmp_path / "scan", array), tmp_path / "tiles" / names, chunks=(1, 16, 16), **spacing
    )
    (tmp_path / "tiles" / "dask-io.json").unlink()
    found = dask_io.open(tmp_path / "tiles" / names)
    assert found.source.metadata["space"].affine.steps == (0.5, 0.1, 0.2)
    np.testing.assert_array_equal(found, array)


def test_slices_that_lie_anywhere_keep_the_steps_within_them(tmp_path: Path) -> None:
    """What the slices do not have in common is reported, and nothing else is lost."""
    folder = save(tmp_path / "scan", volume(4, 20, 30))
    spacing: dict[str, Any] = {"spacing": (0.5, 0.1, 0.2), "unit": "micrometer"}
    dask_io.resplit(folder, tmp_path / "back" / "z_{0}.tif", **spacing)
    (tmp_path / "odd").mkdir()
    for new, old in enumerate((0, 3, 1)):
        (tmp_path / "back" / f"z_{old}.tif").rename(tmp_path / "odd" / f"z_{new}.tif")

    found = dask_io.info(tmp_path / "odd").metadata["space"]
    done = dask_io.resplit(tmp_path / "odd", tmp_path / "b.ome.zarr", chunks=4)

    assert found.affine.steps == (1, 0.1, 0.2)
    assert [axis.unit for axis in found.axes] == [None, "micrometer", "micrometer"]
    assert "metadata of some files" in str(done)


@pytest.mark.parametrize(
    ("pattern", "axes", "steps", "origin"),
    [
        ("t{0:slice}_z{2:slice}_c{1:slice}.tif", "tczyx", (30, 1, 2, 0.5, 0.25), (0, 0, 0, 0, 0)),
        ("t1_z{0:slice}_c1.tif", "zyx", (2, 0.5, 0.25), (0, 0, 0)),
        ("t{0:slice}_z2_c{1:slice}.tif", "tcyx", (30, 1, 0.5, 0.25), (0, 0, 0, 0)),
        ("t{0:slice}_z1_c1.tif", "tyx", (30, 0.5, 0.25), (0, 0, 0)),
    ],
)
def test_slices_of_many_axes_are_read_in_part_and_in_any_order(
    pattern: str, axes: str, steps: tuple[float, ...], origin: tuple[float, ...], tmp_path: Path
) -> None:
    """The position that changes along an axis is that of the axis, and units keep their steps."""
    np.save(tmp_path / "a.npy", volume(3, 4, 2, 16, 16))
    given: dict[str, Any] = {"axes": "tzcyx", "spacing": (30, 2, 1, 0.5, 0.25)}
    given["unit"] = "second,um,,um,um"
    dask_io.resplit(tmp_path / "a.npy", tmp_path / "cut" / "t{0}_z{1}_c{2}.tif", **given)
    found = dask_io.info(tmp_path / "cut" / pattern).metadata["space"]
    assert "".join(axis.name for axis in found.axes) == axes
    assert (found.affine.steps, found.affine.origin) == (steps, origin)
    assert [axis.unit for axis in found.axes[-2:]] == ["micrometer"] * 2


@pytest.mark.parametrize(
    ("names", "axes"),
    [
        (["cell_t001", "cell_t002"], "tyx"),
        (["cell_c1", "cell_c2"], "cyx"),
        (["frame_0", "frame_1"], "tyx"),
        (["page_0", "page_1"], "zyx"),
        (["t0_z0", "t0_z1", "t1_z0", "t1_z1"], "tzyx"),
        (["t00_c0_z001", "t00_c1_z001", "t01_c0_z001", "t01_c1_z001"], "tcyx"),
        (["2t0_c0_z0", "2t0_c0_z1", "2t0_c1_z0", "2t0_c1_z1"], "czyx"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"compression": "zlib"}], ids=["plain", "zlib"])
def test_words_in_names_are_the_names_of_axes(
    names: list[str], axes: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Time points and channels do not become slices along z, and the first line says so."""
    folder = tmp_path / "scan"
    folder.mkdir()
    for name in names:
        tifffile.imwrite(folder / f"{name}.tif", volume(20, 30), **options)

    info = dask_io.info(folder)
    given = dask_io.info(folder / str(info.pattern))
    chunks = [1] * (len(axes) - 2) + [16, 16]
    job: Any = dask_io.plan(folder, tmp_path / "a.ome.zarr", chunks=chunks)
    dask_io.merge(folder, tmp_path / "a.ome.tif")

    for found in (info, given):
        assert "".join(str(axis.name) for axis in found.metadata["space"].axes) == axes
    assert [axis.name for axis in job.target.metadata["space"].axes] == list(axes)
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        assert file.series[0].axes.lower() == axes
    shown = [f"{number} ({name})" for number, name in enumerate(axes[:-2])]
    if axes != "zyx":
        assert f"along {'axes' if len(shown) > 1 else 'axis'} {', '.join(shown)}" in str(
            info.inferred
        )


def test_an_axis_without_a_name_has_one_form(tmp_path: Path) -> None:
    """It is called by its number, by info as well as by errors."""
    (tmp_path / "scan").mkdir()
    for n in range(4):
        tifffile.imwrite(tmp_path / "scan" / f"img_{n // 2}_ch{n % 2}.tif", volume(20, 30))
    assert "axes      axis 0, c, y, x" in run("info", tmp_path / "scan")
    command = ("plan", tmp_path / "scan", tmp_path / "a.ome.zarr", "--chunks", 1)
    assert "but the axes are axis 0, c, y, x;" in fail(*command, code=2)
