"""NRRD: fields, types and the space of volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import UsageError
from dask_io.formats.nrrd import make_header, parse_header
from dask_io.geometry import Layout
from dask_io.stores.block_format import Header
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis, is_close

if TYPE_CHECKING:
    from pathlib import Path

ARRAY = np.arange(5 * 6 * 7, dtype="<i2").reshape((5, 6, 7), order="F")
FIELDS = """\
NRRD0005
# A comment
type: short
dimension: 3
space: LPS
sizes: 5 6 7
space directions: (0.5,0,0) (0,0.5,0.1) (0,-0.1,2)
kinds: domain domain domain
endian: little
encoding: raw
space origin: (10,-20,3)
space units: "mm" "mm" "mm"
labels: "x" "a \\"b\\"" "z"
content: a volume
modality:=CT
"""


def parse(text: str) -> Header:
    """Read a header."""
    content = text.encode() + b"\n"
    return parse_header(lambda n_bytes: content[:n_bytes])


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """Save a volume."""
    path = tmp_path / "volume.nrrd"
    path.write_bytes(FIELDS.encode() + b"\n" + ARRAY.tobytes(order="F"))
    return path


def header_of(path: Path) -> Header:
    """Read a file's header."""
    content = path.read_bytes()
    return parse_header(lambda n_bytes: content[:n_bytes])


def test_a_volume_is_as_its_fields_say(volume: Path, tmp_path: Path) -> None:
    """The shape is `sizes`, the first axis is the fastest, and the space is known."""
    header = header_of(volume)
    assert (header.shape, header.dtype, header.layout.name) == (ARRAY.shape, ARRAY.dtype, "F")
    axes = [SpaceAxis(name, "mm", AxisType.SPACE) for name in ("x", 'a "b"', "z")]
    matrix = ((0.5, 0.0, 0.0), (0.0, 0.5, -0.1), (0.0, 0.1, 2.0))
    names = ("left", "posterior", "superior")
    assert header.space == Space(tuple(axes), Affine(matrix, (10.0, -20.0, 3.0), names))
    assert header.metadata["headers"]["nrrd"]["modality="] == "CT"
    dask_io.resplit(volume, tmp_path / "a.npy", chunks=-1)
    assert np.array_equal(np.load(tmp_path / "a.npy"), ARRAY)


@pytest.mark.parametrize("has_manifest", [True, False])
def test_blocks_are_one_volume_again(volume: Path, tmp_path: Path, *, has_manifest: bool) -> None:
    """Each block says where it lies; merged, nothing is lost."""
    dask_io.split(volume, tmp_path / "blocks", chunks=(3, 4, 5))
    whole = header_of(volume).space
    assert whole is not None
    assert whole.affine is not None
    for path in (tmp_path / "blocks").glob("*.nrrd"):
        header = header_of(path)
        first = int(np.frombuffer(path.read_bytes()[header.offset :], "<i2")[0])
        index = tuple(map(int, np.unravel_index(first, ARRAY.shape, order="F")))
        assert header.offset % 4096 == 0
        assert header.space is not None
        assert header.space.affine is not None
        assert header.space.affine.origin == pytest.approx(whole.affine.at(index))
    if not has_manifest:
        (tmp_path / "blocks" / "dask-io.json").unlink()
    assert dask_io.merge(tmp_path / "blocks", tmp_path / "whole.nrrd").not_kept == ()
    merged = header_of(tmp_path / "whole.nrrd")
    assert merged.space is not None
    assert is_close(merged.space, whole, ARRAY.shape)
    assert (
        merged.metadata["headers"]["nrrd"].items()
        >= {"content": "a volume", "modality=": "CT"}.items()
    )
    assert dask_io.verify(volume, tmp_path / "whole.nrrd").equal


def test_arrays_in_c_order_are_turned(tmp_path: Path) -> None:
    """An array comes back as it was, in whatever order its elements lie."""
    array = np.arange(24, dtype=">f4").reshape(2, 3, 4)
    np.save(tmp_path / "a.npy", array)
    dask_io.split(tmp_path / "a.npy", tmp_path / "b", format="nrrd", chunks=(1, 2, 3))
    dask_io.merge(tmp_path / "b", tmp_path / "a.nrrd")
    assert parse_header(lambda n: (tmp_path / "a.nrrd").read_bytes()[:n]).dtype == array.dtype
    dask_io.resplit(tmp_path / "a.nrrd", tmp_path / "c.npy", chunks=-1)
    assert np.array_equal(np.load(tmp_path / "c.npy"), array)


def test_a_plan_knows_the_order_of_the_format(tmp_path: Path) -> None:
    """Without a target, a plan counts the seeks of blocks in the order that they will have."""
    np.save(tmp_path / "a.npy", np.zeros((8, 8), "i2"))
    kind: Any = {"format": "nrrd", "chunks": (2, 2)}
    there = dask_io.plan(tmp_path / "a.npy", tmp_path / "b", **kind).plan
    assert dask_io.plan(tmp_path / "a.npy", **kind).plan.seeks == there.seeks


def test_spacings_are_a_map_too() -> None:
    """Without a space the axes are the coordinates; an axis without a spacing is none."""
    text = 'NRRD0001\ntype: uchar\ndimension: 3\nsizes: 3 4 5\nencoding: raw\nunits: "" "m" "m"\n'
    space = parse(
        text + "spacings: nan 0.5 2\naxis mins: nan 10 20\ncenters: ??? cell node\n"
    ).space
    assert space is not None
    assert space.affine == Affine(((0.0, 0.5, 0.0), (0.0, 0.0, 2.0)), (10.25, 20.0))
    assert [axis.unit for axis in space.axes] == [None, "m", "m"]


def test_channels_and_other_coordinates_survive() -> None:
    """Axes without a direction, units of their own, and coordinates that NRRD cannot name."""
    axes = (SpaceAxis("c", None, AxisType.CHANNEL), SpaceAxis("x", "um", AxisType.SPACE))
    for names in (("x",), ("anything",), ("right",)):
        space = Space(axes, Affine(((0.0, 2.0),), (5.0,), names))
        content = make_header(Header((3, 9), np.dtype("u1"), Layout.f(2), space=space))
        found = parse_header(lambda n_bytes, content=content: content[:n_bytes]).space  # type: ignore[misc]
        assert found is not None
        assert found.affine is not None
        assert (found.axes, found.affine.matrix, found.affine.origin) == (
            axes,
            ((0.0, 2.0),),
            (5.0,),
        )


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("signed char", "i1"),
        ("unsigned short int", "<u2"),
        ("long long int", "<i8"),
        ("ulonglong", "<u8"),
        ("uint32_t", "<u4"),
        ("unsigned int", "<u4"),
        ("double", "<f8"),
    ],
)
def test_types_have_many_names(name: str, code: str) -> None:
    """All names of the format's definition are known."""
    assert parse(FIELDS.replace("type: short", f"type: {name}")).dtype == np.dtype(code)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("NRRD0005", "NRR", "does not begin as one"),
        ("encoding: raw", "encoding: bzip2", "only raw and gzip NRRD files are read"),
        ("encoding: raw", "encoding: ascii", "only raw and gzip NRRD files are read"),
        ("encoding: raw", "encoding: hex", "only raw and gzip NRRD files are read"),
        ("encoding: raw", "", "without encoding"),
        ("sizes: 5 6 7", "sizes: 5 -6 7", "impossible shape"),
        ("sizes: 5 6 7", "sizes: 5 6", "dimension and sizes differ"),
        ("sizes: 5 6 7", "sizes: 99999999999 99999999999 7", "impossible shape"),
        ("sizes: 5 6 7", f"sizes: {'9' * 5000} 6 7", "sizes are not whole numbers"),
        ("sizes: 5 6 7", "sizes: five", "sizes are not whole numbers"),
        ("type: short", "type: block", "which is not supported"),
        ("endian: little", "# none", "does not say endian"),
        ("content: a volume", "data file: LIST", "has its data in several files"),
        ("content: a volume", "data file: LIST 2", "has its data in several files"),
        ("content: a volume", "data file: s%03d.raw 1 20 1", "has its data in several files"),
        ("content: a volume", "byte skip: -1", "a byte skip that is not supported"),
        ("content: a volume", "line skip: 1", "has a line skip"),
        ("(10,-20,3)", "(10,nan,3)", "not finite"),
        ("(10,-20,3)", "(10,-20)", "different lengths"),
        ("(0,-0.1,2)", "", "one vector for each axis"),
        ("content: a volume", "# " + "x" * 2**20, "longer than"),
    ],
)
def test_hostile_headers_are_refused_in_one_line(old: str, new: str, problem: str) -> None:
    """Nothing is trusted, and nothing large is made."""
    with pytest.raises(ValueError, match=problem):
        parse(FIELDS.replace(old, new))


def test_limits_are_reported_in_one_line(tmp_path: Path) -> None:
    """NRRD has no complex numbers; a header that ends early is truncated."""
    np.save(tmp_path / "a.npy", np.zeros(3, "c8"))
    with pytest.raises(UsageError, match="has no elements of type complex64, only int8"):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "a.nrrd", chunks=-1)
    with pytest.raises(ValueError, match="ends within its header"):
        parse_header(lambda n_bytes: FIELDS.encode()[:n_bytes])


def test_entries_of_a_hostile_manifest_are_left_out() -> None:
    """No entry can add lines to a header."""
    kept = {"content": "x\nsizes: 1", "a": 5, "good": "1"}
    block = Header((2, 3), np.dtype("u1"), Layout.f(2), metadata={"headers": {"nrrd": kept}})
    content = make_header(block)
    found = parse_header(lambda n_bytes: content[:n_bytes]).metadata
    assert found == {"headers": {"nrrd": {"good": "1"}}}


@pytest.mark.parametrize(
    "name", ["sizes", "Type", "encoding", "data file", "datafile", "byte skip", "x: sizes", "#"]
)
def test_kept_entries_do_not_replace_fields_of_a_new_file(name: str) -> None:
    """Entries that another store kept cannot change what a new file says about its block."""
    kept = {"headers": {"nrrd": {name: "1 1"}}}
    block = Header((2, 3), np.dtype("u1"), Layout.f(2), metadata=kept)
    content = make_header(block)
    header = parse_header(lambda n_bytes: content[:n_bytes])
    assert (header.shape, header.offset, header.metadata) == ((2, 3), len(content), {})


def test_names_of_axes_cannot_end_the_header() -> None:
    """A name with line breaks, which other formats allow, is left out."""
    space = Space((SpaceAxis("a\n\nb"), SpaceAxis("x")))
    content = make_header(Header((2, 3), np.dtype("u1"), Layout.f(2), space=space))
    header = parse_header(lambda n_bytes: content[:n_bytes])
    assert header.offset == len(content)
    assert header.space == Space((SpaceAxis(), SpaceAxis("x")))
