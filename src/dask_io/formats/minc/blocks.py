"""MINC files with one block each: all metadata, then the elements, and nothing after them."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]

from dask_io.errors import DaskIOError
from dask_io.formats.hdf5.dialects import (
    creation_plist,
    make_head,
    open_head,
    type_of,
    understand,
    understanding,
)
from dask_io.formats.isolation import WORKER, Limits
from dask_io.formats.minc.hdf5_file import PATH_OF_IMAGE, ROOT, find, volume_in, write_volume
from dask_io.formats.minc.source import open_image
from dask_io.formats.minc.volume import kept_metadata, volume_for
from dask_io.stores.block_format import Format, Header
from dask_io.stores.spec import SPACE

if TYPE_CHECKING:
    from dask_io.stores.block_format import Peek

_LONGEST_HEADER, _FIRST_LOOK = 16 * 2**20, 2**16


def parse_header(peek: Peek) -> Header:
    """Read everything before the elements of a block."""
    n_bytes = _FIRST_LOOK
    while True:
        head = peek(n_bytes)
        found = WORKER.call(Limits.for_file(len(head)), _read_head, head)
        if isinstance(found, Header):
            return found
        if not len(head) < found <= _LONGEST_HEADER or len(head) < n_bytes:
            raise ValueError("is not a MINC file of one block: its image does not come last")
        n_bytes = found


def _read_head(head: bytes) -> Header | int:
    """Return the header of a block, or the number of bytes needed to read it."""
    block = Path("block")
    try:
        with understanding(block), open_head(head) as file:
            image = find(file, PATH_OF_IMAGE)
            if not isinstance(image, h5py.Dataset):
                raise ValueError(f"it has no image at /{PATH_OF_IMAGE}")  # noqa: TRY004 - wrong data
            array, offset = understand(image), image.id.get_offset()
            if array.chunks is not None:
                raise ValueError("its image is in chunks")
            if offset is not None and offset > len(head):
                return int(offset)
            volume = volume_in(file)
    except DaskIOError as error:
        reason = str(error).removeprefix("block: ")
        raise ValueError(f"is not a MINC file of one block: {reason}") from error
    begin = len(head) if offset is None else int(offset)
    return Header(
        array.shape,
        array.spec.dtype,
        array.spec.layout,
        begin,
        volume.space,
        metadata=volume.metadata,
    )


def make_header(block: Header) -> bytes:
    """Return everything before the elements of a block."""
    shape, dtype = block.shape, block.dtype
    if len(block.start) not in {0, len(shape)}:
        raise ValueError("stores blocks with all axes, not slices; write a field for each axis")
    volume = volume_for({**block.metadata, SPACE: block.space}, shape, dtype, block.start)

    def make(file: Any) -> Any:
        group, space = file.require_group(f"{ROOT}/image/0"), h5py.h5s.create_simple(shape)
        made = h5py.h5d.create(group.id, b"image", type_of(dtype), space, creation_plist())
        write_volume(file, volume)
        return made

    return make_head(make, prod(shape) * dtype.itemsize, _LONGEST_HEADER)


FORMAT = Format(
    "minc",
    (".mnc",),
    _LONGEST_HEADER,
    parse_header,
    make_header,
    has_space=True,
    keep=kept_metadata,
    order="C",
    open_file=open_image,
)
