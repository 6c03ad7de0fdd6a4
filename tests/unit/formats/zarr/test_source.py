"""Reading what zarr-python wrote."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
import zarr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from zarr.codecs import BytesCodec, TransposeCodec

from dask_io.errors import DataError, UsageError
from dask_io.formats import open_source
from dask_io.formats.zarr.quiet import quiet
from dask_io.geometry import Region
from dask_io.stores import Access
from dask_io.stores.array_like import BlockArray
from dask_io.stores.shards import Shards
from dask_io.stores.staging import new_staging
from dask_io.testing.conformance import read_region
from tests.peak import stays_within

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores.chunked_source import Located

DTYPES = [
    "u1",
    "bool",
    "<i2",
    ">i2",
    "<f4",
    ">f8",
    "<c8",
    "<M8[s]",
    ">m8[us]",
    "S3",
    "<U2",
    ">U3",
    "V5",
]
COMPRESSORS_2: list[dict[str, Any] | None] = [
    None,
    {"id": "zstd", "level": 1},
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
    {"id": "gzip", "level": 1},
    {"id": "zlib", "level": 1},
    {"id": "lz4", "acceleration": 1},
    {"id": "bz2", "level": 1},
    {"id": "lzma", "format": 1, "check": -1, "preset": 1, "filters": None},
]
COMPRESSORS_3: list[list[dict[str, Any]] | None] = [
    None,
    [{"name": "zstd", "configuration": {"level": 1, "checksum": True}}],
    [
        {
            "name": "blosc",
            "configuration": {
                "cname": "zstd",
                "clevel": 1,
                "shuffle": "bitshuffle",
                "typesize": 2,
                "blocksize": 0,
            },
        }
    ],
    [{"name": "gzip", "configuration": {"level": 1}}],
    [{"name": "crc32c"}],
    [{"name": "zstd", "configuration": {"level": 1}}, {"name": "crc32c"}],
    [{"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}],
    [
        {"name": "numcodecs.shuffle", "configuration": {"elementsize": 1}},
        {"name": "numcodecs.zlib", "configuration": {"level": 1}},
    ],
]


@st.composite
def arrays(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Draw an array, parts of which may be the fill value, and how zarr-python is to store it."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, n + 1)) for n in shape)
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    version = draw(st.sampled_from([2, 3]))
    how: dict[str, Any] = {"chunks": chunks, "zarr_format": version}
    separator = draw(st.sampled_from(["/", "."]))
    if version == 2:
        how |= {
            "order": draw(st.sampled_from("CF")),
            "compressors": draw(st.sampled_from(COMPRESSORS_2)),
            "chunk_key_encoding": {"name": "v2", "separator": separator},
        }
    else:
        order = draw(st.permutations(range(len(shape))))
        endian = draw(st.sampled_from(["little", "big"]))
        how |= {
            "filters": [TransposeCodec(order=order)] if draw(st.booleans()) else None,
            "compressors": draw(st.sampled_from(COMPRESSORS_3)),
            "serializer": BytesCodec(endian=endian if dtype.byteorder != "|" else None),
            "chunk_key_encoding": {
                "name": draw(st.sampled_from(["default", "v2"])),
                "separator": separator,
            },
        }
        # zarr-python itself cannot hash the fill value of such elements, which it does for shards.
        if dtype.kind != "V" and draw(st.booleans()):
            how["shards"] = tuple(n * draw(st.integers(1, 3)) for n in chunks)
    raw = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 2, (*shape, dtype.itemsize))
    array = raw.astype(np.uint8).view(dtype).reshape(shape)
    array[tuple(slice(0, draw(st.integers(0, n))) for n in shape)] = np.zeros((), dtype)
    return array, how


@given(drawn=arrays())
def test_we_read_what_zarr_python_wrote(
    drawn: tuple[np.ndarray[Any, Any], dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every dtype, codec, order, key and shard: all of it, and parts of chunks."""
    array, how = drawn
    path = tmp_path_factory.mktemp("x") / "x.zarr"
    with quiet():
        made = zarr.create_array(path, shape=array.shape, dtype=array.dtype, **how)
        made[...] = array
        expected = np.asarray(made[...])

    source = open_source(path)
    read = BlockArray(source)

    assert np.array_equal(np.asarray(read), expected)
    part = tuple(slice(n // 3, n) for n in array.shape)
    assert np.array_equal(read[part], expected[part])
    assert source.dtype.itemsize == array.dtype.itemsize
    source.check()


@pytest.mark.parametrize(
    ("filters", "dtype"),
    [
        ([{"id": "delta", "dtype": "<i4", "astype": "<i8"}], "<i4"),
        ([{"id": "packbits"}], "bool"),
        (
            [{"id": "fixedscaleoffset", "scale": 8, "offset": 3, "dtype": "<f8", "astype": "<i2"}],
            "<f8",
        ),
        ([{"id": "quantize", "digits": 2, "dtype": "<f8", "astype": "<f4"}], "<f8"),
        ([{"id": "bitround", "keepbits": 3}], "<f4"),
        ([{"id": "astype", "encode_dtype": "<i2", "decode_dtype": "<i4"}], "<i4"),
        ([{"id": "delta", "dtype": "<i4", "astype": "<i4"}, {"id": "crc32"}], "<i4"),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_filters_of_version_2(
    filters: list[dict[str, Any]], dtype: str, order: Literal["C", "F"], tmp_path: Path
) -> None:
    """What they make of values is what zarr-python makes of them."""
    import numcodecs  # type: ignore[import-untyped]  # noqa: PLC0415 - by name below

    made = zarr.create_array(
        tmp_path / "x.zarr", shape=(9, 7), chunks=(4, 5), dtype=dtype, zarr_format=2, order=order,
        filters=[numcodecs.get_codec(dict(each)) for each in filters],
    )  # fmt: skip
    made[...] = (np.arange(63) % 2 if dtype == "bool" else np.arange(63)).reshape(9, 7)
    assert np.array_equal(np.asarray(BlockArray(open_source(tmp_path / "x.zarr"))), made[...])


def sample(path: Path, **how: Any) -> np.ndarray[Any, Any]:
    """Have zarr-python write an array of which a quarter is the fill value."""
    array = np.arange(1, 401, dtype="<i4").reshape(20, 20)
    array[:10, :10] = 7
    how = {"chunks": (5, 5), "compressors": None, "fill_value": 7} | how
    zarr.create_array(path, shape=array.shape, dtype=array.dtype, **how)[...] = array
    return array


@pytest.mark.parametrize("shards", [None, (10, 10)])
@pytest.mark.parametrize("compressors", [None, "auto"])
def test_missing_chunks_are_filled_without_a_visit(
    shards: tuple[int, int] | None, compressors: str | None, tmp_path: Path
) -> None:
    """They cost neither a visit nor a seek; in a strict source they are an error."""
    array = sample(tmp_path / "x.zarr", shards=shards, compressors=compressors)
    source = open_source(tmp_path / "x.zarr")

    assert np.array_equal(np.asarray(BlockArray(source)), array)
    assert (source.tally.read.seeks, source.tally.read.visits) == (12, 12)
    strict = open_source(tmp_path / "x.zarr", strict=True)
    with pytest.raises(DataError, match="chunk 1,0 is missing; leave out --strict"):
        read_region(strict, (1, 0), Region((0, 0), (1, 1)))
    with pytest.raises(DataError, match="chunks are missing"):
        strict.check()


def test_a_shard_s_index_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of its chunks are visited, and its reading is not counted."""
    array = sample(tmp_path / "x.zarr", shards=(10, 10), fill_value=0)
    source = open_source(tmp_path / "x.zarr")
    read: list[str] = []
    original = Shards._read  # noqa: SLF001

    def noted(self: Shards, shard: Located) -> Any:
        read.append(shard.name)
        return original(self, shard)

    monkeypatch.setattr(Shards, "_read", noted)
    assert np.array_equal(np.asarray(BlockArray(source)), array)
    assert len(read) == 4
    assert (source.tally.read.seeks, source.tally.read.n_bytes) == (16, array.nbytes)


def test_a_shard_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    """An array that stays open shows what is there now, not where it was before."""
    sample(tmp_path / "x.zarr", shards=(10, 10), compressors=None, fill_value=0)
    stored = zarr.open_array(str(tmp_path / "x.zarr"))
    opened = BlockArray(open_source(tmp_path / "x.zarr"))
    # Of the shards only some chunks are stored, so that the others lie elsewhere in them.
    for corner in range(0, 10, 5):
        new = np.zeros(stored.shape, stored.dtype)
        new[corner:] = 1 + corner
        stored[...] = new
        np.testing.assert_array_equal(opened[...], new)


def test_a_visit_reads_what_it_needs(tmp_path: Path) -> None:
    """Runs of an uncompressed chunk, or a compressed one once however many parts are read."""
    plain, packed = tmp_path / "plain.zarr", tmp_path / "packed.zarr"
    array = sample(plain, fill_value=0)
    sample(packed, fill_value=0, compressors="auto")
    part = Region((1, 0), (3, 5))
    assert np.array_equal(read_region(open_source(plain), (1, 1), part), array[6:8, 5:10])

    source = open_source(packed)
    assert (source.access, open_source(plain).access) == (Access.ATOMIC, Access.ADDRESSABLE)
    with source.reader((1, 1)) as reader:
        buffer = new_staging(source, 20)
        for row in range(5):
            read = reader.read_into(Region((row, 0), (row + 1, 5)), buffer)
            assert np.array_equal(read, array[5 + row : 6 + row, 5:10])
    assert (source.tally.read.seeks, source.tally.read.visits) == (1, 1)


def test_threads_share_a_visit(tmp_path: Path) -> None:
    """A part behind another's is no new visit, nor a seek, at the far ends either."""
    array = np.arange(63, dtype="<i4").reshape(9, 7)
    zarr.create_array(
        tmp_path / "x.zarr", shape=array.shape, chunks=(9, 10), dtype="<i4", compressors=None
    )[...] = array
    source = open_source(tmp_path / "x.zarr")
    buffer = memoryview(bytearray(9 * 7 * 4 + 8192))
    with source.reader((0, 0)) as reader:
        reader.read_into(Region((0, 0), (4, 7)), buffer)
    with source.reader((0, 0), after=Region((0, 0), (4, 7))) as reader:
        read = reader.read_into(Region((4, 0), (9, 7)), buffer)
    assert np.array_equal(read, array[4:])
    assert (source.tally.read.seeks, source.tally.read.visits) == (1, 1)


def damage(path: Path, how: str) -> None:
    """Change a file for the worse."""
    content = bytearray(path.read_bytes())
    match how:
        case "cut":
            path.write_bytes(content[:-3])
        case "emptied":
            path.write_bytes(b"")
        case "longer":
            path.write_bytes(content + bytes(20_000))
        case "flipped":
            content[10] ^= 0x55
            path.write_bytes(content)
        case "folder":
            path.unlink()
            path.mkdir()
        case _:
            path.rename(path.parent.parent.parent.parent / "elsewhere")
            path.symlink_to(path.parent.parent.parent.parent / "elsewhere")


CRC = [{"name": "crc32c"}]


@pytest.mark.parametrize(
    ("compressors", "shards", "how", "says"),
    [
        (None, None, "cut", "is truncated: its chunk has 97 bytes, expected 100"),
        (None, None, "emptied", "is truncated"),
        (None, None, "longer", "is too long"),
        (None, None, "folder", "is not a file"),
        (None, None, "link", "leads out of"),
        ("auto", None, "cut", "cannot be decoded"),
        ("auto", None, "emptied", "cannot be decoded"),
        ("auto", None, "longer", "is too long"),
        (CRC, None, "flipped", "cannot be decoded"),
        (None, (10, 10), "cut", "its index cannot be decoded"),
        (None, (10, 10), "emptied", "is truncated: it has 0 bytes, but its index alone 68"),
        (CRC, (10, 10), "flipped", "cannot be decoded"),
        ("auto", (10, 10), "longer", "its index cannot be decoded"),
    ],
)
def test_damaged_chunks_are_named(
    compressors: Any, shards: Any, how: str, says: str, tmp_path: Path
) -> None:
    """When they are read, and if it shows by their size, when all are checked."""
    sample(tmp_path / "x.zarr", compressors=compressors, shards=shards, fill_value=0)
    path = tmp_path / "x.zarr" / "c" / "1" / "1"
    damage(path, how)
    source = open_source(tmp_path / "x.zarr")
    index = (2, 2) if shards else (1, 1)
    with pytest.raises(DataError, match=says) as caught:
        read_region(source, index, Region((0, 0), (5, 5)))
    assert str(path) in str(caught.value)
    if "decoded" not in says and how != "folder":
        with pytest.raises(DataError, match=f"c/1/1 .*{says[:20]}"):
            source.check()
    read_region(source, (0, 0), Region((0, 0), (5, 5)))


def test_shards_of_absurdly_many_chunks_are_refused(tmp_path: Path) -> None:
    """An index that would be larger than its file is not read, nor is memory taken for it."""
    sample(tmp_path / "x.zarr", shards=(10, 10), fill_value=0)
    document = json.loads((tmp_path / "x.zarr" / "zarr.json").read_text())
    document["shape"] = document["chunk_grid"]["configuration"]["chunk_shape"] = [5 * 2**59] * 2
    (tmp_path / "x.zarr" / "zarr.json").write_text(json.dumps(document))
    source = open_source(tmp_path / "x.zarr")
    with pytest.raises(DataError, match=f"but its index alone {2**122 + 4}"):
        read_region(source, (0, 0), Region((0, 0), (1, 1)))
    with pytest.raises(DataError, match="but its index alone"):
        source.check()


@given(place=st.integers(0, 63), value=st.integers(0, 255))
@settings(max_examples=50)
def test_indices_that_lie_are_refused(
    place: int, value: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An index without a checksum can say anything; nothing outside the shard is read."""
    path = tmp_path_factory.mktemp("x") / "x.zarr"
    sample(path, fill_value=0, shards=(10, 10))
    document = (path / "zarr.json").read_text()
    (path / "zarr.json").write_text(
        document.replace(',\n          {\n            "name": "crc32c"\n          }', "")
    )
    shard = path / "c" / "0" / "0"
    content = bytearray(shard.read_bytes()[:-4])
    assume(content[-64 + place] != value)
    content[-64 + place] = value
    shard.write_bytes(content)
    source = open_source(path)
    found = []
    for index in ((0, 0), (0, 1), (1, 0), (1, 1)):
        try:
            read_region(source, index, Region((0, 0), (5, 5)))
        except DataError as error:
            found.append(str(error))
    assert all("ends after the file does" in said or "its chunk has" in said for said in found)


@pytest.mark.parametrize(
    ("compressors", "chunks"),
    [(None, (300, 301)), ("auto", (300, 301)), (CRC, (300, 300)), (None, (300, 300))],
)
def test_no_more_memory_is_taken_than_said(
    compressors: Any, chunks: tuple[int, int], tmp_path: Path
) -> None:
    """Besides staging, `codec_bytes` holds for whole blocks and for parts."""
    array = np.random.default_rng(0).integers(0, 2**31, (600, 600)).astype("<i4")
    zarr.create_array(
        tmp_path / "x.zarr", shape=array.shape, chunks=chunks, dtype="<i4", compressors=compressors
    )[...] = array
    source = open_source(tmp_path / "x.zarr")
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


def test_sources_travel(tmp_path: Path) -> None:
    """To other processes, with all that they know."""
    array = sample(tmp_path / "x.zarr", shards=(10, 10), compressors="auto")
    source = pickle.loads(pickle.dumps(open_source(tmp_path / "x.zarr")))  # noqa: S301 - our own
    assert np.array_equal(np.asarray(BlockArray(source)), array)


def test_descriptions_have_to_agree(tmp_path: Path) -> None:
    """A source that describes itself is believed."""
    sample(tmp_path / "x.zarr")
    assert open_source(tmp_path / "x.zarr", shape=(20, 20), chunks=5, dtype="<i4").format == "zarr"
    with pytest.raises(UsageError, match=r"has shape \(20, 20\), but shape"):
        open_source(tmp_path / "x.zarr", shape=(20, 21))
    with pytest.raises(UsageError, match="is not a container"):
        open_source(f"{tmp_path}::/a")
