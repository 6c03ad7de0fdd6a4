"""Shards of a precomputed volume: which shard contains a chunk, and where.

The number of a chunk interleaves the bits of its position: x, y and z in turn, without the bits
that an axis does not need. Its hash selects the shard and, within it, the minishard. A shard starts
with the place of each minishard's index. That index lists number, offset and size of its chunks,
each relative to the one before.

With the hash `identity`, a shard contains the chunks whose numbers differ only in their last bits.
These fill a box of the volume, so it can be written as a unit.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

KIND = "neuroglancer_uint64_sharded_v1"
IDENTITY, MURMUR = "identity", "murmurhash3_x86_128"
RAW, GZIP = "raw", "gzip"
ENTRY = 16
"""Bytes of the place of a minishard's index."""
_MOST_BITS, _MOST_MINISHARD_BITS = 64, 32
# The chunks that new minishards have at most, as a power of two.
_PRESHIFT = 9
_WORD = 2**32 - 1
_GZIP_HEADER, _LEVEL = 31, 6


@dataclass(frozen=True, slots=True)
class Sharding:
    """How the chunks of a scale are distributed over shards."""

    preshift_bits: int
    minishard_bits: int
    shard_bits: int
    hash: str = IDENTITY
    index_encoding: str = RAW
    data_encoding: str = RAW

    @classmethod
    def from_json(cls, value: object) -> Sharding:
        """Read the sharding of a scale.

        Raises
        ------
        ValueError
            If it is invalid; the message completes "the file ...".
        """
        if not isinstance(value, dict) or value.get("@type", KIND) != KIND:
            raise ValueError("has a scale with an unknown kind of sharding")
        bits = [value.get(f"{key}_bits") for key in ("preshift", "minishard", "shard")]
        limits = (_MOST_BITS, _MOST_MINISHARD_BITS, _MOST_BITS)
        for each, most in zip(bits, limits, strict=True):
            if type(each) is not int or not 0 <= each <= most:
                raise ValueError("has a scale with sharding whose bits are invalid")
        words = (
            value.get("hash"),
            *(value.get(f"{key}_encoding", RAW) for key in ("minishard_index", "data")),
        )
        for word, known in zip(words, ((IDENTITY, MURMUR), (RAW, GZIP), (RAW, GZIP)), strict=True):
            if word not in known:
                raise ValueError(f"has a scale with sharding by {str(word)[:40]!r}, not supported")
        return cls(*bits, *words)  # type: ignore[arg-type]  # checked above

    def to_json(self) -> dict[str, Any]:
        """Return the sharding as it is in the metadata of a scale."""
        return {
            "@type": KIND,
            "preshift_bits": self.preshift_bits,
            "hash": self.hash,
            "minishard_bits": self.minishard_bits,
            "shard_bits": self.shard_bits,
            "minishard_index_encoding": self.index_encoding,
            "data_encoding": self.data_encoding,
        }

    @property
    def index_bytes(self) -> int:
        """Bytes at the start of a shard, for the places of the minishards' indices."""
        return ENTRY << self.minishard_bits

    def place_of(self, number: int) -> tuple[int, int]:
        """Return the shard and the minishard of a chunk."""
        hashed = number >> self.preshift_bits
        if self.hash == MURMUR:
            hashed = murmur(hashed)
        minishard = hashed & ((1 << self.minishard_bits) - 1)
        return hashed >> self.minishard_bits & ((1 << self.shard_bits) - 1), minishard

    def file_of(self, shard: int) -> str:
        """Return the name of a shard's file.

        Examples
        --------
        >>> Sharding(0, 0, 5).file_of(10), Sharding(0, 0, 0).file_of(0)
        ('0a.shard', '0.shard')
        """
        return f"{shard:0{max(1, -(-self.shard_bits // 4))}x}.shard"


def bits_of(counts: Sequence[int]) -> tuple[int, ...]:
    """Return the bits that a chunk's position needs along each axis."""
    return tuple(max(0, count - 1).bit_length() for count in counts)


def number_of(position: Sequence[int], bits: Sequence[int]) -> int:
    """Return the number of a chunk, its compressed Morton code.

    Examples
    --------
    >>> [number_of(position, (2, 1, 0)) for position in ((1, 0, 0), (0, 1, 0), (3, 1, 0))]
    [1, 2, 7]
    """
    number = n_bits = 0
    for level in range(max(bits, default=0)):
        for axis, needed in enumerate(bits):
            if level < needed:
                number |= (position[axis] >> level & 1) << n_bits
                n_bits += 1
    return number


def boxes(bits: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the boxes that shards can have, in chunks along each axis, the smallest first.

    Examples
    --------
    >>> list(boxes((2, 1, 0)))
    [(1, 1, 1), (2, 1, 1), (2, 2, 1), (4, 2, 1)]
    """
    box = [1] * len(bits)
    yield tuple(box)
    for level in range(max(bits, default=0)):
        for axis, needed in enumerate(bits):
            if level < needed:
                box[axis] *= 2
                yield tuple(box)


def sharding_of(box: Sequence[int], bits: Sequence[int], data_encoding: str) -> Sharding:
    """Return the sharding whose shards are boxes of this many chunks."""
    n_bits = sum(count.bit_length() - 1 for count in box)
    preshift = min(n_bits, _PRESHIFT)
    return Sharding(
        preshift,
        n_bits - preshift,
        sum(bits) - n_bits,
        index_encoding=data_encoding,
        data_encoding=data_encoding,
    )


def murmur(number: int) -> int:
    """Return the low 64 bits of MurmurHash3_x86_128 of a number of 64 bits."""
    first, second = number & _WORD, number >> 32 & _WORD
    one = _turn(first * 0x239B961B & _WORD, 15) * 0xAB0E9789 & _WORD
    two = _turn(second * 0xAB0E9789 & _WORD, 16) * 0x38B34AE5 & _WORD
    words = _spread([word ^ 8 for word in (one, two, 0, 0)])
    words = _spread([_mix(word) for word in words])
    return words[0] | words[1] << 32


def _turn(word: int, n_bits: int) -> int:
    return (word << n_bits | word >> (32 - n_bits)) & _WORD


def _spread(words: list[int]) -> list[int]:
    first = sum(words) & _WORD
    return [first, *((word + first) & _WORD for word in words[1:])]


def _mix(word: int) -> int:
    word = (word ^ word >> 16) * 0x85EBCA6B & _WORD
    word = (word ^ word >> 13) * 0xC2B2AE35 & _WORD
    return word ^ word >> 16


def pack_shard(sharding: Sharding, chunks: Mapping[int, bytes]) -> Iterator[bytes]:
    """Yield the content of a shard in pieces, from its encoded chunks by number."""
    by_minishard: dict[int, list[int]] = {}
    for number in sorted(chunks):
        by_minishard.setdefault(sharding.place_of(number)[1], []).append(number)
    places = np.zeros((1 << sharding.minishard_bits, 2), "<u8")
    indices, offset = list[bytes](), 0
    order = sorted(by_minishard)
    for minishard in order:
        sizes = [len(chunks[number]) for number in by_minishard[minishard]]
        # Chunks of a minishard follow each other, so only the first has an offset.
        steps = np.diff(np.array(by_minishard[minishard], "<u8"), prepend=np.uint64(0))
        starts = np.zeros(len(sizes), "<u8")
        starts[0] = offset
        index = np.stack([steps, starts, np.array(sizes, "<u8")]).astype("<u8").tobytes()
        indices.append(_compress(index) if sharding.index_encoding == GZIP else index)
        offset += sum(sizes)
    for minishard, index in zip(order, indices, strict=True):
        places[minishard] = offset, offset + len(index)
        offset += len(index)
    yield places.tobytes()
    for minishard in order:
        yield from (chunks[number] for number in by_minishard[minishard])
    yield from indices


def _compress(data: bytes) -> bytes:
    stream = zlib.compressobj(_LEVEL, wbits=_GZIP_HEADER)
    return stream.compress(data) + stream.flush()


def unpack_index(sharding: Sharding, data: bytes, most: int) -> NDArray[np.uint64]:
    """Return number, offset and size of the chunks of a minishard, which has `most` at most.

    Offsets are relative to the end of the shard's index.

    Raises
    ------
    ValueError
        If it is invalid; the message completes "the file ...".
    """
    longest = 24 * most
    if sharding.index_encoding == GZIP:
        stream = zlib.decompressobj(_GZIP_HEADER)
        try:
            data = stream.decompress(data, longest + 1)
        except zlib.error as error:
            raise ValueError(f"has an index that cannot be decoded: {error}") from error
    if len(data) % 24 or len(data) > longest:
        raise ValueError(f"has an index of {len(data)} bytes, expected 24 for each chunk")
    entries = np.frombuffer(data, "<u8").reshape(3, -1).astype(np.uint64)
    # Overflows are found when an offset is compared with the size of the file.
    entries[0] = np.cumsum(entries[0])
    entries[1] = np.cumsum(entries[1]) + np.cumsum(entries[2]) - entries[2]
    return entries
