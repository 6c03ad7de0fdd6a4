"""Refuse TIFF files that lack pages, which tifffile would leave out or fill with zeros.

tifffile reports such files with log messages, and log messages may be turned off.
"""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from dask_io.formats.tiff.series_metadata import is_alike, ome_pixels

if TYPE_CHECKING:
    from collections.abc import Mapping

_DESCRIPTION = 270


def find_missing(file: Any, series: Any, size: int) -> str | None:
    """Return what a file lacks; None if it is complete. The message completes "the file ..."."""
    return (
        _missing_directory(file)
        or _missing_text(file, size)
        or _missing_planes(file, series)
        or _missing_pages(file, series)
    )


def _missing_directory(file: Any) -> str | None:
    """Follow the last directory: no other one may come after it."""
    handle, form, n_pages = file.filehandle, file.tiff, len(file.pages)
    last = file.pages[n_pages - 1].offset if n_pages else 0
    handle.seek(last)
    try:
        (n_tags,) = struct.unpack(form.tagnoformat, handle.read(form.tagnosize))
        handle.seek(last + form.tagnosize + n_tags * form.tagsize)
        (following,) = struct.unpack(form.offsetformat, handle.read(form.offsetsize))
    except struct.error:
        return f"is truncated: it has {handle.size} bytes, but the directory of a page follows"
    if following >= handle.size:
        return (
            f"is truncated: it has {handle.size} bytes, but the directory of page {n_pages + 1} "
            f"begins at {following}"
        )
    return None


def _missing_text(file: Any, size: int) -> str | None:
    """Find the end of the description; tifffile ignores a tag whose value is truncated."""
    handle, form = file.filehandle, file.tiff
    handle.seek(file.pages.first.offset)
    (n_tags,) = struct.unpack(form.tagnoformat, handle.read(form.tagnosize))
    width = form.offsetformat[-1].upper()
    entries = handle.read(n_tags * form.tagsize)
    for tag, _, n_bytes, offset in struct.iter_unpack(f"{form.byteorder}HH{width}{width}", entries):
        if tag == _DESCRIPTION and n_bytes > form.offsetsize and offset + n_bytes > size:
            return (
                f"is truncated: it has {size} bytes, but its description ends at {offset + n_bytes}"
            )
    return None


def _missing_planes(file: Any, series: Any) -> str | None:
    """Describe the planes of an image for which there is no page."""
    n_missing = sum(page is None for page in series)
    if not n_missing:
        return None
    folder = Path(file.filehandle.dirname)
    for name in _files_named(file.ome_metadata if series.kind == "ome" else None):
        if not (folder / name).is_file():
            return f"is incomplete: its description refers to {name}, which does not exist"
    return f"is truncated: {n_missing} of the {len(series)} planes of the image have no page"


def _files_named(text: str | None) -> list[str]:
    """Return the names of files in OME-XML."""
    root = ET.fromstring(text) if text else None  # noqa: S314 - within limits, in a subprocess
    found = () if root is None else (one.attrib.get("FileName") for one in root.iter())
    return list(dict.fromkeys(name for name in found if name))


def _missing_pages(file: Any, series: Any) -> str | None:
    """Compare the number of pages with the one that the description states."""
    page, n_pages = series.keyframe, len(file.pages)
    planes, _, rows, columns, samples = page.shaped
    n_expected = 0
    if file.is_imagej:
        n_expected = _count((file.imagej_metadata or {}).get("images"))
        # All images may follow the first page, without pages of their own.
        n_pages = max(n_pages * planes, prod(series.shape) // (rows * columns))
    elif series.kind == "shaped":
        shape = file.shaped_metadata[0]["shape"] if file.shaped_metadata else ()
        in_page = [n for n in page.shape if n != 1]
        described = [n for n in shape if n != 1]
        leading, rest = described[: -len(in_page) or None], described[-len(in_page) :]
        if is_alike(rest, page.shape) and series is file.series[0]:
            n_expected, n_pages = prod(leading), max(n_pages, prod(series.shape) // page.size)
    elif file.is_ome and series.kind != "ome":
        pixels = ome_pixels(file.ome_metadata)
        n_expected = _planes_of(pixels[0]) if pixels else 0
        n_pages *= planes * samples
    if n_pages < n_expected:
        return f"is truncated: it has {n_pages} pages, but its description states {n_expected}"
    return None


def _planes_of(pixels: Mapping[str, str]) -> int:
    return prod(_count(pixels.get(f"Size{axis}")) for axis in "ZCT")


def _count(value: object) -> int:
    """Return a positive number; 1 if it is missing or invalid."""
    text = str(value)
    return int(text) if text.isdecimal() else 1
