"""The codecs of a chunk: from the bytes in its file to those of its elements, and back.

Codecs are named as in numcodecs, in the order in which they encode: filters, then at most one
compressor, with checksums anywhere. Only those listed here are used, whatever is installed: one
that unpickles, say, never runs.

Chunks come from files that anyone may have made. The size of what a codec gives is known
beforehand, and none may give another: a small file that would become a huge chunk is refused
before it does.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numcodecs  # type: ignore[import-untyped]
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]
    Config: TypeAlias = Mapping[str, Any]

CHECKSUMS = frozenset({"crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3"})
_CHECKSUM_BYTES = 4
# What gives back the very bits that it was given, for the types of elements named.
_LOSSLESS_FILTERS = {"shuffle": "biufcmMSUV", "delta": "iu", "packbits": "b"}
_NUMBERS = "biufc"
# Filters that turn numbers of one type into those of another: what says which.
_CONVERTING = {
    "astype": ("decode_dtype", "encode_dtype"),
    "delta": ("dtype", "astype"),
    "fixedscaleoffset": ("dtype", "astype"),
    "quantize": ("dtype", "astype"),
}
# What is fed to a decompressor and taken from it at once.
_SLICE = 2**18
# The largest dictionary of the presets of xz, and what its decoder has besides.
_LZMA_MEMORY = 80 * 2**20
# Enough for all codecs but those named; for Zstandard from this level on it is its own estimate.
_WORKSPACE, _ZSTD_LARGE = 16 * 2**20, 10
_BLOSC_HEADER = struct.Struct("<4xIII")
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def longest_encoded(n_bytes: int) -> int:
    """Return the most bytes that a compressor makes of some that do not compress.

    Examples
    --------
    >>> longest_encoded(2**20) - 2**20
    135168
    """
    return n_bytes + n_bytes // 8 + 4096


class _Stage(Protocol):
    """One codec."""

    @property
    def config(self) -> Config:
        """Its name and parameters, as numcodecs writes them."""

    def encoded_size(self, n_bytes: int) -> int:
        """Return how many bytes it makes of some, at most."""

    def working_bytes(self, n_bytes: int) -> int:
        """Return how many bytes it holds at most, on top of what it takes and gives."""

    def encode(self, data: Bytes) -> Bytes:
        """Encode."""

    def decode(self, data: Bytes, out: Bytes) -> None:
        """Decode into all of `out`, which no codec may leave short or run over.

        Raises
        ------
        ValueError
            If the data is not what this codec makes of as many bytes; any other exception may
            come from the codec's library.
        """


@dataclass(frozen=True)
class _Filter:
    """A codec that makes of so many bytes always as many others."""

    config: Config
    taken: int = 1
    given: int = 1

    @cached_property
    def _codec(self) -> Any:
        return numcodecs.get_codec(dict(self.config))

    def encoded_size(self, n_bytes: int) -> int:
        if self.config["id"] == "packbits":
            return -(-n_bytes // 8) + 1
        return n_bytes // self.taken * self.given

    def working_bytes(self, n_bytes: int) -> int:
        # Arithmetic goes through temporary arrays of at most complex128.
        return n_bytes + 3 * 16 * (n_bytes // self.taken)

    def encode(self, data: Bytes) -> Bytes:
        return as_bytes(self._codec.encode(data))

    def decode(self, data: Bytes, out: Bytes) -> None:
        _expect(self.encoded_size(out.nbytes), data.nbytes)
        decoded = as_bytes(self._codec.decode(data))
        _expect(out.nbytes, decoded.nbytes)
        out[:] = decoded


@dataclass(frozen=True)
class _Checksum:
    """A codec that puts four bytes before or behind what it is given."""

    config: Config

    @cached_property
    def _codec(self) -> Any:
        return numcodecs.get_codec(dict(self.config))

    def encoded_size(self, n_bytes: int) -> int:
        return n_bytes + _CHECKSUM_BYTES

    def working_bytes(self, n_bytes: int) -> int:
        return n_bytes

    def encode(self, data: Bytes) -> Bytes:
        return as_bytes(self._codec.encode(data))

    def strip(self, data: Bytes) -> Bytes:
        """Return what the checksum is of, once it has been found right."""
        if data.nbytes < _CHECKSUM_BYTES:
            raise ValueError(f"has {data.nbytes} bytes, fewer than its checksum")
        return as_bytes(self._codec.decode(data))

    def decode(self, data: Bytes, out: Bytes) -> None:
        _expect(self.encoded_size(out.nbytes), data.nbytes)
        out[:] = self.strip(data)


@dataclass(frozen=True)
class _Compressor:
    """A codec that makes of so many bytes fewer, or hardly more."""

    config: Config
    itemsize: int

    @cached_property
    def _codec(self) -> Any:
        return numcodecs.get_codec(dict(self.config))

    def encoded_size(self, n_bytes: int) -> int:
        return longest_encoded(n_bytes)

    def working_bytes(self, n_bytes: int) -> int:
        # What has been compressed is cut from a buffer for the worst case.
        return longest_encoded(n_bytes) + self._workspace

    @property
    def _workspace(self) -> int:
        """What the library holds for itself, to encode: it is more than to decode."""
        level = int(self.config.get("level", 0))
        if self.config["id"] == "zstd" and level >= _ZSTD_LARGE:
            return (6 * 2**20) << max(4, level - 15)
        return _LZMA_MEMORY if self.config["id"] == "lzma" else _WORKSPACE

    def encode(self, data: Bytes) -> Bytes:
        # Blosc shuffles the bytes of elements as large as it is told by the type.
        typed = data if data.nbytes % self.itemsize else data.view(f"V{self.itemsize}")
        return as_bytes(self._codec.encode(typed))

    def decode(self, data: Bytes, out: Bytes) -> None:
        _COMPRESSORS[self.config["id"]](self._codec, data, out)


def as_bytes(data: Any) -> Bytes:
    """Look at what a codec returned as bytes."""
    array = np.asarray(data) if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _expect(n_bytes: int, n_found: int) -> None:
    if n_found != n_bytes:
        raise ValueError(f"has {n_found} bytes where {n_bytes} are expected")


def _decode_blosc(codec: Any, data: Bytes, out: Bytes) -> None:
    # Its decoder believes the header, so that is held against what is really there.
    if data.nbytes < _BLOSC_HEADER.size:
        raise ValueError("ends within its header")
    n_decoded, _, n_encoded = _BLOSC_HEADER.unpack_from(data.data)
    _expect(n_encoded, data.nbytes)
    _expect(out.nbytes, n_decoded)
    codec.decode(data, out)


def _decode_lz4(codec: Any, data: Bytes, out: Bytes) -> None:
    _expect(out.nbytes, int.from_bytes(data[:4].tobytes(), "little"))
    codec.decode(data, out)


def _decode_zstd(codec: Any, data: Bytes, out: Bytes) -> None:
    n_decoded = _zstd_size(data[:18].tobytes())
    # Without a size in the frame, the decoder itself sees to it that `out` is filled.
    if n_decoded is not None:
        _expect(out.nbytes, n_decoded)
    codec.decode(data, out)


def _zstd_size(head: bytes) -> int | None:
    """Return the size that a frame says it decodes to, None if it does not say."""
    if not head.startswith(_ZSTD_MAGIC) or len(head) < 6:  # noqa: PLR2004 - magic, flags, a size
        raise ValueError("does not begin as Zstandard")
    flags = head[4]
    is_single = flags >> 5 & 1
    width = (is_single, 2, 4, 8)[flags >> 6]
    if not width:
        return None
    start = 5 + (1 - is_single) + (0, 1, 2, 4)[flags & 3]
    size = int.from_bytes(head[start : start + width], "little")
    return size + 256 if width == 2 else size  # noqa: PLR2004 - as the format says


def _inflating(wbits: int) -> Callable[[Any, Bytes, Bytes], None]:
    """Return the decoder of gzip or zlib, whose streams say nothing of their size."""

    def decode(codec: Any, data: Bytes, out: Bytes) -> None:  # noqa: ARG001 - all decode alike
        def streams() -> Iterator[bytes]:
            rest = data
            while rest.nbytes:
                worker = zlib.decompressobj(wbits)
                taken = 0
                while not worker.eof:
                    if taken == rest.nbytes:
                        raise ValueError("is truncated")
                    fed = bytes(rest[taken : taken + _SLICE])
                    taken += len(fed)
                    while fed and not worker.eof:
                        yield worker.decompress(fed, _SLICE)
                        fed = worker.unconsumed_tail
                rest = rest[taken - len(worker.unused_data) :]

        _fill(out, streams())

    return decode


def _decode_bz2(codec: Any, data: Bytes, out: Bytes) -> None:  # noqa: ARG001 - all decode alike
    _fill(out, _drain(bz2.BZ2Decompressor(), data))


def _decode_lzma(codec: Any, data: Bytes, out: Bytes) -> None:
    if codec.format == lzma.FORMAT_RAW:
        raise ValueError("is LZMA without a header, which is not supported")
    worker = lzma.LZMADecompressor(format=codec.format, memlimit=_LZMA_MEMORY)
    _fill(out, _drain(worker, data))


def _drain(worker: Any, data: Bytes) -> Iterator[bytes]:
    taken = 0
    while not worker.eof:
        fed = b""
        if worker.needs_input:
            if taken == data.nbytes:
                raise ValueError("is truncated")
            fed = bytes(data[taken : taken + _SLICE])
            taken += len(fed)
        yield worker.decompress(fed, _SLICE)


def _fill(out: Bytes, pieces: Iterable[bytes]) -> None:
    """Put pieces one after another, no more and no fewer than there is room for."""
    n_filled = 0
    for piece in pieces:
        if n_filled + len(piece) > out.nbytes:
            raise ValueError(f"decodes to more than the {out.nbytes} bytes of a chunk")
        out[n_filled : n_filled + len(piece)] = np.frombuffer(piece, np.uint8)
        n_filled += len(piece)
    _expect(out.nbytes, n_filled)


_COMPRESSORS: dict[str, Callable[[Any, Bytes, Bytes], None]] = {
    "blosc": _decode_blosc,
    "zstd": _decode_zstd,
    "lz4": _decode_lz4,
    "gzip": _inflating(31),
    "zlib": _inflating(15),
    "bz2": _decode_bz2,
    "lzma": _decode_lzma,
}


class Chain:
    """The codecs of chunks of one size.

    Parameters
    ----------
    configs
        Name and parameters of each codec, in the order in which they encode.
    dtype
        Type of the elements.
    n_bytes
        Bytes of the elements of a chunk.

    Raises
    ------
    ValueError
        If one of them is not known, or they do not go together.
    """

    def __init__(self, configs: Sequence[Config], dtype: np.dtype[Any], n_bytes: int) -> None:
        self.n_bytes = n_bytes
        self._stages: list[_Stage] = []
        self._sizes = [n_bytes]
        behind_compressor = False
        for config in configs:
            stage, dtype = _make_stage(config, dtype)
            if behind_compressor and not isinstance(stage, _Checksum):
                raise ValueError(f"has codec {config['id']} behind a compressor")
            behind_compressor |= isinstance(stage, _Compressor)
            self._stages.append(stage)
            self._sizes.append(stage.encoded_size(self._sizes[-1]))

    @property
    def longest(self) -> int:
        """The most bytes that a chunk takes in its file."""
        return self._sizes[-1]

    @property
    def decoding_bytes(self) -> int:
        """The most bytes that decoding holds besides the encoded and the decoded chunk."""
        return self._between

    @property
    def encoding_bytes(self) -> int:
        """The most bytes that encoding holds besides the decoded chunk, the encoded included."""
        return self._between + self.longest if self._stages else 0

    @property
    def _between(self) -> int:
        sizes = zip(self._stages, self._sizes, strict=False)
        return sum(stage.working_bytes(n) for stage, n in sizes) + sum(self._sizes[1:-1])

    def encode(self, data: Bytes) -> Bytes:
        """Encode the elements of a chunk, which are given as bytes."""
        for stage in self._stages:
            data = stage.encode(data)
        return data

    def decode(self, data: Bytes, out: Bytes) -> None:
        """Decode a chunk into all of `out`.

        Raises
        ------
        ValueError
            If that is not what it decodes to; the message completes "the file ...".
        """
        try:
            self._decode(data, out)
        except (ValueError, MemoryError) as error:
            raise ValueError(f"cannot be decoded: {error}") from error
        except Exception as error:  # the codecs' libraries raise many kinds
            raise ValueError(f"cannot be decoded: {type(error).__name__}: {error}") from error

    def _decode(self, data: Bytes, out: Bytes) -> None:
        stages, sizes = self._stages, self._sizes
        for number in reversed(range(len(stages))):
            stage, is_last = stages[number], number == 0
            if isinstance(stage, _Checksum) and not is_last:
                data = stage.strip(data)
                continue
            decoded = out if is_last else np.empty(sizes[number], np.uint8)
            stage.decode(data, decoded)
            data = decoded
        if not stages:
            _expect(out.nbytes, data.nbytes)
            out[:] = data


def _make_stage(config: Config, dtype: np.dtype[Any]) -> tuple[_Stage, np.dtype[Any]]:
    """Return a codec for elements of a type, and the type that it turns them into."""
    name = config["id"]
    if name in _COMPRESSORS:
        return _Compressor(config, dtype.itemsize), np.dtype(np.uint8)
    if name in CHECKSUMS:
        if config.get("prefix"):
            raise ValueError(f"has codec {name} with a prefix, which is not supported")
        return _Checksum(config), np.dtype(np.uint8)
    if name in {"shuffle", "bitround"}:
        return _Filter(config), dtype
    if name == "packbits" and dtype.itemsize == 1:
        return _Filter(config), np.dtype(np.uint8)
    if name not in _CONVERTING:
        raise ValueError(f"has codec {name}, which is not supported for elements of {dtype}")
    taken, given = (_number_type(config, key) for key in _CONVERTING[name])
    if taken.itemsize != dtype.itemsize:
        raise ValueError(f"has codec {name} of type {taken} for elements of type {dtype}")
    return _Filter(config, taken.itemsize, given.itemsize), given


def _number_type(config: Config, key: str) -> np.dtype[Any]:
    text = config.get(key) or config.get("dtype")
    try:
        dtype: np.dtype[Any] = np.dtype(str(text))
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in _NUMBERS:
        raise ValueError(f"has codec {config['id']} with a type that is not one of numbers")
    return dtype


def is_lossless(config: Config, dtype: np.dtype[Any]) -> bool:
    """Tell whether what a codec encodes comes back bit by bit.

    Examples
    --------
    >>> is_lossless({"id": "zstd", "level": 3}, np.dtype("f4"))
    True
    >>> is_lossless({"id": "quantize", "digits": 2, "dtype": "<f4"}, np.dtype("f4"))
    False
    """
    name = config["id"]
    if name == "delta" and config.get("astype", config.get("dtype")) != config.get("dtype"):
        return False
    return (
        name in _COMPRESSORS or name in CHECKSUMS or dtype.kind in _LOSSLESS_FILTERS.get(name, "")
    )


def parse_codec(text: str) -> list[dict[str, Any]]:
    """Read a codec as users write it: a compressor and its parameters, and checksums.

    Raises
    ------
    ValueError
        If it is not one that is known.

    Examples
    --------
    >>> parse_codec("none"), parse_codec("zstd:3+crc32c")
    ([], [{'id': 'zstd', 'level': 3}, {'id': 'crc32c'}])
    >>> parse_codec("blosc:lz4:5:shuffle")
    [{'id': 'blosc', 'cname': 'lz4', 'clevel': 5, 'shuffle': 1}]
    """
    if text == "none":
        return []
    configs = [_parse_one(part) for part in text.split("+")]
    Chain(configs, np.dtype(np.uint8), 1)
    return configs


def _parse_one(text: str) -> dict[str, Any]:
    name, *parameters = text.split(":")
    keys = _PARAMETERS.get(name)
    if keys is None:
        known = ", ".join(["none", *_PARAMETERS])
        raise ValueError(f"'{name}' is not a codec that can be chosen; they are {known}")
    if len(parameters) > len(keys):
        raise ValueError(f"'{text}' has too many parameters; {name} takes {len(keys)}")
    config: dict[str, Any] = {"id": name}
    for (key, allowed), given in zip(keys.items(), parameters, strict=False):
        if given not in allowed:
            shown = list(allowed)
            span = ", ".join(shown) if len(shown) < _MOST_SHOWN else f"{shown[0]} to {shown[-1]}"
            raise ValueError(f"{key} of {name} is '{given}'; it can be {span}")
        config[key] = allowed[given]
    return config


def _numbers(low: int, high: int) -> dict[str, int]:
    return {str(number): number for number in range(low, high + 1)}


_MOST_SHOWN = 9
# What each parameter of a codec can be, as it is written and as numcodecs takes it.
_PARAMETERS: dict[str, dict[str, Mapping[str, object]]] = {
    "zstd": {"level": _numbers(1, 22)},
    "blosc": {
        "cname": {name: name for name in ("lz4", "lz4hc", "blosclz", "zlib", "zstd")},
        "clevel": _numbers(0, 9),
        "shuffle": {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2},
    },
    "lz4": {"acceleration": _numbers(1, 65537)},
    "gzip": {"level": _numbers(0, 9)},
    "zlib": {"level": _numbers(0, 9)},
    "bz2": {"level": _numbers(1, 9)},
    "lzma": {"preset": _numbers(0, 9)},
    "crc32c": {},
}
