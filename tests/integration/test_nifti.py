"""NIfTI volumes through the whole program: real ones, large ones, and other readers of them."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, InterruptedRunError, UsageError
from dask_io.formats import make_target
from dask_io.geometry import Grid, Layout
from tests.commands import invoke, run
from tests.peak import stays_within

REAL = Path("/usr/share/mricron/templates/ch2better.nii.gz")
MIB = 2**20


def is_good(*paths: Path) -> bool:
    """Ask nifti_tool, which is not ours, whether headers are good."""
    command = ["nifti_tool", "-check_hdr", "-check_nim", "-infiles", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.count("IS GOOD") == 2 * len(paths)


def test_a_real_volume_in_blocks(tmp_path: Path) -> None:
    """Blocks of a brain lie in nibabel where they lay in the whole, and merge to the same file."""
    whole = nib.load(REAL)
    dask_io.split(REAL, tmp_path / "b", chunks=(160, 190, 170), memory="32MiB")
    blocks = sorted((tmp_path / "b").glob("*.nii"))
    assert len(blocks) == 8
    for path in blocks:
        block = nib.load(path)
        start = np.array([int(n) for n in path.stem.split("_")[1:]]) * (160, 190, 170)
        assert block.affine[:3, 3] == pytest.approx((whole.affine @ [*start, 1])[:3])
        assert block.affine[:3, :3] == pytest.approx(whole.affine[:3, :3])
    middle = nib.load(tmp_path / "b" / "b_1_0_1.nii")
    assert np.array_equal(middle.dataobj[::7, ::9], whole.dataobj[160::7, 0:190:9, 170:])
    assert is_good(*blocks)
    dask_io.merge(tmp_path / "b", tmp_path / "back.nii", memory="32MiB")
    assert (tmp_path / "back.nii").read_bytes() == gzip.decompress(REAL.read_bytes())


def test_info_on_a_gzip_file(volume: Path) -> None:
    """It is one file, which is decoded in slabs."""
    gz = volume.with_name("x.nii.gz")
    n_slabs = dask_io.info(gz).grid.n_blocks

    assert n_slabs > 1
    assert f"1 file, decoded in {n_slabs} slabs of 64 x 96 x " in run("info", gz)
    assert f"{n_slabs} slabs of" in repr(dask_io.info(gz))
    assert f'"blocks": {n_slabs}' in run("info", gz, "--json")


def test_a_region_in_millimetres(tmp_path: Path) -> None:
    """Positions are those of the affine map, and shown; oblique axes have no single index."""
    array = np.arange(40 * 30 * 20, dtype="<i2").reshape(40, 30, 20)
    affine = np.array([[-0.5, 0, 0, 10], [0, 0, 2, -7], [0, 0.25, 0, -3.0], [0, 0, 0, 1]])
    image = nib.Nifti1Image(array, affine)
    image.header.set_xyzt_units("mm")
    nib.save(image, tmp_path / "a.nii")
    out, region = tmp_path / "out.nii", "x=@5:@-3,1=@-1:@0.6,z=@-5:@3.5"

    done = invoke("extract", tmp_path / "a.nii", out, "--region", region)

    shown = "x=@5:@-3 is 10:26, 5 to -2.5 mm, y=@-1:@0.6 is 8:15, -1 to 0.5 mm"
    assert shown in done.stderr
    expected = nib.load(tmp_path / "a.nii").slicer[10:26, 8:15, 1:6]
    assert np.array_equal(np.asarray(nib.load(out).dataobj), np.asarray(expected.dataobj))
    assert nib.load(out).affine == pytest.approx(expected.affine)
    affine[0, 1] = 0.1
    nib.save(nib.Nifti1Image(array, affine), tmp_path / "b.nii")
    with pytest.raises(UsageError, match=r"x of .*b\.nii lies obliquely .* inverse of the affine"):
        dask_io.extract(tmp_path / "b.nii", out, regions="x=@5:@-3", overwrite=True)
    with pytest.raises(UsageError, match="2020-01-01 is not a position along x"):
        dask_io.extract(tmp_path / "a.nii", out, regions="x=2020-01-01:", overwrite=True)


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save 12 MiB in Fortran order, as .nii and .nii.gz in a single gzip member."""
    path = tmp_path_factory.mktemp("volume") / "x.nii"
    array = np.random.default_rng(5).integers(0, 50, (64, 96, 1024), "<i2")
    array[:, :, ::3] = 7
    image = nib.Nifti1Image(array, np.diag([0.5, 0.25, 2, 1]) + np.eye(4, k=3) * 9)
    nib.save(image, path)
    with gzip.open(f"{path}.gz", "wb", compresslevel=1) as packed:
        packed.write(path.read_bytes())
    return path


def test_twenty_times_the_budget_to_zarr_and_back(volume: Path, tmp_path: Path) -> None:
    """A file in Fortran order becomes chunks in C order and the same values again, in 1.2 MiB."""
    memory = volume.stat().st_size // 20
    done = dask_io.resplit(
        volume, tmp_path / "x.zarr", chunks=32, order="C", memory=memory, workers=1, codec="none"
    )
    assert done.held <= memory
    back = dask_io.resplit(
        tmp_path / "x.zarr", tmp_path / "y.nii", chunks=-1, memory=memory, workers=1
    )
    assert back.held <= memory
    assert (tmp_path / "y.nii").read_bytes()[352:] == volume.read_bytes()[352:]


def test_a_compressed_volume_larger_than_the_budget(volume: Path, tmp_path: Path) -> None:
    """A .nii.gz is split in less than its size, and all memory is counted."""
    source, memory = Path(f"{volume}.gz"), 8 * MIB

    def split() -> None:
        dask_io.split(source, tmp_path / "b", chunks=64, memory=memory, workers=1, overwrite=True)

    # Modules and plans take some memory of their own.
    split()
    assert stays_within(memory + 3 * MIB, split)
    assert dask_io.verify(volume, tmp_path / "b").equal


def test_threads_compress_one_file(volume: Path, tmp_path: Path) -> None:
    """Members are put in order, every gzip reader takes them, and their checksums are kept."""
    path = tmp_path / "y.nii.gz"
    dask_io.merge(volume, path, memory=24 * MIB, workers=3, codec="gzip:1")
    assert gzip.decompress(path.read_bytes()) == volume.read_bytes()
    assert dask_io.verify(path).equal
    subprocess.run(["gzip", "-t", path], check=True)
    assert is_good(path)


def test_compressed_blocks(volume: Path, tmp_path: Path) -> None:
    """Files by a pattern, of a level that is asked for, with or without a manifest."""
    folder = tmp_path / "b"
    pattern = folder / "b_{0}_{1}_{2}.nii.gz"
    done = dask_io.split(volume, pattern, chunks=(64, 96, 300), codec="gzip:1")
    assert done.not_kept == ()
    assert dask_io.info(folder).metadata["codecs"] == [{"id": "gzip", "level": 1}]
    assert dask_io.verify(folder).equal
    (folder / "dask-io.json").unlink()
    shutil.rmtree(folder / ".dask-io")
    assert dask_io.verify(folder, volume).equal
    # Without a manifest, nothing records the level.
    assert dask_io.info(folder).metadata["codecs"] == [{"id": "gzip"}]
    dask_io.merge(folder, tmp_path / "y.nii", memory="24MiB")
    assert (tmp_path / "y.nii").read_bytes() == volume.read_bytes()
    block = nib.load(folder / "b_0_0_2.nii.gz")
    assert block.affine[:3, 3] == pytest.approx([9, 0, 1200])


@pytest.mark.parametrize("chunks", [-1, (5, 5, 5)])
def test_regions_and_blocks_in_a_directory_are_compressed(chunks: Any, tmp_path: Path) -> None:
    """With --format nifti --codec gzip, every file in the directory is a .nii.gz file."""
    array = np.arange(9 * 9 * 9, dtype="<i2").reshape(9, 9, 9)
    nib.save(nib.Nifti1Image(array, np.eye(4)), tmp_path / "x.nii")
    options: dict[str, Any] = {"format": "nifti", "codec": "gzip:1"}
    dask_io.split(tmp_path / "x.nii", tmp_path / "blocks", chunks=(5, 5, 5), **options)
    regions = ["0:6,:,:", "3:9,:,2:5"]
    dask_io.extract(
        tmp_path / "blocks", tmp_path / "rois", regions=regions, chunks=chunks, **options
    )
    rois = sorted(path for path in (tmp_path / "rois").iterdir() if "dask-io" not in path.name)
    assert {path.suffix for path in rois} == ({".gz"} if chunks == -1 else {""})
    assert np.array_equal(dask_io.open(rois[1])[:, :, :], array[3:9, :, 2:5])
    files = [
        path for path in tmp_path.rglob("[!.]*.nii*") if path.is_file() and path.name != "x.nii"
    ]
    assert len(files) > len(regions)
    for path in files:
        assert path.name.endswith(".nii.gz")
        nib.load(path).get_fdata()
    with pytest.raises(UsageError, match="give a directory, in which they are called region_000"):
        dask_io.extract(tmp_path / "x.nii", tmp_path / "r_{0}.nii.gz", regions=regions)


def test_levels_are_checked(volume: Path, tmp_path: Path) -> None:
    """Only gzip, and only levels that it has."""
    for codec in ("zstd", "gzip:11", "gzip:x"):
        with pytest.raises(UsageError, match="compressed with gzip, not"):
            dask_io.merge(volume, tmp_path / "y.nii.gz", codec=codec)


def test_an_interrupted_compressed_file_is_begun_again(volume: Path, tmp_path: Path) -> None:
    """Nothing is left of it under its name, and a second run writes all of it."""
    target = tmp_path / "y.nii.gz"

    def stop(progress: Any) -> None:
        if progress.n_bytes_written > 4 * MIB:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="start the run again"):
        dask_io.merge(volume, target, memory="12MiB", workers=1, progress=stop, codec="gzip:1")
    assert not target.exists()
    assert list(tmp_path.iterdir()) == []
    dask_io.merge(volume, target, memory="12MiB", codec="gzip:1")
    assert gzip.decompress(target.read_bytes()) == volume.read_bytes()


_KILLED_WHILE_SORTING = """
import os, sys
import dask_io
from dask_io.stores import gzip_targets

write = gzip_targets._pieces

def die_after_some(file, members):
    for number, piece in enumerate(write(file, members)):
        yield piece
        if number == 3:
            os._exit(9)

gzip_targets._pieces = die_after_some
gzip_targets.sorted = lambda values: sorted(values, reverse=isinstance(values, dict))
dask_io.merge(sys.argv[1], sys.argv[2], memory="12MiB", workers=1, codec="gzip:1")
"""


@pytest.mark.parametrize("again", ["resume", "overwrite"])
def test_a_run_that_is_killed_while_it_sorts_leaves_nothing(
    again: str, volume: Path, tmp_path: Path
) -> None:
    """The next run removes the incomplete copy, and writes the file."""
    target = tmp_path / "y.nii.gz"
    command = [sys.executable, "-c", _KILLED_WHILE_SORTING, str(volume), str(target)]
    assert subprocess.run(command, check=False).returncode == 9
    assert (tmp_path / "..y.nii.gz.part.part").exists()
    if again == "resume":
        dask_io.resume(target, workers=1)
    else:
        dask_io.merge(volume, target, workers=1, codec="gzip:1", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".y.nii.gz.dask-io", "y.nii.gz"]
    assert gzip.decompress(target.read_bytes()) == volume.read_bytes()


def test_a_compressed_file_counts_as_one_file(tmp_path: Path) -> None:
    """Slabs of one file need no names of their own on the disk."""
    grid = Grid.regular((256, 256, 300), (256, 256, 300))
    target = make_target(tmp_path / "y.nii.gz", grid=grid, dtype=np.dtype("u2"), layout=Layout.f(3))
    assert target.grid.n_blocks > 1
    assert target.footprint.n_files == 1


def test_a_bomb_is_refused_before_anything_is_planned(tmp_path: Path) -> None:
    """A small stream cannot hold what its header claims."""
    header = nib.Nifti1Header()
    header.set_data_shape((30000, 30000, 3000))
    header["vox_offset"], header["magic"] = 352, b"n+1"
    (tmp_path / "x.nii.gz").write_bytes(gzip.compress(header.binaryblock + bytes(2**20)))
    with pytest.raises(DataError, match="bytes, which cannot be decoded to"):
        dask_io.info(tmp_path / "x.nii.gz")


def test_a_bomb_of_many_slabs_is_refused_at_once(tmp_path: Path) -> None:
    """A header that claims more slabs than can be counted costs neither time nor memory."""
    header = nib.Nifti2Header()
    header.set_data_dtype("u1")
    header["dim"][:4] = [3, 2**26, 2**26, 2**8]
    header["vox_offset"], header["magic"] = 544, b"n+2"
    path = tmp_path / "x.nii.gz"
    path.write_bytes(gzip.compress(header.binaryblock + bytes(1000)))

    def read() -> None:
        with pytest.raises(DataError, match="bytes, which cannot be decoded to"):
            dask_io.open(path)

    assert stays_within(16 * MIB, read)


def test_a_stream_that_goes_on_takes_no_memory(tmp_path: Path) -> None:
    """200 MiB behind 1 MiB of data are not decoded."""
    header = nib.Nifti1Header()
    header.set_data_shape((64, 64, 256))
    header.set_data_dtype("u1")
    header["vox_offset"], header["magic"] = 352, b"n+1"
    packer = zlib.compressobj(9, wbits=31)
    content = packer.compress(header.binaryblock + bytes(4))
    content += b"".join(packer.compress(bytes(MIB)) for _ in range(200)) + packer.flush()
    (tmp_path / "x.nii.gz").write_bytes(content)

    def read() -> None:
        with pytest.raises(DataError, match=r"x.nii.gz: is too long"):
            dask_io.merge(tmp_path / "x.nii.gz", tmp_path / "y.npy", memory="12MiB", workers=1)

    assert stays_within(16 * MIB, read)


def test_the_plan_and_the_info_say_what_gzip_costs() -> None:
    """There is no random access, and slabs are read forward."""
    told = run("plan", str(REAL), "--chunks", "100,100,100", "--memory", "24MiB", "--explain")
    assert "decoded forward without random access" in told
    assert "backwards" not in told
    assert "gzip has no random access" in run("info", str(REAL))


def test_regions_in_one_pass_keep_their_places(tmp_path: Path) -> None:
    """A list of regions of a compressed volume: each has its own affine."""
    whole, regions = nib.load(REAL), ["10:60,20:90,30:100", "200:,300:,250:"]
    dask_io.extract(REAL, tmp_path / "rois", regions=regions, memory="64MiB")
    first, second = (nib.load(tmp_path / "rois" / f"region_00{n}.nii") for n in range(2))
    assert np.array_equal(first.dataobj, whole.dataobj[10:60, 20:90, 30:100])
    assert first.affine == pytest.approx(whole.slicer[10:60, 20:90, 30:100].affine)
    assert second.affine == pytest.approx(whole.slicer[200:, 300:, 250:].affine)


@pytest.mark.parametrize(
    "name",
    ["anatomical.nii", "example4d.nii.gz", "example_nifti2.nii.gz", "row_major.dconn.nii"],
)
def test_files_of_other_programs_come_back_bit_identical(name: str, tmp_path: Path) -> None:
    """Both byte orders, both versions, extensions, scaling, and a matrix of CIFTI."""
    path = Path(nib.__file__).parent / "tests" / "data" / name
    content = path.read_bytes()
    shape = dask_io.info(path).shape
    dask_io.split(path, tmp_path / "b", chunks=tuple(-(-length // 2) for length in shape))
    dask_io.merge(tmp_path / "b", tmp_path / "y.nii")
    expected = gzip.decompress(content) if name.endswith(".gz") else content
    assert (tmp_path / "y.nii").read_bytes() == expected


@pytest.mark.parametrize("code", [0, 2])
def test_volumes_of_a_series_keep_their_place_and_time(code: int, tmp_path: Path) -> None:
    """Files of one time point each have the series' sform, its codes, and their own toffset."""
    image = nib.Nifti1Image(np.arange(4 * 5 * 6 * 8, dtype="<i2").reshape(4, 5, 6, 8), None)
    affine = np.array([[2, 0, 0, -20], [0, 2, 0.5, -22], [0, 0, 2.5, -10], [0, 0, 0, 1.0]])
    image.header.set_sform(affine, code)
    image.header.set_xyzt_units("mm", "sec")
    image.header["pixdim"][4], image.header["toffset"] = 1.5, 3
    image.to_filename(tmp_path / "f.nii")

    dask_io.resplit(tmp_path / "f.nii", tmp_path / "v" / "v_{3:slice}.nii")

    for n in range(8):
        volume = nib.load(tmp_path / "v" / f"v_{n}.nii")
        series = nib.load(tmp_path / "f.nii")
        assert np.array_equal(volume.dataobj, series.dataobj[..., n])
        assert volume.affine == pytest.approx(series.affine)
        assert [int(volume.header[f"{form}_code"]) for form in ("sform", "qform")] == [code, 0]
        assert float(volume.header["toffset"]) == 3 + 1.5 * n
        assert volume.header.get_xyzt_units() == ("mm", "sec")
    dask_io.merge(tmp_path / "v", tmp_path / "back.nii")
    assert (tmp_path / "back.nii").read_bytes() == (tmp_path / "f.nii").read_bytes()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_flat_slices_keep_their_place(axis: int, tmp_path: Path) -> None:
    """Each 2-D file of an oblique volume begins where nibabel says that its slice begins."""
    affine = np.array([[0, 2, 0.1, -20], [-2, 0, 0, 30], [0, 0.2, 2.5, -10], [0, 0, 0, 1.0]])
    image = nib.Nifti1Image(np.arange(4 * 5 * 6, dtype="<i2").reshape(4, 5, 6), affine)
    image.set_qform(affine, 1)
    image.to_filename(tmp_path / "f.nii")

    dask_io.resplit(tmp_path / "f.nii", tmp_path / "s" / f"s_{{{axis}:slice}}.nii")

    there = [n for n in range(3) if n != axis]
    for n in range(image.shape[axis]):
        found = nib.load(tmp_path / "s" / f"s_{n}.nii")
        index = [slice(None)] * 3
        index[axis] = slice(n, n + 1)
        expected = image.slicer[tuple(index)]
        assert np.array_equal(found.dataobj, expected.dataobj[:].squeeze(axis))
        assert found.affine[:, 3] == pytest.approx(expected.affine[:, 3])
        assert found.affine[:, :2] == pytest.approx(expected.affine[:, there])
        if axis == 2:
            assert found.affine == pytest.approx(expected.affine)
            origin = (image.get_qform() @ [0, 0, n, 1])[:3]
            assert found.get_qform()[:3, 3] == pytest.approx(origin)


def test_a_step_of_time_is_not_one_of_space(tmp_path: Path) -> None:
    """Slices along z of a series: their third axis is time, whose step is not that of voxels."""
    image = nib.Nifti1Image(np.zeros((4, 5, 6, 8), "<i2"), np.diag([2, 3, 2.5, 1]))
    image.header.set_xyzt_units("mm", "sec")
    image.header["pixdim"][4] = 1.5
    image.to_filename(tmp_path / "f.nii")

    dask_io.resplit(tmp_path / "f.nii", tmp_path / "s" / "z{2:slice}.nii")

    header = nib.load(tmp_path / "s" / "z3.nii").header
    assert header.get_zooms() == (2, 3, 1)


def test_many_slices_of_other_programs(tmp_path: Path) -> None:
    """A folder of so many 2-D files that their headers are read at once can be opened."""
    (tmp_path / "s").mkdir()
    for z in range(70):
        affine = np.array([[2, 0, 0, 1], [0, 2, 0, 2], [0, 0, 2.5, 2.5 * z], [0, 0, 0, 1.0]])
        image = nib.Nifti1Image(np.full((4, 5), z, "<i2"), affine)
        image.to_filename(tmp_path / "s" / f"z{z:03}.nii")

    assert dask_io.info(tmp_path / "s").shape == (70, 4, 5)
    dask_io.merge(tmp_path / "s", tmp_path / "whole.npy")
    assert np.array_equal(np.load(tmp_path / "whole.npy")[:, 0, 0], range(70))


def test_volumes_are_advised_to_have_time_last(tmp_path: Path) -> None:
    """The pattern that the message suggests gives an array of x, y, z and time."""
    values = np.arange(3 * 4 * 5 * 6, dtype="<i2").reshape(3, 4, 5, 6)
    for t in range(6):
        nib.Nifti1Image(values[..., t], np.eye(4)).to_filename(tmp_path / f"v_{t}.nii")

    with pytest.raises(DataError) as caught:
        dask_io.info(tmp_path)

    advised, other = tmp_path / "v_{3:slice}.nii", tmp_path / "v_{0:slice}.nii"
    assert f"give '{advised}', or '{other}' to number from axis 0" in str(caught.value)
    assert np.array_equal(dask_io.open(advised), values)
