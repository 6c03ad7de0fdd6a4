"""The text in a TIFF file that gives the shape of its array, the names of axes, and the space.

Plain files have JSON that tifffile reads, OME-TIFF files have OME-XML. Both also have a place for
what they have no field for: the exact space and the headers of other formats.
"""

from __future__ import annotations

import json
from math import prod
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from xxhash import xxh3_128_digest

from dask_io.formats.tiff.ome_contents import NAMESPACE
from dask_io.formats.tiff.space import codes_of, rounded
from dask_io.stores.own_attribute import KEY, own_value
from dask_io.stores.space import AxisType, shown_names
from dask_io.stores.spec import CHANNEL_NAMES, SPACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.stores.space import Space

_INFERRED = {2: "YX", 3: "ZYX", 4: "CZYX", 5: "TCZYX"}
_SAMPLES, _MOST_SAMPLES = "S", 2**16 - 1
# Channels that are stored as colours: red, green and blue, perhaps with transparency.
_COLOURS, _COLOUR_DTYPES = {3, 4}, {np.dtype("u1"), np.dtype("u2")}
# OME's symbols for units, by the words of Dask IO.
_UNITS = {
    "meter": "m",
    "decimeter": "dm",
    "centimeter": "cm",
    "millimeter": "mm",
    "micrometer": "\N{MICRO SIGN}m",
    "nanometer": "nm",
    "picometer": "pm",
    "angstrom": "\N{LATIN CAPITAL LETTER A WITH RING ABOVE}",
    "inch": "in",
    "second": "s",
    "millisecond": "ms",
    "microsecond": "\N{MICRO SIGN}s",
    "minute": "min",
    "hour": "h",
    "day": "d",
}


def has_samples(space: Space | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Tell whether the last axis holds the samples of an element, such as its colours.

    It does if it is called so, or if it is an axis of channels that can be red, green and blue.
    """
    if space is None or len(shape) <= 2 or shape[-1] > _MOST_SAMPLES:  # noqa: PLR2004 - rows and columns
        return False
    if codes_of(space, len(shape)).endswith(_SAMPLES):
        return True
    is_channel = space.axes[-1].type == AxisType.CHANNEL
    return is_channel and shape[-1] in _COLOURS and dtype.newbyteorder("=") in _COLOUR_DTYPES


def _codes(shape: tuple[int, ...], dtype: np.dtype[Any], space: Space | None) -> str:
    """Return the letters of the axes; channels that are stored as samples have the letter S."""
    codes = codes_of(space, len(shape))
    if codes and _SAMPLES not in codes and has_samples(space, shape, dtype):
        return codes[:-1] + _SAMPLES
    return codes


def _own_json(shape: tuple[int, ...], metadata: Mapping[str, Any]) -> dict[str, Any]:
    own = own_value(metadata)
    return {"shape": list(shape), **({KEY: own} if own else {})}


def describe_plain(
    shape: tuple[int, ...], dtype: np.dtype[Any], metadata: Mapping[str, Any]
) -> bytes:
    """Return JSON with the shape of an array, as tifffile reads it."""
    found = _own_json(shape, metadata)
    if codes := _codes(shape, dtype, metadata.get(SPACE)):
        found["axes"] = codes
    return json.dumps(found).encode("ascii") + b"\0"


def ome_axes(space: Space | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[str, bool]:
    """Return the letters of the axes of an OME image, and whether they were inferred.

    Raises
    ------
    ValueError
        If OME-TIFF does not allow such axes; the message completes "the format ...".
    """
    n_axes = len(shape)
    names = [axis.name for axis in space.axes] if space is not None else [None] * n_axes
    codes, usual = _codes(shape, dtype, space), _INFERRED.get(n_axes, "")
    is_inferred = not codes and None in names
    if is_inferred and all(
        name is None or name.upper() == code for name, code in zip(names, usual, strict=False)
    ):
        codes = usual
    if not codes.endswith(("YX", "YXS")):
        shown = ", ".join(shown_names(names)) if any(names) else ""
        found = f"axes {shown}" if shown else f"{n_axes} axes"
        raise ValueError(
            f"stores OME images with the axes t, c, z in any order, then y, x; found {found}; "
            "choose a target ending in .tif, or give the axes with --axes"
        )
    return codes, is_inferred


def describe_ome(
    shape: tuple[int, ...], dtype: np.dtype[Any], metadata: Mapping[str, Any]
) -> bytes:
    """Return OME-XML for an array, with an annotation for the exact shape and space.

    Raises
    ------
    ValueError
        If OME-TIFF cannot describe it; the message completes "the format ...".
    """
    from tifffile import OmeXml  # noqa: PLC0415 - slow, and needed for OME-TIFF only
    from tifffile.tifffile import OmeXmlError  # noqa: PLC0415

    space = metadata.get(SPACE)
    codes, _ = ome_axes(space, shape, dtype)
    own = json.dumps(_own_json(shape, metadata))
    samples = shape[-1] if codes.endswith(_SAMPLES) else 1
    rows, columns = shape[-3:-1] if codes.endswith(_SAMPLES) else shape[-2:]
    stored = (prod(shape) // (rows * columns * samples), 1, 1, rows, columns, samples)
    about = _sizes(space, codes)
    if names := names_of_channels(shape, dtype, metadata):
        about["Channel"] = {"Name": list(names)}
    # The header of a target must not differ from run to run.
    identity = UUID(bytes=xxh3_128_digest(f"{own}{dtype.str}".encode()))
    try:
        made = OmeXml(UUID=str(identity), Creator="dask-io")
        made.addimage(dtype.newbyteorder("="), shape, stored, axes=codes, **about)
        text = made.tostring(declaration=True)
    except OmeXmlError as error:
        raise ValueError(f"cannot describe the array in OME-XML: {error}") from error
    value = own.replace("&", "&amp;").replace("<", "&lt;")
    note = (
        f'<StructuredAnnotations><CommentAnnotation ID="Annotation:0" Namespace="{NAMESPACE}">'
        f"<Value>{value}</Value></CommentAnnotation></StructuredAnnotations></OME>"
    )
    return text.replace("</OME>", note).encode() + b"\0"


def names_of_channels(
    shape: tuple[int, ...], dtype: np.dtype[Any], metadata: Mapping[str, Any]
) -> Sequence[str]:
    """Return the names of the channels that OME-XML can keep: one for each along an axis c."""
    names: Sequence[str] = metadata.get(CHANNEL_NAMES, ())
    codes, _ = ome_axes(metadata.get(SPACE), shape, dtype)
    is_alike = "C" in codes and shape[codes.index("C")] == len(names)
    return names if is_alike and _SAMPLES not in codes else ()


def _sizes(space: Space | None, codes: str) -> dict[str, Any]:
    """Return the attributes of OME-XML for the steps along the axes."""
    found: dict[str, Any] = {}
    if space is None or space.affine is None:
        return found
    for code, axis, step in zip(codes, space.axes, space.affine.steps, strict=True):
        key = "TimeIncrement" if code == "T" else f"PhysicalSize{code}"
        if code not in "XYZT" or not step:
            continue
        if axis.unit in _UNITS:
            found |= {key: rounded(step), f"{key}Unit": _UNITS[axis.unit]}
        elif axis.unit is None and code != "T":
            found |= {key: rounded(step), f"{key}Unit": "pixel"}
    return found
