"""Filters of chunks: their HDF5 parameters, their names for users, and how to run them.

Most run outside of HDF5, as a chain of codecs, in any number of threads. Only HDF5 itself can run
the others, one chunk at a time. It decodes in a subprocess, because a damaged chunk may crash it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import h5py  # type: ignore[import-untyped]
import numpy as np

from dask_io.codecs.chain import Chain, longest_encoded
from dask_io.codecs.codec import Bytes, Config, Hdf5
from dask_io.codecs.parsing import parse_codec
from dask_io.codecs.registry import CODECS, HDF5_FILTERS
from dask_io.formats.hdf5.file import in_memory
from dask_io.formats.isolation import WORKER, Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# Filters up to this number are built into HDF5.
_LAST_OWN = 255
# Flag of a filter that HDF5 skips for a chunk that it would not make smaller.
_OPTIONAL = 1
LOSSLESS = frozenset(
    codec.hdf5.number for codec in CODECS.values() if codec.hdf5 and codec.lossless_for
)


class Filter(NamedTuple):
    """A filter of a dataset: its number, flags and values."""

    code: int
    flags: int
    values: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of its codec, or else its number."""
        return self._known[0]

    @property
    def record(self) -> Hdf5:
        """The definition of its codec."""
        return self._known[1]

    @property
    def _known(self) -> tuple[str, Hdf5]:
        return HDF5_FILTERS.get(self.code) or (f"filter {self.code}", Hdf5(self.code))


def filters_of(plist: Any) -> tuple[Filter, ...]:
    """Return the filters of a dataset, in the order in which they encode.

    Raises
    ------
    ValueError
        If one of them cannot be run here.
    """
    found = [plist.get_filter(number) for number in range(plist.get_nfilters())]
    for code, _, _, name in found:
        if not is_available(code):
            label = f" ({name.decode(errors='replace')})" if name else ""
            raise ValueError(f"has filter {code}{label}, which is not supported")
    return tuple(Filter(code, flags, values) for code, flags, values, _ in found)


def is_available(code: int) -> bool:
    """Tell whether HDF5 can run a filter, itself or with hdf5plugin."""
    if code > _LAST_OWN and code != h5py.h5z.FILTER_LZF:
        with suppress(ImportError):
            _prefer_hdf5plugin()
    return bool(h5py.h5z.filter_avail(code))


def _prefer_hdf5plugin() -> None:
    """Prefer its filters to plugins from the environment, as other libraries do."""
    import hdf5plugin  # noqa: PLC0415 - slow, if needed

    registered = hdf5plugin.get_config().registered_filters
    foreign = [name for name, place in registered.items() if place == "unknown"]
    # A filter that an open dataset uses cannot be replaced, and need not be.
    with suppress(RuntimeError):
        hdf5plugin.register(tuple(foreign))


def describe_filters(filters: Sequence[Filter], dtype: np.dtype[Any]) -> list[Config]:
    """Return filters as numcodecs writes them, by name only where it has no such codec."""
    return [_config_of(each, dtype) or {"id": each.name} for each in filters]


def _config_of(one: Filter, dtype: np.dtype[Any]) -> Config | None:
    """Return a filter as numcodecs writes it, None if it has no such codec."""
    parameters = one.record.read(one.values, dtype.itemsize)
    return None if parameters is None else {"id": one.name, **parameters}


def parse_filters(text: str, dtype: np.dtype[Any]) -> list[Filter]:
    """Read filters as users write them.

    Raises
    ------
    ValueError
        If HDF5 has no such filter.

    Examples
    --------
    >>> [one.name for one in parse_filters("shuffle+gzip:4+fletcher32", np.dtype("f4"))]
    ['shuffle', 'zlib', 'fletcher32']
    """
    found: list[Filter] = []
    for part in text.split("+"):
        codec = CODECS.get(part.partition(":")[0])
        if part == "none" or (codec is not None and codec.parameters is not None):
            found += filters_for(parse_codec(part), dtype)
        else:
            # Any other has no parameters, apart from the size of the dataset's elements.
            found += filters_for([{"id": part, "elementsize": dtype.itemsize}], dtype)
    return found


_NO_FILTER = (
    "is not a filter of HDF5; choose gzip:4, zstd:3, blosc:lz4:5:shuffle, bz2:9 or lzf, each "
    "with shuffle+ before or +fletcher32 after it, or none"
)


def filters_for(configs: Sequence[Config], dtype: np.dtype[Any]) -> list[Filter]:
    """Return codecs of numcodecs as filters.

    Raises
    ------
    ValueError
        If HDF5 has no such filter; the message begins with the codec's name.
    """
    return [_filter_for(config, dtype) for config in configs]


def _filter_for(config: Config, dtype: np.dtype[Any]) -> Filter:
    codec = CODECS.get(config["id"])
    if codec and codec.hdf5 and (values := codec.hdf5.write(config, dtype.itemsize)) is not None:
        return Filter(codec.hdf5.number, _OPTIONAL * codec.hdf5.is_optional, values)
    raise ValueError(f"{config['id']} {_NO_FILTER}")


def to_keep(one: Filter) -> Filter:
    """Return a filter without the values that HDF5 derived from the chunks of a dataset."""
    return one._replace(values=one.values[slice(*one.record.kept)])


def make_codec(
    filters: Sequence[Filter], dtype: np.dtype[Any], chunks: tuple[int, ...], fill: bytes | None
) -> Codec:
    """Return a codec that runs filters, outside of HDF5 if possible.

    `fill` is the dataset's fill value, if it has one: some filters encode it in their own way.
    """
    configs = [_config_of(one, dtype) for one in filters]
    known = [config for config in configs if config is not None]
    if len(known) == len(filters):
        try:
            return _Outside(tuple(known), dtype, prod(chunks) * dtype.itemsize)
        except ValueError:
            # Only HDF5 runs filters in any order.
            pass
    return _WithinHdf5(tuple(filters), dtype, chunks, fill)


class _Outside:
    """Filters that run without HDF5, in any number of threads at once.

    A mask has a bit for each filter that a chunk skips.
    """

    def __init__(self, configs: tuple[Config, ...], dtype: np.dtype[Any], n_bytes: int) -> None:
        self._configs, self._dtype, self._n_bytes = configs, dtype, n_bytes
        self._all = self._without(0)

    def _without(self, mask: int) -> Chain:
        left = [config for number, config in enumerate(self._configs) if not mask >> number & 1]
        return Chain(left, self._dtype, self._n_bytes)

    @property
    def longest(self) -> int:
        return self._all.longest

    @property
    def decoding_bytes(self) -> int:
        return self._all.decoding_bytes

    @property
    def encoding_bytes(self) -> int:
        return self._all.encoding_bytes

    def encode(self, data: Bytes) -> tuple[int, Bytes]:
        return 0, self._all.encode(data)

    def decode(self, data: Bytes, out: Bytes, mask: int = 0) -> None:
        (self._without(mask) if mask else self._all).decode(data, out)


@dataclass(frozen=True)
class _WithinHdf5:
    """Filters that only HDF5 can run, one chunk at a time, in a file in memory.

    They decode in a subprocess, which a damaged chunk may crash.
    """

    _filters: tuple[Filter, ...]
    _dtype: np.dtype[Any]
    _chunks: tuple[int, ...]
    _fill: bytes | None

    @property
    def _n_bytes(self) -> int:
        return prod(self._chunks) * self._dtype.itemsize

    @property
    def longest(self) -> int:
        return longest_encoded(self._n_bytes)

    @property
    def decoding_bytes(self) -> int:
        # Both processes hold two copies of the encoded and of the decoded chunk.
        return 4 * self.longest + 4 * self._n_bytes

    @property
    def encoding_bytes(self) -> int:
        return 2 * self.longest + 2 * self._n_bytes

    def encode(self, data: Bytes) -> tuple[int, Bytes]:
        with in_memory() as file:
            dataset, corner = self._make_chunk(file), (0,) * len(self._chunks)
            kind = dataset.get_type()
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data, kind)
            dataset.flush()
            mask, encoded = dataset.read_direct_chunk(corner)
            return mask, np.frombuffer(encoded, np.uint8)

    def decode(self, data: Bytes, out: Bytes, mask: int = 0) -> None:
        self._check_size(data, mask)
        limits = Limits.for_file(self._n_bytes)
        try:
            decoded = WORKER.call(limits, self.decode_here, data.tobytes(), mask)
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(f"cannot be decoded: {error}") from error
        out[:] = np.frombuffer(decoded, np.uint8)

    def decode_here(self, data: bytes, mask: int) -> bytes:
        """Decode a chunk with HDF5 in this process."""
        for one in self._filters:
            if not is_available(one.code):
                raise ValueError(f"needs {one.name}, which is not available")
        out = np.empty(self._n_bytes, np.uint8)
        with in_memory() as file:
            # HDF5 ignores the mask of a chunk that has just been written.
            dataset, corner = self._make_chunk(file, mask), (0,) * len(self._chunks)
            dataset.write_direct_chunk(corner, data)
            dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, out, dataset.get_type())
        return out.tobytes()

    def _make_chunk(self, file: Any, mask: int = 0) -> Any:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(self._chunks)
        if self._fill is not None:
            set_fill(plist, np.frombuffer(self._fill, self._dtype).reshape(()))
        for number, one in enumerate(self._filters):
            if not mask >> number & 1:
                plist.set_filter(*to_keep(one))
        space = h5py.h5s.create_simple(self._chunks)
        return h5py.h5d.create(file.id, b"chunk", type_of(self._dtype), space, plist)

    def _check_size(self, data: Bytes, mask: int) -> None:
        """Refuse a chunk that states another decoded size, before HDF5 trusts it."""
        last = self._filters[-1]
        if last.record.has_size(last.values) and not mask >> (len(self._filters) - 1) & 1:
            found = int.from_bytes(data[:8].tobytes(), "big")
            if found != self._n_bytes:
                raise ValueError(f"states that it decodes to {found} bytes, not {self._n_bytes}")


Codec: TypeAlias = _Outside | _WithinHdf5


def set_fill(plist: Any, fill: NDArray[Any]) -> None:
    """Set the fill value in the way that h5py understands for its type."""
    if fill.dtype.kind in "mM":
        fill = fill.view(h5py.opaque_dtype(fill.dtype))
    elif fill.dtype.kind == "S":
        # It would take any other string for a pointer.
        fill = np.array(fill[()], h5py.string_dtype("ascii"))
    plist.set_fill_value(fill)


def type_of(dtype: np.dtype[Any]) -> Any:
    """Return the HDF5 type of a dtype.

    Raises
    ------
    TypeError
        If HDF5 has no type with the same bytes.
    """
    if dtype.kind in "mM":
        dtype = h5py.opaque_dtype(dtype)
    return h5py.h5t.py_create(dtype, logical=True)
