"""The position of a precomputed volume, and the order of its axes.

A volume has a resolution in nanometres and an offset in voxels. The first voxel lies at offset x
resolution, as in cloud-volume and tensorstore. For an array whose axes are in another order, or
whose position cannot be expressed so, Dask IO adds its own entry to ``info``, see
`dask_io.stores.own_attribute`; other programs ignore it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.stores.axis_scales import AxisScales, read_floats, space_in
from dask_io.stores.kept_headers import HEADERS, headers_in
from dask_io.stores.orientation import ORIENTATION, hidden_from_others
from dask_io.stores.own_attribute import KEY, own_value, read_own
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis, is_close, shown_names
from dask_io.stores.spec import SPACE
from dask_io.stores.unit_words import length_ratio

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.stores.container import NewArray

_UNIT, _N_SPATIAL = "nm", 3
_LETTERS = {"channel": "c", "channels": "c", "xspace": "x", "yspace": "y", "zspace": "z"}
# An offset that is this close to whole voxels is rounded.
_TOLERANCE = 1e-4
_FARTHEST = 2**52


@dataclass(frozen=True, slots=True)
class Position:
    """Resolution in nanometres and offset in voxels, along x, y and z."""

    resolution: tuple[float, ...]
    offset: tuple[int, ...]

    @classmethod
    def read(cls, resolution: object, offset: tuple[int, ...]) -> Position:
        """Read the position of a scale.

        Raises
        ------
        ValueError
            If the resolution is invalid; the message completes "the file ...".
        """
        found = read_floats(resolution, _N_SPATIAL)
        if found is None or not all(isfinite(step) and step > 0 for step in found):
            raise ValueError("has a scale without a positive resolution for x, y and z")
        return cls(found, offset)

    @classmethod
    def of(cls, space: Space, axes: str) -> Position:
        """Return the position that is closest to a space."""
        seen = AxisScales.of(space)
        steps, offsets = [], []
        for letter in "xyz":
            axis = axes.index(letter)
            ratio = length_ratio(space.axes[axis].unit, _UNIT)
            factor = 1.0 if ratio is None else float(ratio)
            step = seen.scale[axis] * factor
            at = seen.origin[axis] * factor / step
            steps.append(step)
            offsets.append(round(at) if abs(at) < _FARTHEST else 0)
        return cls(tuple(steps), tuple(offsets))

    def space(self, axes: str) -> Space:
        """Return the space of an array with these axes."""
        spatial = dict(zip("xyz", zip(self.resolution, self.offset, strict=True), strict=True))
        pairs = [spatial.get(axis, (1.0, 0)) for axis in axes]
        named = tuple(
            SpaceAxis("c", None, AxisType.CHANNEL)
            if axis == "c"
            else SpaceAxis(axis, _UNIT, AxisType.SPACE)
            for axis in axes
        )
        origin = [step * offset for step, offset in pairs]
        return Space(named, Affine.scaled([step for step, _ in pairs], origin))


def default_axes(n_channels: int) -> str:
    """Return the axes of a volume: without the channel if there is only one."""
    return "xyz" if n_channels == 1 else "xyzc"


def read_space(
    info: Mapping[str, Any], position: Position, n_channels: int
) -> tuple[Space, str, dict[str, Any], tuple[str, ...]]:
    """Return space and axes, headers of other formats, and what other readers do not see."""
    value, usual = info.get(KEY), default_axes(n_channels)
    for n_axes in (_N_SPATIAL, _N_SPATIAL + 1):
        headers = dict(read_own(value, n_axes) or {})
        exact = headers.pop(SPACE, None)
        if exact is None and headers:
            return position.space(usual), usual, headers, ()
        axes = None if exact is None else _letters(exact)
        is_valid = axes is not None and ("c" in axes or n_channels == 1)
        # Another program may have changed the volume since.
        if axes is not None and is_valid and _is_same(Position.of(exact, axes), position):
            return exact, axes, headers, _hidden(exact, position, axes)
    return position.space(usual), usual, {}, ()


def _is_same(one: Position, other: Position) -> bool:
    pairs = zip(one.resolution, other.resolution, strict=True)
    return one.offset == other.offset and all(abs(a - b) <= 1e-9 * b for a, b in pairs)


def _hidden(exact: Space, position: Position, axes: str) -> tuple[str, ...]:
    if exact.affine is None:
        return ()
    return hidden_from_others(exact) if _is_seen(exact, position, axes) else (ORIENTATION,)


def _is_seen(exact: Space, position: Position, axes: str) -> bool:
    """Tell whether steps and offset of a volume are those of a space."""
    seen, ours = AxisScales.of(exact).space, position.space(axes)
    assert seen.affine is not None
    factors = [float(length_ratio(axis.unit, _UNIT) or 1) for axis in exact.axes]
    steps = [step * factor for step, factor in zip(seen.affine.steps, factors, strict=True)]
    origin = [at * factor for at, factor in zip(seen.affine.origin, factors, strict=True)]
    moved = Space(ours.axes, Affine.scaled(steps, origin))
    return is_close(moved, ours, (1,) * len(axes), _TOLERANCE)


def _letters(space: Space) -> str | None:
    """Return the axes of a space as letters, None if they are not x, y, z and a channel."""
    names = [(axis.name or "").lower() for axis in space.axes]
    letters = "".join(_LETTERS.get(name, name) for name in names)
    is_right = len(letters) == len(names) and sorted(letters) in (list("xyz"), list("cxyz"))
    return letters if is_right else None


def choose_axes(wanted: NewArray) -> tuple[str, Space, bool]:
    """Return the axes of a new volume as letters, its space, and whether axes were inferred.

    Raises
    ------
    UsageError
        If a volume cannot have these axes.
    """
    n_axes = len(wanted.grid.axes)
    if n_axes not in (_N_SPATIAL, _N_SPATIAL + 1):
        raise UsageError(
            f"a precomputed volume has axes x, y, z and perhaps a channel, but the array has "
            f"{n_axes} axes; choose another format, such as zarr"
        )
    space = space_in(wanted.metadata, n_axes)
    letters = _letters(space)
    if letters is not None:
        return letters, space, False
    names = [(axis.name or "").lower() for axis in space.axes]
    if any(_LETTERS.get(name, name) in {*"xyzct"} for name in names):
        shown = ", ".join(shown_names(axis.name for axis in space.axes))
        raise UsageError(
            f"a precomputed volume has axes x, y, z and perhaps c, but the axes are {shown}; give "
            "other names if these are wrong, as in --axes x,y,z"
        )
    letters = "xyzc"[:n_axes]
    axes = tuple(
        SpaceAxis(letter, axis.unit, AxisType.CHANNEL if letter == "c" else AxisType.SPACE)
        for letter, axis in zip(letters, space.axes, strict=True)
    )
    return letters, Space(axes, space.affine), not any(names)


def own_entry(wanted: NewArray, space: Space, axes: str, n_channels: int) -> dict[str, Any]:
    """Return the entry of Dask IO in the document of a new volume; empty if none is needed."""
    others = headers_in(wanted.metadata)
    others.pop("precomputed", None)
    kept: dict[str, Any] = {HEADERS: others}
    position = Position.of(space, axes)
    is_usual = axes == default_axes(n_channels)
    is_placed = wanted.metadata.get(SPACE) is not None
    if not is_usual or (is_placed and not _is_whole(space, position, axes)):
        kept[SPACE] = space
    own = own_value(kept)
    return {KEY: own} if own else {}


def _is_whole(space: Space, position: Position, axes: str) -> bool:
    """Tell whether a volume expresses all of a space, in its own unit."""
    ours = position.space(axes)
    if space.affine is None:
        return True
    return space.axes == ours.axes and is_close(space, ours, (1,) * len(axes), _TOLERANCE)
