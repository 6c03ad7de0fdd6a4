"""The metadata of an OME-Zarr image as a `Space`, and back.

OME-Zarr 0.4 and 0.5 have a positive scale and a translation for each axis. They cannot store
rotations, flips, or the names of directions in the world. For an image that needs these, Dask IO
also stores the exact space in its own attribute, see `dask_io.stores.own_attribute`. Other readers
see the step lengths and the origin along the axes of the array.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from math import hypot, prod
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.formats.zarr.ome_channels import has_only_names, make_omero, read_channel_names
from dask_io.stores.given_space import type_of
from dask_io.stores.kept_headers import HEADERS, headers_in
from dask_io.stores.own_attribute import KEY, own_value, read_own
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis, includes, shown_names
from dask_io.stores.spec import CHANNEL_NAMES, SPACE
from dask_io.stores.unit_words import unit_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

LEVEL = "0"
"""Path of the only level of an image that Dask IO makes."""
_ZARR_3 = 3
# Names of axes by their number. Four could be time or channel.
_INFERRED = {2: "yx", 3: "zyx", 5: "tczyx"}
_DIRECTIONS = {
    **dict.fromkeys(("right", "left"), "x"),
    **dict.fromkeys(("anterior", "posterior"), "y"),
    **dict.fromkeys(("superior", "inferior"), "z"),
}
_FEWEST_AXES, _MOST_AXES = 2, 5
_TYPES = tuple(AxisType)
_RANKS = {AxisType.TIME: 0, AxisType.CHANNEL: 1, AxisType.SPACE: 2}
_UNDERSTOOD = {"version", "name", "axes", "datasets", "coordinateTransformations"}


@dataclass(frozen=True, slots=True)
class Level:
    """The metadata of one level of an image.

    Attributes
    ----------
    axes
        The names of the axes.
    space
        The meaning of positions.
    headers
        Headers of other formats that the image was made from.
    translated
        The attributes of the group that are completely translated into the other fields.
    channel_names
        The names of the channels, in their order; empty if they have none.
    """

    axes: tuple[str | None, ...]
    space: Space
    headers: Mapping[str, Any]
    translated: frozenset[str] = frozenset()
    channel_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Image:
    """An image with one level, as OME-Zarr describes it.

    Attributes
    ----------
    axes
        The axes, all with names and types.
    scale, translation
        The step and the position of the first element along each axis.
    """

    axes: tuple[SpaceAxis, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]

    @property
    def space(self) -> Space:
        """The space as other readers see it."""
        return Space(self.axes, Affine.scaled(self.scale, self.translation))

    def to_json(self, name: str, version: int) -> dict[str, Any]:
        """Return the attributes of the group for a version of Zarr."""
        steps: list[dict[str, Any]] = [{"type": "scale", "scale": list(self.scale)}]
        if any(self.translation):
            steps.append({"type": "translation", "translation": list(self.translation)})
        image = {
            "name": name,
            "axes": [_axis_to_json(axis) for axis in self.axes],
            "datasets": [{"path": LEVEL, "coordinateTransformations": steps}],
        }
        if version == _ZARR_3:
            return {"ome": {"version": "0.5", "multiscales": [image]}}
        return {"multiscales": [{"version": "0.4", **image}]}


def _axis_to_json(axis: SpaceAxis) -> dict[str, str]:
    fields = {"name": axis.name, "type": axis.type, "unit": axis.unit}
    return {key: str(value) for key, value in fields.items() if value is not None}


def make_image(space: Space) -> Image:
    """Describe an array as an image; names and types that are unknown are inferred.

    Raises
    ------
    UsageError
        If OME-Zarr does not allow its axes.

    Examples
    --------
    >>> image = make_image(Space.unknown(3))
    >>> [axis.name for axis in image.axes], image.scale
    (['z', 'y', 'x'], (1.0, 1.0, 1.0))
    """
    axes = _complete(space)
    _check_axes(axes)
    if space.affine is None:
        return Image(axes, (1.0,) * len(axes), (0.0,) * len(axes))
    columns = list(zip(*space.affine.matrix, strict=True))
    scale = tuple(step or 1.0 for step in space.affine.steps)
    origin = space.affine.origin
    return Image(axes, scale, tuple(_along(column, origin) for column in columns))


def _along(column: Sequence[float], origin: Sequence[float]) -> float:
    """Return the position of the origin in the direction of an axis."""
    used = [(step, at) for step, at in zip(column, origin, strict=True) if step]
    if len(used) == 1:
        ((step, at),) = used
        return (at if step > 0 else -at) + 0.0
    length = hypot(*column)
    return sum(step * at for step, at in used) / length if length else 0.0


def _complete(space: Space) -> tuple[SpaceAxis, ...]:
    """Return axes that all have a name and a type."""
    axes = space.axes
    names = [axis.name for axis in axes]
    if not any(names) and len(axes) in _INFERRED:
        names = list(_names_by_direction(space.affine) or _INFERRED[len(axes)])
    if None in names or "" in names:
        known = ", ".join(shown_names(names))
        raise UsageError(
            f"OME-Zarr needs a name for every axis, but the axes are {known}; "
            f"give names for all {len(axes)}, as in --axes {_example(len(axes))}"
        )
    return tuple(
        SpaceAxis(name, axis.unit and unit_word(axis.unit), axis.type or type_of(str(name)))
        for name, axis in zip(names, axes, strict=True)
    )


def _names_by_direction(affine: Affine | None) -> list[str | None] | None:
    """Return the name of the coordinate that changes most along each axis.

    None if coordinates are unnamed, or two axes would have the same name.
    """
    if affine is None or not affine.coordinates:
        return None
    names: list[str | None] = []
    for column in zip(*affine.matrix, strict=True):
        sizes = [abs(step) for step in column]
        row = sizes.index(max(sizes))
        is_clear = sizes.count(sizes[row]) == 1
        names.append(_DIRECTIONS.get(affine.coordinates[row]) if is_clear else None)
    return None if None in names or len(set(names)) < len(names) else names


def _example(n_axes: int) -> str:
    return ",".join("tczyx"[-min(max(n_axes, _FEWEST_AXES), _MOST_AXES) :])


def _check_axes(axes: tuple[SpaceAxis, ...]) -> None:
    listed = ", ".join(f"{axis.name} ({axis.type})" for axis in axes)
    names, types = [axis.name for axis in axes], [axis.type for axis in axes]
    ranks = [_RANKS[kind] for kind in types if kind is not None]
    count = Counter(types)
    if not _FEWEST_AXES <= len(axes) <= _MOST_AXES:
        problem = f"OME-Zarr has 2 to 5 axes, but the array has {len(axes)}"
        raise UsageError(f"{problem}; choose another format, such as zarr")
    if len(set(names)) < len(names):
        problem = "the names of axes differ"
    elif count[AxisType.SPACE] not in {2, 3}:
        problem = "2 or 3 axes are of type space"
    elif max(count[AxisType.TIME], count[AxisType.CHANNEL]) > 1:
        problem = "at most one axis is time, and one is channel"
    elif ranks != sorted(ranks):
        # The names are probably right. Other names would only mislabel the axes.
        raise UsageError(
            f"in OME-Zarr time comes first, then channel, then space, but the axes are {listed}; "
            f"Dask IO does not re-order axes, so write {_slices_in_order(axes)}a plain Zarr array, "
            "as in image.zarr"
        )
    else:
        return
    raise UsageError(
        f"in OME-Zarr {problem}, but the axes are {listed}; give other names if these are wrong, "
        f"as in --axes {_example(len(axes))}, or choose another format, such as zarr"
    )


def _slices_in_order(axes: tuple[SpaceAxis, ...]) -> str:
    """Return which slices to write and to read, so that axes are in order; empty if none are.

    Examples
    --------
    >>> _slices_in_order(tuple(SpaceAxis(name, None, type_of(name)) for name in "zcyx"))
    "slices 'z{0}_c{1}.tif' and read them as 'z{1:slice}_c{0:slice}.tif', or "
    """
    ranks = [_RANKS[axis.type or AxisType.SPACE] for axis in axes]
    order = sorted(range(len(axes)), key=lambda n: ranks[n])
    *others, _, _ = range(len(axes))
    if order[-2:] != [len(axes) - 2, len(axes) - 1]:
        return ""
    written = "_".join(f"{axes[n].name}{{{n}}}" for n in others)
    read = "_".join(f"{axes[n].name}{{{order.index(n)}:slice}}" for n in others)
    return f"slices '{written}.tif' and read them as '{read}.tif', or "


def image_attributes(
    metadata: Mapping[str, Any],
    shape: Sequence[int],
    dtype: np.dtype[Any],
    *,
    name: str,
    version: int,
) -> dict[str, Any]:
    """Return the attributes of an image group for an array with this metadata.

    Raises
    ------
    UsageError
        If OME-Zarr does not allow its axes.
    """
    exact = metadata.get(SPACE)
    space = space_of(metadata, len(shape))
    image = make_image(space)
    kept: dict[str, Any] = {HEADERS: headers_in(metadata)}
    if exact is not None and not includes(image.space, exact):
        kept[SPACE] = exact
    own = own_value(kept)
    found = image.to_json(name, version)
    names = metadata.get(CHANNEL_NAMES, ())
    n_channels = prod(
        length
        for length, axis in zip(shape, image.axes, strict=True)
        if axis.type is AxisType.CHANNEL
    )
    if names and len(names) == n_channels:
        found.get("ome", found)["omero"] = make_omero(names, dtype)
    return {**found, **({KEY: own} if own else {})}


def space_of(metadata: Mapping[str, Any], n_axes: int) -> Space:
    """Return the space of an array, with the names of its dimensions."""
    space = metadata.get(SPACE) or Space.unknown(n_axes)
    names = metadata.get("dimension_names") or (None,) * n_axes
    axes = (
        SpaceAxis(axis.name or name, axis.unit, axis.type)
        for axis, name in zip(space.axes, names, strict=True)
    )
    return Space(tuple(axes), space.affine)


def read_level(attributes: Mapping[str, Any], path: str, n_axes: int) -> Level | None:
    """Return the metadata of one array of an image group, None if the group has none for it.

    Invalid metadata is ignored.
    """
    for image in _images(attributes):
        level = next(_datasets(image, path), None)
        if level is not None:
            return _read_level(attributes, image, level, n_axes)
    return None


def _read_level(
    attributes: Mapping[str, Any], image: Mapping[str, Any], level: Mapping[str, Any], n_axes: int
) -> Level | None:
    axes = _read_axes(image.get("axes"), n_axes)
    if axes is None:
        return None
    names = tuple(axis.name for axis in axes)
    space = Space(axes, _read_affine(n_axes, level, image))
    own = read_own(attributes.get(KEY), n_axes)
    headers = dict(own or {})
    exact = headers.pop(SPACE, None)
    if exact is not None:
        space = _exact_level(exact, space, image) or space
    translated = {KEY} if own is not None else set()
    if len(_images(attributes)) == 1 and not image.keys() - _UNDERSTOOD:
        translated |= _all_about_images(attributes)
    channels = read_channel_names(attributes)
    return Level(names, space, headers, frozenset(translated), channels)


def multiscales(attributes: Mapping[str, Any]) -> list[Any]:
    """Return the images that the attributes of a group describe, which may not be valid."""
    about = attributes.get("ome", attributes)
    found = about.get("multiscales") if isinstance(about, dict) else None
    return found if isinstance(found, list) else []


def _images(attributes: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [image for image in multiscales(attributes) if isinstance(image, dict)]


def _all_about_images(attributes: Mapping[str, Any]) -> set[str]:
    """Return the attributes of a group that contain only its images and names of channels."""
    known = {"multiscales", "omero"} if has_only_names(attributes) else {"multiscales"}
    if "ome" not in attributes:
        return known & attributes.keys()
    return {"ome"} if attributes["ome"].keys() <= {"version", *known} else set()


def only_level(attributes: Mapping[str, Any]) -> str | None:
    """Return the path of the level of an image that has only one; None for any other group."""
    images = _images(attributes)
    levels = images[0].get("datasets") if len(images) == 1 else None
    if not isinstance(levels, list) or len(levels) != 1 or not isinstance(levels[0], dict):
        return None
    path = levels[0].get("path")
    return path.strip("/") if isinstance(path, str) else None


def _datasets(image: Mapping[str, Any], path: str) -> Iterator[Mapping[str, Any]]:
    for level in _all_datasets(image):
        if str(level.get("path")).strip("/") == path:
            yield level


def _all_datasets(image: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    levels = image.get("datasets")
    return (each for each in (levels if isinstance(levels, list) else ()) if isinstance(each, dict))


def _exact_level(exact: Space, found: Space, image: Mapping[str, Any]) -> Space | None:
    """Return the exact space of a level; None if it does not follow from the metadata.

    Dask IO writes one level, which `exact` describes. Another program may have added smaller ones
    with other scales and translations along the same axes.
    """
    names = tuple(axis.name for axis in found.axes)
    if _describes(exact, found, names):
        return exact
    for level in _all_datasets(image):
        whole = Space(found.axes, _read_affine(len(names), level, image))
        if _describes(exact, whole, names):
            return _rescaled(exact, whole, found)
    return None


def _rescaled(exact: Space, whole: Space, level: Space) -> Space | None:
    """Return the exact space of a level, from that of the whole image.

    `whole` and `level` are what other readers see of both.
    """
    if exact.affine is None or whole.affine is None or level.affine is None:
        return None
    steps = [Fraction(step) for step in whole.affine.steps]
    if not all(steps):
        return None
    factors = [Fraction(a) / b for a, b in zip(level.affine.steps, steps, strict=True)]
    origins = zip(level.affine.origin, whole.affine.origin, steps, strict=True)
    start = [(Fraction(a) - Fraction(b)) / step for a, b, step in origins]
    try:
        matrix = tuple(
            tuple(float(Fraction(n) * factor) for n, factor in zip(row, factors, strict=True))
            for row in exact.affine.matrix
        )
        affine = replace(exact.affine, matrix=matrix, origin=exact.affine.at(start))
    except (OverflowError, ValueError):
        return None
    return replace(exact, affine=affine)


def _describes(exact: Space, found: Space, names: tuple[str | None, ...]) -> bool:
    """Tell whether an exact space still describes an image, which others may have changed."""
    named = space_of({SPACE: exact, "dimension_names": names}, len(names))
    try:
        return make_image(named).space == found
    except UsageError:
        return False


def _read_axes(listed: object, n_axes: int) -> tuple[SpaceAxis, ...] | None:
    if not isinstance(listed, list) or len(listed) != n_axes:
        return None
    axes = []
    for axis in listed:
        # Up to version 0.3, axes were only names.
        fields = axis if isinstance(axis, dict) else {"name": axis}
        name, unit, kind = (fields.get(key) for key in ("name", "unit", "type"))
        axes.append(
            SpaceAxis(
                name if isinstance(name, str) else None,
                unit if isinstance(unit, str) else None,
                AxisType(kind) if kind in _TYPES else None,
            )
        )
    return tuple(axes)


def _read_affine(n_axes: int, *owners: Mapping[str, Any]) -> Affine | None:
    """Compose the transformations of a level with those of its image; None if it has none."""
    scale, origin, any_found = [1.0] * n_axes, [0.0] * n_axes, False
    for owner in owners:
        steps = owner.get("coordinateTransformations") or []
        for step in steps if isinstance(steps, list) else []:
            kind = step.get("type") if isinstance(step, dict) else None
            if kind == "identity":
                continue
            numbers = _read_numbers(step, kind, n_axes)
            if numbers is None:
                return None
            any_found = True
            if kind == "scale":
                scale = [a * b for a, b in zip(scale, numbers, strict=True)]
                origin = [a * b for a, b in zip(origin, numbers, strict=True)]
            else:
                origin = [a + b for a, b in zip(origin, numbers, strict=True)]
    try:
        return Affine.scaled(scale, origin) if any_found else None
    except ValueError:
        return None


def _read_numbers(step: Mapping[str, Any], kind: object, n_axes: int) -> list[float] | None:
    numbers = step.get(str(kind)) if kind in ("scale", "translation") else None
    if not isinstance(numbers, list) or len(numbers) != n_axes:
        return None
    try:
        return [float(n) for n in numbers] if set(map(type, numbers)) <= {int, float} else None
    except OverflowError:
        return None
