"""Precomputed volumes: read and written as tensorstore does, and refused if they are damaged."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore as ts

import dask_io
from dask_io.errors import DaskIOError, DataError, UsageError
from dask_io.formats.precomputed.sharding import boxes, number_of
from dask_io.geometry import Grid

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# Chunks of 4 x 4 x 4 are truncated along every axis.
ARRAY = np.arange(1, 1 + 10 * 7 * 5, dtype="<u2").reshape(10, 7, 5)
SCALE = {"resolution": [8, 8, 30], "voxel_offset": [100, 200, -3], "chunk_size": [4, 4, 4]}


def save(folder: Path, array: NDArray[Any] = ARRAY) -> Path:
    """Save an array to convert."""
    np.save(folder / "a.npy", array)
    return folder / "a.npy"


def read_with_tensorstore(path: Path) -> Any:
    """Return all values of a volume, with its channel axis."""
    kvstore = {"driver": "file", "path": str(path)}
    opened = ts.open({"driver": "neuroglancer_precomputed", "kvstore": kvstore}).result()
    return opened.read().result()


def make_with_tensorstore(path: Path, array: NDArray[Any], **scale: Any) -> None:
    """Create a volume, or another scale of it."""
    *size, n_channels = array.shape
    spec = {
        "driver": "neuroglancer_precomputed",
        "kvstore": {"driver": "file", "path": str(path)},
        "multiscale_metadata": {
            "type": "image",
            "data_type": str(array.dtype),
            "num_channels": n_channels,
        },
        "scale_metadata": {"size": size, "encoding": "raw", **SCALE, **scale},
    }
    ts.open(spec, create=True).result()[...] = array


def info_of(path: Path) -> dict[str, Any]:
    """Return the document of a volume."""
    found: dict[str, Any] = json.loads((path / "info").read_bytes())
    return found


SHARDS = [
    (None, None),
    ((8, 8, 4), None),
    ((8, 8, 8), "none"),
    ((16, 8, 8), "gzip"),
    ((4, 4, 4), "gzip"),
]


@pytest.mark.parametrize("n_channels", [0, 3])
@pytest.mark.parametrize(("shards", "codec"), SHARDS)
def test_others_read_what_is_written(
    tmp_path: Path, n_channels: int, shards: tuple[int, ...] | None, codec: str | None
) -> None:
    """Tensorstore sees the same values, in chunks and in shards, with channels or without."""
    array = np.stack([ARRAY + i for i in range(n_channels)], -1) if n_channels else ARRAY
    channel = (n_channels,) if n_channels else ()
    options: Any = {"chunks": (4, 4, 4, *channel), "codec": codec, "verify": True}
    if shards is not None:
        options["shards"] = (*shards, *channel)
    target = tmp_path / "b.precomputed"
    dask_io.resplit(save(tmp_path, array), target, **options)

    assert np.array_equal(read_with_tensorstore(target).reshape(array.shape), array)
    assert np.array_equal(dask_io.open(target)[...], array)
    assert dask_io.verify(target)


@pytest.mark.parametrize("hashed", ["identity", "murmurhash3_x86_128"])
@pytest.mark.parametrize("encoding", ["raw", "gzip"])
def test_shards_of_others_are_read(tmp_path: Path, hashed: str, encoding: str) -> None:
    """Shards need not be boxes: the hash, the bits and the encodings can be any."""
    sharding = {
        "@type": "neuroglancer_uint64_sharded_v1",
        "hash": hashed,
        "preshift_bits": 1,
        "minishard_bits": 2,
        "shard_bits": 1,
        "minishard_index_encoding": encoding,
        "data_encoding": encoding,
    }
    make_with_tensorstore(tmp_path / "a", ARRAY[..., None], sharding=sharding)

    opened = dask_io.open(tmp_path / "a")
    assert np.array_equal(opened[...], ARRAY)
    assert opened.chunks[0] == (4, 4, 2)
    with pytest.raises(UsageError, match="consume"):
        dask_io.resplit(tmp_path / "a", tmp_path / "b", chunks=2, consume=True)


@pytest.mark.parametrize(
    ("encoding", "dtype", "n_channels"),
    [("raw", "uint64", 2), ("raw", "float32", 1), ("png", "uint16", 1), ("png", "uint8", 3)],
)
def test_chunks_of_others_are_read(
    tmp_path: Path, encoding: str, dtype: str, n_channels: int
) -> None:
    """Raw chunks and images, with an offset of the volume."""
    array = np.stack([ARRAY + i for i in range(n_channels)], -1).astype(dtype)
    make_with_tensorstore(tmp_path / "a", array, encoding=encoding)

    opened = dask_io.open(tmp_path / "a")
    assert np.array_equal(opened[...], array if n_channels > 1 else array[..., 0])
    affine = opened.source.metadata["space"].affine
    assert affine.origin[:3] == (800.0, 1600.0, -90.0)
    assert affine.steps[:3] == (8.0, 8.0, 30.0)


def test_jpeg_is_read(tmp_path: Path) -> None:
    """An image with losses is read as tensorstore reads it."""
    make_with_tensorstore(tmp_path / "a", ARRAY.astype("u1")[..., None] // 4, encoding="jpeg")

    found = dask_io.open(tmp_path / "a")[...].astype(int)
    assert np.abs(found - read_with_tensorstore(tmp_path / "a")[..., 0]).max() <= 1


def test_gzipped_chunks_are_read(tmp_path: Path) -> None:
    """cloud-volume compresses the files of chunks, and adds a suffix."""
    make_with_tensorstore(tmp_path / "a", ARRAY[..., None])
    chunk = tmp_path / "a/8_8_30/100-104_200-204_-3-1"
    chunk.with_name(chunk.name + ".gz").write_bytes(gzip.compress(chunk.read_bytes()))
    chunk.unlink()

    assert np.array_equal(dask_io.open(tmp_path / "a", strict=True)[...], ARRAY)


def test_scales_have_keys_and_numbers(tmp_path: Path) -> None:
    """One of several scales is chosen by its key or its number."""
    make_with_tensorstore(tmp_path / "a", ARRAY[..., None])
    coarse = {"resolution": [16, 16, 60], "voxel_offset": [50, 100, 0]}
    make_with_tensorstore(tmp_path / "a", ARRAY[::2, ::2, ::2, None], **coarse)

    with pytest.raises(UsageError, match=r"has several scales; give one, such as .*a::/8_8_30"):
        dask_io.open(tmp_path / "a")
    with pytest.raises(UsageError, match="has no scale 2"):
        dask_io.open(f"{tmp_path}/a::/2")
    for place in ("16_16_60", "1"):
        assert dask_io.open(f"{tmp_path}/a::/{place}").shape == (5, 4, 3)


def test_axes_keep_their_order_and_meaning(tmp_path: Path) -> None:
    """An array whose axes are z, y, x is x, y, z for others, and comes back as it was."""
    array = np.ascontiguousarray(ARRAY.T)
    options: Any = {"axes": "z,y,x", "spacing": "30,8,8", "unit": "nm"}
    dask_io.resplit(save(tmp_path, array), tmp_path / "b.precomputed", chunks=4, **options)

    assert np.array_equal(read_with_tensorstore(tmp_path / "b.precomputed")[..., 0], ARRAY)
    assert info_of(tmp_path / "b.precomputed")["scales"][0]["resolution"] == [8, 8, 30]
    opened = dask_io.open(tmp_path / "b.precomputed")
    assert np.array_equal(opened[...], array)
    assert opened.source.metadata["dimension_names"] == ("z", "y", "x")


def test_segmentations_stay_segmentations(tmp_path: Path) -> None:
    """The type of a volume survives, also through another format."""
    dask_io.resplit(save(tmp_path), tmp_path / "a.precomputed", chunks=4)
    info = {**info_of(tmp_path / "a.precomputed"), "type": "segmentation"}
    (tmp_path / "a.precomputed/info").write_text(json.dumps(info))
    for source, target in (("a.precomputed", "m.zarr"), ("m.zarr", "b.precomputed")):
        dask_io.resplit(tmp_path / source, tmp_path / target, chunks=4)

    assert info_of(tmp_path / "b.precomputed")["type"] == "segmentation"


def test_one_channel_is_kept(tmp_path: Path) -> None:
    """An array with a channel axis of length 1 keeps it."""
    dask_io.resplit(
        save(tmp_path, ARRAY[..., None]), tmp_path / "b.precomputed", chunks=(4, 4, 4, 1)
    )

    assert dask_io.open(tmp_path / "b.precomputed").shape == (10, 7, 5, 1)


def test_resumed_and_overwritten(tmp_path: Path) -> None:
    """A run in shards goes on where it ended; a volume is replaced as a whole."""
    target = tmp_path / "b.precomputed"

    def stop(progress: dask_io.Progress) -> None:
        if 2 * progress.n_bytes_written >= progress.n_bytes:
            raise KeyboardInterrupt

    options: Any = {"chunks": 2, "shards": (4, 4, 2)}
    with pytest.raises(dask_io.errors.InterruptedRunError):
        dask_io.resplit(save(tmp_path), target, progress=stop, **options)
    dask_io.resume(target, verify=True)
    assert np.array_equal(read_with_tensorstore(target)[..., 0], ARRAY)

    dask_io.resplit(tmp_path / "a.npy", target, chunks=4, overwrite=True)
    assert not list(target.rglob("*.shard"))
    (target / "mesh").mkdir()
    (target / "mesh/info").write_text("{}")
    with pytest.raises(UsageError, match="not part of an array: mesh/info"):
        dask_io.resplit(tmp_path / "a.npy", target, chunks=4, overwrite=True)


def test_boxes_are_what_shards_contain() -> None:
    """Chunks of a box, and no others, have numbers with the same first bits."""
    grid = Grid.regular((5, 3, 2), (1, 1, 1))
    bits = (3, 2, 1)
    for n_bits, box in enumerate(boxes(bits)):
        shards = {
            (number_of(at, bits) >> n_bits, tuple(i // n for i, n in zip(at, box, strict=True)))
            for at in grid.indices()
        }
        assert len(shards) == len({a for a, _ in shards}) == len({b for _, b in shards})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"shards": (4, 8, 4)}, "give shards of"),
        ({"shards": (12, 4, 4)}, "give shards of"),
        ({"codec": "gzip"}, "not in shards are raw"),
        ({"codec": "zstd:3"}, "choose none or gzip"),
        ({"fill_value": 7}, "no fill value"),
        ({"dtype": "float64"}, "has no elements of type float64"),
        ({"axes": "t,y,x"}, "but the axes are t, y, x"),
        ({"chunks": ((4, 6), 7, 5)}, "uneven"),
    ],
)
def test_options_that_volumes_do_not_have(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    """They are refused in one line, before anything is written."""
    with pytest.raises(UsageError, match=reason) as error:
        dask_io.resplit(save(tmp_path), tmp_path / "b.precomputed", **{"chunks": 4, **options})
    assert "\n" not in str(error.value)
    assert not (tmp_path / "b.precomputed").exists()


@pytest.mark.parametrize(
    ("place", "key", "value", "reason"),
    [
        ("scale", "key", "../x", "leads elsewhere"),
        ("scale", "key", "/etc", "leads elsewhere"),
        ("scale", "size", [2**39] * 3, "no machine can hold"),
        ("scale", "size", [-1, 2, 3], "impossible size"),
        ("scale", "chunk_sizes", [[0, 4, 4]], "impossible chunk_sizes"),
        ("scale", "chunk_sizes", [], "without chunk_sizes"),
        ("scale", "voxel_offset", [2**60, 0, 0], "impossible voxel_offset"),
        ("scale", "resolution", [0, 1, 1], "positive resolution"),
        ("scale", "encoding", "compressed_segmentation", "which is not supported"),
        ("scale", "encoding", ["raw"], "which is not supported"),
        ("scale", "encoding", "jpeg", "encoding jpeg for other elements"),
        ("scale", "sharding", {"preshift_bits": 99}, "bits are invalid"),
        ("volume", "data_type", "float64", "which is not supported"),
        ("volume", "num_channels", 0, "number of channels"),
        ("volume", "scales", [], "does not list"),
        ("volume", "@type", "neuroglancer_legacy_mesh", "does not describe a volume"),
    ],
)
def test_wrong_documents_are_refused(
    tmp_path: Path, place: str, key: str, value: object, reason: str
) -> None:
    """A document that no volume has is refused in one line."""
    dask_io.resplit(save(tmp_path), tmp_path / "b.precomputed", chunks=4)
    info = info_of(tmp_path / "b.precomputed")
    (info if place == "volume" else info["scales"][0])[key] = value
    (tmp_path / "b.precomputed/info").write_text(json.dumps(info))

    with pytest.raises(DataError, match=reason) as error:
        dask_io.open(tmp_path / "b.precomputed")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is truncated"),
        (bytes([0] * 8 + [255] * 8), "impossible place"),
        (bytes(8) + (24).to_bytes(8, "little") + bytes([255] * 24), "ends after the file|missing"),
        (bytes(8) + (20).to_bytes(8, "little") + bytes(24), "expected 24 for each chunk"),
    ],
)
def test_wrong_shards_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    """A shard whose index is damaged is refused in one line."""
    options: Any = {"shards": (16, 8, 8), "codec": "none"}
    dask_io.resplit(save(tmp_path), tmp_path / "b.precomputed", chunks=4, **options)
    (tmp_path / "b.precomputed/1_1_1/0.shard").write_bytes(content)

    with pytest.raises(DaskIOError, match=reason) as error:
        _ = dask_io.open(tmp_path / "b.precomputed", strict=True)[...]
    assert "\n" not in str(error.value)


def test_images_of_other_sizes_are_refused(tmp_path: Path) -> None:
    """The size of an image is checked before it is decoded."""
    make_with_tensorstore(tmp_path / "a", ARRAY[..., None], encoding="png")
    chunk = tmp_path / "a/8_8_30/100-104_200-204_-3-1"
    content = bytearray(chunk.read_bytes())
    content[16:24] = b"\0\1\0\0\0\1\0\0"
    chunk.write_bytes(content)

    with pytest.raises(DataError, match="65536 x 65536 pixels, but 64 are expected"):
        _ = dask_io.open(tmp_path / "a")[...]
