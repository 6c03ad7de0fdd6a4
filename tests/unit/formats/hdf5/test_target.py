"""Writing HDF5: what is asked for, what is kept of the source, and who else can read it."""

from __future__ import annotations

import pickle
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import hdf5plugin
import numpy as np
import pytest
import zarr
from zarr.codecs import ZstdCodec

import dask_io
from dask_io.errors import DataError, TargetExistsError, UsageError
from dask_io.formats import make_target
from dask_io.formats.hdf5 import create
from dask_io.formats.hdf5.tree import read_tree
from dask_io.formats.hdf5.tree_content import Hdf5Model
from dask_io.geometry import Grid, Layout, Region
from dask_io.stores import Access
from dask_io.stores.container import NewArray, TargetOptions
from dask_io.stores.staging import new_staging
from tests.peak import stays_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

ARRAY = np.random.default_rng(8).integers(-9, 9, (12, 10, 7)).astype(">i2")
CODECS = [
    "none",
    "gzip:4",
    "zlib:9",
    "shuffle+gzip:1",
    "shuffle+gzip:1+fletcher32",
    "fletcher32",
    "zstd:3",
    "blosc:zstd:3:bitshuffle",
    "bz2:5",
    "lzf",
    "shuffle+lzf",
]
needs_tools = pytest.mark.skipif(shutil.which("h5diff") is None, reason="hdf5-tools are missing")


@pytest.fixture
def rich(tmp_path: Path) -> Path:
    """A file whose dataset has all that HDF5 can say about one."""
    path = tmp_path / "rich.h5"
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "a scan"
        made = file.create_dataset(
            "scans/1",
            data=ARRAY,
            chunks=(5, 5, 7),
            maxshape=(None, 10, 20),
            compression="gzip",
            shuffle=True,
            fletcher32=True,
            fillvalue=-9,
        )
        made.attrs["units"] = "K"
        made.attrs["range"] = np.array([-9, 9], ">i2")
        made.attrs["fixed"] = np.bytes_(b"abc")
        made.attrs["names"] = ["a", "bc"]
        made.attrs["none"] = h5py.Empty("f4")
        made.attrs["complex"] = 1 + 2j
        made.attrs["see"] = file["scans"].ref
        file["z"] = np.linspace(0, 1, 12)
        file["z"].attrs["units"] = "mm"
        file["z"].make_scale("depth")
        made.dims[0].attach_scale(file["z"])
        made.dims[1].label = "y"
    return path


@needs_tools
@pytest.mark.parametrize("codec", CODECS)
def test_others_read_what_was_written(codec: str, tmp_path: Path) -> None:
    """With h5py and, if it has the filter, h5diff; every chunk was encoded outside of HDF5."""
    np.save(tmp_path / "a.npy", ARRAY)
    with h5py.File(tmp_path / "expected.h5", "w") as file:
        file["data"] = ARRAY

    dask_io.split(tmp_path / "a.npy", tmp_path / "b.h5", chunks=(5, 4, 7), codec=codec, verify=True)

    with h5py.File(tmp_path / "b.h5") as file:
        assert file["data"].chunks == (5, 4, 7)
        assert file["data"][...].tobytes() == ARRAY.tobytes()
        assert file["data"].dtype == ARRAY.dtype
    if not {"zstd", "blosc", "bz2", "lzf"}.intersection(codec.replace("+", ":").split(":")):
        paths = [str(tmp_path / name) for name in ("b.h5", "expected.h5")]
        subprocess.run(["h5diff", *paths], check=True)


@needs_tools
def test_one_block_is_contiguous(tmp_path: Path) -> None:
    """Merged without a codec, a dataset is not chunked; h5dump says so too."""
    np.save(tmp_path / "a.npy", ARRAY)
    dask_io.split(tmp_path / "a.npy", tmp_path / "blocks", chunks=(5, 4, 3))

    dask_io.merge(tmp_path / "blocks", f"{tmp_path}/b.h5::/deep/er")

    dump = ["h5dump", "-p", "-H", "-d", "/deep/er", str(tmp_path / "b.h5")]
    said = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
    assert "CONTIGUOUS" in said
    with h5py.File(tmp_path / "b.h5") as file:
        assert np.array_equal(file["deep/er"][...], ARRAY)


def described(path: Path) -> dict[str, Any]:
    """Return all that the dataset of `rich` says about itself, but its chunks."""

    def attributes() -> Iterator[tuple[str, Any]]:
        for name, value in made.attrs.items():
            if name not in {"DIMENSION_LIST", "see"}:
                kind = made.attrs.get_id(name).dtype
                yield name, (kind, np.asarray(value).tolist() if kind.kind != "f" else None)

    with h5py.File(path) as file:
        made = file["scans/1"]
        plist = made.id.get_create_plist()
        return {
            "attributes": dict(attributes()),
            "title": file.attrs["title"],
            "filters": [plist.get_filter(n)[0] for n in range(plist.get_nfilters())],
            "level": made.compression_opts,
            "fill": made.fillvalue,
            "maxshape": made.maxshape,
            "labels": [axis.label for axis in made.dims],
            "scales": [scale.name for scale in made.dims[0].values()],
            "scale": file["z"][...].tolist(),
            "scale's units": file["z"].attrs["units"],
            "scale's name": file["z"].attrs["NAME"],
            "values": made[...].tolist(),
        }


def test_everything_is_kept(rich: Path, tmp_path: Path) -> None:
    """Types of attributes, filters, fill value, scales, the shape that it may grow to, its name.

    A reference leads elsewhere, and is named as what is not.
    """
    done = dask_io.resplit(rich, tmp_path / "b.h5", chunks=(6, 10, 2), verify=True)

    assert described(tmp_path / "b.h5") == described(rich)
    assert done.not_kept == ("references",)
    with h5py.File(tmp_path / "b.h5", "a") as file:
        assert file["scans/1"].chunks == (6, 10, 2)
        file["scans/1"].resize(14, axis=0)
        assert np.all(file["scans/1"][12:] == -9)


def test_scales_of_a_region_are_cut_too(rich: Path, tmp_path: Path) -> None:
    """What describes an axis describes the part of it that is moved."""
    dask_io.resplit(rich, tmp_path / "b.h5", chunks=(2, 5, 7), region="3:8,:,:")

    with h5py.File(tmp_path / "b.h5") as file:
        assert np.array_equal(file["scans/1"][...], ARRAY[3:8])
        assert np.array_equal(file["z"][...], np.linspace(0, 1, 12)[3:8])
        assert file["scans/1"].dims[0][0] == file["z"]


def test_values_that_have_names_keep_them(tmp_path: Path) -> None:
    """An enumeration stays one."""
    names = h5py.enum_dtype({"NO": 0, "YES": 1}, "i1")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.array([0, 1, 1, 0], "i1"), dtype=names)

    dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=2)

    with h5py.File(tmp_path / "b.h5") as file:
        assert h5py.check_enum_dtype(file["x"].dtype) == {"NO": 0, "YES": 1}


def test_what_zarr_says_is_kept(tmp_path: Path) -> None:
    """Attributes, names of axes, fill value and codecs go from Zarr to HDF5 and back."""
    attributes: Any = {
        "units": "K",
        "n": 3,
        "x": 0.5,
        "list": [1, 2],
        "words": ["a", "b"],
        "no": None,
    }
    made = zarr.create_array(
        tmp_path / "a.zarr",
        shape=ARRAY.shape,
        chunks=(5, 5, 7),
        dtype="<i2",
        attributes=attributes,
        dimension_names=("z", "y", "x"),
        fill_value=-9,
        compressors=[ZstdCodec(level=2)],
    )
    made[...] = ARRAY

    there = dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.h5", chunks=(6, 10, 2))
    back = dask_io.resplit(tmp_path / "b.h5", tmp_path / "c.zarr", chunks=(5, 5, 7))

    assert (there.not_kept, back.not_kept) == ((), ())
    found = zarr.open_array(tmp_path / "c.zarr", mode="r")
    assert dict(found.attrs) == attributes
    assert found.metadata.dimension_names == ("z", "y", "x")  # type: ignore[union-attr]
    assert found.fill_value == -9
    assert dask_io.info(tmp_path / "c.zarr").metadata["codecs"][0]["id"] == "zstd"
    assert np.array_equal(np.asarray(found[...]), ARRAY)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"codec": "crc32c"}, "crc32c is not a filter of HDF5"),
        ({"codec": "nonsense"}, "nonsense is not a filter of HDF5; choose gzip:4"),
        ({"codec": "gzip:11"}, "codec 'gzip:11' has level '11'"),
        ({"shards": (10, 10, 7)}, "has no shards"),
        ({"format_version": 2}, "has no format-version"),
        ({"order": "F"}, "C order, not F; leave order=... out"),
        ({"chunks": ((5, 7), 5, 7)}, "uneven"),
        ({"fill_value": "x"}, "fill value 'x' is no"),
        ({"consume": True, "codec": "gzip:1"}, "durable only when it is complete"),
    ],
)
def test_what_it_cannot_do_is_refused(options: dict[str, Any], reason: str, tmp_path: Path) -> None:
    """Every wish that HDF5 cannot honour is an error, before anything is touched."""
    np.save(tmp_path / "a.npy", ARRAY)

    with pytest.raises(UsageError, match=reason):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "b.h5", **{"chunks": (5, 5, 7), **options})

    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_filters_that_lose_something_are_not_kept(tmp_path: Path) -> None:
    """They are read, but to write them again would change values; another has to be chosen."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=ARRAY.astype("f4"), chunks=(5, 5, 7), **hdf5plugin.Zfp())
    with pytest.raises(UsageError, match="zfp of the source may change values"):
        dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=(6, 10, 7))

    dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=(6, 10, 7), codec="lzf")

    assert dask_io.verify(tmp_path / "a.h5", tmp_path / "b.h5")


def test_texts_of_numpy_are_refused(tmp_path: Path) -> None:
    """HDF5 has no such type."""
    np.save(tmp_path / "a.npy", np.array(["ab", "c"]))

    with pytest.raises(UsageError, match="HDF5 cannot hold"):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "b.h5", chunks=1)


def test_chunks_of_an_hdf5_file_are_not_consumed(rich: Path, tmp_path: Path) -> None:
    """They share a file with what may be needed."""
    with pytest.raises(UsageError, match="single blocks cannot be removed from hdf5"):
        dask_io.resplit(rich, tmp_path / "b", chunks=(6, 10, 2), format="npy", consume=True)


def test_nothing_else_is_overwritten(rich: Path, tmp_path: Path) -> None:
    """A file is replaced as a whole, so it may hold nothing that the new one does not."""
    np.save(tmp_path / "a.npy", ARRAY)

    def overwrite(place: Path | str) -> None:
        dask_io.resplit(tmp_path / "a.npy", place, chunks=(5, 5, 7), overwrite=True)

    with pytest.raises(TargetExistsError):
        dask_io.resplit(tmp_path / "a.npy", f"{rich}::/new", chunks=(5, 5, 7))
    with pytest.raises(
        UsageError, match="contains more, which would be lost: @title, scans, scans/1"
    ):
        overwrite(rich)
    with pytest.raises(UsageError, match="would be lost: @title, z, z@units; choose another"):
        overwrite(f"{rich}::/scans/1")
    for name, change in OTHERS.items():
        with h5py.File(rich, "w") as file:
            file["data"] = 1.0
            file["data"].attrs["units"] = "replaced with it"
            change(file)
        with pytest.raises(UsageError, match=f"would be lost: {name}; choose another file"):
            overwrite(rich)
    with h5py.File(rich, "a") as file:
        del file["link"]

    overwrite(rich)

    with h5py.File(rich) as file:
        assert np.array_equal(file["data"][...], ARRAY)


OTHERS: dict[str, Callable[[Any], Any]] = {
    "@title": lambda file: file.attrs.update(title="only here"),
    "notes": lambda file: file.create_group("notes"),
    "text": lambda file: file.create_dataset("text", data="only here"),
    "link": lambda file: file.update(link=h5py.SoftLink("/elsewhere")),
}


def test_what_cannot_be_read_is_not_overwritten(tmp_path: Path) -> None:
    """Nobody can say what would be lost."""
    np.save(tmp_path / "a.npy", ARRAY)
    (tmp_path / "b.h5").write_bytes(b"something else")
    with pytest.raises(UsageError, match="cannot be read, so it is not overwritten"):
        dask_io.split(tmp_path / "a.npy", tmp_path / "b.h5", chunks=(5, 5, 7), overwrite=True)
    assert (tmp_path / "b.h5").read_bytes() == b"something else"


def test_chunks_of_the_fill_value_are_left_out(tmp_path: Path) -> None:
    """Unless they are to be stored."""
    array = np.zeros((8, 8), "<i4")
    array[:4, :4] = 1
    np.save(tmp_path / "a.npy", array)

    for write_empty, n_stored in ((False, 1), (True, 4)):
        target = tmp_path / f"{n_stored}.h5"
        dask_io.split(
            tmp_path / "a.npy", target, chunks=(4, 4), codec="gzip:1", write_empty=write_empty
        )
        with h5py.File(target) as file:
            assert file["data"].id.get_num_chunks() == n_stored
            assert np.array_equal(file["data"][...], array)
        assert dask_io.verify(target)


@pytest.mark.parametrize("codec", ["none", "gzip:1"])
def test_what_has_changed_since_is_found(codec: str, tmp_path: Path) -> None:
    """A chunk that is not what was written is found by its checksum."""
    np.save(tmp_path / "a.npy", ARRAY)
    dask_io.split(tmp_path / "a.npy", tmp_path / "b.h5", chunks=(5, 5, 7), codec=codec)
    assert dask_io.verify(tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        offset = file["data"].id.get_chunk_info(3).byte_offset

    content = bytearray((tmp_path / "b.h5").read_bytes())
    content[offset + 5] ^= 1
    (tmp_path / "b.h5").write_bytes(content)

    assert not dask_io.verify(tmp_path / "b.h5")


def test_a_source_that_has_changed_is_not_gone_on_with(rich: Path, tmp_path: Path) -> None:
    """A run that was cut short knows which dataset it read."""

    def stop(_: dask_io.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(dask_io.errors.InterruptedRunError):
        dask_io.resplit(
            rich, tmp_path / "b", chunks=(1, 10, 7), format="npy", workers=1, progress=stop
        )
    with h5py.File(rich, "a") as file:
        file["scans/1"][0] = 0

    with pytest.raises(DataError, match="has changed since"):
        dask_io.resume(tmp_path / "b")


def test_a_damaged_file_in_the_making_is_begun_anew(tmp_path: Path) -> None:
    """After a loss of power it may be anything, which must not be in the way for ever."""
    np.save(tmp_path / "a.npy", ARRAY)

    def stop(_: dask_io.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(dask_io.errors.InterruptedRunError):
        dask_io.split(
            tmp_path / "a.npy", tmp_path / "b.h5", chunks=(1, 10, 7), workers=1, progress=stop
        )
    with (tmp_path / ".b.h5.part").open("r+b") as file:
        file.write(bytes(64))
    dask_io.resume(tmp_path / "b.h5")

    with h5py.File(tmp_path / "b.h5") as file:
        assert np.array_equal(file["data"][...], ARRAY)


def test_block_files_are_those_of_anyone(tmp_path: Path) -> None:
    """Files of one contiguous dataset each are blocks; chunked ones are not."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        with h5py.File(folder / f"part_{number}_0_0.h5", "w") as file:
            file["x"] = ARRAY[4 * number : 4 * number + 4]

    dask_io.resplit(folder, f"{tmp_path}/out/b_{{0}}_{{1}}_{{2}}.h5", chunks=(5, 5, 7))

    assert np.array_equal(np.asarray(dask_io.open(tmp_path / "out")), ARRAY)
    with h5py.File(tmp_path / "out" / "b_2_1_0.h5") as file:
        assert np.array_equal(file["data"][...], ARRAY[10:, 5:])
    with h5py.File(folder / "part_1_0_0.h5", "w") as file:
        file.create_dataset("x", data=ARRAY[4:8], chunks=True)
    with pytest.raises(DataError, match=r"part_1_0_0\.h5 is not an HDF5 file with one block"):
        dask_io.open(folder)


@pytest.mark.parametrize("width", [2399, 2400])
@pytest.mark.parametrize("codec", ["none", "gzip:1", "shuffle+gzip:1+fletcher32", "zstd:1"])
def test_no_more_memory_is_taken_than_said(codec: str, width: int, tmp_path: Path) -> None:
    """Besides staging, `codec_bytes` holds for chunks, with and without far ends."""
    array = np.random.default_rng(0).integers(0, 2**31, (2400, width)).astype("<i4")
    target = make_target(
        tmp_path / "a.h5",
        grid=Grid.regular(array.shape, (1200, 1200)),
        dtype=array.dtype,
        layout=Layout.c(2),
        options=TargetOptions(codec=codec),
    )
    target.create()
    staging = new_staging(target, 0 if target.access is Access.ATOMIC else 2**21)
    for index in target.grid.indices():
        block = target.grid.block(index)
        part = array[block.slices]

        def fill(region: Region, values: NDArray[Any], part: NDArray[Any] = part) -> None:
            values[...] = part[region.slices]

        def write(index: tuple[int, ...] = index, block: Region = block, fill: Any = fill) -> None:
            with target.writer(index) as writer:
                writer.write_filled(Region.whole(block.shape), staging, fill)

        assert stays_within(target.codec_bytes + 2**18, write)
    target.abandon()


@pytest.mark.parametrize("codec", ["none", "gzip:1"])
def test_a_target_travels_to_other_processes(codec: str, tmp_path: Path) -> None:
    """What is made of it there is what would have been made here."""
    np.save(tmp_path / "a.npy", np.arange(12).reshape(3, 4))
    source = dask_io.open(tmp_path / "a.npy")
    target = dask_io.plan(source, tmp_path / "b.h5", chunks=2, codec=codec).target
    assert target is not None

    made = pickle.loads(pickle.dumps(target))  # noqa: S301 - our own

    assert made.describe() == target.describe()
    assert (made.durability, made.access, made.place) == (
        target.durability,
        target.access,
        target.place,
    )
    made.create()
    made.abandon()


def test_scales_that_are_too_large_are_told_of(tmp_path: Path) -> None:
    """One dataset does not bring them along, a file as a whole does."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", (3 * 2**20,), "u1", chunks=(2**20,), fillvalue=1)
        for name, kind in (("large", "f8"), ("small", "u1")):
            file.create_dataset(name, (3 * 2**20,), kind, chunks=(2**20,))
            file[name].make_scale(name)
            made.dims[0].attach_scale(file[name])

    one = dask_io.resplit(f"{tmp_path}/a.h5::/x", tmp_path / "b.h5", chunks=2**19)
    whole = dask_io.resplit(tmp_path / "a.h5", tmp_path / "c.h5", chunks=2**19)
    other = dask_io.resplit(f"{tmp_path}/a.h5::/x", tmp_path / "b.zarr", chunks=2**19)

    assert (one.not_kept, whole.not_kept) == (("coordinates",), ())
    assert "coordinates" in other.not_kept
    with h5py.File(tmp_path / "b.h5") as few, h5py.File(tmp_path / "c.h5") as all_of_it:
        assert sorted(few) == ["small", "x"]
        assert sorted(all_of_it) == ["large", "small", "x"]
        assert len(all_of_it["x"].dims[0]) == 2


def test_datasets_of_an_open_file_are_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To close a file takes longer, the more of its datasets are open."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number in range(3):
            file.create_dataset(f"scans/{number}", data=ARRAY, chunks=True, compression="gzip")
    found = read_tree(tmp_path / "a.h5")
    wanted = {
        name: NewArray(
            Grid.regular(ARRAY.shape, (4, 5, 7)),
            ARRAY.dtype,
            Layout.c(3),
            TargetOptions(),
            each.metadata,
        )
        for name, each in found.sources.items()
    }

    def refuse(*_: object) -> None:
        raise AssertionError("the file is opened again")

    monkeypatch.setattr(create, "reading", refuse)
    assert isinstance(found.content, Hdf5Model)
    (tmp_path / "b.h5").touch()
    found.content.build(tmp_path / "b.h5", wanted)

    with h5py.File(tmp_path / "b.h5") as file:
        assert [file[name].compression for name in wanted] == ["gzip"] * 3
        assert {file[name].chunks for name in wanted} == {(4, 5, 7)}
