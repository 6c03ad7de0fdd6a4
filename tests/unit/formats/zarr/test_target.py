"""Writing Zarr arrays that zarr-python reads."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path
from shutil import copy
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import dask_io
from dask_io.codecs.zarr3 import in_zarr3
from dask_io.errors import DataError, StorageError, TargetExistsError, UsageError
from dask_io.formats import make_target, open_source
from dask_io.formats.zarr.quiet import quiet
from dask_io.formats.zarr.target import ZarrTarget
from dask_io.geometry import Axis, Grid, Layout, Region
from dask_io.journal.ledger import Written
from dask_io.stores import Access
from dask_io.stores.array_like import BlockArray
from dask_io.stores.container import TargetOptions
from dask_io.stores.staging import new_staging
from tests.peak import stays_within

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

CODECS = [
    "none",
    "zstd:1",
    "zstd:1+crc32c",
    "crc32c",
    "blosc:lz4:5:shuffle",
    "blosc:zstd:1:bitshuffle",
    *("lz4", "gzip:1", "zlib:1", "bz2:1", "lzma:0"),
]
DTYPES = ["u1", "bool", "<i2", ">i2", "<f4", ">f8", "<c8", "<M8[s]", ">m8[us]", "S3", "<U2", "V5"]


def target_at(path: Path | str, **changes: Any) -> ZarrTarget:
    """Describe a target of four chunks, unless told otherwise."""
    given: dict[str, Any] = {
        "grid": Grid.regular((4, 6), (2, 3)),
        "dtype": np.dtype("<i4"),
        "layout": Layout.c(2),
        "format": "zarr",
    } | changes
    target = make_target(path, **given)
    assert isinstance(target, ZarrTarget)
    return target


def write(target: ZarrTarget, array: NDArray[Any]) -> ZarrTarget:
    """Write an array block by block."""
    target.create()
    for index in target.grid.indices():
        block = target.grid.block(index)
        stored = array[block.slices].transpose(target.layout.axes)
        part = np.ascontiguousarray(stored).transpose(target.layout.inverse)
        with target.writer(index) as writer:
            values = part.astype(target.dtype, copy=False)
            writer.write_from(Region.whole(block.shape), values, new_staging(target, 0))
            checksum = writer.checksum
        target.commit([Written(index, block, checksum, is_last=True)])
    target.finish()
    return target


def names(folder: Path) -> set[str]:
    """Return the paths of all files below a directory but those of journals."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in paths if ".dask-io" not in path.parts}


@st.composite
def wanted(draw: st.DrawFn) -> tuple[NDArray[Any], dict[str, Any]]:
    """Draw an array, parts of which are the fill value, and a target for it."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, n)) for n in shape)
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    version = draw(st.sampled_from([2, 3]))
    axes = tuple(draw(st.permutations(range(len(shape)))))
    layout = Layout(axes) if version == 3 else Layout.named(draw(st.sampled_from("CF")), len(shape))
    options = TargetOptions(
        codec=draw(st.sampled_from(CODECS)),
        format_version=version,
        write_empty=draw(st.booleans()),
    )
    # zarr-python itself cannot hash the fill value of such elements, which it does for shards.
    if version == 3 and dtype.kind != "V" and draw(st.booleans()):
        options = replace(options, shards=tuple(n * draw(st.integers(1, 3)) for n in chunks))
    raw = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 2, (*shape, dtype.itemsize))
    array = raw.astype(np.uint8).view(dtype).reshape(shape)
    array[tuple(slice(0, draw(st.integers(0, n))) for n in shape)] = np.zeros((), dtype)
    grid = Grid.regular(shape, chunks)
    return array, {"grid": grid, "dtype": dtype, "layout": layout, "options": options}


@given(drawn=wanted())
def test_zarr_python_reads_what_we_wrote(
    drawn: tuple[NDArray[Any], dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every dtype, codec, order and shard; and so do we."""
    array, description = drawn
    path = tmp_path_factory.mktemp("x") / "x.zarr"

    target = write(target_at(path, **description), array)

    with quiet():
        assert np.array_equal(zarr.open_array(path, mode="r")[...], array)
    source = open_source(path, strict=description["options"].write_empty)
    assert np.asarray(BlockArray(source)).tobytes() == array.tobytes()
    source.check()
    assert target.tally.write.seeks == target.tally.write.visits <= target.grid.n_blocks


@given(drawn=wanted(), version=st.sampled_from([2, 3, None]))
def test_targets_keep_what_their_source_says(
    drawn: tuple[NDArray[Any], dict[str, Any]],
    version: int | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Codecs, fill value, attributes and names survive, from one version to another."""
    array, description = drawn
    folder = tmp_path_factory.mktemp("x")
    names = tuple(f"axis {n}" for n in range(array.ndim))
    said = {"attributes": {"a": [1, {"b": None}]}, "dimension_names": names}
    write(target_at(folder / "one", **description, metadata=said), array)
    one = open_source(folder / "one")

    options = TargetOptions(format_version=version)
    layout = Layout.c(array.ndim)
    grid, dtype = description["grid"], description["dtype"]
    made = target_at(
        folder / "two",
        grid=grid,
        dtype=dtype,
        layout=layout,
        options=options,
        metadata=one.metadata,
    )
    write(made, array)
    two = open_source(folder / "two")

    assert two.metadata["zarr_format"] == (version or one.metadata["zarr_format"])
    assert two.metadata["dimension_names"] == names
    assert two.metadata["attributes"]["a"] == [1, {"b": None}]
    assert two.metadata["fill_value"] == one.metadata["fill_value"]
    kept = one.metadata["codecs"]
    if (one.metadata["zarr_format"], version) == (2, 3):
        kept = in_zarr3(kept, dtype)
    for old, new in zip(kept, two.metadata["codecs"], strict=True):
        assert {key: new.get(key) for key in old} | {"shuffle": None} == old | {"shuffle": None}
    assert np.asarray(BlockArray(two)).tobytes() == array.tobytes()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("written", "names", "separator"), [(2, "v2", "/"), (3, "v2", "."), (3, "default", ".")]
)
def test_names_of_chunks_are_kept_within_a_version(
    version: int,
    written: Literal[2, 3],
    names: Literal["v2", "default"],
    separator: str,
    tmp_path: Path,
) -> None:
    """What names the chunks is the source's, or what is usual in the other version."""
    usual = {2: {"prefix": "", "separator": "."}, 3: {"prefix": "c", "separator": "/"}}
    zarr.create_array(
        tmp_path / "one",
        shape=(4, 6),
        chunks=(2, 3),
        dtype="<i4",
        zarr_format=written,
        chunk_key_encoding={"name": names, "separator": separator},
    )
    said = open_source(tmp_path / "one").metadata

    made = target_at(tmp_path / "two", metadata=said, options=TargetOptions(format_version=version))
    write(made, np.ones((4, 6), "<i4"))

    found = open_source(tmp_path / "two").metadata["chunk_key_encoding"]
    assert found == (said["chunk_key_encoding"] if version == written else usual[version])


def test_consolidated_metadata_is_refreshed(tmp_path: Path) -> None:
    """A group that had the metadata of its members in its own has the new one's too."""
    for version in (2, 3):
        path = tmp_path / f"{version}.zarr"
        with quiet():
            group = zarr.create_group(path, zarr_format=version)
            group.create_array("old", shape=(3,), dtype="i4")
            zarr.consolidate_metadata(path)
        write(
            target_at(f"{path}::/new", options=TargetOptions(format_version=version)),
            np.ones((4, 6), "<i4"),
        )
        with quiet():
            found = zarr.open_consolidated(path)
            assert sorted(found.array_keys()) == ["new", "old"]
    write(target_at(tmp_path / "plain.zarr::/new"), np.ones((4, 6), "<i4"))
    assert "consolidated_metadata" not in json.loads(
        (tmp_path / "plain.zarr" / "zarr.json").read_text()
    )


@pytest.mark.parametrize("version", [2, 3])
def test_arrays_in_groups_that_are_not_there(version: int, tmp_path: Path) -> None:
    """The groups are made, but only when the array is whole."""
    target = target_at(
        tmp_path / "g.zarr::/day/1", options=TargetOptions(format_version=version, codec="zstd:1")
    )
    target.create()
    assert not names(tmp_path) & {"g.zarr/zarr.json", "g.zarr/.zgroup"}
    target.abandon()
    assert not list(tmp_path.iterdir())
    write(target, np.ones((4, 6), "<i4"))
    with quiet():
        assert zarr.open_array(tmp_path / "g.zarr", path="day/1", mode="r").shape == (4, 6)
    with pytest.raises(UsageError, match="is an array, so it cannot contain another one"):
        target_at(tmp_path / "g.zarr::/day/1/2").create()


_RECORD = np.dtype([("a", "<i2"), ("b", ">f4")])
_FILLS: list[tuple[np.dtype[Any], Any]] = [
    *((np.dtype(kind), fill) for kind in ("<f8", ">f4") for fill in (np.nan, 7, -0.0, 0)),
    (np.dtype(">i2"), 7),
    (np.dtype("<M8[s]"), np.datetime64("NaT")),
    (_RECORD, np.array((7, np.nan), _RECORD)[()]),
]


@given(drawn=wanted(), kind=st.sampled_from(_FILLS), is_encoded=st.booleans())
def test_far_ends_are_padded_as_zarr_python_pads_them(
    drawn: tuple[NDArray[Any], dict[str, Any]],
    kind: tuple[np.dtype[Any], Any],
    is_encoded: bool,  # noqa: FBT001
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Files are the same byte by byte, and an array that grows shows its fill value."""
    (array, description), (dtype, fill) = drawn, kind
    array = np.arange(array.size).reshape(array.shape).astype("<i2").astype(dtype)
    folder, options = tmp_path_factory.mktemp("x"), description["options"]
    options = replace(options, write_empty=True, codec="zstd:1" if is_encoded else "none")
    if dtype.names is not None:
        options = replace(options, format_version=2, shards=None)
        description["layout"] = Layout.c(array.ndim)
    metadata = {"fill_value": fill}
    description |= {"dtype": dtype, "options": options, "metadata": metadata}

    write(target_at(folder / "ours.zarr", **description), array)

    (folder / "theirs.zarr").mkdir()
    for name in names(folder / "ours.zarr") & {".zarray", ".zattrs", "zarr.json"}:
        copy(folder / "ours.zarr" / name, folder / "theirs.zarr" / name)
    with quiet(), zarr.config.set({"array.write_empty_chunks": True}):
        zarr.open_array(folder / "theirs.zarr", mode="r+")[...] = array
        if options.shards is None and not is_encoded:
            for name in names(folder / "ours.zarr"):
                ours, theirs = (folder / f"{each}.zarr" / name for each in ("ours", "theirs"))
                assert ours.read_bytes() == theirs.read_bytes(), name
        grown = []
        for each in ("ours", "theirs"):
            opened: Any = zarr.open_array(folder / f"{each}.zarr", mode="r+")
            opened.resize(tuple(np.add(array.shape, 5).tolist()))
            grown.append(opened[...].tobytes())
    assert grown[0] == grown[1]


@pytest.mark.parametrize("codec", ["none", "zstd:1"])
@pytest.mark.parametrize("shards", [None, (4, 6)])
def test_chunks_of_the_fill_value_are_left_out(
    codec: str, shards: tuple[int, int] | None, tmp_path: Path
) -> None:
    """By their bits: a negative zero is a value. Unless they are wanted."""
    array = np.zeros((8, 12), "<f4")
    array[0, 0], array[7, 0] = 5, -0.0
    description: dict[str, Any] = {"grid": Grid.regular((8, 12), (2, 3)), "dtype": array.dtype}
    options = TargetOptions(codec=codec, shards=shards)
    write(target_at(tmp_path / "few.zarr", **description, options=options), array)
    full = replace(options, write_empty=True)
    write(target_at(tmp_path / "all.zarr", **description, options=full), array)

    n_files = 4 if shards else 16
    assert len(names(tmp_path / "few.zarr")) == 2 + 1
    assert len(names(tmp_path / "all.zarr")) == n_files + 1
    for name in ("few", "all"):
        source = open_source(tmp_path / f"{name}.zarr")
        assert np.asarray(BlockArray(source)).tobytes() == array.tobytes()
        assert source.tally.read.visits == (2 if name == "few" else 16)


@pytest.mark.parametrize("is_resumed", [False, True])
def test_chunks_written_in_parts_are_left_out_too(is_resumed: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """What no part of showed anything but the fill value does not appear, resumed or not."""
    path, options = tmp_path / "x.zarr", TargetOptions(codec="none", fill_value=9)
    target = target_at(path, options=options)
    target.create()
    for row in range(2):
        for index in target.grid.indices():
            value = 3 if (index == (1, 1) and row) or (index == (0, 1) and not row) else 9
            _fill_row(target, index, row, value)
        if is_resumed and not row:
            assert target.abandon()
            target = target_at(path, options=options)
            assert len(target.resume().parts) == 4
    assert names(path) == {"c/0/1", "c/1/1"}
    target.abandon()
    again = target_at(path, options=options)
    assert again.resume().n_blocks == 4
    again.finish()
    assert names(path) == {"zarr.json", "c/0/1", "c/1/1"}
    assert open_source(path).metadata["fill_value"] == 9
    assert dask_io.open(path)[:, :].tolist() == [
        [9, 9, 9, 3, 3, 3],
        [9] * 6,
        [9] * 6,
        [9, 9, 9, 3, 3, 3],
    ]


def _fill_row(target: ZarrTarget, index: tuple[int, ...], row: int, value: int) -> None:
    """Write one row of a chunk of two, and commit it."""
    region = Region((row, 0), (row + 1, 3))
    with target.writer(index) as writer:
        writer.write_filled(
            region, memoryview(bytearray(8200)), lambda _, values: values.fill(value)
        )
        checksum = writer.checksum
    moved = region.shifted_by(target.grid.block(index).start)
    target.commit([Written(index, moved, checksum, is_last=row == 1)])


def test_shards_are_written_in_one_go(tmp_path: Path) -> None:
    """A shard is the unit of writing: one visit, one seek, no file touched twice."""
    array = np.arange(96, dtype="<i4").reshape(8, 12)
    target = target_at(
        tmp_path / "x.zarr",
        grid=Grid.regular((8, 12), (2, 3)),
        options=TargetOptions(codec="zstd:1", shards=(4, 6)),
    )
    assert (target.grid, target.access) == (Grid.regular((8, 12), (4, 6)), Access.ATOMIC)
    write(target, array)
    assert (target.tally.write.seeks, target.tally.write.visits) == (4, 4)
    made = zarr.open_array(tmp_path / "x.zarr", mode="r")
    assert (made.shards, made.chunks) == ((4, 6), (2, 3))
    with pytest.raises(AssertionError, match="would be read, changed and rewritten"):
        _write_part(target, tmp_path)


def _write_part(target: ZarrTarget, folder: Path) -> None:
    other = target_at(folder / "y.zarr", grid=target.grid, options=TargetOptions(codec="zstd:1"))
    other.create()
    with other.writer((0, 0)) as writer:
        writer.write_from(Region((0, 0), (1, 6)), np.ones((1, 6), "<i4"), new_staging(other, 0))


def test_an_unfinished_array_is_none(tmp_path: Path) -> None:
    """Metadata appears last; until then the place is taken, and says what is the matter."""
    path = tmp_path / "x.zarr"
    target = target_at(path)
    target.create()
    with target.writer((0, 0)) as writer:
        writer.write_from(Region((0, 0), (2, 3)), np.ones((2, 3), "<i4"), new_staging(target, 0))
        checksum = writer.checksum
    target.commit([Written((0, 0), target.grid.block((0, 0)), checksum, is_last=True)])
    assert names(path) == {"c/0/0"}
    places = (path, Path(os.fspath(path) + "/"))
    for place in places:
        with pytest.raises(StorageError, match="another run is writing it"):
            open_source(place)
    with pytest.raises(StorageError, match="another run is writing it"):
        target_at(path).create()
    assert target.abandon()
    for place in places:
        with pytest.raises(
            DataError, match="it is unfinished: the run that wrote it was interrupted"
        ):
            open_source(place)
    with pytest.raises(TargetExistsError, match="unfinished"):
        target_at(path).create()
    with pytest.raises(FileNotFoundError):
        zarr.open_array(path, mode="r")
    assert names(path) == {"c/0/0"}
    write(target_at(path, overwrite=True), np.full((4, 6), 3, "<i4"))
    assert np.asarray(BlockArray(open_source(path))).min() == 3


def test_overwriting_removes_all_of_an_array_and_nothing_else(tmp_path: Path) -> None:
    """Chunks of other grids and versions go; files that are not its own are refused."""
    path = tmp_path / "x.zarr"
    zarr.create_array(path, shape=(9, 9), chunks=(1, 1), dtype="i4", zarr_format=2)[...] = 1
    (path / ".5.5.part").write_bytes(b"left by a run that was killed")
    write(target_at(path, overwrite=True), np.ones((4, 6), "<i4"))
    assert names(path) == {"zarr.json", *(f"c/{i}/{j}" for i in range(2) for j in range(2))}

    (path / "c" / "notes.txt").write_text("mine")
    before = names(path)
    with pytest.raises(UsageError, match=r"not part of an array: c/notes.txt; move them away"):
        target_at(path, overwrite=True).create()
    assert names(path) == before


def test_only_what_an_array_can_have_is_removed(tmp_path: Path) -> None:
    """Names that look like chunks are foreign without an array, and beyond its grid."""
    path = tmp_path / "x.zarr"
    (path / "c" / "empty").mkdir(parents=True)
    (path / "2021.3.12").write_text("a diary")
    with pytest.raises(UsageError, match=r"not part of an array: 2021.3.12; move them away"):
        target_at(path, overwrite=True).create()
    (path / "2021.3.12").unlink()
    write(target_at(path, overwrite=True), np.ones((4, 6), "<i4"))

    for name in ("c/0/2", "0.0"):
        (path / name).write_text("mine")
        with pytest.raises(UsageError, match=f"not part of an array: {name}; move them away"):
            target_at(path, overwrite=True).create()
        (path / name).unlink()
    write(
        target_at(path, overwrite=True, options=TargetOptions(format_version=2)),
        np.ones((4, 6), "<i4"),
    )

    assert (path / "c" / "empty").is_dir()
    assert not (path / "c" / "0").exists()


@pytest.mark.parametrize("version", [2, 3])
def test_an_array_that_is_being_overwritten_is_in_no_group(
    version: Literal[2, 3], tmp_path: Path
) -> None:
    """Not even in one that has the metadata of its members in its own."""
    path = tmp_path / "g.zarr"
    with quiet():
        zarr.create_group(path, zarr_format=version).create_array("x", shape=(3,), dtype="i4")
        zarr.consolidate_metadata(path)
    target_at(f"{path}::/x", overwrite=True, options=TargetOptions(format_version=version)).create()

    with quiet():
        assert list(zarr.open_consolidated(path).array_keys()) == []


@pytest.mark.parametrize("what", ["group", "file", "link"])
def test_what_is_no_array_is_not_overwritten(what: str, tmp_path: Path) -> None:
    """Groups, files and links stay what they are."""
    path = tmp_path / "x.zarr"
    if what == "group":
        zarr.create_group(path).create_array("a", shape=(3,), dtype="i4")
    elif what == "file":
        path.write_text("mine")
    else:
        path.mkdir()
        (path / "c").symlink_to(tmp_path)
    with pytest.raises(UsageError, match=r"is a group|is a file|not part of an array: c"):
        target_at(path, overwrite=True).create()
    with pytest.raises(TargetExistsError):
        target_at(path).create()


def test_targets_do_not_follow_links_out_of_a_container(tmp_path: Path) -> None:
    """A group that is a link elsewhere is refused."""
    zarr.create_group(tmp_path / "g.zarr")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "g.zarr" / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="leads out of"):
        target_at(tmp_path / "g.zarr::/a/b").create()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_shard_may_hold_a_whole_axis(tmp_path: Path) -> None:
    """-1 is the fewest chunks that hold all of an axis, ragged or not."""
    grid, options = Grid.regular((5, 6), (2, 3)), TargetOptions(shards=(-1, -1))
    array = np.arange(30, dtype="<i4").reshape(5, 6)
    write(target_at(tmp_path / "x.zarr", grid=grid, options=options), array)

    made = zarr.open_array(tmp_path / "x.zarr", mode="r")

    assert (made.chunks, made.shards) == ((2, 3), (6, 6))
    np.testing.assert_array_equal(made[...], array)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"options": TargetOptions(codec="pickle")}, "codec 'pickle' is unknown"),
        (
            {"options": TargetOptions(shards=(3, 3))},
            "shards of 3 x 3 are not made of whole chunks of 2 x 3",
        ),
        ({"options": TargetOptions(shards=(4,))}, "shards of 4 are not made of whole chunks"),
        (
            {"options": TargetOptions(shards=(-2, 3))},
            "shards of -2 x 3 are not made of whole chunks",
        ),
        ({"options": TargetOptions(format_version=2, shards=(4, 6))}, "Zarr 2 has no shards"),
        ({"options": TargetOptions(format_version=4)}, "version 4 of Zarr is not known"),
        ({"options": TargetOptions(fill_value=1.5)}, "fill value 1.5 is not a valid int32"),
        ({"options": TargetOptions(fill_value="x")}, "fill value 'x' is not a valid int32"),
        ({"options": TargetOptions(fill_value=2**40)}, "is not a valid int32"),
        ({"grid": Grid((Axis.of([1, 3]), Axis.of([6])))}, "are uneven"),
        ({"dtype": np.dtype("O")}, "Python objects"),
        ({"dtype": np.dtype([("a", "<i2"), ("b", "u1", (3,))])}, "Zarr 3 cannot hold"),
        ({"dtype": np.dtype([("a", "<i2"), ("b", ">i2")])}, "Zarr 3 cannot hold dtype"),
        (
            {
                "options": TargetOptions(format_version=2),
                "grid": Grid.regular((2, 2, 2), (2, 2, 2)),
                "layout": Layout((1, 0, 2)),
            },
            "Zarr 2 stores chunks in C or F order",
        ),
        (
            {"metadata": {"codecs": [{"id": "quantize", "digits": 1, "dtype": "<f4"}]}},
            "codec quantize would change values if they were encoded again",
        ),
    ],
)
def test_what_zarr_cannot_hold_is_refused(
    changes: Mapping[str, Any], says: str, tmp_path: Path
) -> None:
    """Before anything is touched, in one line."""
    with pytest.raises(UsageError, match=says):
        target_at(tmp_path / "x.zarr", **changes)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        ("<i4", "7", 7),
        ("<f4", "nan", np.nan),
        ("<f4", 1, 1.0),
        (">i2", -3, -3),
        ("S3", "ab", b"ab"),
    ],
)
def test_fill_values_may_be_text(dtype: str, given: object, expected: Any, tmp_path: Path) -> None:
    """As a command line gives them; they are stored as what they mean."""
    target = target_at(tmp_path, dtype=np.dtype(dtype), options=TargetOptions(fill_value=given))
    assert np.array_equal(target.metadata["fill_value"], expected, equal_nan=dtype == "<f4")


def test_an_abandoned_target_begins_no_more(tmp_path: Path) -> None:
    """A thread that comes too late leaves nothing behind."""
    target = target_at(tmp_path / "x.zarr", options=TargetOptions(codec="none"))
    target.create()
    target.abandon()
    with pytest.raises(StorageError, match="the run has been abandoned"), target.writer((0, 0)):
        pass
    assert not list(tmp_path.iterdir())


def test_wishes_that_block_files_cannot_honour_are_refused(tmp_path: Path) -> None:
    """None is ignored."""
    given: Any = {"grid": Grid.regular((4,), (4,)), "dtype": np.dtype("i4"), "layout": Layout.c(1)}
    for options in (
        TargetOptions(codec="zstd:3"),
        TargetOptions(fill_value=0),
        TargetOptions(write_empty=True),
    ):
        with pytest.raises(UsageError, match="format npy has no "):
            make_target(tmp_path / "x.npy", **given, options=options)


@pytest.mark.parametrize("width", [2399, 2400])
def test_no_more_memory_is_taken_than_said(width: int, tmp_path: Path) -> None:
    """Besides staging, `codec_bytes` holds for chunks, with and without far ends, and shards."""
    array = np.random.default_rng(0).integers(0, 2**31, (2400, width)).astype("<i4")
    for number, (codec, shards) in enumerate(
        [("none", None), ("zstd:1", None), ("gzip:1+crc32c", (2400, 2400)), ("lz4", (3600, 1200))]
    ):
        target = target_at(
            tmp_path / str(number),
            grid=Grid.regular(array.shape, (1200, 1200)),
            options=TargetOptions(codec=codec, shards=shards),
        )
        target.create()
        staging = new_staging(target, 0 if target.access is Access.ATOMIC else 2**21)
        for index in target.grid.indices():
            block = target.grid.block(index)
            part = array[block.slices]

            def fill(region: Region, values: NDArray[Any], part: NDArray[Any] = part) -> None:
                values[...] = part[region.slices]

            def fill_block(
                index: tuple[int, ...] = index,
                block: Region = block,
                target: ZarrTarget = target,
                staging: memoryview = staging,
                fill: Any = fill,
            ) -> None:
                with target.writer(index) as writer:
                    writer.write_filled(Region.whole(block.shape), staging, fill)

            assert stays_within(target.codec_bytes + 2**18, fill_block)


def test_targets_travel(tmp_path: Path) -> None:
    """To other processes, with all that they know."""
    for options in (TargetOptions(), TargetOptions(codec="zstd:1")):
        target = target_at(tmp_path / f"{options.codec}.zarr", options=options)
        write(pickle.loads(pickle.dumps(target)), np.ones((4, 6), "<i4"))  # noqa: S301 - our own
        assert np.asarray(BlockArray(open_source(target.site.root))).all()


@pytest.mark.parametrize("protocol", [2, 5])
def test_targets_that_have_travelled_write_the_same(protocol: int, tmp_path: Path) -> None:
    """The fill value too, whose byte order a pickle of an array may change."""
    told: dict[str, Any] = {
        "grid": Grid.regular((5,), (2,)),
        "dtype": np.dtype(">f8"),
        "layout": Layout.c(1),
        "options": TargetOptions(fill_value=1.5, codec="zstd:1"),
    }
    array = np.array([1.5, 1.5, 3, 4, 5], ">f8")
    travelled = pickle.loads(pickle.dumps(target_at(tmp_path / "x", **told), protocol))  # noqa: S301 - ours

    write(travelled, array)

    found = zarr.open_array(tmp_path / "x")
    assert np.asarray(found).tolist() == array.tolist()
    assert found.nchunks_initialized == 2
    found.resize((6,))
    assert found[5] == 1.5
