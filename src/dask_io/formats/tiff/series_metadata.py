"""The shape, the axes, the space and other metadata of an image, from a file open in tifffile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from dask_io.formats.tiff.decoding import NAMES
from dask_io.formats.tiff.ome_contents import NAMESPACE, has_more_in_ome, ome_channel_names
from dask_io.formats.tiff.space import imagej_steps, make_space, ome_steps, resolution_steps
from dask_io.stores.own_attribute import KEY, read_own
from dask_io.stores.space import Space
from dask_io.stores.spec import CHANNEL_NAMES, LEVELS, SPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SCALAR = 2
# What tifffile and Dask IO write in the description of a plain file.
_SHAPED_KEYS = frozenset(("shape", "axes", "truncate", KEY))
_IMAGEJ_EXTRAS = frozenset(("Info", "Labels", "ROI", "Overlays"))
_MOST_SHOWN = 10


class OnePage:
    """A page that is an image by itself, without building the series of the file."""

    kind, name, levels = "page", "", ()

    def __init__(self, page: Any, file: Any) -> None:
        self.keyframe, self.parent = page, file
        self.shape, self.axes = tuple(page.shape), page.axes

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Any]:
        return iter([self.keyframe])

    @property
    def dataoffset(self) -> int | None:
        """Where its elements begin, if they are in one piece."""
        page = self.keyframe
        return page.dataoffsets[0] if page.is_final and len(page.dataoffsets) else None


def describe(
    file: Any,
    series: Any,
    own: Mapping[str, Any],
    axes: str,
    *,
    place: tuple[int, int],
    shape: tuple[int, ...],
) -> tuple[Space, dict[str, Any]]:
    """Return the space of an image, and its other metadata."""
    page, (number, level) = series.keyframe, place
    metadata: dict[str, Any] = {"kind": series.kind or "generic"}
    name = NAMES[int(page.compression)]
    metadata["codecs"] = [] if name == "none" else [{"id": name}]
    if not isinstance(series, OnePage):
        words = [_words(one, n) for n, one in enumerate(file.series)]
        if len(words) > 1 or len(file.series[0].levels) > 1:
            metadata["series"] = words
            metadata["note"] = f"images in the file: {'; '.join(words[:_MOST_SHOWN])}"
    metadata |= _beyond_array(file, series, page, place)
    if SPACE in own:
        return own[SPACE], {**metadata, **{k: v for k, v in own.items() if k != SPACE}}
    steps, origin = _steps(file, series, page, number), {}
    if level:
        base = file.series[number]
        lengths = dict(zip(base.axes, base.shape, strict=True))
        here = dict(zip(axes, shape, strict=True))
        factors = {code: lengths.get(code, 1) / here.get(code, 1) for code in steps}
        # The centre of an element is that of the finer elements it was made from.
        origin = {code: step * (factors[code] - 1) / 2 for code, (step, _) in steps.items()}
        steps = {code: (step * factors[code], unit) for code, (step, unit) in steps.items()}
    if not axes:
        return Space.unknown(len(shape)), metadata
    return make_space(axes, steps, origin), metadata


def _steps(file: Any, series: Any, page: Any, number: int) -> dict[str, tuple[float, str | None]]:
    resolution = _resolution(page)
    if series.kind == "ome":
        images = ome_pixels(file.ome_metadata)
        return ome_steps(images[number]) if number < len(images) else {}
    if series.kind == "imagej":
        return imagej_steps(file.imagej_metadata or {}, resolution)
    unit = page.tags.valueof(296, 2)
    return resolution_steps(resolution, int(unit) if isinstance(unit, int) else 1)


def _beyond_array(file: Any, series: Any, page: Any, place: tuple[int, int]) -> dict[str, Any]:
    """Return what else describes the image: lists of names, of which targets may keep some."""
    number, level = place
    found: dict[str, Any] = {}
    if level == 0 and len(series.levels) > 1:
        found[LEVELS] = tuple(map(str, range(1, len(series.levels))))
    if series.kind == "ome":
        root = ET.fromstring(file.ome_metadata)  # noqa: S314 - within limits, in a subprocess
        if names := ome_channel_names(root, number):
            found[CHANNEL_NAMES] = names
        has_more = has_more_in_ome(root, number)
    elif series.kind == "imagej":
        has_more = not _IMAGEJ_EXTRAS.isdisjoint(file.imagej_metadata or {})
    else:
        has_more = _is_free_text(page.description)
    if has_more:
        found["texts_of_file"] = ("description",)
    return found


def _is_free_text(description: str) -> bool:
    """Tell whether a description has more than the shape and the axes, as tifffile writes them."""
    if not description.strip():
        return False
    try:
        found = json.loads(description)
    except (ValueError, RecursionError):
        return True
    return not (isinstance(found, dict) and found.keys() <= _SHAPED_KEYS)


def _words(series: Any, number: int) -> str:
    """Return a short description of a series."""
    shape = " x ".join(map(str, series.shape))
    levels = len(series.levels)
    more = f", {levels} levels" if levels > 1 else ""
    name = f" {series.name}" if series.name and series.name.isprintable() else ""
    return f"/{number}{name[:60]}: {series.axes} {shape} {series.dtype}{more}"


def _resolution(page: Any) -> tuple[float, float] | None:
    """Return the elements per unit along x and y; None if the tags are missing or invalid."""
    found = []
    for tag in (282, 283):
        value = page.tags.valueof(tag)
        if not (isinstance(value, tuple) and len(value) == _SCALAR and value[0] and value[1]):
            return None
        found.append(value[0] / value[1])
    return found[0], found[1]


def ome_pixels(text: str | None) -> list[Mapping[str, str]]:
    """Return the attributes of the ``Pixels`` elements of OME-XML."""
    root = ET.fromstring(text) if text else None  # noqa: S314 - within limits, in a subprocess
    if root is None:
        return []
    pixels = (one for one in root.iter() if one.tag.endswith("}Pixels") or one.tag == "Pixels")
    return [one.attrib for one in pixels]


def own_metadata(file: Any, series: Any, page: Any) -> dict[str, Any]:
    """Return what Dask IO stored for itself: the exact shape, the space, and foreign headers."""
    text: Any = None
    if series.kind == "ome" and series is file.series[0]:
        root = ET.fromstring(file.ome_metadata)  # noqa: S314 - within limits, in a subprocess
        notes = (one for one in root.iter() if one.attrib.get("Namespace") == NAMESPACE)
        note = next(notes, None)
        text = None if note is None else "".join(note.itertext())
    elif series.kind == "shaped":
        text = page.description
    try:
        found = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    shape = found.get("shape")
    if not (isinstance(shape, list) and all(type(n) is int and n > 0 for n in shape) and shape):
        return {}
    # Programs such as tiffcp and tiffcrop copy the description, even if they rotate or reorder the
    # elements. The shape of the pages counts.
    if not is_alike(shape, series.shape):
        return {}
    is_in_planes = page.shaped[0] > 1
    own = read_own(found.get(KEY), len(shape)) if KEY in found and not is_in_planes else None
    return {**(own or {}), "shape": tuple(shape)}


def is_alike(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Tell whether two shapes are the same, apart from axes of length 1.

    Examples
    --------
    >>> is_alike((1, 5, 7), (5, 7, 1)), is_alike((5, 7), (7, 5))
    (True, False)
    """
    return [n for n in shape if n != 1] == [n for n in other if n != 1]


def shape_of(series: Any, own: dict[str, Any]) -> tuple[tuple[int, ...], str]:
    """Return shape and axes of an image; the axes are empty if they are unknown."""
    shape, axes = tuple(map(int, series.shape)), str(series.axes)
    exact = own.pop("shape", shape)
    if exact == shape:
        return shape, axes
    rest, codes = list(zip(axes, shape, strict=True)), ""
    for length in exact:
        if rest and rest[0][1] == length:
            codes += rest.pop(0)[0]
        else:
            codes += "Q"
    return exact, "" if rest else codes
