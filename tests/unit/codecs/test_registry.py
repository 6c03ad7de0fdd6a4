"""The records of codecs."""

import pickle
from collections import Counter

import numcodecs  # type: ignore[import-untyped]
import numpy as np
import pytest

from dask_io.codecs.chain import Chain
from dask_io.codecs.parsing import parse_codec
from dask_io.codecs.registry import CODECS, HDF5_FILTERS

CHOSEN = ["zstd:7", "blosc:zstd:3:bitshuffle", "lz4:2", "gzip:4", "zlib:4", "bz2:5", "lzma:3"]


def test_numcodecs_has_every_codec_that_runs_outside_of_hdf5() -> None:
    """Under the same name."""
    for name, codec in CODECS.items():
        assert codec.name == name
        assert codec.coding is None or name in numcodecs.registry.codec_registry


def test_a_number_of_hdf5_means_one_codec() -> None:
    """Only gzip and zlib share one, and what HDF5 stores is zlib."""
    numbers = Counter(codec.hdf5.number for codec in CODECS.values() if codec.hdf5)
    assert [number for number in numbers if numbers[number] > 1] == [1]
    assert HDF5_FILTERS[1][0] == "zlib"


def test_every_compressor_can_be_chosen() -> None:
    """The tests below cover all of them."""
    names = [text.partition(":")[0] for text in CHOSEN]
    assert [*names, "crc32c"] == [name for name in CODECS if CODECS[name].parameters is not None]


@pytest.mark.parametrize("text", CHOSEN)
def test_spellings_are_read_as_they_were_written(text: str) -> None:
    """A codec goes to Zarr 3 and HDF5 and comes back with the same parameters."""
    (config,) = parse_codec(text)
    parameters = {key: value for key, value in config.items() if key != "id"}
    codec = CODECS[config["id"]]
    if codec.zarr3 is not None:
        written = codec.zarr3.write(parameters, 4)
        assert written is not None
        assert codec.zarr3.read(written).items() >= parameters.items()
    if codec.hdf5 is not None and (values := codec.hdf5.write(config, 4)) is not None:
        assert codec.hdf5.read(values, 4) == parameters


def test_chains_travel_to_other_processes() -> None:
    """Though records hold functions, which do not."""
    data = np.arange(100, dtype="<i4").view(np.uint8)
    chain = Chain(parse_codec("zstd:3+crc32c"), np.dtype("<i4"), data.nbytes)
    encoded, out = chain.encode(data), np.empty(data.nbytes, np.uint8)

    pickle.loads(pickle.dumps(chain)).decode(encoded, out)  # noqa: S301 - our own

    assert out.tobytes() == data.tobytes()
