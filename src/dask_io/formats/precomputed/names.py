"""Names of the files of a scale: chunks by their bounds in voxels, or shards by their number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dask_io.formats.precomputed.sharding import bits_of, number_of

if TYPE_CHECKING:
    from dask_io.formats.precomputed.sharding import Sharding

GZIPPED = ".gz"
"""Suffix of chunk files that cloud-volume has compressed."""
_RANGE = "(-?[0-9]{1,18})-(-?[0-9]{1,18})"
_CHUNK = re.compile(f"{_RANGE}_{_RANGE}_{_RANGE}").fullmatch
_SHARD = re.compile(r"([0-9a-f]{1,16})\.shard").fullmatch


@dataclass(frozen=True, slots=True)
class Frame:
    """The chunks of a scale along x, y and z, and how an array presents these axes.

    Attributes
    ----------
    size, chunk, offset
        Voxels of the scale, those of a chunk, and the position of the first, for x, y and z.
    axes
        The letters x, y, z and c in the order of the array's axes.
    """

    size: tuple[int, ...]
    chunk: tuple[int, ...]
    offset: tuple[int, ...]
    axes: str

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of chunks along x, y and z."""
        return tuple(-(-n // c) for n, c in zip(self.size, self.chunk, strict=True))

    def present(self, xyz: tuple[int, ...], channel: int) -> tuple[int, ...]:
        """Return numbers for x, y, z and the channel in the order of the array's axes."""
        known = dict(zip("xyzc", (*xyz, channel), strict=True))
        return tuple(known[axis] for axis in self.axes)

    def xyz(self, presented: tuple[int, ...]) -> tuple[int, ...]:
        """Return the numbers for x, y and z of those for the array's axes."""
        return tuple(presented[self.axes.index(axis)] for axis in "xyz")


@dataclass(frozen=True, slots=True)
class ChunkFileNames:
    """Names of chunks, each in its own file.

    Examples
    --------
    >>> names = ChunkFileNames("8_8_30", Frame((10, 7, 5), (4, 4, 4), (100, 0, -3), "xyz"))
    >>> names.name_of((2, 0, 1)), names.parse("8_8_30/108-110_0-4_1-2")
    ('8_8_30/108-110_0-4_1-2', (2, 0, 1))
    """

    key: str
    frame: Frame

    def name_of(self, index: tuple[int, ...]) -> str:
        """Return the path of a chunk within the volume."""
        frame, bounds = self.frame, []
        fields = zip(frame.xyz(index), frame.size, frame.chunk, frame.offset, strict=True)
        for at, size, chunk, offset in fields:
            stop = min((at + 1) * chunk, size)
            bounds.append(f"{offset + at * chunk}-{offset + stop}")
        return f"{self.key}/{'_'.join(bounds)}"

    def parse(self, name: str) -> tuple[int, ...] | None:
        """Return the index of the chunk with this path, None if it is not the path of a chunk."""
        folder, _, last = name.removesuffix(GZIPPED).rpartition("/")
        found = _CHUNK(last) if folder == self.key else None
        if found is None:
            return None
        starts = map(int, found.groups()[::2])
        fields = zip(starts, self.frame.chunk, self.frame.offset, strict=True)
        index = self.frame.present(tuple((n - offset) // c for n, c, offset in fields), 0)
        is_there = min(index) >= 0 and self.name_of(index).rpartition("/")[2] == last
        return index if is_there else None


@dataclass(frozen=True, slots=True)
class ShardFileNames:
    """Names of shards that are boxes of chunks.

    Attributes
    ----------
    box
        Chunks of a shard along x, y and z, each a power of two.
    """

    key: str
    frame: Frame
    sharding: Sharding
    box: tuple[int, ...]

    def name_of(self, index: tuple[int, ...]) -> str:
        """Return the path of a shard within the volume."""
        first = tuple(at * n for at, n in zip(self.frame.xyz(index), self.box, strict=True))
        shard, _ = self.sharding.place_of(number_of(first, bits_of(self.frame.counts)))
        return f"{self.key}/{self.sharding.file_of(shard)}"

    def parse(self, name: str) -> tuple[int, ...] | None:
        """Return the index of the shard with this path, None if it is not the path of a shard."""
        folder, _, last = name.rpartition("/")
        found = _SHARD(last) if folder == self.key else None
        if found is None:
            return None
        low = self.sharding.preshift_bits + self.sharding.minishard_bits
        number, position, n_bits = int(found[1], 16) << low, [0, 0, 0], 0
        bits = bits_of(self.frame.counts)
        for level in range(max(bits)):
            for axis, needed in enumerate(bits):
                if level < needed:
                    position[axis] |= (number >> n_bits & 1) << level
                    n_bits += 1
        index = tuple(at // n for at, n in zip(position, self.box, strict=True))
        presented = self.frame.present(index, 0)
        return presented if self.name_of(presented) == name else None


def could_be_file(name: str) -> bool:
    """Tell whether a path within a volume could be that of a chunk or a shard."""
    folder, _, last = name.rpartition("/")
    return bool(folder) and bool(_CHUNK(last.removesuffix(GZIPPED)) or _SHARD(last))
