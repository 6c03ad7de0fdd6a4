"""Headers of NIfTI files: what is refused, what is kept, and where blocks lie."""

from __future__ import annotations

import struct
from base64 import b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import nibabel as nib
import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.formats.nifti.header import Kept, make_header, parse_header
from dask_io.geometry import Layout
from dask_io.stores.block_format import Header
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis, crop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ARRAY = np.arange(7 * 5 * 6, dtype="<i2").reshape(7, 5, 6)
OBLIQUE = np.array(
    [[1.9, 0.3, -0.2, -80.0], [-0.31, 1.95, 0.1, -110.0], [0.2, -0.05, 2.4, -60.5], [0, 0, 0, 1.0]]
)


def save(
    path: Path, array: Any = ARRAY, affine: Any = OBLIQUE, *, kind: Any = nib.Nifti1Image
) -> Any:
    """Save a file with an oblique sform, a qform of another code, units and an extension."""
    image = kind(array, affine)
    image.header.set_xyzt_units("mm", "msec")
    image.header["descrip"] = b"made here"
    image.header.set_slope_inter(0.5, -3)
    image.set_qform(OBLIQUE @ np.diag([1, 1, 1, 1.0]), 1)
    image.set_sform(affine, 4)
    image.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"scanned on a Monday"))
    nib.save(image, path)
    return nib.load(path)


def header_of(path: Path, *, is_pair: bool = False) -> Header:
    """Read what a file says."""
    content = path.read_bytes()
    return parse_header(lambda n_bytes: content[:n_bytes], is_pair=is_pair)


@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
def test_a_header_is_read_as_nibabel_reads_it(kind: Any, tmp_path: Path) -> None:
    """Shape, dtype, offset, affine and units are the same."""
    array = np.zeros((4, 5, 6, 3), ">f4")
    image = save(tmp_path / "x.nii", array, kind=kind)
    header = header_of(tmp_path / "x.nii")
    assert (header.shape, header.dtype) == (image.shape, image.get_data_dtype())
    assert header.offset == image.dataobj.offset
    assert header.space is not None
    assert header.space.affine is not None
    assert np.array(header.space.affine.matrix)[:3, :3] == pytest.approx(image.affine[:3, :3])
    assert header.space.affine.origin[:3] == pytest.approx(image.affine[:3, 3])
    assert header.space.affine.coordinates == ("right", "anterior", "superior", "time")
    assert [(axis.name, axis.unit) for axis in header.space.axes] == [
        ("x", "mm"), ("y", "mm"), ("z", "mm"), ("t", "ms"),
    ]  # fmt: skip


def test_what_is_made_of_a_header_is_the_same_header(tmp_path: Path) -> None:
    """Every byte before the data, extensions included, in each byte order and version."""
    for number, (dtype, kind) in enumerate(
        [("<i2", nib.Nifti1Image), (">i2", nib.Nifti1Image), ("<f8", nib.Nifti2Image)]
    ):
        path = tmp_path / f"{number}.nii"
        image = kind(ARRAY.astype(dtype), None, kind.header_class(endianness=dtype[0]))
        image.header.set_data_dtype(dtype)
        image.set_sform(OBLIQUE, 2)
        image.header.extensions.append(nib.nifti1.Nifti1Extension("afni", b"<AFNI/>" * 9))
        nib.save(image, path)
        header = header_of(path)
        assert make_header(header) == path.read_bytes()[: header.offset]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda h: h.update(dim=[3, -7, 5, 6, 1, 1, 1, 1]), "negative dimensions: -7 x 5 x 6"),
        (lambda h: h.update(dim=[3, 30000, 30000, 30000, 1, 1, 1, 1]), "is truncated"),
        (lambda h: h.update(dim=[0, 1, 1, 1, 1, 1, 1, 1]), "has 0 dimensions"),
        (lambda h: h.update(dim=[8, 1, 1, 1, 1, 1, 1, 1]), "has 8 dimensions"),
        (lambda h: h.update(bitpix=32), "32 bits per voxel"),
        (lambda h: h.update(datatype=77), "unknown data type, code 77"),
        (lambda h: h.update(datatype=1, bitpix=1), "one bit per voxel"),
        (lambda h: h.update(vox_offset=np.nan), "has its data at byte nan"),
        (lambda h: h.update(vox_offset=-352), "has its data at byte -352"),
        (lambda h: h.update(vox_offset=1e30), "has its data at byte 1e"),
        (lambda h: h.update(vox_offset=100), "within its header"),
        (lambda h: h.update(vox_offset=2**20), "ends before its data"),
        (lambda h: h.update(magic=b"ni1"), "of a pair of .hdr and .img files"),
        (lambda h: h.update(magic=b"n+9"), "its magic is b'n\\+9'"),
        (lambda h: h.update(magic=b""), "Analyze 7.5"),
        (lambda h: h.update(sizeof_hdr=349), "does not begin with a header's length"),
    ],
)
def test_hostile_headers_are_refused(
    change: Callable[[dict[str, Any]], None], problem: str, tmp_path: Path
) -> None:
    """Each in one line that names the file, before anything is planned."""
    path = tmp_path / "x.nii"
    save(path)
    content = path.read_bytes()
    header = nib.Nifti1Header(content[:348], check=False)
    changes: dict[str, Any] = {}
    change(changes)
    for field, value in changes.items():
        header[field] = value
    path.write_bytes(header.binaryblock + content[348:])
    with pytest.raises(DataError, match=problem) as caught:
        dask_io.info(path)
    assert "x.nii" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [4, -16, 2**31 - 1])
def test_hostile_extensions_are_refused(size: int, tmp_path: Path) -> None:
    """Their length is not believed."""
    path = tmp_path / "x.nii"
    save(path)
    content = bytearray(path.read_bytes())
    content[352:356] = struct.pack("<i", size)
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"has an extension of invalid size {size} at byte 352"):
        dask_io.info(path)


def test_files_that_end_early_are_refused(tmp_path: Path) -> None:
    """Within the header, or within the data."""
    path = tmp_path / "x.nii"
    save(path)
    content = path.read_bytes()
    for length in (0, 3, 100, 347, 360, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match="is truncated"):
            dask_io.info(path)


def test_every_block_lies_where_it_was(tmp_path: Path) -> None:
    """Sform and qform both move, and everything else stays as it was in the whole."""
    whole = save(tmp_path / "x.nii")
    dask_io.split(tmp_path / "x.nii", tmp_path / "b", chunks=(3, 5, 4))
    for i, k in ((0, 0), (1, 1), (2, 0)):
        block = nib.load(tmp_path / "b" / f"b_{i}_0_{k}.nii")
        start = np.array([3 * i, 0, 4 * k])
        part = whole.slicer[3 * i : 3 * i + 3, :, 4 * k : 4 * k + 4]
        assert np.array_equal(block.dataobj.get_unscaled(), part.dataobj / 0.5 + 6)
        for form in ("get_sform", "get_qform"):
            before, after = (getattr(image.header, form)() for image in (whole, block))
            assert after[:3, 3] == pytest.approx((before @ [*start, 1])[:3], abs=1e-4)
            assert after[:3, :3] == pytest.approx(before[:3, :3])
        for field in ("scl_slope", "scl_inter", "descrip", "xyzt_units", "sform_code", "pixdim"):
            raw = nib.Nifti1Header((tmp_path / "b" / f"b_{i}_0_{k}.nii").read_bytes()[:348])
            old = nib.Nifti1Header((tmp_path / "x.nii").read_bytes()[:348])
            assert raw[field].tobytes() == old[field].tobytes()
        assert block.header.extensions[0].get_content() == b"scanned on a Monday"


@pytest.mark.parametrize("through", ["b", "p/b_{0}_{1}_{2}.hdr", "b.npyblocks/"])
def test_the_way_back_is_bit_identical(through: str, tmp_path: Path) -> None:
    """Blocks, pairs and .npy blocks with their manifest become the same file again."""
    save(tmp_path / "x.nii")
    options: dict[str, Any] = {"format": "npy"} if through.endswith("/") else {}
    place = f"{tmp_path}/{through}"
    result = dask_io.split(tmp_path / "x.nii", place, chunks=(3, 5, 4), **options)
    # The manifest keeps the slope in the header, but .npy files show unscaled values.
    assert result.not_kept == (("scaling",) if options else ())
    dask_io.merge(place.rpartition("/b_")[0] or place, tmp_path / "y.nii")
    assert (tmp_path / "y.nii").read_bytes() == (tmp_path / "x.nii").read_bytes()


@pytest.mark.parametrize("pattern", ["b_{0}_{1}_{2}.nii", "b_{0:offset}_{1:offset}_{2:offset}.nii"])
def test_blocks_without_a_manifest_have_the_space_of_the_whole(
    pattern: str, tmp_path: Path
) -> None:
    """Names and headers are enough, and the file is the same again."""
    save(tmp_path / "x.nii")
    folder = tmp_path / "b"
    dask_io.split(tmp_path / "x.nii", folder / pattern, chunks=(3, 5, 4))
    (folder / "dask-io.json").unlink()
    assert (
        dask_io.info(folder).metadata["space"] == dask_io.info(tmp_path / "x.nii").metadata["space"]
    )
    dask_io.merge(folder, tmp_path / "y.nii")
    assert (tmp_path / "y.nii").read_bytes() == (tmp_path / "x.nii").read_bytes()


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("scl_slope", 2.0, "has scl_slope 2, but the other blocks have 0.5"),
        ("srow_x", [1.9, 0.3, -0.2, 500], r"begins at \(500, "),
        ("srow_x", [3.9, 0.3, -0.2, -74.3], "begins at|another affine"),
        ("datatype", 512, "has dtype uint16, expected int16"),
    ],
)
def test_a_block_that_does_not_fit_is_named(
    field: str, value: Any, problem: str, tmp_path: Path
) -> None:
    """Type, place and scaling must be those of the other blocks."""
    save(tmp_path / "x.nii")
    folder = tmp_path / "b"
    dask_io.split(tmp_path / "x.nii", folder, chunks=(3, 5, 4))
    (folder / "dask-io.json").unlink()
    path = folder / "b_1_0_1.nii"
    content = path.read_bytes()
    header = nib.Nifti1Header(content[:348], check=False)
    header[field] = value
    path.write_bytes(header.binaryblock + content[348:])
    with pytest.raises(DataError, match=problem) as caught:
        dask_io.merge(folder, tmp_path / "y.nii")
    assert "b_1_0_1.nii" in str(caught.value)


def test_a_header_file_must_be_there(tmp_path: Path) -> None:
    """A pair without one of its files is refused by name."""
    save(tmp_path / "x.nii")
    dask_io.split(tmp_path / "x.nii", tmp_path / "b" / "b_{0}_{1}_{2}.img", chunks=(3, 5, 4))
    (tmp_path / "b" / "b_1_0_1.hdr").unlink()
    with pytest.raises(DataError, match=r"b_1_0_1.img.*b_1_0_1.hdr is missing"):
        dask_io.merge(tmp_path / "b", tmp_path / "y.nii")


def test_versions(tmp_path: Path) -> None:
    """Version 2 if a dimension needs it, the source had it, or it is asked for."""
    np.save(tmp_path / "long.npy", np.zeros((2, 40000), "u1"))
    np.save(tmp_path / "x.npy", ARRAY)
    save(tmp_path / "two.nii", kind=nib.Nifti2Image)
    dask_io.resplit(tmp_path / "long.npy", tmp_path / "long.nii", chunks=-1)
    dask_io.resplit(tmp_path / "long.npy", tmp_path / "short", chunks=20000, format="nifti")
    dask_io.resplit(tmp_path / "x.npy", tmp_path / "x.nii", chunks=-1, format_version=2)
    dask_io.split(tmp_path / "two.nii", tmp_path / "b", chunks=4)
    dask_io.resplit(tmp_path / "two.nii", tmp_path / "one.nii", chunks=-1, format_version=1)
    kinds = {"long.nii": 2, "short/b_0_1.nii": 1, "x.nii": 2, "b/b_0_1_1.nii": 2, "one.nii": 1}
    for name, version in kinds.items():
        expected = nib.Nifti1Image if version == 1 else nib.Nifti2Image
        assert type(nib.load(tmp_path / name)) is expected, name
    assert nib.load(tmp_path / "one.nii").affine == pytest.approx(OBLIQUE, abs=1e-4)
    with pytest.raises(UsageError, match="at most 32767 elements along an axis, not 40000"):
        dask_io.resplit(tmp_path / "long.npy", tmp_path / "y.nii", chunks=-1, format_version=1)
    with pytest.raises(UsageError, match="versions 1 and 2, not 3"):
        dask_io.resplit(tmp_path / "x.npy", tmp_path / "y.nii", chunks=-1, format_version=3)


@pytest.mark.parametrize(
    ("array", "options", "problem"),
    [
        (np.zeros((2, 3), bool), {}, 'has no voxels of type bool; give .* dtype="uint8"'),
        (np.zeros((2, 3), "f2"), {}, 'has no voxels of type float16; give .* dtype="float32"'),
        (np.zeros((2, 3), "M8[s]"), {}, "datetime64"),
        (np.zeros((2, 3), "S3"), {}, r"\|S3"),
        (np.zeros((1,) * 8, "u1"), {}, "has 1 to 7 dimensions, not 8"),
        (np.zeros((2, 3), "u1"), {"order": "C"}, "stores elements in F order, not C; leave"),
        (np.zeros((2, 3), "u1"), {"codec": "zstd"}, "codec zstd: .nii files are not compressed"),
    ],
)
def test_what_nifti_cannot_hold_is_refused(
    array: Any, options: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    """In one line that says what to do."""
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(UsageError, match=problem):
        dask_io.resplit(tmp_path / "x.npy", tmp_path / "x.nii", chunks=-1, **options)
    assert not (tmp_path / "x.nii").exists()


@pytest.mark.parametrize("middle", ["m.zarr", "m.h5", "m.nc", "m.npy", "m"])
def test_other_formats_and_back(middle: str, tmp_path: Path) -> None:
    """Stored values go to every other format and back, whatever their order."""
    save(tmp_path / "x.nii")
    chunks = -1 if middle.endswith("npy") else 4
    dask_io.resplit(tmp_path / "x.nii", tmp_path / middle, chunks=chunks)
    dask_io.merge(tmp_path / middle, tmp_path / "y.nii")
    back = nib.load(tmp_path / "y.nii")
    assert np.array_equal(
        back.dataobj.get_unscaled(), nib.load(tmp_path / "x.nii").dataobj.get_unscaled()
    )
    assert dask_io.verify(tmp_path / "x.nii", tmp_path / "y.nii").equal


def header_for(space: Space, shape: tuple[int, ...]) -> Any:
    """Return the header that nibabel reads of an array in a space."""
    block = Header(shape, np.dtype("<f4"), Layout.f(len(shape)), space=space)
    return nib.Nifti1Header(make_header(block)[:348])


def test_fresh_headers_place_arrays_of_other_formats() -> None:
    """Axes may come in any order, and coordinates may grow to the left."""
    names = [SpaceAxis(name, "millimeter", AxisType.SPACE) for name in "zyx"]
    upwards = Affine.scaled((3, 2, 0.5), (30, 20, 10), ("superior", "anterior", "right"))
    plain = header_for(Space(tuple(names), upwards), (4, 5, 6))
    assert plain.get_best_affine().tolist() == [
        [0, 0, 0.5, 10], [0, 2, 0, 20], [3, 0, 0, 30], [0, 0, 0, 1],
    ]  # fmt: skip
    assert plain.get_zooms() == (3, 2, 0.5)
    assert plain.get_xyzt_units() == ("mm", "unknown")
    left = Affine.scaled((1, 2, 3), (4, 5, 6), ("left", "posterior", "superior"))
    flipped = header_for(Space(tuple(names[::-1]), left), (4, 5, 6))
    assert flipped.get_best_affine()[:3].tolist() == [[-1, 0, 0, -4], [0, -2, 0, -5], [0, 0, 3, 6]]
    plane = Affine.scaled((2, 1), (7, 8), ("anterior", "right"))
    flat = header_for(crop(Space(tuple(names[1:]), plane), (1, 1)), (4, 5))
    assert np.linalg.det(flat.get_best_affine()) != 0
    assert flat.get_best_affine()[:2, 3].tolist() == [9, 9]


def test_no_orientation_is_invented() -> None:
    """A spacing without names of directions is a voxel size, not a position in a patient."""
    names = tuple(SpaceAxis(name, "millimeter", AxisType.SPACE) for name in "zyx")
    header = header_for(Space(names, Affine.scaled((3, 2, 0.5), (0, 0, 0))), (4, 5, 6))
    assert (int(header["sform_code"]), int(header["qform_code"])) == (0, 0)
    assert header.get_zooms() == (3, 2, 0.5)
    assert header.get_xyzt_units() == ("mm", "unknown")


def test_what_nifti_cannot_place_has_no_position() -> None:
    """Time before space: the sizes of voxels are kept, but no place is claimed."""
    axes = (
        SpaceAxis("t", "s", AxisType.TIME),
        *(SpaceAxis(n, None, AxisType.SPACE) for n in "zyx"),
    )
    header = header_for(Space(axes, Affine.scaled((1, 2, 3, 4), (0, 1, 2, 3))), (2, 3, 4, 5))
    assert (int(header["sform_code"]), int(header["qform_code"])) == (0, 0)
    assert header.get_zooms() == (1, 2, 3, 4)


def test_time_moves_too(tmp_path: Path) -> None:
    """A block that begins later says so in toffset."""
    array = np.zeros((3, 4, 5, 6), "u1")
    image = nib.Nifti1Image(array, OBLIQUE)
    image.header["pixdim"][4], image.header["toffset"] = 1.5, 10
    nib.save(image, tmp_path / "x.nii")
    dask_io.extract(tmp_path / "x.nii", tmp_path / "y.nii", regions="1:,:,2:,4:")
    part = nib.load(tmp_path / "y.nii")
    assert float(part.header["toffset"]) == 16
    assert part.affine == pytest.approx(image.slicer[1:, :, 2:, 4:].affine, abs=1e-4)


def test_a_file_without_a_position_gets_none(tmp_path: Path) -> None:
    """With both codes 0 only the size of voxels is known."""
    np.save(tmp_path / "x.npy", ARRAY)
    result = dask_io.resplit(tmp_path / "x.npy", tmp_path / "x.nii", chunks=-1)
    header = nib.load(tmp_path / "x.nii").header
    assert (int(header["sform_code"]), int(header["qform_code"])) == (0, 0)
    assert result.not_kept == ()
    dask_io.split(tmp_path / "x.nii", tmp_path / "b", chunks=3)
    dask_io.merge(tmp_path / "b", tmp_path / "y.nii")
    assert (tmp_path / "y.nii").read_bytes() == (tmp_path / "x.nii").read_bytes()


def test_numbers_that_are_no_rotation_are_not_believed(tmp_path: Path) -> None:
    """A broken qform leaves the array without a place; its blocks still hold the data."""
    save(tmp_path / "x.nii")
    content = (tmp_path / "x.nii").read_bytes()
    header = nib.Nifti1Header(content[:348], check=False)
    header["sform_code"], header["quatern_b"] = 0, 7
    (tmp_path / "x.nii").write_bytes(header.binaryblock + content[348:])
    space = dask_io.info(tmp_path / "x.nii").metadata["space"]
    assert space.affine is not None
    assert space.affine.origin == (0, 0, 0)


def test_other_things_kept_under_its_key_are_refused() -> None:
    """A manifest may say anything."""
    block = Header((2,), np.dtype("u1"), Layout.f(1))
    for said in ("x", {}, {"header": "AAAA", "extensions": []}, {"header": "*", "extensions": []}):
        with pytest.raises(ValueError, match="cannot store metadata that is not a NIfTI header"):
            make_header(replace(block, metadata={"headers": {"nifti": said}}))
    with pytest.raises(ValueError, match="not a NIfTI header"):
        Kept(bytes(348))
    header = b64encode(nib.Nifti1Header().binaryblock).decode()
    for code in (99999999999, -(2**31) - 1, float("inf"), float("nan"), "x", None):
        kept = {"header": header, "extensions": [[code, ""]]}
        with pytest.raises(ValueError, match="not a NIfTI header"):
            make_header(replace(block, metadata={"headers": {"nifti": kept}}))


def test_a_file_is_recognised_by_its_content(tmp_path: Path) -> None:
    """A name without a suffix does not matter."""
    save(tmp_path / "x.nii")
    (tmp_path / "x.nii").rename(tmp_path / "scan")
    assert dask_io.info(tmp_path / "scan").format == "nifti"
