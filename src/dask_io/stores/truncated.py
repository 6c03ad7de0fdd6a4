"""Codecs of blocks that are truncated at the edge of the array, each stored in its own shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dask_io.stores.addressable import view_as_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dask_io.geometry import Layout


class SizedCodec(Protocol):
    """Encodes and decodes blocks of one size, as `dask_io.codecs.chain.Chain` does."""

    @property
    def longest(self) -> int:
        """The largest size of an encoded block, in bytes."""

    @property
    def decoding_bytes(self) -> int:
        """The most bytes held to decode, without the encoded and the decoded block."""

    @property
    def encoding_bytes(self) -> int:
        """The most bytes held to encode, with the encoded but without the decoded block."""

    def encode(self, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Encode the elements of a block, given as bytes."""

    def decode(self, data: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Decode a block so that it fills `out` exactly, or raise a ValueError."""


@dataclass(frozen=True)
class TruncatingCodec:
    """Encodes blocks of any shape up to `chunks`, and decodes them to blocks of that shape.

    Attributes
    ----------
    make
        Returns the codec for blocks of a number of bytes. It can be pickled.
    chunks
        The shape of blocks that are not at the edge.
    dtype
        Type of the elements in memory.
    layout
        Order of the elements in a block.
    is_swapped
        Whether elements are stored in the opposite byte order.
    n_header
        Bytes before the encoded elements, which the format writes and checks.
    """

    make: Callable[[int], SizedCodec]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout
    is_swapped: bool = False
    n_header: int = 0

    @cached_property
    def _whole(self) -> SizedCodec:
        return self.make(self._n_bytes)

    @property
    def _n_bytes(self) -> int:
        return prod(self.chunks) * self.dtype.itemsize

    def _of_size(self, n_bytes: int) -> SizedCodec:
        return self._whole if n_bytes == self._n_bytes else self.make(n_bytes)

    @property
    def longest(self) -> int:
        """The largest size of a stored block, with its header."""
        return self.n_header + self._whole.longest

    @property
    def decoding_bytes(self) -> int:
        """The most bytes held to decode, with the elements of a truncated block."""
        return self._whole.decoding_bytes + self._n_bytes

    @property
    def encoding_bytes(self) -> int:
        """The most bytes held to encode, with the swapped elements."""
        return self._whole.encoding_bytes + self._n_bytes * self.is_swapped + self.n_header

    def encode(self, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Encode the elements of a block of any shape, without a header."""
        if self.is_swapped and self.dtype.itemsize > 1:
            data = data.view(self.dtype).byteswap().view(np.uint8)
        return self._of_size(data.nbytes).encode(data)

    def decode(self, data: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Decode a block that is not truncated."""
        self.decode_shape(self.chunks, data, out)

    def decode_shape(
        self, shape: tuple[int, ...], data: NDArray[np.uint8], out: NDArray[np.uint8]
    ) -> None:
        """Decode a block of a shape to its place in a block that is not truncated.

        Raises
        ------
        ValueError
            If it has another size; the message completes "the file ...".
        """
        if shape == self.chunks:
            self._whole.decode(data, out)
            if self.is_swapped and self.dtype.itemsize > 1:
                out.view(self.dtype).byteswap(inplace=True)
            return
        raw = np.empty(prod(shape) * self.dtype.itemsize, np.uint8)
        self._of_size(raw.nbytes).decode(data, raw)
        stored = self.dtype.newbyteorder() if self.is_swapped else self.dtype
        whole = view_as_array(out.data, self.chunks, self.dtype, self.layout)
        inside: tuple[Any, ...] = (..., *map(slice, shape))
        whole[inside] = view_as_array(raw.data, shape, stored, self.layout)
