"""Axes, resolution and offset in the attributes of an N5 dataset, as a `Space`.

N5 itself does not define them. Tools have conventions, and these are read:

- ``transform`` with axes, scale, translate and units, slowest axis first (COSEM, CellMap);
- ``resolution``, ``units``, ``axes`` and ``offset``, fastest axis first (tensorstore, Paintera);
- ``pixelResolution`` and ``downsamplingFactors``, fastest axis first (n5-viewer).

A new dataset gets all three, as far as they can express its space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask_io.stores.axis_scales import AxisScales, read_floats, read_words
from dask_io.stores.given_space import type_of
from dask_io.stores.space import Affine, Space, SpaceAxis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TRANSFORM, RESOLUTION, UNITS, AXES, OFFSET = "transform", "resolution", "units", "axes", "offset"
PIXELS, FACTORS = "pixelResolution", "downsamplingFactors"


def read_space(attributes: Mapping[str, Any], n_axes: int) -> tuple[Space | None, set[str]]:
    """Return the space of a dataset, and the attributes that it was read from.

    Invalid attributes are ignored.
    """
    for read in (_read_transform, _read_resolution, _read_pixels):
        found = read(attributes, n_axes)
        if found is not None:
            space, used = found
            # Other conventions describe the same space, unless another tool has changed one.
            return space, used | _equal(attributes, n_axes, space)
    return None, set()


def _equal(attributes: Mapping[str, Any], n_axes: int, space: Space) -> set[str]:
    """Return the attributes of other conventions that say the same about steps and origin."""
    used: set[str] = set()
    for read in (_read_resolution, _read_pixels):
        found = read(attributes, n_axes)
        if found is not None and found[0].affine == space.affine:
            used |= found[1]
    return used


def _read_transform(attributes: Mapping[str, Any], n_axes: int) -> tuple[Space, set[str]] | None:
    found = attributes.get(TRANSFORM)
    if not isinstance(found, dict):
        return None
    scale = read_floats(found.get("scale"), n_axes)
    origin = read_floats(found.get("translate"), n_axes)
    names = read_words(found.get("axes"), n_axes) or (None,) * n_axes
    units = read_words(found.get("units"), n_axes) or (None,) * n_axes
    if scale is None or origin is None:
        return None
    columns = list(zip(names, units, scale, origin, strict=True))
    if found.get("ordering") == "F":
        columns.reverse()
    return _make_space(*zip(*columns, strict=True), used={TRANSFORM})


def _read_resolution(attributes: Mapping[str, Any], n_axes: int) -> tuple[Space, set[str]] | None:
    scale = read_floats(attributes.get(RESOLUTION), n_axes)
    names, units = (read_words(attributes.get(key), n_axes) for key in (AXES, UNITS))
    origin = read_floats(attributes.get(OFFSET), n_axes)
    fields = {RESOLUTION: scale, AXES: names, UNITS: units, OFFSET: origin}
    used = {key for key, value in fields.items() if value is not None}
    if not used:
        return None
    return _make_space(
        (names or (None,) * n_axes)[::-1],
        (units or (None,) * n_axes)[::-1],
        None if scale is None and origin is None else (scale or (1.0,) * n_axes)[::-1],
        (origin or (0.0,) * n_axes)[::-1],
        used=used,
    )


def _read_pixels(attributes: Mapping[str, Any], n_axes: int) -> tuple[Space, set[str]] | None:
    found, used = attributes.get(PIXELS), {PIXELS}
    # Early versions have only the numbers.
    stated = found if isinstance(found, dict) else {"dimensions": found}
    pixels = read_floats(stated.get("dimensions"), n_axes)
    if pixels is None:
        return None
    factors = (1.0,) * n_axes
    if FACTORS in attributes:
        given = read_floats(attributes[FACTORS], n_axes)
        if given is None:
            return None
        factors = given
        used.add(FACTORS)
    unit = stated.get("unit")
    pairs = list(zip(pixels, factors, strict=True))[::-1]
    scale = tuple(pixel * factor for pixel, factor in pairs)
    # Each element of a downsampled level is the mean of a box, and lies in its centre.
    origin = tuple(pixel * (factor - 1) / 2 for pixel, factor in pairs)
    word = unit if isinstance(unit, str) and unit else None
    return _make_space((None,) * n_axes, (word,) * n_axes, scale, origin, used=used)


def _make_space(
    names: Sequence[str | None],
    units: Sequence[str | None],
    scale: Sequence[float] | None,
    origin: Sequence[float],
    *,
    used: set[str],
) -> tuple[Space, set[str]] | None:
    axes = tuple(
        SpaceAxis(name, unit, type_of(name) if name else None)
        for name, unit in zip(names, units, strict=True)
    )
    if scale is None:
        return Space(axes), used
    try:
        return Space(axes, Affine.scaled(scale, origin)), used
    except ValueError:
        return None


def write_space(space: Space) -> dict[str, Any]:
    """Return the attributes for a space, empty if nothing is known.

    Examples
    --------
    >>> space = Space((SpaceAxis("y", "nm"), SpaceAxis("x", "nm")), Affine.scaled((8, 4), (0, 2)))
    >>> written = write_space(space)
    >>> written["resolution"], written["offset"], written["transform"]["scale"]
    ([4.0, 8.0], [2.0, 0.0], [8.0, 4.0])
    """
    if not space.is_known:
        return {}
    seen, made = AxisScales.of(space), dict[str, Any]()
    names, units = ([getattr(axis, key) for axis in space.axes] for key in ("name", "unit"))
    if any(names) and len(set(filter(None, names))) == sum(map(bool, names)):
        made[AXES] = [name or "" for name in reversed(names)]
    if any(units):
        made[UNITS] = [unit or "" for unit in reversed(units)]
    if space.affine is None:
        return made
    made[RESOLUTION] = list(reversed(seen.scale))
    if any(seen.origin):
        made[OFFSET] = list(reversed(seen.origin))
    elif len(set(units)) == 1:
        # It has no field for an offset.
        unit = {"unit": units[0]} if units[0] else {}
        made[PIXELS] = {"dimensions": list(reversed(seen.scale)), **unit}
    made[TRANSFORM] = {
        "axes": [name or "" for name in names],
        "units": [unit or "" for unit in units],
        "scale": list(seen.scale),
        "translate": list(seen.origin),
    }
    return made
