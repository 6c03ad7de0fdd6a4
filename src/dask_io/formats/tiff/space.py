"""The space of TIFF images, from OME-XML, ImageJ's description or the resolution, and back."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis
from dask_io.stores.unit_words import length_ratio, unit_word

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES = {
    "x": AxisType.SPACE,
    "y": AxisType.SPACE,
    "z": AxisType.SPACE,
    "t": AxisType.TIME,
    "c": AxisType.CHANNEL,
    "s": AxisType.CHANNEL,
}
_WORDS = {
    "x": "X",
    "y": "Y",
    "z": "Z",
    "t": "T",
    "time": "T",
    "c": "C",
    "channel": "C",
    "s": "S",
    "sample": "S",
    "samples": "S",
}
# Axes without a meaning of their own.
_NAMELESS = "IQ"
# Micrometres in the units of resolution: inches and centimetres.
_RESOLUTION_UNITS = {2: 25400, 3: 10000}
_MOST = 2**32 - 1


def axis_of(code: str, unit: str | None = None) -> SpaceAxis:
    """Return the axis for a letter of tifffile.

    Examples
    --------
    >>> axis_of("Z", "um").unit, axis_of("Q").name
    ('micrometer', None)
    """
    name = None if code in _NAMELESS else code.lower()
    word = unit_word(unit) if unit else None
    return SpaceAxis(name, word, _TYPES.get(name or ""))


def make_space(
    axes: str, steps: Mapping[str, tuple[float, str | None]], origin: Mapping[str, float]
) -> Space:
    """Return the space of an image from the step and unit along some of its axes.

    The first element lies at `origin`, which is 0 for axes that are not in it.
    """
    known = {
        code: (step, unit) for code, (step, unit) in steps.items() if isfinite(step) and step > 0
    }
    described = tuple(axis_of(code, known.get(code, (1, None))[1]) for code in axes)
    if not known.keys() & set(axes):
        return Space(described)
    lengths = [known.get(code, (1.0, None))[0] for code in axes]
    starts = [origin.get(code, 0.0) if code in known else 0.0 for code in axes]
    return Space(described, Affine.scaled(lengths, starts))


def ome_steps(pixels: Mapping[str, str]) -> dict[str, tuple[float, str | None]]:
    """Return the steps in the attributes of an OME ``Pixels`` element.

    Examples
    --------
    >>> ome_steps({"PhysicalSizeX": "0.5", "PhysicalSizeXUnit": "nm"})
    {'X': (0.5, 'nm')}
    """
    found = {}
    for code in "XYZ":
        key = f"PhysicalSize{code}"
        if (step := _number(pixels.get(key))) is not None:
            unit = pixels.get(f"{key}Unit", "um")
            found[code] = (step, None if unit in {"pixel", "reference frame"} else unit)
    if (step := _number(pixels.get("TimeIncrement"))) is not None:
        found["T"] = (step, pixels.get("TimeIncrementUnit", "s"))
    return found


def imagej_steps(
    metadata: Mapping[str, Any], resolution: tuple[float, float] | None
) -> dict[str, tuple[float, str | None]]:
    """Return the steps in ImageJ's description; `resolution` is that of x and y."""
    found: dict[str, tuple[float, str | None]] = {}
    unit = metadata.get("unit")
    unit = unit.replace("\\u00B5", "u") if isinstance(unit, str) else None
    if unit in {None, "", "pixel", "pixels"}:
        return _time_step(metadata)
    for code, density in zip("XY", resolution or (), strict=False):
        if density > 0:
            found[code] = (rounded(1 / density), unit)
    if (step := _number(metadata.get("spacing"))) is not None:
        found["Z"] = (step, unit)
    return {**found, **_time_step(metadata)}


def _time_step(metadata: Mapping[str, Any]) -> dict[str, tuple[float, str | None]]:
    step = _number(metadata.get("finterval"))
    return {} if step is None else {"T": (step, "s")}


def rounded(step: float) -> float:
    """Return a step with 15 digits, which removes the rounding error of a calculation.

    Examples
    --------
    >>> rounded(0.32499999999999996)
    0.325
    """
    return float(f"{step:.15g}")


def resolution_steps(
    resolution: tuple[float, float] | None, unit: int
) -> dict[str, tuple[float, str | None]]:
    """Return the steps that the resolution tags give, in micrometres; none without a unit.

    Examples
    --------
    >>> resolution_steps((20000.0, 400000 / 13), 3)
    {'X': (0.5, 'micrometer'), 'Y': (0.325, 'micrometer')}
    """
    if resolution is None or unit not in _RESOLUTION_UNITS:
        return {}
    length = _RESOLUTION_UNITS[unit]
    return {
        code: (rounded(length / density), "micrometer")
        for code, density in zip("XY", resolution, strict=True)
        if density > 0
    }


def _number(text: object) -> float | None:
    try:
        found = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return found if isfinite(found) and found > 0 else None


def codes_of(space: Space | None, n_axes: int) -> str:
    """Return the letters of tifffile for the axes of an array; empty if some have no letter.

    Examples
    --------
    >>> codes_of(Space(tuple(SpaceAxis(name) for name in ("time", "y", "x"))), 3)
    'TYX'
    """
    if space is None:
        return ""
    codes = [_WORDS.get((axis.name or "").lower(), "") for axis in space.axes]
    return "".join(codes) if all(codes) and len(set(codes)) == n_axes else ""


def resolution_of(space: Space | None, axes: tuple[int, int]) -> tuple[float, float] | None:
    """Return the elements per centimetre along two axes; None if their lengths are unknown."""
    if space is None or space.affine is None:
        return None
    found = []
    for axis in axes:
        ratio = length_ratio(space.axes[axis].unit, "centimeter")
        length = space.affine.steps[axis] * float(ratio or 0)
        if not length or not 1 / _MOST < 1 / length < _MOST:
            return None
        found.append(1 / length)
    return found[0], found[1]
