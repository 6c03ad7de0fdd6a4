"""Blosc, which shuffles and compresses with one of several compressors."""

from __future__ import annotations

import struct
from typing import Any

from dask_io.codecs.codec import Bytes, Codec, Compressor, Config, Hdf5, Zarr3, speed
from dask_io.codecs.streams import expect

_HEADER = struct.Struct("<4xIII")
_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
# In the order of the numbers that HDF5 uses for the compressors.
_SPEEDS = {
    "blosclz": speed(2000, 1000),
    "lz4": speed(2000, 700),
    "lz4hc": speed(2500, 50),
    "snappy": speed(2000, 700),
    "zlib": speed(450, 40),
    "zstd": speed(1200, {1: 500, 3: 250, 5: 90, 9: 2}),
}
_COMPRESSORS = list(_SPEEDS)
# Defaults of the HDF5 filter for level, shuffle and compressor.
_HDF5_DEFAULTS = (5, 1, 0)


def _decode(codec: Any, data: Bytes, out: Bytes) -> None:
    # The decoder trusts the sizes in the header, so check them first.
    if data.nbytes < _HEADER.size:
        raise ValueError("is truncated: its header is incomplete")
    n_decoded, _, n_encoded = _HEADER.unpack_from(data.data)
    expect(n_encoded, data.nbytes)
    expect(out.nbytes, n_decoded)
    codec.decode(data, out)


def _shuffle(config: Config, itemsize: int) -> int:
    shuffle = int(config.get("shuffle", 1))
    if shuffle in _SHUFFLES.values():
        return shuffle
    # With -1, Blosc shuffles the bits of 1-byte elements, and the bytes of larger elements.
    return 2 if itemsize == 1 else 1


def _to_zarr3(given: dict[str, Any], itemsize: int) -> dict[str, Any]:
    shuffle = list(_SHUFFLES)[_shuffle(given, itemsize)]
    defaults = {"cname": "lz4", "clevel": 5, "blocksize": 0}
    return defaults | given | {"shuffle": shuffle, "typesize": itemsize}


def _from_zarr3(stated: dict[str, Any]) -> dict[str, Any]:
    # The item size follows from the dtype, or from the output of the previous codec.
    words = {key: str(getattr(stated[key], "value", stated[key])) for key in ("cname", "shuffle")}
    rest = {key: value for key, value in stated.items() if key != "typesize"}
    return rest | {"cname": words["cname"], "shuffle": _SHUFFLES[words["shuffle"]]}


def _to_hdf5(config: Config, itemsize: int) -> tuple[int, ...] | None:
    cname = config.get("cname", "lz4")
    if cname not in _COMPRESSORS:
        return None
    level, number = int(config.get("clevel", 5)), _COMPRESSORS.index(cname)
    return (0, 0, 0, 0, level, _shuffle(config, itemsize), number)


def _from_hdf5(values: tuple[int, ...], _: int) -> dict[str, Any] | None:
    given = values[4:7]
    level, shuffle, number = (*given, *_HDF5_DEFAULTS[len(given) :])
    if number >= len(_COMPRESSORS):
        return None
    return {"cname": _COMPRESSORS[number], "clevel": level, "shuffle": shuffle}


BLOSC = Codec(
    "blosc",
    Compressor(decode=_decode, workspace=lambda _, n: min(16 * 2**20, 2**19 + 32 * n)),
    speed=lambda config: _SPEEDS.get(config.get("cname", "lz4"), _SPEEDS["lz4"])(config),
    parameters={
        "cname": ("lz4", "lz4hc", "blosclz", "zlib", "zstd"),
        "clevel": range(10),
        "shuffle": _SHUFFLES,
    },
    zarr3=Zarr3(_to_zarr3, _from_zarr3),
    hdf5=Hdf5(32001, read=_from_hdf5, write=_to_hdf5),
)
