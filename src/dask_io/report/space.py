"""A space as rows of text, and as values for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask_io.stores.orientation import directions, is_oblique
from dask_io.stores.space import AxisType, shown_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.stores.space import Affine, Space, SpaceAxis


def space_to_json(space: Space | None) -> dict[str, Any] | None:
    """Return a space with its steps and directions; null if nothing is known."""
    if space is None or not space.is_known:
        return None
    affine = space.affine
    steps = [None] * len(space.axes) if affine is None else affine.steps
    axes = [
        {"name": axis.name, "type": axis.type, "unit": axis.unit, "step": step}
        for axis, step in zip(space.axes, steps, strict=True)
    ]
    if affine is None:
        return {"axes": axes, "origin": None, "orientation": None, "affine": None}
    found = directions(affine)
    return {
        "axes": axes,
        "origin": list(affine.origin),
        "orientation": None if found is None else list(found),
        "affine": {
            "matrix": [list(row) for row in affine.matrix],
            "origin": list(affine.origin),
            "coordinates": list(affine.coordinates),
        },
    }


def space_rows(space: Space) -> Iterator[tuple[str, str]]:
    """Yield a line for the steps or the units of the axes, their types, origin and directions."""
    names = shown_names(axis.name for axis in space.axes)
    if space.affine is not None:
        steps = map(_with_unit, space.affine.steps, space.axes)
        yield "spacing", ", ".join(map("{}: {}".format, names, steps))
    elif any(axis.unit for axis in space.axes):
        units = (axis.unit or "-" for axis in space.axes)
        yield "units", ", ".join(map("{}: {}".format, names, units))
    if any(axis.type for axis in space.axes):
        yield "types", ", ".join(str(axis.type or "-") for axis in space.axes)
    if space.affine is not None:
        yield from _place_rows(space.affine, names)


def _with_unit(step: float, axis: SpaceAxis) -> str:
    return f"{step:g} {axis.unit}" if axis.unit else f"{step:g}"


def _place_rows(affine: Affine, names: list[str]) -> Iterator[tuple[str, str]]:
    labels = affine.coordinates or ("",) * len(affine.origin)
    places = (f"{label} {at:g}".strip() for label, at in zip(labels, affine.origin, strict=True))
    yield "origin", ", ".join(places)
    found = directions(affine)
    is_flipped = any(n < 0 for row in affine.matrix for n in row)
    if found is not None:
        along = ", ".join(f"{name} to {way}" for name, way in zip(names, found, strict=True))
        yield "orientation", along + (", oblique" if is_oblique(affine) else "")
    if is_oblique(affine) or (is_flipped and found is None):
        yield "affine", "; ".join(" ".join(f"{n:g}" for n in row) for row in affine.matrix)


def spacing_line(space: Space) -> str:
    """Return the steps along all axes but channels, with one unit if they share it; or nothing.

    Examples
    --------
    >>> from dask_io.stores.space import Affine, Space, SpaceAxis
    >>> axes = SpaceAxis("y", "micrometer"), SpaceAxis("x", "micrometer")
    >>> spacing_line(Space(axes, Affine.scaled((2.0, 0.5), (0.0, 0.0))))
    'spacing y: 2, x: 0.5 micrometer'
    """
    if space.affine is None:
        return ""
    listed = [
        (axis, f"{name}: ", step)
        for axis, name, step in zip(
            space.axes,
            shown_names(axis.name for axis in space.axes),
            space.affine.steps,
            strict=True,
        )
        if axis.type is not AxisType.CHANNEL
    ]
    units = {axis.unit for axis, _, _ in listed}
    if len(units) == 1:
        steps = ", ".join(f"{name}{step:g}" for _, name, step in listed)
        return f"spacing {steps} {units.pop() or ''}".rstrip()
    return f"spacing {', '.join(name + _with_unit(step, axis) for axis, name, step in listed)}"


def unknown_steps(space: Space, own: Space | None) -> list[str]:
    """Return the names of the axes of space along which a source does not know the step.

    `space` is that of the target, in which unknown steps are 1, `own` that of the source, or what
    the user gave instead. If neither knows any unit, steps that the source has are its own.
    """
    if space.affine is None:
        return []
    spatial = [
        (axis, step)
        for axis, step in zip(space.axes, space.affine.steps, strict=True)
        if axis.type is AxisType.SPACE
    ]
    has_steps = own is not None and own.affine is not None
    if has_steps and not any(axis.unit for axis, _ in spatial):
        return []
    # A unit that the user gives does not make a step known.
    return [
        axis.name or ""
        for axis, step in spatial
        if step == 1 and not (has_steps and axis.unit is not None)
    ]


def unknown_units(space: Space) -> dict[str, str]:
    """Return the usual units of axes whose steps have none, although those of other axes have.

    Examples
    --------
    >>> from dask_io.stores.space import Affine, Space, SpaceAxis
    >>> axes = SpaceAxis("z", None, AxisType.SPACE), SpaceAxis("x", "nanometer", AxisType.SPACE)
    >>> unknown_units(Space(axes, Affine.scaled((2.0, 0.5), (0.0, 0.0))))
    {'z': 'nanometer'}
    """
    spatial = [axis.unit for axis in space.axes if axis.unit and axis.type is AxisType.SPACE]
    if space.affine is None or not any(axis.unit for axis in space.axes):
        return {}
    usual = {AxisType.SPACE: spatial[0] if spatial else "micrometer", AxisType.TIME: "second"}
    # An unknown step is written as 1.
    return {
        axis.name: usual[axis.type]
        for axis, step in zip(space.axes, space.affine.steps, strict=True)
        if axis.name and axis.type in usual and not axis.unit and step != 1
    }
