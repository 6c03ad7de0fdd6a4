"""Compressed streams, encoded and decoded slice by slice, so that memory stays bounded.

For a whole chunk at once, Python's compressors would hold two to three times their output. Its
decompressors would return more than a chunk, if a malicious file contains more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dask_io.codecs.codec import Bytes

_SLICE = 2**18


class Stream(Protocol):
    """A chunk that is being compressed."""

    def compress(self, data: memoryview, /) -> bytes:
        """Compress a piece, and return the output so far."""

    def flush(self) -> bytes:
        """Return the rest of the output."""


def compress(stream: Stream, data: Bytes, longest: int) -> Bytes:
    """Compress a chunk to at most `longest` bytes.

    Examples
    --------
    >>> import zlib
    >>> encoded = compress(zlib.compressobj(9), np.zeros(1000, np.uint8), 2000)
    >>> zlib.decompress(encoded) == bytes(1000)
    True
    """
    out, n_bytes = np.empty(longest, np.uint8), 0
    for piece in _slices(stream, data):
        out[n_bytes : n_bytes + len(piece)] = np.frombuffer(piece, np.uint8)
        n_bytes += len(piece)
    # In place, so that the unused memory is freed at once.
    out.resize(n_bytes, refcheck=False)
    return out


def streamed(start: Callable[[Any, int], Stream]) -> Callable[[Any, Bytes, int], Bytes]:
    """Return a function that encodes a chunk at once with a stream."""

    def encode(codec: Any, data: Bytes, longest: int) -> Bytes:
        return compress(start(codec, data.nbytes), data, longest)

    return encode


def _slices(stream: Stream, data: Bytes) -> Iterator[bytes]:
    for start in range(0, data.nbytes, _SLICE):
        yield stream.compress(data[start : start + _SLICE].data)
    yield stream.flush()


def expect(n_bytes: int, n_found: int) -> None:
    """Check a size.

    Raises
    ------
    ValueError
        If it is not the expected one.
    """
    if n_found != n_bytes:
        raise ValueError(f"has {n_found} bytes, but {n_bytes} are expected")


def decompress(
    make: Callable[[], Any], data: Bytes, out: Bytes, ignored: type[Exception] | tuple[()] = ()
) -> None:
    """Decode consecutive streams, which together must fill `out` exactly.

    `make` returns a new decompressor for each stream. An `ignored` error ends the decoding, unless
    it occurs in the first stream.

    Raises
    ------
    ValueError
        If they do not fill it exactly.
    """
    n_filled = 0
    for piece in _pieces(make, data, ignored):
        if n_filled + len(piece) > out.nbytes:
            raise ValueError(f"decodes to more than the {out.nbytes} bytes of a chunk")
        out[n_filled : n_filled + len(piece)] = np.frombuffer(piece, np.uint8)
        n_filled += len(piece)
    expect(out.nbytes, n_filled)


def _pieces(
    make: Callable[[], Any], data: Bytes, ignored: type[Exception] | tuple[()]
) -> Iterator[bytes]:
    rest = data
    while rest.nbytes:
        worker, taken = make(), 0
        while not worker.eof:
            # Only zlib returns the input that it has not used yet.
            fed = getattr(worker, "unconsumed_tail", b"")
            if needs_input := getattr(worker, "needs_input", not fed):
                fed = bytes(rest[taken : taken + _SLICE])
                taken += len(fed)
            try:
                piece = worker.decompress(fed, _SLICE)
            except ignored:
                if rest is data:
                    raise
                return
            # After the last input, some output may be left.
            if needs_input and not fed and not piece:
                raise ValueError("is truncated")
            yield piece
        rest = rest[taken - len(worker.unused_data) :]
