"""The codecs of a chunk: from the bytes in its file to those of its elements, and back.

A chain lists codecs in the order in which they encode: filters, then at most one compressor, with
checksums anywhere.

Files are not trusted. The decoded size of a chunk is known in advance, and any other size is
refused, so that a small file cannot become a huge chunk.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numcodecs.blosc  # type: ignore[import-untyped]
import numpy as np

from dask_io.codecs.codec import Bytes, Compressor, Config, DType, Filter
from dask_io.codecs.cores import CORES
from dask_io.codecs.registry import CODECS
from dask_io.codecs.streams import Stream, expect
from dask_io.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

# Chunks are already decoded and encoded in threads. zarr-python sets this, too.
numcodecs.blosc.use_threads = False


def longest_encoded(n_bytes: int) -> int:
    """Return the largest size to which a compressor encodes `n_bytes`.

    Examples
    --------
    >>> longest_encoded(2**20) - 2**20
    135168
    """
    return n_bytes + n_bytes // 8 + 4096


def _make_codec(stage: _FilterStage | _CompressorStage) -> Any:
    return numcodecs.get_codec(dict(stage.config))


@dataclass(frozen=True)
class _FilterStage:
    record: Filter
    config: Config
    _codec = cached_property(_make_codec)

    def encoded_size(self, n_bytes: int) -> int:
        return self.record.encoded_size(self.config, n_bytes)

    def encoding_bytes(self, n_bytes: int) -> int:
        return self.record.coding_bytes(self.config, n_bytes)

    decoding_bytes = encoding_bytes

    def encode(self, data: Bytes) -> Bytes:
        return self._code(self.record.encode, data)

    def decode(self, data: Bytes) -> Bytes:
        if data.nbytes < self.encoded_size(0):
            raise ValueError(f"has {data.nbytes} bytes, fewer than its checksum")
        return self._code(self.record.decode, data)

    def _code(self, code: Callable[[Any, Bytes], Any], data: Bytes) -> Bytes:
        whole = self.record.whole(self.config, data.nbytes)
        coded = as_bytes(code(self._codec, data[:whole]))
        return coded if whole == data.nbytes else np.concatenate([coded, data[whole:]])


@dataclass(frozen=True)
class _CompressorStage:
    record: Compressor
    config: Config
    itemsize: int
    _codec = cached_property(_make_codec)

    def encoded_size(self, n_bytes: int) -> int:
        return longest_encoded(n_bytes)

    def encoding_bytes(self, n_bytes: int) -> int:
        with self._settings():
            workspace = self.record.workspace(self.config, n_bytes)
        # Numcodecs cuts the output from a buffer for the worst case.
        return workspace + (longest_encoded(n_bytes) if self.record.encode is None else 0)

    def decoding_bytes(self, n_bytes: int) -> int:
        return self.record.decoding_bytes or self.encoding_bytes(n_bytes)

    def encode(self, data: Bytes) -> Bytes:
        with self._settings():
            if self.record.encode is not None:
                longest = longest_encoded(data.nbytes)
                return self.record.encode(self._codec, data, longest)
            # Blosc gets the size of the elements that it shuffles from the dtype.
            typed = data if data.nbytes % self.itemsize else data.view(f"V{self.itemsize}")
            return as_bytes(self._codec.encode(typed))

    def _start(self, n_bytes: int) -> Stream:
        assert self.record.start is not None, "this codec only encodes whole chunks"
        return self.record.start(self._codec, n_bytes)

    @property
    def takes_pieces(self) -> bool:
        """Whether it can encode a chunk piece by piece."""
        with self._settings():
            return self.record.start is not None and self.record.history(self.config) is not None

    def piecewise_bytes(self, n_bytes: int, piece: int) -> int:
        """Return the most bytes held to encode a chunk piece by piece, including the output."""
        with self._settings():
            workspace = self.record.workspace(self.config, n_bytes)
            history = self.record.history(self.config) or 0
        # The output for a piece grows in blocks, which are then joined.
        return workspace + history + 3 * longest_encoded(piece)

    def encode_pieces(self, n_bytes: int, pieces: Iterable[Bytes]) -> Iterator[bytes]:
        """Encode a chunk piece by piece."""
        with self._settings():
            stream = self._start(n_bytes)
        for piece in pieces:
            yield stream.compress(piece.data)
        yield stream.flush()

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """Report any error as invalid settings: they may come from an untrusted file."""
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:  # libraries of codecs raise many types
            why = str(error)
            raise UsageError(
                f"codec {self.config['id']} cannot encode with its settings ({why}); "
                "choose another codec with --codec"
            ) from error

    def decode(self, data: Bytes, out: Bytes) -> None:
        self.record.decode(self._codec, data, out)


def as_bytes(data: Any) -> Bytes:
    """View the output of a codec as bytes."""
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
        If a codec is not supported, or not at its position.
    """

    def __init__(self, configs: Sequence[Config], dtype: DType, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        self._made_of = configs, dtype, n_bytes
        self._stages: list[_FilterStage | _CompressorStage] = []
        self._sizes = [n_bytes]
        self._has_compressor = False
        for config in configs:
            stage, dtype = _make_stage(config, dtype)
            is_checksum = isinstance(stage, _FilterStage) and stage.record.is_checksum
            if self._has_compressor and not is_checksum:
                raise ValueError(f"has codec {config['id']} after a compressor")
            self._has_compressor |= isinstance(stage, _CompressorStage)
            self._stages.append(stage)
            self._sizes.append(stage.encoded_size(self._sizes[-1]))

    def __reduce__(self) -> tuple[type[Chain], tuple[Sequence[Config], DType, int]]:
        # Records of codecs contain functions, which cannot be pickled.
        return Chain, self._made_of

    @property
    def sizes(self) -> Sequence[int]:
        """The largest input of each codec, and the largest output of the last one, in bytes."""
        return self._sizes

    @property
    def longest(self) -> int:
        """The largest size of a stored chunk, in bytes."""
        return self._sizes[-1]

    @property
    def decoding_bytes(self) -> int:
        """The most bytes held to decode, without the encoded and the decoded chunk."""
        sizes = zip(self._stages, self._sizes, strict=False)
        return sum(stage.decoding_bytes(n) for stage, n in sizes) + sum(self._sizes[1:-1])

    @property
    def encoding_bytes(self) -> int:
        """The most bytes held to encode, with the encoded but without the decoded chunk."""
        sizes = zip(self._stages, self._sizes, strict=False)
        return sum(stage.encoding_bytes(n) for stage, n in sizes) + sum(self._sizes[1:])

    @property
    def takes_pieces(self) -> bool:
        """Whether a chunk can be encoded piece by piece: only by a single compressor."""
        return self._piecewise is not None

    @property
    def _piecewise(self) -> _CompressorStage | None:
        match self._stages:
            case [_CompressorStage() as stage] if stage.takes_pieces:
                return stage
            case _:
                return None

    def piecewise_bytes(self, piece: int) -> int:
        """Return the most bytes held to encode pieces of this size, without the piece."""
        assert self._piecewise is not None, "these codecs only encode whole chunks"
        return self._piecewise.piecewise_bytes(self.n_bytes, piece)

    def encode_pieces(self, pieces: Iterable[Bytes]) -> Iterator[bytes]:
        """Encode the elements of a chunk, given as bytes piece by piece.

        Yield the output for each piece, which may be empty. The caller must hold a core of `CORES`.
        """
        assert self._piecewise is not None, "these codecs only encode whole chunks"
        return self._piecewise.encode_pieces(self.n_bytes, pieces)

    def encode(self, data: Bytes) -> Bytes:
        """Encode the elements of a chunk, given as bytes."""
        with CORES:
            for stage in self._stages:
                data = stage.encode(data)
        return data

    def decode(self, data: Bytes, out: Bytes) -> None:
        """Decode a chunk so that it fills `out` exactly.

        Raises
        ------
        ValueError
            If it does not fill `out`; the message completes "the file ...".
        """
        try:
            with CORES:
                self._decode(data, out)
        except (ValueError, MemoryError) as error:
            raise ValueError(f"cannot be decoded: {error}") from error
        except Exception as error:  # libraries of codecs raise many types
            raise ValueError(f"cannot be decoded: {type(error).__name__}: {error}") from error

    def _decode(self, data: Bytes, out: Bytes) -> None:
        # Up to the compressor, sizes are exact.
        is_exact = not self._has_compressor
        if is_exact:
            expect(self.longest, data.nbytes)
        for number in reversed(range(len(self._stages))):
            stage, n_bytes = self._stages[number], self._sizes[number]
            if isinstance(stage, _CompressorStage):
                encoded, data = data, out if number == 0 else np.empty(n_bytes, np.uint8)
                stage.decode(encoded, data)
                is_exact = True
            else:
                data = stage.decode(data)
            if is_exact:
                expect(n_bytes, data.nbytes)
        if data is not out:
            out[:] = data


def _make_stage(config: Config, dtype: DType) -> tuple[_FilterStage | _CompressorStage, DType]:
    """Return a codec for elements of this type, and the type of its output."""
    name = config["id"]
    match CODECS[name].coding if name in CODECS else None:
        case Compressor() as record:
            return _CompressorStage(record, config, dtype.itemsize), np.dtype(np.uint8)
        case Filter() as record:
            return _FilterStage(record, config), record.encoded_type(config, dtype)
        case None:
            raise ValueError(f"has codec {name}, which is not supported for elements of {dtype}")
