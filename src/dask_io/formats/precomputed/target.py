"""Writing a precomputed volume with one scale."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.formats.precomputed.create import describe_new
from dask_io.formats.precomputed.names import ShardFileNames
from dask_io.formats.precomputed.sharding import bits_of, number_of, pack_shard
from dask_io.formats.precomputed.source import (
    FORMAT_NAME,
    StoredScale,
    WrittenFiles,
    read_description,
)
from dask_io.formats.precomputed.volume import DOCUMENT, find_scale, read_scale
from dask_io.geometry import Region
from dask_io.storage.files import write_whole
from dask_io.stores.chunk_files import ChunkFilesTarget, is_valid
from dask_io.stores.chunked_source import ChunkedSource
from dask_io.stores.json_documents import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.chunk_files import ChunkFiles
    from dask_io.stores.container import NewArray
    from dask_io.stores.encoded import AsStored


def make_precomputed(
    path: Location,
    inside: str,
    wanted: NewArray,
    *,
    overwrite: bool,
    durability: Durability,
    reserve: bool,  # noqa: ARG001 - chunks are written at once
) -> PrecomputedTarget:
    """Describe a volume in a directory; nothing is touched.

    Raises
    ------
    UsageError
        If a volume cannot hold it, or does not support an option.
    """
    if inside:
        raise UsageError(
            f"{path} would be a new volume, which gets one scale, named by its resolution; leave "
            f"out ::/{inside}"
        )
    options = wanted.options
    if options.fill_value is not None and wanted.fill_value != 0:
        raise UsageError(
            "precomputed volumes have no fill value, chunks that are not stored are 0; leave it out"
        )
    # The others are those that precomputed volumes do not have.
    replace(options, codec=None, shards=None, fill_value=None, write_empty=False).refuse(
        FORMAT_NAME
    )
    document, inferred_axes = describe_new(wanted)
    return PrecomputedTarget(
        StoredScale(path, document),
        write_empty=options.write_empty,
        overwrite=overwrite,
        durability=durability,
        inferred_axes=inferred_axes,
    )


def remake_precomputed(
    described: Mapping[str, Any],
    at: Location,
    *,
    durability: Durability,
    reserve: bool,  # noqa: ARG001 - as above
) -> PrecomputedTarget:
    """Describe a target of an earlier run again.

    Raises
    ------
    ValueError
        If the description is invalid.
    """
    stored = read_description(described, at)
    if stored.scale.sharding is not None and stored.scale.shard_box is None:
        raise ValueError("has shards that are not boxes")
    return PrecomputedTarget(
        stored,
        write_empty=described.get("write_empty") is True,
        overwrite=False,
        durability=durability,
    )


class PrecomputedTarget(ChunkFilesTarget):
    """A volume that is written, in chunks or shards; its document is written last."""

    format = FORMAT_NAME

    def __init__(
        self,
        stored: StoredScale,
        *,
        write_empty: bool,
        overwrite: bool,
        durability: Durability,
        inferred_axes: str = "",
    ) -> None:
        self.stored, self.inferred_axes = stored, inferred_axes
        super().__init__(
            stored.folder,
            stored.scale.spec(in_shards=True),
            stored.scale.names(),
            write_empty=write_empty,
            overwrite=overwrite,
            durability=durability,
        )

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the scale."""
        return MappingProxyType(self.stored.scale.described(self.spec))

    @property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds: a shard's encoded chunks are held until the last."""
        of_shard = 0 if self.spec.index is None else self.spec.longest_file
        return super().codec_bytes + of_shard

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the target can be created again."""
        return {**self.stored.describe(), "write_empty": self.write_empty}

    def pack(
        self,
        index: tuple[int, ...],
        shard: NDArray[Any],
        encode: Callable[[NDArray[Any]], NDArray[np.uint8] | None],
    ) -> Iterator[Any]:
        """Yield the content of a shard: where its chunks are comes first, so all are encoded."""
        names, chunks = self.names, self.spec.chunks
        assert isinstance(names, ShardFileNames), "only for volumes in shards"
        frame, bits, encoded = names.frame, bits_of(names.frame.counts), dict[int, bytes]()
        counts = [-(-n // chunk) for n, chunk in zip(shard.shape, chunks, strict=True)]
        first = [at * n for at, n in zip(frame.xyz(index), names.box, strict=True)]
        for place in product(*map(range, counts)):
            low = [at * n for at, n in zip(place, chunks, strict=True)]
            high = [min(a + n, m) for a, n, m in zip(low, chunks, shard.shape, strict=True)]
            found = encode(shard[Region(tuple(low), tuple(high)).slices])
            if found is not None:
                position = [a + b for a, b in zip(first, frame.xyz(place), strict=True)]
                encoded[number_of(position, bits)] = found.tobytes()
        if encoded:
            yield from pack_shard(names.sharding, encoded)

    def look_back(self) -> ChunkedSource[ChunkFiles] | AsStored:
        """Open the written volume, even if its document has changed."""
        return ChunkedSource(WrittenFiles(self.stored)).as_written()

    def is_described(self) -> bool:
        """Tell whether the volume's document is valid."""
        return is_valid(self._understand)

    def _understand(self) -> object:
        info = read_json(self.folder.path, DOCUMENT)
        return None if info is None else read_scale(info, find_scale(info, ""))

    def _complete(self) -> None:
        write_whole(self.folder.path / DOCUMENT, self.stored.document)
