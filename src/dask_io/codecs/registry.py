"""The supported codecs.

No other codec of numcodecs ever runs, because some are unsafe: one loads pickles, for example.
"""

from __future__ import annotations

from dask_io.codecs.array_filters import ARRAY_FILTERS
from dask_io.codecs.blosc import BLOSC
from dask_io.codecs.bz2 import BZ2
from dask_io.codecs.checksums import CHECKSUMS
from dask_io.codecs.codec import Codec, Config, DType, Filter
from dask_io.codecs.gzip import GZIP, ZLIB
from dask_io.codecs.hdf5_only import HDF5_ONLY
from dask_io.codecs.lz4 import LZ4
from dask_io.codecs.lzma import LZMA
from dask_io.codecs.shuffle import SHUFFLE
from dask_io.codecs.zstd import ZSTD

CODECS: dict[str, Codec] = {
    codec.name: codec
    for codec in (
        *(ZSTD, BLOSC, LZ4, GZIP, ZLIB, BZ2, LZMA),
        *(SHUFFLE, *ARRAY_FILTERS, *CHECKSUMS, *HDF5_ONLY),
    )
}
# Filters by number, with the name of the codec. HDF5's gzip is zlib, which is listed after gzip.
HDF5_FILTERS = {
    codec.hdf5.number: (codec.name, codec.hdf5) for codec in CODECS.values() if codec.hdf5
}
LOSSLESS = frozenset(
    name for name, codec in CODECS.items() if codec.coding is not None and codec.lossless_for
)


def is_lossless(config: Config, dtype: DType) -> bool:
    """Tell whether a codec can run outside of HDF5, and is lossless for this dtype.

    Examples
    --------
    >>> import numpy as np
    >>> is_lossless({"id": "zstd", "level": 3}, np.dtype("f4"))
    True
    >>> is_lossless({"id": "quantize", "digits": 2, "dtype": "<f4"}, np.dtype("f4"))
    False
    """
    codec = CODECS.get(config["id"])
    if codec is None or codec.coding is None:
        return False
    keeps_type = config.get("astype", config.get("dtype")) == config.get("dtype")
    return keeps_type and dtype.kind in codec.lossless_for


def filter_of(config: Config) -> Filter | None:
    """Return the record of a filter, None for a checksum or any other codec."""
    coding = CODECS[config["id"]].coding if config["id"] in CODECS else None
    return coding if isinstance(coding, Filter) and not coding.is_checksum else None


def cast_codec(config: Config, stored: DType, dtype: DType) -> Config:
    """Adapt a codec for elements of the `stored` dtype to elements of another dtype.

    Examples
    --------
    >>> import numpy as np
    >>> cast_codec({"id": "shuffle", "elementsize": 2}, np.dtype("i2"), np.dtype("f4"))
    {'id': 'shuffle', 'elementsize': 4}
    """
    found = filter_of(config)
    return config if found is None else found.cast(config, stored, dtype)
