"""MetaImage: entries, channels and the space of volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import UsageError
from dask_io.formats.metaimage import make_header, parse_header
from dask_io.geometry import Layout
from dask_io.stores.block_format import Header
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis, is_close

if TYPE_CHECKING:
    from pathlib import Path

ARRAY = np.arange(5 * 6 * 7, dtype=">u2").reshape((5, 6, 7), order="F")
ENTRIES = """\
ObjectType = Image
NDims = 3
BinaryData = True
BinaryDataByteOrderMSB = True
CompressedData = False
TransformMatrix = 1 0 0 0 0.6 0.8 0 -0.8 0.6
Offset = 10 -20 3
CenterOfRotation = 0 0 0
AnatomicalOrientation = RAI
DistanceUnits = mm
ElementSpacing = 0.5 1 2
DimSize = 5 6 7
ElementType = MET_USHORT
ElementDataFile = LOCAL
"""
WORLD = ("left", "posterior", "superior")


def parse(text: str | bytes) -> Header:
    """Read a header."""
    content = text.encode() if isinstance(text, str) else text
    return parse_header(lambda n_bytes: content[:n_bytes])


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """Save a volume."""
    path = tmp_path / "volume.mha"
    path.write_bytes(ENTRIES.encode() + ARRAY.tobytes(order="F"))
    return path


def test_a_volume_is_as_its_entries_say(volume: Path, tmp_path: Path) -> None:
    """The shape is DimSize; each group of the matrix is the direction of one axis."""
    header = parse(volume.read_bytes())
    assert (header.shape, header.dtype, header.layout.name) == (ARRAY.shape, ARRAY.dtype, "F")
    matrix = ((0.5, 0.0, 0.0), (0.0, 0.6, -1.6), (0.0, 0.8, 1.2))
    axes = (SpaceAxis(unit="mm"),) * 3
    assert header.space == Space(axes, Affine(matrix, (10.0, -20.0, 3.0), WORLD))
    kept = {"CenterOfRotation": "0 0 0", "AnatomicalOrientation": "RAI"}
    assert header.metadata == {"headers": {"metaimage": kept}}
    dask_io.resplit(volume, tmp_path / "a.npy", chunks=-1)
    assert np.array_equal(np.load(tmp_path / "a.npy"), ARRAY)


@pytest.mark.parametrize("has_manifest", [True, False])
def test_blocks_are_one_volume_again(volume: Path, tmp_path: Path, *, has_manifest: bool) -> None:
    """Each block says where it lies; merged, nothing is lost."""
    dask_io.split(volume, tmp_path / "blocks", chunks=(3, 4, 5))
    whole = parse(volume.read_bytes())
    assert whole.space is not None
    assert whole.space.affine is not None
    for path in (tmp_path / "blocks").glob("*.mha"):
        header = parse(path.read_bytes())
        first = int(np.frombuffer(path.read_bytes()[header.offset :], ">u2")[0])
        index = tuple(map(int, np.unravel_index(first, ARRAY.shape, order="F")))
        assert header.offset % 4096 == 0
        assert header.space is not None
        assert header.space.affine is not None
        assert header.space.affine.origin == pytest.approx(whole.space.affine.at(index))
    if not has_manifest:
        (tmp_path / "blocks" / "dask-io.json").unlink()
    assert dask_io.merge(tmp_path / "blocks", tmp_path / "whole.mha").not_kept == ()
    merged = parse((tmp_path / "whole.mha").read_bytes())
    assert merged.space is not None
    assert is_close(merged.space, whole.space, ARRAY.shape)
    assert merged.metadata == whole.metadata
    assert dask_io.verify(volume, tmp_path / "whole.mha").equal


def test_channels_are_the_first_axis() -> None:
    """They lie next to each other, so they are the fastest axis, here and when written again."""
    text = ENTRIES.replace("ElementType", "ElementNumberOfChannels = 2\nElementType")
    header = parse(text)
    assert header.shape == (2, 5, 6, 7)
    assert header.space is not None
    assert header.space.axes[0] == SpaceAxis("channel", type=AxisType.CHANNEL)
    again = parse(make_header(header))
    assert again.shape == header.shape
    assert again.space is not None
    assert is_close(again.space, header.space, header.shape)


def test_other_worlds_are_turned_into_that_of_itk() -> None:
    """Coordinates that point the other way are negated; those of a microscope are reordered."""
    axes = tuple(SpaceAxis(name, "mm") for name in "xyz")
    steps, low = (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)
    there = Space(axes, Affine.scaled(steps, low, ("right", "anterior", "superior")))
    found = parse(make_header(Header((2, 2, 2), np.dtype("u1"), Layout.f(3), space=there))).space
    assert found is not None
    assert found.affine == Affine(
        ((-1.0, 0.0, 0.0), (0.0, -2.0, 0.0), (0.0, 0.0, 3.0)), (-4.0, -5.0, 6.0), WORLD
    )
    there = Space(axes, Affine.scaled(steps, low, ("z", "y", "x")))
    found = parse(make_header(Header((2, 2, 2), np.dtype("u1"), Layout.f(3), space=there))).space
    assert found is not None
    assert found.affine is not None
    assert found.affine.origin == (6.0, 5.0, 4.0)


def test_what_it_cannot_hold_is_reported(tmp_path: Path) -> None:
    """Coordinates of the sky are not those of a patient, and names of axes have no place."""
    axes = (SpaceAxis("DEC"), SpaceAxis("RA"))
    header = make_header(Header((2, 3), np.dtype("u1"), Layout.f(2)))
    assert parse(header).space is None or not parse(header).space.is_known  # type: ignore[union-attr]
    sky = Space(axes, Affine.scaled((1.0, 2.0), (0.0, 0.0), ("DEC", "RA")))
    found = parse(make_header(Header((2, 3), np.dtype("u1"), Layout.f(2), space=sky))).space
    assert found is None or found.affine is None
    np.save(tmp_path / "a.npy", np.zeros((3, 4), "f2"))
    with pytest.raises(UsageError, match="has no elements of type float16, only int8"):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "a.mha", chunks=-1)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("ObjectType = Image\n", "", ""),
        (ENTRIES, "\x00\x01", "does not begin as one"),
        ("ElementDataFile = LOCAL\n", "", "ends within its header"),
        ("LOCAL", "LIST", "has its data in several files"),
        ("LOCAL", "LIST 2D", "has its data in several files"),
        ("LOCAL", "slice%03d.raw 1 20 1", "has its data in several files"),
        ("BinaryData = True", "BinaryData = False", "only binary MetaImage files"),
        ("DimSize", "HeaderSize = -1\nDimSize", "a HeaderSize that is not supported"),
        ("DimSize = 5 6 7", "DimSize = 5 -6 7", "impossible shape"),
        ("DimSize = 5 6 7", "DimSize = 5 6", "NDims and DimSize differ"),
        ("DimSize = 5 6 7", "DimSize = 9999999999 9999999999 7", "impossible shape"),
        ("DimSize = 5 6 7\n", "", "without DimSize"),
        ("MET_USHORT", "MET_STRING", "which is not known"),
        ("Offset = 10 -20 3", "Offset = 10 -20", "is not whole"),
        ("Offset = 10 -20 3", "Offset = 10 inf 3", "not finite"),
        ("0.5 1 2", "0.5 one 2", "ElementSpacing are not numbers"),
        ("DimSize", "Comment = " + "x" * 2**20 + "\nDimSize", "longer than"),
        ("DimSize", "ElementNumberOfChannels = -3\nDimSize", "impossible shape"),
    ],
)
def test_hostile_headers_are_refused_in_one_line(old: str, new: str, problem: str) -> None:
    """Nothing is trusted, and nothing large is made."""
    text = ENTRIES.replace(old, new)
    if not problem:
        assert parse(text).shape == ARRAY.shape
        return
    with pytest.raises(ValueError, match=problem):
        parse(text)


@pytest.mark.parametrize(
    "name", ["HeaderSize", "BinaryDataByteOrderMSB", "ElementDataFile", "NDims", "NDims = 1 ;"]
)
def test_kept_entries_do_not_replace_entries_of_a_new_file(name: str) -> None:
    """Entries that another store kept cannot change what a new file says about its block."""
    kept = {"headers": {"metaimage": {name: "True"}}}
    content = make_header(Header((2, 3), np.dtype("<i2"), Layout.f(2), metadata=kept))
    header = parse(content)
    assert (header.shape, header.dtype, header.offset) == ((2, 3), np.dtype("<i2"), len(content))
    assert not header.metadata


@pytest.mark.parametrize(
    ("unit", "word"),
    [("mm", "mm"), ("millimeter", "mm"), ("um", "um"), ("micron", "um"), ("centimeter", "cm")],
)
def test_units_are_kept_however_they_are_spelled(unit: str, word: str, tmp_path: Path) -> None:
    """The unit is written as MetaImage spells it, and nothing is reported as lost."""
    np.save(tmp_path / "a.npy", ARRAY)
    options: dict[str, Any] = {"axes": "x,y,z", "spacing": "0.5", "unit": unit}
    direct = dask_io.resplit(tmp_path / "a.npy", tmp_path / "a.mha", chunks=-1, **options)
    dask_io.resplit(tmp_path / "a.npy", tmp_path / "a.zarr", chunks=-1, **options)
    again = dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.mha", chunks=-1)
    for path in (tmp_path / "a.mha", tmp_path / "b.mha"):
        assert f"DistanceUnits = {word}".encode() in path.read_bytes()
    assert "space" not in (*direct.not_kept, *again.not_kept)
