"""Metadata of a MINC image, of either version, as plain values.

A `Volume` holds the names of the dimensions, the attributes of everything in the file, and the
scaling of stored integers. It is translated into the metadata of stores and back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dask_io.formats.minc.world import NAMES, name_dimensions, place_dimensions, read_space
from dask_io.geometry import Region
from dask_io.stores.kept_headers import HEADERS, header_in, with_header
from dask_io.stores.scaling import BOUNDS, SCALING, Scaling, scaling_in
from dask_io.stores.spec import SPACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.stores.space import Space

    Value: TypeAlias = str | float | list[Any]
    Attributes: TypeAlias = Mapping[str, Mapping[str, Value]]

MINC = "minc"
"""Name of the format, under which the metadata of an array keeps what only MINC has."""
IMAGE, IMAGE_MIN, IMAGE_MAX = "image/0/image", "image/0/image-min", "image/0/image-max"
DIMENSIONS, INFO = "dimensions/", "info/"

_STANDARD = {"varid": "MINC standard variable", "version": "MINC Version    1.0"}
_COMMENTS = {
    "xspace": "X increases from patient left to right",
    "yspace": "Y increases from patient posterior to anterior",
    "zspace": "Z increases from patient inferior to superior",
}
# Attributes of the image about its storage, and links of version 1 to other variables.
_OF_VERSION_1 = frozenset(("parent", "children", "signtype", "image-min", "image-max"))
_OF_VALUES = frozenset(("valid_range", "valid_min", "valid_max", "_FillValue"))
_OF_VARIABLE = frozenset(("dimorder", "complete", "vartype", "varid", "version"))
_OF_STORAGE = _OF_VERSION_1 | _OF_VALUES | _OF_VARIABLE
# Attributes of a dimension about positions, which a new file computes again.
_OF_POSITIONS = frozenset(("start", "step", "spacing", "dimorder"))
_OF_WRITER = frozenset(("ident", "minc_version"))
_ATTRIBUTE_NAME = re.compile(r"[^/\0]{1,200}")
_LONGEST_TEXT = 60_000
_TYPES = frozenset(("u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8"))


@dataclass(frozen=True)
class Volume:
    """Metadata of the image in a file.

    Attributes
    ----------
    shape, dtype
        Shape and type of the stored values.
    dimensions
        The names of the axes in MINC.
    attributes
        The attributes of the file under ``""``, and those of every other object under its path.
    scaling
        How integers are scaled; None for floats, which are real values themselves.
    bounds
        The least and the greatest real value of floats, if the file has them.
    left_out
        Attributes that are too long, or of a type that is not supported, as ``path@name``.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    dimensions: tuple[str, ...]
    attributes: Attributes
    scaling: Scaling | None = None
    bounds: tuple[float, float] | None = None
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.dimensions) != len(self.shape):
            found = f"{len(self.dimensions)} dimensions of {len(self.shape)} axes"
            raise ValueError(f"has an image whose dimorder names {found}")
        if len(set(self.dimensions)) != len(self.dimensions):
            raise ValueError(
                f"has an image along {','.join(self.dimensions)}, with the same name twice"
            )
        if self.dtype.str[1:] not in _TYPES:
            raise ValueError(f"has an image of type {self.dtype}, which MINC does not have")
        if self.scaling is not None and self.scaling.low.shape != self.shape[: self.scaling.n_axes]:
            raise ValueError("has image-min and image-max that do not match the image's slices")

    @cached_property
    def space(self) -> Space:
        """The names and units of the axes, and where they lie in the world."""
        about = [self.attributes.get(f"{DIMENSIONS}{name}", {}) for name in self.dimensions]
        return read_space(self.dimensions, about)

    @property
    def irregular(self) -> tuple[str, ...]:
        """The axes along which elements are unevenly spaced; their positions are not read."""
        return tuple(
            NAMES.get(name, name)
            for name in self.dimensions
            if str(self.attributes.get(f"{DIMENSIONS}{name}", {}).get("spacing")) == "irregular"
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the array, without its space."""
        found: dict[str, Any] = {
            **with_header(MINC, {"attributes": {k: dict(v) for k, v in self.attributes.items()}}),
            "attributes": _own(self.attributes),
            "attributes_of_file": [
                name for name in self.attributes.get("", {}) if name not in _OF_WRITER
            ],
            "attributes_of_groups": [
                *(
                    f"{path}@{name}"
                    for path, about in self.attributes.items()
                    for name in about
                    if path.startswith(INFO)
                ),
                *self.left_out,
            ],
        }
        if self.irregular:
            found["coordinates"] = list(self.irregular)
        if self.bounds is not None:
            found[BOUNDS] = list(self.bounds)
        if self.scaling is not None:
            found[SCALING] = self.scaling.to_json()
        return found

    @property
    def described(self) -> dict[str, Any]:
        """Metadata of the array, with its space."""
        names = tuple(axis.name for axis in self.space.axes)
        return {**self.metadata, "dimension_names": names, SPACE: self.space}


def _own(attributes: Attributes) -> dict[str, Value]:
    """Return the attributes of the image that do not describe its storage."""
    return {k: v for k, v in attributes.get(IMAGE, {}).items() if k not in _OF_STORAGE}


def volume_for(
    metadata: Mapping[str, Any],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    start: Sequence[int] = (),
) -> Volume:
    """Return the metadata of a new file for an array, or for its block that begins at `start`.

    The space in the metadata is that of the block.

    Raises
    ------
    ValueError
        If MINC cannot store it; the message completes "the format ...".
    """
    if dtype.str[1:] not in _TYPES:
        raise ValueError(
            f"stores integers of 8, 16 or 32 bits and floats of 32 or 64, not {dtype}; "
            "convert elements with --dtype"
        )
    try:
        kept = kept_metadata(metadata)
        scaling, valid, bounds = _value_range(kept, shape, dtype, start)
        attributes, space = kept[HEADERS][MINC]["attributes"], metadata.get(SPACE)
        names = metadata.get("dimension_names") or ()
        dimensions = name_dimensions(space, names, len(shape))
        image = {**_STANDARD, "vartype": "group________", **kept["attributes"]}
        image |= {"dimorder": ",".join(dimensions), "complete": "true_", "valid_range": valid}
        made: dict[str, Mapping[str, Value]] = {
            "": {"minc_version": "2.4.05", **attributes.get("", {})},
            IMAGE: image,
            **{path: about for path, about in attributes.items() if path.startswith(INFO)},
        }
        along = {} if scaling is None else {"dimorder": ",".join(dimensions[: scaling.n_axes])}
        along = along if along.get("dimorder") else {}
        for path in (IMAGE_MIN, IMAGE_MAX):
            made[path] = {**_STANDARD, "vartype": "var_attribute", **along}
        known = [attributes.get(f"{DIMENSIONS}{name}", {}) for name in dimensions]
        placed = place_dimensions(space, dimensions, known)
        for name, length, old, new in zip(dimensions, shape, known, placed, strict=True):
            kept_here = {key: value for key, value in old.items() if key not in _OF_POSITIONS}
            about = {**_dimension(name), **kept_here, **new, "length": length}
            made[f"{DIMENSIONS}{name}"] = about
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError("cannot store metadata of MINC that is invalid") from error
    return Volume(shape, dtype, dimensions, made, scaling, bounds)


def _dimension(name: str) -> dict[str, Value]:
    about = {**_STANDARD, "vartype": "dimension____", "spacing": "regular__"}
    if name in _COMMENTS:
        about |= {"comments": _COMMENTS[name], "alignment": "centre", "spacetype": "native____"}
    return {**about}


def kept_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a source's metadata that a MINC file can store.

    Raises
    ------
    ValueError
        If metadata of MINC is invalid; the message completes "the format ...".
    """
    try:
        return _kept_metadata(metadata)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("cannot store metadata of MINC that is invalid") from error


def _kept_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    minc = header_in(metadata, MINC) or {}
    attributes = {
        path: {k: v for k, v in about.items() if k not in _OF_VERSION_1 and _is_storable(k, v)}
        for path, about in minc.get("attributes", {}).items()
    }
    kept: dict[str, Any] = {
        **with_header(MINC, {**minc, "attributes": attributes}),
        "attributes": {k: v for k, v in metadata.get("attributes", {}).items() if _is_own(k, v)},
        "attributes_of_file": [name for name in attributes.get("", {}) if name not in _OF_WRITER],
        "attributes_of_groups": [
            f"{path}@{name}"
            for path, about in attributes.items()
            for name in about
            if path.startswith(INFO)
        ],
    }
    return kept | {key: metadata[key] for key in (BOUNDS, SCALING) if key in metadata}


def _is_own(name: str, value: object) -> bool:
    return name not in _OF_STORAGE and _is_storable(name, value)


def _is_storable(name: str, value: object) -> bool:
    """Tell whether an attribute fits into a file: text, a number, or a list of numbers."""
    if not _ATTRIBUTE_NAME.fullmatch(name):
        return False
    if isinstance(value, str):
        return len(value.encode()) <= _LONGEST_TEXT and "\0" not in value
    numbers = value if isinstance(value, list) else [value]
    is_short = 0 < len(numbers) * 8 <= _LONGEST_TEXT
    return is_short and all(type(number) in {int, float} for number in numbers)


def _value_range(
    kept: Mapping[str, Any],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    start: Sequence[int],
) -> tuple[Scaling | None, list[float], tuple[float, float] | None]:
    """Return the scaling, the valid range, and the bounds of real values of a block."""
    scaling = scaling_in(kept)
    if dtype.kind == "f":
        if scaling is not None and not scaling.is_identity:
            raise ValueError(
                "stores floats as real values, but the source has scaled integers; "
                "give the source as FILE.mnc::/real, or keep the integers of a NIfTI source"
            )
        # The values have not been read yet, so any may occur.
        widest = (float(np.finfo("f4").min), float(np.finfo("f4").max))
        bounds = tuple(map(float, kept.get(BOUNDS, widest)))
        info = np.finfo(dtype)
        return None, [float(info.min), float(info.max)], (bounds[0], bounds[1])
    first, last = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    if scaling is None:
        scaling = Scaling((first, last), np.asarray(first), np.asarray(last))
    corner = tuple(start) or (0,) * len(shape)
    stop = tuple(a + b for a, b in zip(corner, shape, strict=True))
    scaling = scaling.crop(Region(corner, stop))
    if scaling.valid[0] < first or scaling.valid[1] > last:
        scaling = scaling.rebase((first, last))
    return scaling, list(scaling.valid), None
