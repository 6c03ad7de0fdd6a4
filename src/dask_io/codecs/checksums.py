"""Checksums: four bytes before or after their input."""

from __future__ import annotations

import numpy as np

from dask_io.codecs.codec import Codec, Config, DType, Filter, Hdf5, Zarr3, speed


def _encoded_type(config: Config, _: DType) -> DType:
    if config.get("prefix"):
        raise ValueError(f"has codec {config['id']} with a prefix, which is not supported")
    return np.dtype(np.uint8)


_CHECKSUM = Filter(
    encoded_type=_encoded_type,
    encoded_size=lambda _, n_bytes: n_bytes + 4,
    coding_bytes=lambda _, n_bytes: n_bytes,
    is_checksum=True,
    is_for_arrays=False,
)
_SPEED = speed(4000, 4000)
# That of Zarr 3 has no parameters.
_ZARR3 = Zarr3(lambda given, _: None if given else {})
_HDF5 = Hdf5(3, read=lambda *_: {}, write=lambda *_: (), kept=(0, 0), is_optional=False)
CHECKSUMS = (
    Codec("crc32c", _CHECKSUM, speed=_SPEED, parameters={}, zarr3=_ZARR3),
    Codec("fletcher32", _CHECKSUM, speed=_SPEED, hdf5=_HDF5),
    Codec("crc32", _CHECKSUM, speed=_SPEED),
    Codec("adler32", _CHECKSUM, speed=_SPEED),
    Codec("jenkins_lookup3", _CHECKSUM, speed=_SPEED),
)
