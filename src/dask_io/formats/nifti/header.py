"""Headers of NIfTI files, version 1 and 2: reading untrusted ones, and creating new ones.

nibabel's header classes parse the fields. The values are checked here before they are used, as
nibabel accepts negative dimensions, for example.

The header of an array is kept byte for byte in its metadata, with the extensions that follow it.
The header of a new file is that header with other dimensions and another position.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from nibabel.nifti1 import Nifti1Header, data_type_codes
from nibabel.nifti2 import Nifti2Header
from nibabel.spatialimages import HeaderDataError

from dask_io.formats.nifti.placing import place_header, space_of
from dask_io.formats.nifti.scaling import describe_scaling, set_scaling
from dask_io.geometry import Layout
from dask_io.stores.block_format import Header
from dask_io.stores.kept_headers import header_in, with_header

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.stores.block_format import Peek

KEY = "nifti"
"""Name of the format, under which the metadata of an array keeps its header."""
LONGEST_HEADER = 2**24
"""Greatest accepted size of everything before the data, most of which may be extensions."""
LONGEST_DIMENSION = 2**15 - 1
"""Elements along an axis of a NIfTI-1 file."""
_MOST_AXES = 7
_EXTENDER = 4
_EXTENSION = 8
_PEEKED = 1024
_KINDS = {348: (1, Nifti1Header), 540: (2, Nifti2Header)}
_MAGIC = {(1, False): b"n+1", (1, True): b"ni1", (2, False): b"n+2", (2, True): b"ni2"}
_EOL = (13, 10, 26, 10)
_BINARY = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """The header of an array and its extensions, as they are kept in its metadata.

    Attributes
    ----------
    content
        The header: 348 bytes for version 1, 540 for version 2.
    extensions
        Code and content of each extension, with its padding.

    Raises
    ------
    ValueError
        If the content is not a NIfTI header, or the code of an extension is out of range.
    """

    content: bytes
    extensions: tuple[tuple[int, bytes], ...] = ()

    def __post_init__(self) -> None:
        if len(self.content) not in _KINDS or _byte_order(self.content) is None:
            raise ValueError("cannot store metadata that is not a NIfTI header")
        if not all(-(2**31) <= code < 2**31 for code, _ in self.extensions):
            raise ValueError("cannot store an extension whose code is not a 32-bit integer")

    @property
    def header(self) -> Nifti1Header:
        """A copy of the header, in its own byte order."""
        _, kind = _KINDS[len(self.content)]
        return kind(self.content, _byte_order(self.content), check=False)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for the metadata."""
        listed = [[code, b64encode(content).decode()] for code, content in self.extensions]
        return {"header": b64encode(self.content).decode(), "extensions": listed}

    @classmethod
    def find(cls, metadata: Mapping[str, Any]) -> Kept | None:
        """Return the header that an array's metadata keeps, None if it keeps no header.

        Raises
        ------
        ValueError
            If the key contains something else; the message completes "the format ...".
        """
        stored = header_in(metadata, KEY)
        if stored is None:
            return None
        try:
            listed = tuple((int(code), str(content)) for code, content in stored["extensions"])
            return _decode(str(stored["header"]), listed)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError("cannot store metadata that is not a NIfTI header") from error


# Cached because every block of an array uses the same header.
@lru_cache(maxsize=8)
def _decode(header: str, extensions: tuple[tuple[int, str], ...]) -> Kept:
    try:
        decoded = tuple((code, b64decode(text, validate=True)) for code, text in extensions)
        return Kept(b64decode(header, validate=True), decoded)
    except Base64Error as error:
        raise ValueError("cannot store metadata that is not a NIfTI header") from error


def _byte_order(content: bytes) -> str | None:
    """Return the byte order of a header, None if it is not a NIfTI header."""
    for order in "<>":
        if struct.unpack(f"{order}i", content[:4])[0] in _KINDS:
            return order
    return None


def parse_header(peek: Peek, *, is_pair: bool = False) -> Header:
    """Read and check an untrusted header; that of a pair is in a file without data."""
    head = peek(_PEEKED)
    if len(head) >= _EXTENDER and _byte_order(head) is None:
        raise ValueError("is not a NIfTI file: it does not begin with a header's length")
    order = _byte_order(head) if len(head) >= _EXTENDER else None
    length = struct.unpack(f"{order}i", head[:4])[0] if order else 0
    if order is None or len(head) < length:
        raise ValueError("is truncated: it ends within its header")
    version, kind = _KINDS[length]
    header = kind(head[:length], order, check=False)
    _check_magic(header, version, is_pair=is_pair)
    shape, dtype = _shape_of(header), _dtype_of(header)
    offset = _offset_of(header, length, is_pair=is_pair)
    # The extensions of a pair are in the file of its header.
    before = peek(LONGEST_HEADER if is_pair else offset)
    if not is_pair and len(before) < offset:
        raise ValueError(f"is truncated: it ends before its data, which begins at byte {offset}")
    kept = Kept(bytes(head[:length]), _extensions_in(before, length, order))
    return Header(
        shape,
        dtype,
        Layout.f(len(shape)),
        offset,
        space_of(header, len(shape)),
        with_header(KEY, kept.to_json()) | describe_scaling(header, dtype),
    )


def _check_magic(header: Nifti1Header, version: int, *, is_pair: bool) -> None:
    magic = bytes(header["magic"].item()).rstrip(b"\0")
    if magic == _MAGIC[version, is_pair]:
        if version == 1 or tuple(header["eol_check"].tolist()) in {_EOL, (0, 0, 0, 0)}:
            return
        raise ValueError("is damaged: its line ends were converted when it was copied")
    if magic == _MAGIC[version, not is_pair]:
        where = "with its data in the same file" if is_pair else "of a pair of .hdr and .img files"
        raise ValueError(f"has the header of a NIfTI file {where}")
    if not magic and version == 1:
        raise ValueError("is an Analyze 7.5 file, not a NIfTI file; open it as format analyze")
    raise ValueError(f"is not a NIfTI file: its magic is {magic!r}")


def _shape_of(header: Nifti1Header) -> tuple[int, ...]:
    n_axes, *lengths = (int(n) for n in header["dim"].tolist())
    if not 1 <= n_axes <= _MOST_AXES:
        raise ValueError(f"has {n_axes} dimensions; 1 to {_MOST_AXES} are allowed")
    shape = tuple(lengths[:n_axes])
    if min(shape) < 0:
        raise ValueError(f"has negative dimensions: {' x '.join(map(str, shape))}")
    return shape


def _dtype_of(header: Nifti1Header) -> np.dtype[Any]:
    code, n_bits = int(header["datatype"]), int(header["bitpix"])
    if code == _BINARY:
        raise ValueError("stores one bit per voxel, which is not supported")
    try:
        dtype: np.dtype[Any] = np.dtype(data_type_codes.dtype[code]).newbyteorder(header.endianness)
    except (KeyError, TypeError) as error:
        raise ValueError(f"has voxels of an unknown data type, code {code}") from error
    if dtype.itemsize < 1 or (dtype.kind == "V" and dtype.names is None):
        raise ValueError(f"has voxels of an unsupported data type, code {code}")
    if n_bits != dtype.itemsize * 8:
        raise ValueError(f"has {n_bits} bits per voxel, which does not match data type {dtype}")
    return dtype


def _offset_of(header: Nifti1Header, length: int, *, is_pair: bool) -> int:
    offset = float(header["vox_offset"])
    if not isfinite(offset) or offset != int(offset) or not 0 <= offset <= LONGEST_HEADER:
        raise ValueError(f"has its data at byte {offset:g}; at most {LONGEST_HEADER} is allowed")
    if is_pair:
        return int(offset)
    # Old writers leave it 0.
    return _past_header(int(offset), length) if offset else length + _EXTENDER


def _past_header(offset: int, length: int) -> int:
    if offset < length + _EXTENDER:
        raise ValueError(f"has its data at byte {offset}, within its header")
    return offset


def _extensions_in(before: bytes, length: int, order: str) -> tuple[tuple[int, bytes], ...]:
    """Return code and content of each extension between a header and the data."""
    found: list[tuple[int, bytes]] = []
    at = length + _EXTENDER
    if len(before) < at + _EXTENSION or not before[length]:
        return ()
    while at + _EXTENSION <= len(before):
        size, code = struct.unpack(f"{order}ii", before[at : at + _EXTENSION])
        if size < _EXTENSION and not any(before[at:]):
            break
        if size < _EXTENSION or at + size > len(before):
            raise ValueError(f"has an extension of invalid size {size} at byte {at}")
        found.append((code, before[at + _EXTENSION : at + size]))
        at += size
    return tuple(found)


def make_header(block: Header, *, is_pair: bool = False) -> bytes:
    """Return the header of a block: that of its array, with the block's dimensions and position."""
    n_axes = len(block.shape)
    if not 1 <= n_axes <= _MOST_AXES:
        raise ValueError(f"has 1 to {_MOST_AXES} dimensions, not {n_axes}")
    kept = Kept.find(block.metadata)
    header = new_header(block.dtype) if kept is None else kept.header
    if max(block.shape) > LONGEST_DIMENSION:
        header = as_version(header, 2)
    header = _in_byte_order(header, block.dtype)
    if int(header["dim"][0]) != n_axes:
        header["dim"] = 1
        header["dim"][0] = n_axes
    header["dim"][1 : n_axes + 1] = block.shape
    _set_dtype(header, block.dtype)
    set_scaling(header, block.metadata)
    place_header(header, block.space, n_axes)
    extensions = kept.extensions if kept is not None else ()
    return _with_extensions(header, extensions, is_pair=is_pair)


def new_header(dtype: np.dtype[Any], version: int = 1) -> Nifti1Header:
    """Return a header for an array without one, with neither position nor scaling."""
    order = ">" if dtype.str[0] == ">" else "<"
    header = (Nifti1Header if version == 1 else Nifti2Header)(endianness=order)
    header["scl_slope"], header["scl_inter"] = 1, 0
    header["dim"] = 1
    header["dim"][0] = 0
    header["pixdim"] = 1
    return header


def as_version(header: Nifti1Header, version: int) -> Nifti1Header:
    """Return a header as one of version 1 or 2, with the same values."""
    kind = Nifti1Header if version == 1 else Nifti2Header
    if header["sizeof_hdr"] == kind.sizeof_hdr:
        return header
    made = kind(endianness=header.endianness)
    own = {"sizeof_hdr", "magic", "vox_offset", "eol_check"}
    for name in set(header.keys()) & set(made.keys()) - own:
        made[name] = header[name]
    # Extensions and alignment decide where the data begins.
    made["vox_offset"] = 0
    return made


def _in_byte_order(header: Nifti1Header, dtype: np.dtype[Any]) -> Nifti1Header:
    """Return a header in the byte order of the voxels, which is the same for a whole file."""
    wanted = dtype.str[0]
    return header if wanted in {"|", header.endianness} else header.as_byteswapped(wanted)


def _set_dtype(header: Nifti1Header, dtype: np.dtype[Any]) -> None:
    try:
        if header.get_data_dtype() != dtype:
            header.set_data_dtype(dtype)
    except HeaderDataError as error:
        raise ValueError(
            f"has no voxels of type {dtype}; give another one, such as --dtype {_nearest(dtype)}"
        ) from error
    if header.get_data_dtype() != dtype:
        raise ValueError(f"stores numbers and colours, not {dtype}; give --dtype")


def _nearest(dtype: np.dtype[Any]) -> str:
    return {"b": "uint8", "f": "float32", "c": "complex64"}.get(dtype.kind, "float64")


def _with_extensions(
    header: Nifti1Header, extensions: tuple[tuple[int, bytes], ...], *, is_pair: bool
) -> bytes:
    length, order = int(header["sizeof_hdr"]), header.endianness
    version, _ = _KINDS[length]
    parts = [bytes([bool(extensions)]) + bytes(_EXTENDER - 1)]
    for code, content in extensions:
        size = -(-(_EXTENSION + len(content)) // 16) * 16
        parts.append(
            struct.pack(f"{order}ii", size, code) + content.ljust(size - _EXTENSION, b"\0")
        )
    rest = b"".join(parts)
    header["magic"] = _MAGIC[version, is_pair]
    if is_pair:
        header["vox_offset"] = 0
        return bytes(header.binaryblock + (rest if extensions else b""))
    needed = -(-(length + len(rest)) // 16) * 16
    offset = max(int(header["vox_offset"]), needed)
    if offset > LONGEST_HEADER:
        raise ValueError(f"has headers of up to {LONGEST_HEADER} bytes; this one needs {offset}")
    header["vox_offset"] = offset
    return bytes((header.binaryblock + rest).ljust(offset, b"\0"))


def compare_scaling(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Say how the scaling of a block's values differs from that of its array."""
    block, whole = Kept.find(found), Kept.find(expected)
    if block is None or whole is None:
        return ""
    for field in ("scl_slope", "scl_inter"):
        a, b = (float(each.header[field]) for each in (block, whole))
        # Neither number changes values where it is not finite.
        if a != b and (isfinite(a) or isfinite(b)):
            return f"has {field} {a:g}, but the other blocks have {b:g}"
    return ""
