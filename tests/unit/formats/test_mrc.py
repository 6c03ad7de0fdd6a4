"""MRC: modes, axes and the cell."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.formats.mrc import make_header, parse_header
from dask_io.geometry import Layout
from dask_io.stores.block_format import Header
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis

if TYPE_CHECKING:
    from pathlib import Path

ARRAY = np.arange(5 * 6 * 7, dtype="<i2").reshape(5, 6, 7)


def words(**changed: Any) -> bytes:
    """Build a header by the numbers of its words, as MRC2014 defines them."""
    order = changed.pop("order", "<")
    header = bytearray(1024)
    said: dict[str, Any] = {
        "n": (0, "3i", (7, 6, 5)),
        "mode": (12, "i", (1,)),
        "nstart": (16, "3i", (0, 0, 0)),
        "m": (28, "3i", (7, 6, 5)),
        "cella": (40, "3f", (10.5, 12.0, 12.5)),
        "cellb": (52, "3f", (90.0, 90.0, 90.0)),
        "map": (64, "3i", (1, 2, 3)),
        "ispg": (88, "i", (1,)),
        "nsymbt": (92, "i", (0,)),
        "origin": (196, "3f", (3.0, 4.0, 5.0)),
        "stamp": (208, "4s4s", (b"MAP ", b"\x44\x44\0\0" if order == "<" else b"\x11\x11\0\0")),
        "labels": (220, "i80s", (1, b"a label".ljust(80))),
    }
    for name, (offset, kind, values) in said.items():
        struct.pack_into(order + kind, header, offset, *changed.get(name, values))
    return bytes(header)


def parse(content: bytes) -> Header:
    """Read a header."""
    return parse_header(lambda n_bytes: content[:n_bytes])


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """Save a volume."""
    path = tmp_path / "volume.mrc"
    path.write_bytes(words() + ARRAY.tobytes())
    return path


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_volume_is_as_its_words_say(order: str, tmp_path: Path) -> None:
    """Axes are z, y, x; a voxel is the cell over its intervals; both byte orders are read."""
    path = tmp_path / "volume.map"
    path.write_bytes(words(order=order) + ARRAY.astype(f"{order}i2").tobytes())
    header = parse(path.read_bytes())
    assert (header.shape, header.dtype) == (ARRAY.shape, np.dtype(f"{order}i2"))
    axes = tuple(SpaceAxis(name, "angstrom", AxisType.SPACE) for name in "zyx")
    expected = Affine.scaled((2.5, 2.0, 1.5), (5.0, 4.0, 3.0), ("z", "y", "x"))
    assert header.space == Space(axes, expected)
    assert header.metadata == {"headers": {"mrc": {"labels": ["a label"]}}}
    dask_io.resplit(path, tmp_path / "a.npy", chunks=-1)
    assert np.array_equal(np.load(tmp_path / "a.npy"), ARRAY)


@pytest.mark.parametrize("has_manifest", [True, False])
def test_blocks_are_one_volume_again(volume: Path, tmp_path: Path, *, has_manifest: bool) -> None:
    """Each block has its own origin, and its own cell of the same voxels."""
    dask_io.split(volume, tmp_path / "blocks", chunks=(3, 4, 5))
    for path in (tmp_path / "blocks").glob("*.mrc"):
        content = path.read_bytes()
        first = int(np.frombuffer(content[1024:], "<i2")[0])
        z, y, x = np.unravel_index(first, ARRAY.shape)
        assert struct.unpack_from("<3f", content, 196) == (3 + 1.5 * x, 4 + 2 * y, 5 + 2.5 * z)
        assert struct.unpack_from("<3i", content, 16) == (x + 2, y + 2, z + 2)
        nx, ny, nz = struct.unpack_from("<3i", content, 0)
        assert struct.unpack_from("<3i", content, 28) == (nx, ny, nz)
        assert struct.unpack_from("<3f", content, 40) == (1.5 * nx, 2 * ny, 2.5 * nz)
    if not has_manifest:
        (tmp_path / "blocks" / "dask-io.json").unlink()
    assert dask_io.merge(tmp_path / "blocks", tmp_path / "whole.mrc").not_kept == ()
    merged, before = parse((tmp_path / "whole.mrc").read_bytes()), parse(volume.read_bytes())
    assert (merged.space, merged.metadata) == (before.space, before.metadata)
    assert dask_io.verify(volume, tmp_path / "whole.mrc").equal


def test_images_stacks_and_stacks_of_volumes() -> None:
    """The space group says which they are, as in mrcfile; blocks keep their number of axes."""
    image = words(n=(7, 6, 1), m=(7, 6, 1), ispg=(0,))
    stack = words(ispg=(0,))
    volumes = words(n=(7, 6, 10), ispg=(401,))
    for content, shape in ((image, (6, 7)), (stack, (5, 6, 7)), (volumes, (2, 5, 6, 7))):
        header = parse(content)
        assert header.shape == shape
        again = parse(make_header(header))
        assert (again.shape, again.space, again.metadata) == (shape, header.space, header.metadata)
    one = Header((1, 6, 7), np.dtype("i1"), Layout.c(3), metadata=parse(stack).metadata)
    assert parse(make_header(one)).shape == (1, 6, 7)


def test_starts_axes_and_angles() -> None:
    """Without an origin the start counts; axes may be swapped; oblique cells have their edges."""
    space = parse(words(origin=(0, 0, 0), nstart=(2, -3, 4))).space
    assert space is not None
    assert space.affine is not None
    assert space.affine.origin == (10.0, -6.0, 3.0)
    swapped = parse(words(map=(3, 2, 1), m=(5, 6, 7)))
    assert swapped.space is not None
    assert [axis.name for axis in swapped.space.axes] == ["x", "y", "z"]
    assert parse(make_header(swapped)).space == swapped.space
    oblique = parse(words(cellb=(90, 90, 120)))
    assert oblique.space is not None
    assert oblique.space.affine is not None
    assert oblique.space.affine.coordinates == ("c", "b", "a")
    again = parse(make_header(oblique))
    assert (again.space, again.metadata) == (oblique.space, oblique.metadata)
    nowhere = parse(words(cella=(0, 0, 0))).space
    assert nowhere is not None
    assert nowhere.affine is None


def test_an_extended_header_is_passed_over_and_reported(tmp_path: Path) -> None:
    """Data begins behind it; a new file does not have it."""
    path = tmp_path / "x.mrc"
    path.write_bytes(words(nsymbt=(768,)) + bytes(768) + ARRAY.tobytes())
    assert dask_io.merge(path, tmp_path / "y.mrc").not_kept == ("extended_header",)
    assert dask_io.verify(path, tmp_path / "y.mrc").equal


def test_what_it_cannot_hold_is_reported(tmp_path: Path) -> None:
    """Steps that are not lengths, and types and axes that it does not have."""
    axes = tuple(SpaceAxis(name, "second", AxisType.SPACE) for name in "zyx")
    space = Space(axes, Affine.scaled((1, 1, 1), (0, 0, 0), "zyx"))
    found = parse(make_header(Header((2, 3, 4), np.dtype("<f4"), Layout.c(3), space=space))).space
    assert found is not None
    assert found.affine is None
    np.save(tmp_path / "a.npy", np.zeros((3, 4), "u1"))
    with pytest.raises(UsageError, match="has no elements of type uint8, only int8, int16"):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "a.mrc", chunks=-1)
    np.save(tmp_path / "b.npy", np.zeros(3, "i1"))
    with pytest.raises(UsageError, match="has 2, 3 or 4 axes, not 1"):
        dask_io.resplit(tmp_path / "b.npy", tmp_path / "b.mrc", chunks=-1)


def test_axes_have_a_largest_length() -> None:
    """Lengths are 32-bit integers, and those of a stack of volumes are multiplied."""
    for shape in ((2**31, 2), (2**16, 2**15, 2, 2)):
        with pytest.raises(ValueError, match="at most 2147483647 elements along an axis"):
            make_header(Header(shape, np.dtype("i1"), Layout.c(len(shape))))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "does not have MAP"),
        (words()[:500], "ends within its header"),
        (words(n=(7, -6, 5)), "impossible shape"),
        (words(n=(2**31 - 1,) * 3), "impossible shape"),
        (words(mode=(3,)), "mode 3, which is not supported"),
        (words(mode=(-1,)), "mode -1"),
        (words(nsymbt=(-1,)), "extended header of -1 bytes"),
        (words(nsymbt=(2**30,)), "extended header of"),
        (words(ispg=(401,), m=(7, 6, 0)), "not a number of volumes"),
        (words(ispg=(401,), m=(7, 6, 3)), "not a number of volumes"),
        (words(origin=(float("nan"), 0, 0)), "not finite"),
    ],
)
def test_hostile_headers_are_refused_in_one_line(content: bytes, problem: str) -> None:
    """Nothing is trusted, and nothing large is made."""
    with pytest.raises(ValueError, match=problem):
        parse(content)


def test_a_file_of_another_size_is_refused(volume: Path) -> None:
    """It is truncated, or too long."""
    content = volume.read_bytes()
    for other, problem in ((content[:-1], "is truncated"), (content + b"x", "is too long")):
        volume.write_bytes(other)
        with pytest.raises(DataError, match=problem):
            dask_io.info(volume)


def test_entries_of_a_hostile_manifest_are_left_out() -> None:
    """They are not written if they are of another kind."""
    kept = {"labels": ["x" * 200, 5], "ispg": "a", "cellb": [1, "b", 3]}
    block = Header((2, 3), np.dtype("<i2"), Layout.c(2), metadata={"headers": {"mrc": kept}})
    found = parse(make_header(block)).metadata["headers"]
    assert found == {"mrc": {"labels": ["x" * 80, "5"]}}


def test_numbers_too_large_for_a_header_are_left_out() -> None:
    """Kept angles and positions that single precision cannot hold are not written."""
    axes = tuple(SpaceAxis(name, "angstrom") for name in "zyx")
    huge = Affine.scaled((1e300, 1.0, 1.0), (0.0, 0.0, 0.0), "cba")
    for affine in (Affine.scaled((1.0, 1.0, 1.0), (0.0, 0.0, 0.0), "cba"), huge):
        block = Header(
            (2, 3, 4),
            np.dtype("<i2"),
            Layout.c(3),
            space=Space(axes, affine),
            metadata={"headers": {"mrc": {"cellb": [10**400, 1, 1]}}},
        )
        header = parse(make_header(block))
        assert header.shape == (2, 3, 4)
        assert header.metadata == {}


@pytest.mark.parametrize("unit", ["nm", "nanometer", "angstrom", "mm", "um"])
@pytest.mark.parametrize("target", ["a.mrc", "a"])
def test_lengths_are_stored_in_angstrom(unit: str, target: str, tmp_path: Path) -> None:
    """Any unit of length is converted, so that the position of a volume is kept."""
    np.save(tmp_path / "a.npy", np.zeros((2, 4, 6), "<i2"))
    result = dask_io.resplit(
        tmp_path / "a.npy",
        tmp_path / target,
        chunks=-1 if target.endswith(".mrc") else (2, 2, 6),
        format="mrc",
        axes="z,y,x",
        spacing="1,1,2",
        unit=unit,
    )
    assert result.not_kept == ()
    assert dask_io.verify(tmp_path / "a.npy", tmp_path / target).equal
    size = {"nm": 1e1, "nanometer": 1e1, "angstrom": 1.0, "mm": 1e7, "um": 1e4}[unit]
    for path in [tmp_path / target] if target.endswith(".mrc") else (tmp_path / "a").glob("*.mrc"):
        found = parse(path.read_bytes()).space
        assert found is not None
        assert found.affine is not None
        assert found.affine.steps == pytest.approx((size, size, 2 * size))
