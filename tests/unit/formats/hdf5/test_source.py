"""Reading what other programs put into HDF5 files."""

from __future__ import annotations

import pickle
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import hdf5plugin
import netCDF4
import numpy as np
import pytest
import zarr
from hypothesis import example, given
from hypothesis import strategies as st

import dask_io
from dask_io.errors import DataError, StorageError, UsageError
from dask_io.formats import open_source
from dask_io.formats.zarr.quiet import quiet
from dask_io.geometry import Region
from dask_io.stores import Access
from dask_io.stores.array_like import BlockArray
from dask_io.stores.staging import new_staging
from dask_io.testing.conformance import read_region
from tests.peak import stays_within

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The library of NetCDF brings filters of its own, if it was loaded first.
hdf5plugin.register()
ARRAY = np.random.default_rng(6).integers(0, 40, (13, 17, 11)).astype("<i4")
CHUNKED: dict[str, Any] = {"chunks": (4, 5, 11)}
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "gzip": {"compression": "gzip", "compression_opts": 7},
    "shuffle, gzip, fletcher32": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "fletcher32": {"fletcher32": True},
    "shuffle": {"shuffle": True},
    "lzf": {"compression": "lzf"},
    "szip": {"compression": "szip"},
    "scaleoffset": {"scaleoffset": 0},
    "blosc": {"compression": hdf5plugin.Blosc(cname="zstd", clevel=3, shuffle=2)},
    "blosc2": {"compression": hdf5plugin.Blosc2()},
    "zstd": {"compression": hdf5plugin.Zstd(clevel=2)},
    "lz4": {"compression": hdf5plugin.LZ4()},
    "bzip2": {"compression": hdf5plugin.BZip2()},
    "bitshuffle": {"compression": hdf5plugin.Bitshuffle()},
    "bitshuffle alone": {"compression": hdf5plugin.Bitshuffle(cname="none")},
}


def write(path: Path, array: NDArray[Any] = ARRAY, **options: Any) -> Path:
    """Make a file of one dataset."""
    with h5py.File(path, "w") as file:
        file.create_dataset("volume", data=array, **options)
    return path


def read(path: Path | str) -> NDArray[Any]:
    """Read all of an array."""
    return np.asarray(dask_io.open(path))


@pytest.mark.parametrize("filters", FILTERS)
def test_filters_of_others_are_run(filters: str, tmp_path: Path) -> None:
    """Whatever HDF5 can read, with hdf5plugin, is read the same."""
    path = write(tmp_path / "a.h5", **CHUNKED, **FILTERS[filters])

    assert np.array_equal(read(path), ARRAY)
    assert open_source(path).access is (Access.ADDRESSABLE if filters == "none" else Access.ATOMIC)


def test_values_are_read_without_hdf5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a dataset is open, HDF5 is not asked for anything that is decoded outside of it."""
    path = write(tmp_path / "a.h5", **CHUNKED, **FILTERS["shuffle, gzip, fletcher32"])
    opened = dask_io.open(path)
    monkeypatch.setattr(h5py, "File", None)

    assert np.array_equal(np.asarray(opened), ARRAY)


@pytest.mark.parametrize("options", [{}, CHUNKED, {"userblock": 1024}])
def test_seeks_are_the_runs(options: dict[str, Any], tmp_path: Path) -> None:
    """A contiguous dataset is read by offset, also behind what another program put in front."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=options.pop("userblock", 0)) as file:
        file.create_dataset("volume", data=ARRAY, **options)
    source = open_source(path)
    opened = dask_io.open(path)

    assert np.array_equal(opened[2:4, 3:9, :], ARRAY[2:4, 3:9, :])
    assert opened.source.tally.read.seeks == (2 if options == {} else 4)
    assert source.n_bytes_on_disk >= ARRAY.nbytes


def test_a_dataset_among_the_metadata(tmp_path: Path) -> None:
    """One so small that HDF5 keeps it with its description is read too."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((4, 5))
        made = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I16BE, space, plist)
        h5py.Dataset(made)[...] = np.arange(20).reshape(4, 5)

    assert np.array_equal(read(tmp_path / "a.h5"), np.arange(20).reshape(4, 5))


@pytest.mark.parametrize("fill", [None, 7])
@pytest.mark.parametrize("options", [{}, CHUNKED, {**CHUNKED, "compression": "gzip"}])
def test_what_is_not_stored_is_the_fill_value(
    options: dict[str, Any], fill: int | None, tmp_path: Path
) -> None:
    """It costs no seek; if it may not be, it is named."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", (13, 17, 11), "<i4", fillvalue=fill, **options)
        if options:
            made[:4, :5] = 3
    source = dask_io.open(tmp_path / "a.h5").source
    expected = np.full((13, 17, 11), fill or 0)
    expected[:4, :5] = 3 if options else expected[:4, :5]

    assert np.array_equal(read(tmp_path / "a.h5"), expected)
    assert dask_io.open(tmp_path / "a.h5")[5:, :, :].shape == (8, 17, 11)
    assert source.tally.read.seeks == 0
    with pytest.raises(DataError, match="is missing; leave out strict=True"):
        np.asarray(dask_io.open(tmp_path / "a.h5", strict=True))
    with pytest.raises(DataError, match="chunks are missing"):
        open_source(tmp_path / "a.h5", strict=True).check()


def test_chunks_that_go_without_a_filter(tmp_path: Path) -> None:
    """Each chunk has a mask that says which filters were left out for it."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", (4, 6), "<i4", chunks=(2, 6), shuffle=True, compression=1)
        values = np.arange(12, dtype="<i4")
        made.id.write_direct_chunk((0, 0), values.tobytes(), 0b11)
        made[2:] = values.reshape(2, 6)

    assert np.array_equal(read(tmp_path / "a.h5"), np.tile(values.reshape(2, 6), (2, 1)))


def test_one_dataset_needs_no_name_and_of_several_one_is_named(tmp_path: Path) -> None:
    """Scales do not count: they belong to another dataset."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["day/1"] = ARRAY
        file["x"] = np.arange(11)
        file["x"].make_scale()
        file["soft"] = h5py.SoftLink("/day/1")

    assert np.array_equal(read(tmp_path / "a.h5"), ARRAY)
    assert np.array_equal(read(f"{tmp_path}/a.h5::/day/1"), ARRAY)
    assert np.array_equal(read(f"{tmp_path}/a.h5::/day"), ARRAY)
    assert np.array_equal(read(f"{tmp_path}/a.h5::soft"), ARRAY)
    assert np.array_equal(read(f"{tmp_path}/a.h5::x"), np.arange(11))
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["night"] = ARRAY
    with pytest.raises(UsageError, match=r"give a dataset of .* such as .*::/day/1, .*::/night"):
        dask_io.open(tmp_path / "a.h5")
    with pytest.raises(UsageError, match=r"::/noon does not exist; give a dataset"):
        dask_io.open(f"{tmp_path}/a.h5::/noon")
    with pytest.raises(UsageError, match=r"::/night/deep does not exist"):
        dask_io.open(f"{tmp_path}/a.h5::/night/deep")
    with h5py.File(tmp_path / "empty.h5", "w"):
        pass
    with pytest.raises(UsageError, match="contains no dataset"):
        dask_io.open(tmp_path / "empty.h5")


def outside(file: Any, folder: Path) -> None:
    """Make datasets whose values are somewhere else."""
    (folder / "secret").write_bytes(ARRAY.tobytes())
    write(folder / "other.h5")
    here = [(str(folder / "secret"), 0, h5py.h5f.UNLIMITED)]
    file.create_dataset("external", ARRAY.shape, "<i4", external=here)
    layout = h5py.VirtualLayout(ARRAY.shape, "<i4")
    layout[...] = h5py.VirtualSource(folder / "other.h5", "volume", ARRAY.shape)
    file.create_virtual_dataset("virtual", layout)
    file["link"] = h5py.ExternalLink(str(folder / "other.h5"), "/volume")
    file["soft"] = h5py.SoftLink("/link")
    file["circle"] = h5py.SoftLink("/circle")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("external", "values are in other files, which are not read"),
        ("virtual", "virtual dataset: its values may be in other files"),
        ("link", "is a link to another file, which is not followed"),
        ("soft", "is a link to another file, which is not followed"),
        ("circle", "a chain of links that is too long or circular"),
        ("scalar", "without axes"),
        ("nothing", "without axes"),
        ("texts", "Python objects, which are never loaded"),
        ("lists", "Python objects, which are never loaded"),
        ("references", "Python objects, which are never loaded"),
        ("spaced", "stored differently from"),
        ("odd", "stored differently from"),
        ("arrays", "elements that are arrays"),
    ],
)
def test_what_is_not_read(name: str, reason: str, tmp_path: Path) -> None:
    """Nothing outside the file, nothing that NumPy has no type for: one line says what."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        outside(file, tmp_path)
        file["scalar"] = 3
        file["nothing"] = h5py.Empty("f4")
        file.create_dataset("texts", (3,), h5py.string_dtype())
        file.create_dataset("lists", (3,), h5py.vlen_dtype("i4"))
        file.create_dataset("references", (3,), h5py.ref_dtype)
        spaced = h5py.h5t.C_S1.copy()
        spaced.set_size(3)
        spaced.set_strpad(h5py.h5t.STR_SPACEPAD)
        odd = h5py.h5t.STD_I32LE.copy()
        odd.set_precision(20)
        arrays = h5py.h5t.array_create(h5py.h5t.STD_I32LE, (2,))
        for label, kind in ((b"spaced", spaced), (b"odd", odd), (b"arrays", arrays)):
            h5py.h5d.create(file.id, label, kind, h5py.h5s.create_simple((3,)))

    with pytest.raises(DataError, match=reason) as refused:
        dask_io.open(f"{tmp_path}/a.h5::{name}")

    assert str(refused.value).count("\n") == 0


def test_files_that_are_none(tmp_path: Path) -> None:
    """Absent, empty, a directory, something else, cut short: one line each."""
    with pytest.raises(StorageError, match="no such file"):
        dask_io.open(tmp_path / "a.h5")
    for content in (b"", b"hello", b"\x89HDF\r\n\x1a\n" + b"\0" * 100):
        (tmp_path / "a.h5").write_bytes(content)
        with pytest.raises(DataError, match="is not a valid HDF5 file"):
            dask_io.open(tmp_path / "a.h5")
    whole = write(tmp_path / "b.h5").read_bytes()
    (tmp_path / "c.h5").write_bytes(whole[:-1000])
    with pytest.raises(DataError, match="truncated"):
        dask_io.open(tmp_path / "c.h5")


def test_a_filter_that_nobody_has(tmp_path: Path) -> None:
    """Its number is named."""
    path = write(tmp_path / "a.h5", chunks=(13, 17, 11), compression="gzip")
    content = path.read_bytes()
    # The description of the filter: its number, and its name.
    at = content.index(b"deflate\0") - 8
    path.write_bytes(content[:at] + (30123).to_bytes(2, "little") + content[at + 2 :])

    with pytest.raises(DataError, match=r"has filter 30123 \(deflate\), which is not supported"):
        dask_io.open(path)


def test_a_chunk_that_would_become_huge(tmp_path: Path) -> None:
    """A small chunk that decodes to more than its size is refused before it does."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", (10,), "u1", chunks=(10,), compression="gzip")
        made.id.write_direct_chunk((0,), zlib.compress(bytes(2**22)))

    with pytest.raises(DataError, match="decodes to more than the 10 bytes of a chunk"):
        read(tmp_path / "a.h5")


def test_it_is_known_by_its_content(tmp_path: Path) -> None:
    """A suffix is not needed."""
    path = write(tmp_path / "scan.unknown")

    assert np.array_equal(read(path), ARRAY)
    assert dask_io.info(path).format == "hdf5"


def test_info_tells_what_it_is(tmp_path: Path) -> None:
    """Filters, fill value, names of axes, attributes, and the ratio of compression."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset(
            "x", data=np.zeros((8, 9)), chunks=(4, 9), compression=4, shuffle=True, fillvalue=2
        )
        made.attrs["units"] = "K"
        made.attrs["valid"] = np.array([0, 9], "i2")
        made.dims[0].label = "y"

    info = dask_io.info(tmp_path / "a.h5")

    assert info.metadata["codecs"] == [
        {"id": "shuffle", "elementsize": 8},
        {"id": "zlib", "level": 4},
    ]
    assert info.metadata["fill_value"] == 2
    assert info.metadata["dimension_names"] == ("y", None)
    assert info.metadata["attributes"] == {"units": "K", "valid": [0, 9]}
    assert info.n_bytes_on_disk < info.n_bytes


@pytest.mark.parametrize("filters", ["none", "gzip", "shuffle, gzip, fletcher32", "blosc", "zstd"])
def test_no_more_memory_is_taken_than_said(filters: str, tmp_path: Path) -> None:
    """Besides staging, `codec_bytes` holds for whole chunks and for parts."""
    array = np.random.default_rng(0).integers(0, 2**31, (600, 500)).astype("<i4")
    source = open_source(write(tmp_path / "a.h5", array, chunks=(300, 300), **FILTERS[filters]))
    region = Region.whole(source.grid.block((0, 1)).shape)
    # What is decoded needs no room besides.
    n_bytes = 0 if source.access is Access.ATOMIC else region.size * 4
    buffer = new_staging(source, n_bytes)
    read_region(source, (0, 0), Region((0, 0), (1, 1)))
    for part in (region, Region((3, 5), (200, 100))):

        def read(part: Region = part) -> None:
            with source.reader((0, 1)) as reader:
                reader.read_into(part, buffer)

        assert stays_within(source.codec_bytes + 2**16, read)


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    """Chunks that have been written since would be missing, or others be read in their place."""
    path = tmp_path / "some.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("volume", ARRAY.shape, ARRAY.dtype, **CHUNKED)
    opened = dask_io.open(path)
    job = dask_io.plan(path, tmp_path / "out", chunks=(5, 5, 5), memory="1MiB")
    assert not opened[...].any()
    with h5py.File(path, "r+") as file:
        file["volume"][...] = ARRAY

    with pytest.raises(DataError, match="changed since it was opened"):
        opened[...]
    with pytest.raises(DataError, match="changed since it was opened"):
        job.run()
    np.testing.assert_array_equal(read(path), ARRAY)


def test_sources_travel(tmp_path: Path) -> None:
    """To other processes, with all that they know."""
    path = write(tmp_path / "a.h5", **CHUNKED, **FILTERS["gzip"])

    source = pickle.loads(pickle.dumps(open_source(path)))  # noqa: S301 - our own

    assert np.array_equal(np.asarray(BlockArray(source)), ARRAY)


def test_files_that_nobody_here_made() -> None:
    """Files that come with h5py are read as h5py reads them, or refused for what they hold."""
    folder = Path(h5py.__file__).parent / "tests" / "data_files"
    with h5py.File(folder / "compound-dtype-complex.h5") as file:
        for name in file:
            found = read(f"{folder}/compound-dtype-complex.h5::{name}")
            assert found.tobytes() == file[name][...].tobytes()
    with h5py.File(folder / "vlen_string_s390x.h5") as file:
        numbers = [name for name in file if file[name].dtype.kind == "i"]
        assert numbers
        for name in numbers:
            found = read(f"{folder}/vlen_string_s390x.h5::{name}")
            assert found.tobytes() == file[name][...].tobytes()
    with pytest.raises(DataError, match="Python objects"):
        dask_io.open(folder / "vlen_string_dset.h5")


@st.composite
def datasets(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[slice, ...]]]:
    """Draw a dataset that may grow, in a file for old readers or new ones, and what is written."""
    shape = tuple(draw(st.lists(st.integers(1, 8), min_size=1, max_size=3)))
    options = {
        "shape": shape,
        "dtype": draw(st.sampled_from(["<i4", ">i2", ">f8"])),
        "chunks": tuple(draw(st.integers(1, length)) for length in shape),
        "maxshape": tuple(draw(st.sampled_from([None, n, n + 3])) for n in shape),
        "fillvalue": draw(st.sampled_from([None, 7])),
        "compression": draw(st.sampled_from([None, "gzip"])),
    }
    start = st.tuples(*(st.integers(0, length - 1) for length in shape))
    starts = draw(st.lists(start, max_size=4))
    return options, [tuple(slice(n, n + 2) for n in start) for start in starts]


@given(drawn=datasets(), libver=st.sampled_from(["earliest", "latest"]))
@example(
    drawn=(
        {"shape": (6, 4), "dtype": "<i4", "chunks": (2, 2), "maxshape": (9, None)},
        [(slice(None), slice(None))],
    ),
    libver="latest",
)
def test_chunks_are_found_whatever_they_are_found_by(
    drawn: tuple[dict[str, Any], list[tuple[slice, ...]]],
    libver: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """HDF5 has five kinds of index, and mixes up what is in one of them."""
    options, parts = drawn
    path = tmp_path_factory.mktemp("x") / "a.h5"
    with h5py.File(path, "w", libver=libver) as file:
        made = file.create_dataset("x", **options)
        for number, part in enumerate(parts):
            made[part] = 100 + number
        expected = made[...]

    assert np.array_equal(read(path), expected)


@pytest.mark.parametrize("version", [4, 5])
def test_the_fill_value_has_the_byte_order_of_the_elements(version: int, tmp_path: Path) -> None:
    """Where it is read and where it is left out, also by a source that has travelled."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (4,), ">f8", chunks=(2,), fillvalue=1.5)[:2] = [7, 8]
    expected = [7, 8, 1.5, 1.5]

    dask_io.resplit(path, tmp_path / "b.npy", chunks=-1)
    dask_io.resplit(path, tmp_path / "c.h5", chunks=2, codec="gzip:1")

    assert np.load(tmp_path / "b.npy").tolist() == expected
    with h5py.File(tmp_path / "c.h5") as file:
        assert file["x"][...].tolist() == expected
        assert file["x"].id.get_num_chunks() == 1
    travelled = pickle.loads(pickle.dumps(open_source(path), protocol=version))  # noqa: S301 - ours
    assert np.asarray(BlockArray(travelled)).tolist() == expected


def test_what_is_behind_elements_is_not_shuffled(tmp_path: Path) -> None:
    """As in the files of NetCDF's library, which has checksums first: HDF5 leaves them in place."""
    filters = "fletcher32+shuffle+gzip:4"
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 10)
        how: Any = {"zlib": True, "shuffle": True, "fletcher32": True}
        file.createVariable("v", "f8", ("x",), **how)[:] = np.arange(10)

    assert read(tmp_path / "a.nc").tolist() == list(range(10))
    dask_io.resplit(tmp_path / "a.nc", tmp_path / "b.h5", chunks=3, codec=filters)
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["v"][...].tolist() == list(range(10))
    # numcodecs wants whole elements.
    dask_io.resplit(tmp_path / "b.h5", tmp_path / "c.zarr", chunks=4)
    with quiet():
        assert np.asarray(zarr.open_array(tmp_path / "c.zarr")).tolist() == list(range(10))


@pytest.mark.parametrize("kind", [h5py.h5t.STD_I8BE, h5py.h5t.STD_U8BE])
def test_a_byte_has_no_order(kind: Any, tmp_path: Path) -> None:
    """Whatever a file says about it."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((4,)))
        h5py.Dataset(made)[...] = [1, 2, 3, 4]

    dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=2)

    assert read(tmp_path / "b.h5").tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("grows", [False, True])
def test_a_part_may_be_smaller_than_a_chunk(*, grows: bool, tmp_path: Path) -> None:
    """It has the chunks that are asked for, of a dataset that may grow, too."""
    path = write(
        tmp_path / "a.h5", **CHUNKED, compression="gzip", maxshape=(None,) * 3 if grows else None
    )
    region = ",".join(["0:2"] * 3)

    dask_io.extract(path, tmp_path / "b.h5", regions=[region])
    dask_io.resplit(path, tmp_path / "c.h5", chunks=1, region=region)

    for name, chunks in (("b.h5", (2, 2, 2)), ("c.h5", (1, 1, 1))):
        with h5py.File(tmp_path / name) as file:
            assert np.array_equal(file["volume"][...], ARRAY[:2, :2, :2])
            assert file["volume"].chunks == chunks


@pytest.mark.parametrize("fill", [b"hello", b"ab", b""])
def test_the_fill_value_of_texts_is_kept(fill: bytes, tmp_path: Path) -> None:
    """Every time the same bytes are in the file."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (4,), "S5", chunks=(2,), fillvalue=fill)[:2] = [b"x", b"y"]

    for name in ("b.h5", "c.h5"):
        dask_io.resplit(tmp_path / "a.h5", tmp_path / name, chunks=3, codec="gzip:1")
        with h5py.File(tmp_path / name) as file:
            assert file["x"].fillvalue == fill
            assert file["x"][...].tolist() == [b"x", b"y", fill, fill]
    assert (tmp_path / "b.h5").read_bytes() == (tmp_path / "c.h5").read_bytes()


@pytest.mark.parametrize("dtype", [">i2", "<i4", "u1", ">f4", "<f8"])
@pytest.mark.parametrize("fill", [None, 0, 75])
def test_filters_that_have_a_sign_for_the_fill_value(
    dtype: str, fill: int | None, tmp_path: Path
) -> None:
    """They are told which one it is."""
    values = np.array([1, 2, 75, 4, 0, 75, 75, 3], dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(4,), scaleoffset=0, fillvalue=fill)
        expected = file["x"][...]

    assert np.array_equal(read(tmp_path / "a.h5"), expected)
    dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.npy", chunks=-1)
    assert np.array_equal(np.load(tmp_path / "b.npy"), expected)
