"""The codecs of a chunk: from the bytes in its file to those of its elements, and back.

Codecs are named as in numcodecs, in the order in which they encode: filters, then at most one
compressor, with checksums anywhere. Only those listed here are used, whatever is installed: one
that unpickles, say, never runs.

Chunks come from files that anyone may have made. The size of what a codec gives is known
beforehand, and none may give another: a small file that would become a huge chunk is refused
before it does.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numcodecs  # type: ignore[import-untyped]
import numpy as np

from dask_io.codecs.bounded_decoders import DECODERS, LZMA_MEMORY, expect
from dask_io.codecs.cores import CORES
from dask_io.codecs.streaming_encoders import (
    COMPRESSORS,
    begin_pieces,
    compress,
    compressing_bytes,
    kept_between_pieces,
    takes_pieces,
)
from dask_io.errors import UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
# Enough for all codecs but those named.
_WORKSPACE = 16 * 2**20
# For Zstandard up to a level, about twice what was measured; beyond these it is its own estimate.
_ZSTD_WORKSPACE = {3: 2 * 2**20, 6: 6 * 2**20, 9: _WORKSPACE}
_SMALLEST_WORKSPACE = 2**19
_LZ4_WORKSPACE = 2**19
# What these hold at most to decode, which they do piece by piece or straight into its place. All
# others may take as much as to encode.
_TO_DECODE = {"zstd": 2**19, "lz4": 2**19, "bz2": 2**23, "lzma": LZMA_MEMORY}


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

    def encoding_bytes(self, n_bytes: int) -> int:
        """Return how many bytes it holds at most to encode, besides what it takes and gives."""

    def decoding_bytes(self, n_bytes: int) -> int:
        """Return how many bytes it holds at most to decode to so many, besides these."""

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

    def encoding_bytes(self, n_bytes: int) -> int:
        if self.config["id"] == "shuffle":
            return n_bytes if self._whole(n_bytes) == n_bytes else 2 * n_bytes
        # Arithmetic goes through temporary arrays of at most complex128.
        return n_bytes + 3 * 16 * (n_bytes // self.taken)

    decoding_bytes = encoding_bytes

    def _whole(self, n_bytes: int) -> int:
        """Return how many bytes are elements: HDF5 leaves what is behind them where it is."""
        is_shuffle = self.config["id"] == "shuffle"
        return n_bytes - n_bytes % (self.config.get("elementsize", 4) if is_shuffle else 1)

    def encode(self, data: Bytes) -> Bytes:
        whole = self._whole(data.nbytes)
        encoded = as_bytes(self._codec.encode(data[:whole]))
        return encoded if whole == data.nbytes else np.concatenate([encoded, data[whole:]])

    def decode(self, data: Bytes, out: Bytes) -> None:
        expect(self.encoded_size(out.nbytes), data.nbytes)
        whole = self._whole(data.nbytes)
        decoded = as_bytes(self._codec.decode(data[:whole]))
        n_behind = data.nbytes - whole
        expect(out.nbytes, decoded.nbytes + n_behind)
        out[: decoded.nbytes] = decoded
        out[decoded.nbytes :] = data[whole:]


@dataclass(frozen=True)
class _Checksum:
    """A codec that puts four bytes before or behind what it is given."""

    config: Config

    @cached_property
    def _codec(self) -> Any:
        return numcodecs.get_codec(dict(self.config))

    def encoded_size(self, n_bytes: int) -> int:
        return n_bytes + _CHECKSUM_BYTES

    def encoding_bytes(self, n_bytes: int) -> int:
        return n_bytes

    decoding_bytes = encoding_bytes

    def encode(self, data: Bytes) -> Bytes:
        return as_bytes(self._codec.encode(data))

    def strip(self, data: Bytes) -> Bytes:
        """Return what the checksum is of, once it has been found right."""
        if data.nbytes < _CHECKSUM_BYTES:
            raise ValueError(f"has {data.nbytes} bytes, fewer than its checksum")
        return as_bytes(self._codec.decode(data))

    def decode(self, data: Bytes, out: Bytes) -> None:
        expect(self.encoded_size(out.nbytes), data.nbytes)
        out[:] = self.strip(data)


@dataclass(frozen=True)
class _Compressor:
    """A codec that makes of so many bytes fewer, or hardly more."""

    config: Config
    itemsize: int

    @property
    def _name(self) -> str:
        return str(self.config["id"])

    @cached_property
    def _codec(self) -> Any:
        return numcodecs.get_codec(dict(self.config))

    def encoded_size(self, n_bytes: int) -> int:
        return longest_encoded(n_bytes)

    def encoding_bytes(self, n_bytes: int) -> int:
        with self._understood():
            if self._name in COMPRESSORS:
                return compressing_bytes(self.config, n_bytes)
            # What has been compressed is cut from a buffer for the worst case.
            return longest_encoded(n_bytes) + self._workspace(n_bytes)

    def decoding_bytes(self, n_bytes: int) -> int:
        return _TO_DECODE.get(self._name) or self.encoding_bytes(n_bytes)

    def _workspace(self, n_bytes: int) -> int:
        """What the library holds for itself, to encode."""
        if self._name == "lz4":
            return _LZ4_WORKSPACE
        most = _WORKSPACE
        if self._name == "zstd":
            most = _zstd_workspace(int(self.config.get("level", 0)))
        # Tables of two entries for every byte, rounded up to a power of two: no more are made.
        return min(most, _SMALLEST_WORKSPACE + 32 * n_bytes)

    def encode(self, data: Bytes) -> Bytes:
        with self._understood():
            if self._name in COMPRESSORS:
                return compress(self._codec, data, longest_encoded(data.nbytes))
            # Blosc shuffles the bytes of elements as large as it is told by the type.
            typed = data if data.nbytes % self.itemsize else data.view(f"V{self.itemsize}")
            return as_bytes(self._codec.encode(typed))

    @property
    def takes_pieces(self) -> bool:
        """Whether it can be given a chunk piece by piece."""
        with self._understood():
            return takes_pieces(self.config)

    def piecewise_bytes(self, n_bytes: int, piece: int) -> int:
        """Return how many bytes it holds at most to encode so, what it gives included."""
        with self._understood():
            is_own = self._name in COMPRESSORS
            own = compressing_bytes(self.config, n_bytes) if is_own else self._workspace(n_bytes)
        # What it makes of a piece grows in blocks, and is then joined.
        return own + kept_between_pieces(self.config) + 3 * longest_encoded(piece)

    def encode_pieces(self, n_bytes: int, pieces: Iterable[Bytes]) -> Iterator[bytes]:
        """Encode what is given piece by piece."""
        with self._understood():
            worker = begin_pieces(self._codec, n_bytes)
        for piece in pieces:
            yield worker.compress(piece.data)
        yield worker.flush()

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Blame the settings, which anyone may have written, for what goes wrong with them."""
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:  # the codecs' libraries raise many kinds
            why = printable(str(error))
            raise UsageError(
                f"codec {self._name} has settings with which it cannot encode ({why}); choose "
                "another with --codec"
            ) from error

    def decode(self, data: Bytes, out: Bytes) -> None:
        DECODERS[self._name](self._codec, data, out)


def _zstd_workspace(level: int) -> int:
    found = (most for highest, most in _ZSTD_WORKSPACE.items() if level <= highest)
    return next(found, (6 * 2**20) << max(4, level - 15))


def as_bytes(data: Any) -> Bytes:
    """Look at what a codec returned as bytes."""
    array = np.asarray(data) if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


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
    def sizes(self) -> Sequence[int]:
        """The most bytes that each codec is given, and what the last one makes of them."""
        return self._sizes

    @property
    def longest(self) -> int:
        """The most bytes that a chunk takes in its file."""
        return self._sizes[-1]

    @property
    def decoding_bytes(self) -> int:
        """The most bytes that decoding holds besides the encoded and the decoded chunk."""
        sizes = zip(self._stages, self._sizes, strict=False)
        return sum(stage.decoding_bytes(n) for stage, n in sizes) + sum(self._sizes[1:-1])

    @property
    def encoding_bytes(self) -> int:
        """The most bytes that encoding holds besides the decoded chunk, the encoded included."""
        sizes = zip(self._stages, self._sizes, strict=False)
        return sum(stage.encoding_bytes(n) for stage, n in sizes) + sum(self._sizes[1:])

    @property
    def takes_pieces(self) -> bool:
        """Whether a chunk can be encoded piece by piece: if it has a compressor, and that alone."""
        return self._piecewise is not None

    @property
    def _piecewise(self) -> _Compressor | None:
        match self._stages:
            case [_Compressor() as stage] if stage.takes_pieces:
                return stage
            case _:
                return None

    def piecewise_bytes(self, piece: int) -> int:
        """Return the most that encoding holds besides a piece of so many bytes."""
        assert self._piecewise is not None, "these codecs take whole chunks"
        return self._piecewise.piecewise_bytes(self.n_bytes, piece)

    def encode_pieces(self, pieces: Iterable[Bytes]) -> Iterator[bytes]:
        """Encode the elements of a chunk, of which one piece after another is given as bytes.

        What each becomes is yielded, maybe nothing. Who calls this has a core to itself.
        """
        assert self._piecewise is not None, "these codecs take whole chunks"
        return self._piecewise.encode_pieces(self.n_bytes, pieces)

    def encode(self, data: Bytes) -> Bytes:
        """Encode the elements of a chunk, which are given as bytes."""
        with CORES:
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
            with CORES:
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
            expect(out.nbytes, data.nbytes)
            out[:] = data


def _make_stage(config: Config, dtype: np.dtype[Any]) -> tuple[_Stage, np.dtype[Any]]:
    """Return a codec for elements of a type, and the type that it turns them into."""
    name = config["id"]
    if name in DECODERS:
        return _Compressor(config, dtype.itemsize), np.dtype(np.uint8)
    if name in CHECKSUMS:
        if config.get("prefix"):
            raise ValueError(f"has codec {name} with a prefix, which is not supported")
        return _Checksum(config), np.dtype(np.uint8)
    if name == "shuffle" and (type(size := config.get("elementsize", 4)) is not int or size < 1):
        raise ValueError(f"has codec shuffle with elements of {size!r:.40} bytes")
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
    return name in DECODERS or name in CHECKSUMS or dtype.kind in _LOSSLESS_FILTERS.get(name, "")
