"""FreeSurfer's MGH volumes, for reading: a header of 284 bytes, then the elements, big-endian.

``.mgz`` files are the same, compressed with gzip.

The axes are those of nibabel: the first is the fastest, and a single frame has no axis. Scan
parameters and tags after the data are skipped. Any number of files may be read at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dask_io.geometry import Layout
from dask_io.stores.block_format import Format, Header
from dask_io.stores.gzip_targets import gzip_variant
from dask_io.stores.header_parsing import affine_of, check_shape
from dask_io.stores.space import AxisType, Space, SpaceAxis

if TYPE_CHECKING:
    from dask_io.stores.block_format import Peek

_LENGTH, _LONGEST_FOOTER = 284, 2**20
_TYPES = {0: "u1", 1: ">i4", 3: ">f4", 4: ">i2", 10: ">u2"}
_HEADER = np.dtype(
    [
        ("version", ">i4"),
        ("dims", ">i4", 4),
        ("type", ">i4"),
        ("dof", ">i4"),
        ("is_placed", ">i2"),
        ("steps", ">f4", 3),
        ("cosines", ">f4", (3, 3)),
        ("center", ">f4", 3),
    ]
)
_COORDINATES = ("right", "anterior", "superior")
_AXIS = SpaceAxis(unit="mm", type=AxisType.SPACE)


def parse_header(peek: Peek) -> Header:
    """Read a header without trusting it."""
    content = peek(_LENGTH)
    if content[:4] != b"\0\0\0\1":
        raise ValueError("is not an MGH file of version 1")
    if len(content) < _LENGTH:
        raise ValueError("is truncated: it ends within its header")
    found = np.frombuffer(content, _HEADER, 1)[0]
    if int(found["type"]) not in _TYPES:
        raise ValueError(f"has elements of type {found['type']}, which is not supported")
    dtype, shape = np.dtype(_TYPES[int(found["type"])]), tuple(map(int, found["dims"]))
    check_shape(shape, dtype)
    axes, frames = [_AXIS] * 3, [SpaceAxis()] if shape[3] != 1 else []
    affine = None
    if found["is_placed"] == 1:
        # `affine_of` refuses numbers that are not finite.
        with np.errstate(all="ignore"):
            steps, cosines, center = (
                found[k].astype(float) for k in ("steps", "cosines", "center")
            )
            columns = cosines * steps[:, np.newaxis]
            # The center lies between elements if there is an even number of them.
            origin = center - np.array(shape[:3]) / 2 @ columns
        still = [[0.0] * 3] if frames else []
        affine = affine_of([*columns.tolist(), *still], origin.tolist(), _COORDINATES)
    shape = shape if frames else shape[:3]
    space, layout = Space((*axes, *frames), affine), Layout.f(len(shape))
    return Header(shape, dtype, layout, _LENGTH, space)


def make_header(block: Header) -> bytes:
    """Refuse to write."""
    raise ValueError(f"is read, but not written; write {block.dtype} elements with --format npy")


_PLAIN = Format(
    "mgh",
    (".mgh",),
    _LENGTH + _LONGEST_FOOTER,
    parse_header,
    make_header,
    has_space=True,
    order="F",
    is_read_only=True,
    most_after=_LONGEST_FOOTER,
)
FORMAT = replace(_PLAIN, variants=(gzip_variant(_PLAIN, ".mgz", ".mgh.gz"),))
