"""N5 datasets: read and written as z5py and tensorstore do, and refused if they are damaged."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numcodecs  # type: ignore[import-untyped]
import numpy as np
import pytest
import tensorstore as ts
import z5py  # type: ignore[import-untyped]

import dask_io
from dask_io.errors import DaskIOError, DataError, UsageError
from dask_io.formats.n5.dataset import make_header

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# Blocks of 3 x 4 x 4 are truncated along every axis.
ARRAY = np.arange(1, 1 + 5 * 7 * 6, dtype="<u2").reshape(5, 7, 6)
CHUNKS = (3, 4, 4)


def save(folder: Path, array: NDArray[Any] = ARRAY) -> Path:
    """Save an array to convert."""
    np.save(folder / "a.npy", array)
    return folder / "a.npy"


def with_tensorstore(path: Path, **metadata: Any) -> Any:
    """Open a dataset with tensorstore, or create it."""
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(path)}}
    made = {**spec, "metadata": metadata} if metadata else spec
    return ts.open(made, create=bool(metadata)).result()


def attributes(path: Path) -> dict[str, Any]:
    """Return the attributes of a dataset."""
    found: dict[str, Any] = json.loads((path / "attributes.json").read_bytes())
    return found


def write_attributes(path: Path, changes: dict[str, Any]) -> None:
    """Change attributes of a dataset."""
    (path / "attributes.json").write_text(json.dumps({**attributes(path), **changes}))


@pytest.mark.parametrize(
    "codec", ["none", "gzip:5", "zlib:1", "bz2:3", "lzma:2", "zstd:3", "blosc:lz4:5:shuffle"]
)
def test_others_read_what_is_written(tmp_path: Path, codec: str) -> None:
    """z5py sees the same axes and values, and tensorstore the reverse axes."""
    target = f"{tmp_path}/b.n5::/volumes/raw"
    dask_io.resplit(save(tmp_path), target, chunks=CHUNKS, codec=codec, verify=True)

    assert attributes(tmp_path / "b.n5") == {"n5": "4.0.0"}
    if codec != "zlib:1":
        # z5py does not have it.
        assert np.array_equal(z5py.File(str(tmp_path / "b.n5"), "r")["volumes/raw"][:], ARRAY)
    found = with_tensorstore(tmp_path / "b.n5/volumes/raw").read().result()
    assert np.array_equal(found.T, ARRAY)


@pytest.mark.parametrize("dtype", ["u1", "i1", "<i2", ">i2", "u4", "i4", "u8", "i8", "f4", ">f8"])
def test_every_type_survives(tmp_path: Path, dtype: str) -> None:
    """Numbers of any type and byte order become N5's, and are read as z5py reads them."""
    array = np.linspace(-100, 100, 15).astype("i1").astype(dtype).reshape(3, 5)
    dask_io.resplit(save(tmp_path, array), tmp_path / "b.n5", chunks=(2, 3))

    opened = dask_io.open(tmp_path / "b.n5")
    assert np.array_equal(opened[...], array)
    assert opened.dtype == np.dtype(dtype).newbyteorder("<")
    assert np.array_equal(with_tensorstore(tmp_path / "b.n5").read().result().T, array)


@pytest.mark.parametrize("codec", ["raw", "gzip", "bzip2", "xz", "lz4", "zstd", "blosc"])
def test_what_z5py_writes_is_read(tmp_path: Path, codec: str) -> None:
    """Blocks of every codec of z5py, which truncates those at the edge."""
    with z5py.File(str(tmp_path / "a.n5"), "w") as file:
        file.create_dataset("x", data=ARRAY, chunks=CHUNKS, compression=codec)

    opened = dask_io.open(f"{tmp_path}/a.n5::/x")
    assert np.array_equal(opened[...], ARRAY)
    assert opened.chunks[0] == (3, 2)


@pytest.mark.parametrize("codec", [{"type": "raw"}, {"type": "gzip", "useZlib": True}])
def test_padded_blocks_are_read(tmp_path: Path, codec: dict[str, Any]) -> None:
    """Blocks at the edge may also be stored in full, as tensorstore does."""
    made = {"dataType": "uint16", "dimensions": [6, 7, 5], "blockSize": [4, 4, 3]}
    with_tensorstore(tmp_path / "a", compression=codec, **made)[...] = ARRAY.T

    assert np.array_equal(dask_io.open(tmp_path / "a")[...], ARRAY)


def test_frames_of_java_are_read(tmp_path: Path) -> None:
    """N5's own library writes LZ4 in frames, compressed or not."""
    raw = ARRAY.astype(">u2").tobytes()
    parts = [raw[:100], raw[100:]]
    packed = numcodecs.LZ4().encode(parts[0])[4:]
    frames = struct.pack("<8sBiiI", b"LZ4Block", 0x25, len(packed), 100, 0) + packed
    frames += struct.pack("<8sBiiI", b"LZ4Block", 0x15, len(parts[1]), len(parts[1]), 0) + parts[1]
    frames += struct.pack("<8sBiiI", b"LZ4Block", 0x15, 0, 0, 0)
    dask_io.resplit(save(tmp_path), tmp_path / "b.n5", chunks=-1)
    write_attributes(tmp_path / "b.n5", {"compression": {"type": "lz4", "blockSize": 65536}})
    block = tmp_path / "b.n5/0/0/0"
    block.write_bytes(make_header(ARRAY.shape) + frames)

    assert np.array_equal(dask_io.open(tmp_path / "b.n5")[...], ARRAY)
    block.write_bytes(make_header(ARRAY.shape) + frames[:-40])
    with pytest.raises(DataError, match="cannot be decoded"):
        _ = dask_io.open(tmp_path / "b.n5")[...]
    with pytest.raises(UsageError, match="source's codec lz4 is not one that N5 has"):
        dask_io.resplit(tmp_path / "b.n5", tmp_path / "c.n5", chunks=2)


def test_blocks_of_zeros_are_left_out(tmp_path: Path) -> None:
    """A missing block is 0, unless all must be there."""
    array = ARRAY.copy()
    array[:3, :4, :4] = 0
    dask_io.resplit(save(tmp_path, array), tmp_path / "b.n5", chunks=CHUNKS, codec="gzip:1")

    assert not (tmp_path / "b.n5/0/0/0").exists()
    assert np.array_equal(dask_io.open(tmp_path / "b.n5")[...], array)
    assert np.array_equal(with_tensorstore(tmp_path / "b.n5").read().result().T, array)
    with pytest.raises(DataError, match="chunk 0,0,0 is missing"):
        _ = dask_io.open(tmp_path / "b.n5", strict=True)[0, 0, 0]


def test_resumed_and_consumed(tmp_path: Path) -> None:
    """A run goes on where it ended, and its source disappears block by block."""
    dask_io.resplit(save(tmp_path), tmp_path / "a.n5::/s0", chunks=(1, 7, 6), codec="gzip:1")

    def stop(progress: dask_io.Progress) -> None:
        if 2 * progress.n_bytes_written >= progress.n_bytes:
            raise KeyboardInterrupt

    options: Any = {"chunks": (2, 7, 6), "consume": True, "progress": stop}
    with pytest.raises(dask_io.errors.InterruptedRunError):
        dask_io.resplit(f"{tmp_path}/a.n5::/s0", tmp_path / "b.n5", **options)
    with pytest.raises(DataError, match="removed by a run with consume=True"):
        dask_io.open(f"{tmp_path}/a.n5::/s0")
    dask_io.resume(tmp_path / "b.n5", verify=True, consume=True)

    assert not (tmp_path / "a.n5/s0").exists()
    assert np.array_equal(dask_io.open(tmp_path / "b.n5")[...], ARRAY)
    assert dask_io.verify(tmp_path / "b.n5")


def test_groups_are_listed(tmp_path: Path) -> None:
    """A group is recognised without a suffix; its datasets are listed, and found by path."""
    with z5py.File(str(tmp_path / "c"), "w", use_zarr_format=False) as file:
        file.create_dataset("em/s0", data=ARRAY, chunks=CHUNKS)
        file.create_dataset("em/s1", data=ARRAY[::2], chunks=CHUNKS)

    for place in ("c", "c::/em"):
        with pytest.raises(UsageError, match=r"is a group of N5.*c::/em/s0, .*c::/em/s1"):
            dask_io.open(f"{tmp_path}/{place}")
    assert dask_io.open(f"{tmp_path}/c::/em/s1").shape == (3, 7, 6)
    assert dask_io.open(tmp_path / "c/em/s0").shape == ARRAY.shape


def test_a_path_in_a_container_is_a_dataset(tmp_path: Path) -> None:
    """A directory in a container becomes a dataset, not a directory of block files."""
    dask_io.resplit(save(tmp_path), tmp_path / "b.n5/em/s0", chunks=3)

    assert attributes(tmp_path / "b.n5") == {"n5": "4.0.0"}
    assert dask_io.open(f"{tmp_path}/b.n5::/em/s0").source.format == "n5"


def test_targets_do_not_harm_neighbours(tmp_path: Path) -> None:
    """Other data is never overwritten, and datasets are not nested."""
    source, place = save(tmp_path), tmp_path / "b.n5"
    dask_io.resplit(source, f"{place}::/g/x", chunks=3)

    for target, reason in (
        (f"{place}::/g/x/y", "is a dataset, so it cannot contain another one"),
        (f"{place}::/g", "contains files that are not part of an array"),
    ):
        with pytest.raises(UsageError, match=reason):
            dask_io.resplit(source, target, chunks=3, overwrite=True)
    with pytest.raises(UsageError, match="exists"):
        dask_io.resplit(source, f"{place}::/g/x", chunks=2)
    dask_io.resplit(source, f"{place}::/g/x", chunks=(5, 7, 6), overwrite=True)
    assert [path.name for path in (place / "g/x/0/0").iterdir()] == ["0"]
    (tmp_path / "out").mkdir()
    (place / "link").symlink_to(tmp_path / "out")
    with pytest.raises(UsageError, match="leads out of"):
        dask_io.resplit(source, f"{place}::/link/x", chunks=3)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"codec": "lz4"}, "codec lz4 is not one that N5 has"),
        ({"codec": "zstd:3+crc32c"}, "has several parts, but N5 has one"),
        ({"fill_value": 7}, "N5 has no fill value"),
        ({"shards": 6}, "has no shards"),
        ({"dtype": "complex64", "casting": "unsafe"}, "has no elements of type complex64"),
        ({"chunks": ((2, 3), 7, 6), "codec": "none"}, "are uneven, which N5 cannot hold"),
    ],
)
def test_options_that_n5_does_not_have(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    """They are refused in one line, before anything is written."""
    with pytest.raises(UsageError, match=reason) as error:
        dask_io.resplit(save(tmp_path), tmp_path / "b.n5", **{"chunks": 3, **options})
    assert "\n" not in str(error.value)
    assert not (tmp_path / "b.n5").exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dimensions": [2**62, 2**62, 2]}, "no machine can hold"),
        ({"dimensions": [6, 7, -5]}, "dimensions that are not whole numbers"),
        ({"dimensions": [6.5, 7, 5]}, "dimensions that are not whole numbers"),
        ({"dimensions": [1] * 100}, "does not list dimensions of 1 to 64 axes"),
        ({"blockSize": [0, 4, 3]}, "blockSize that are not whole numbers"),
        ({"blockSize": [2**31 - 1] * 3}, "no machine can hold"),
        ({"blockSize": [4, 3]}, "has blocks of 2 axes, but 3 dimensions"),
        ({"dataType": "object"}, "has data type 'object', which is not supported"),
        ({"dataType": ["uint8"]}, "which is not supported"),
        ({"compression": {"type": "jpeg"}}, "has compression 'jpeg', which is not supported"),
        ({"compression": {"type": "gzip", "level": 99}}, "invalid level"),
        ({"compression": {"type": "blosc", "cname": ["a"]}}, "unknown compressor"),
        ({"compression": 5}, "which is not supported"),
    ],
)
def test_wrong_attributes_are_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    """Attributes that no array has are refused in one line."""
    dask_io.resplit(save(tmp_path), tmp_path / "b.n5", chunks=CHUNKS)
    write_attributes(tmp_path / "b.n5", changes)

    with pytest.raises(DataError, match=reason) as error:
        dask_io.open(tmp_path / "b.n5")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"[1]", b"{", b'{"dimensions": ' + b"[" * 10**5, b"{}"])
def test_other_documents_are_refused(tmp_path: Path, content: bytes) -> None:
    """A document that is no JSON object, or nested too deeply, is refused."""
    (tmp_path / "b.n5").mkdir()
    (tmp_path / "b.n5/attributes.json").write_bytes(content)

    with pytest.raises(DaskIOError) as error:
        dask_io.open(tmp_path / "b.n5")
    assert "\n" not in str(error.value)


GOOD = make_header((3, 4, 4)) + bytes(96)


@pytest.mark.parametrize(
    ("codec", "content", "reason"),
    [
        ("none", GOOD[:10], "its header is incomplete"),
        ("none", GOOD[:-1], "has 95 bytes, but 96 are expected"),
        ("none", GOOD + b"1", "is too long"),
        ("none", make_header((4, 4)) + bytes(100), "header for 2 axes, but its dataset has 3"),
        ("none", make_header((2, 4, 4)) + bytes(64), "block of 2,4,4 elements, expected 3,4,4"),
        ("none", make_header((2**31, 4, 4)) + bytes(64), "elements, expected 3,4,4"),
        ("none", b"\0\1" + GOOD[2:], "has mode 1: blocks of varying length"),
        ("gzip:1", make_header((3, 4, 4)) + b"no gzip", "cannot be decoded"),
        (
            "gzip:1",
            make_header((3, 4, 4)) + numcodecs.GZip(9).encode(bytes(10**7))[:4000],
            "more than the 96 bytes|is too long",
        ),
    ],
)
def test_wrong_blocks_are_refused(tmp_path: Path, codec: str, content: bytes, reason: str) -> None:
    """A block that contradicts its dataset is refused in one line, and never grows."""
    dask_io.resplit(save(tmp_path), tmp_path / "b.n5", chunks=CHUNKS, codec=codec)
    (tmp_path / "b.n5/0/0/0").write_bytes(content)

    with pytest.raises(DataError, match=reason) as error:
        _ = dask_io.open(tmp_path / "b.n5")[...]
    assert "\n" not in str(error.value)


def test_links_out_of_a_dataset_are_refused(tmp_path: Path) -> None:
    """Blocks and attributes are not read from elsewhere."""
    dask_io.resplit(save(tmp_path), tmp_path / "b.n5::/x", chunks=CHUNKS)
    block = tmp_path / "b.n5/x/0/0/0"
    block.rename(tmp_path / "block")
    block.symlink_to(tmp_path / "block")

    with pytest.raises(DataError, match="leads out of"):
        _ = dask_io.open(f"{tmp_path}/b.n5::/x")[...]
    (tmp_path / "c.n5").mkdir()
    (tmp_path / "c.n5/y").symlink_to(tmp_path / "b.n5/x")
    with pytest.raises(DataError, match="leads out of"):
        dask_io.open(f"{tmp_path}/c.n5::/y")


def test_only_codecs_of_n5_are_listed(tmp_path: Path) -> None:
    """The message for an unknown codec names none that N5 would refuse, too."""
    with pytest.raises(UsageError, match=r"'lzw' is unknown; choose none, gzip, .* or blosc$"):
        dask_io.resplit(save(tmp_path), tmp_path / "a.n5", chunks=CHUNKS, codec="lzw")
