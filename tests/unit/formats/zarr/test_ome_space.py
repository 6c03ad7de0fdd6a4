"""The metadata of OME-Zarr images becomes a space, and a space becomes such metadata."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.errors import UsageError
from dask_io.formats.zarr.ome_space import (
    image_attributes,
    make_image,
    only_level,
    read_level,
)
from dask_io.stores.orientation import ORIENTATION, hidden_from_others
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis, crop, includes

STEPS = st.floats(1e-3, 1e3)
ORIGINS = st.floats(-1e6, 1e6)
DIRECTIONS = ("right", "anterior", "superior")
ROTATED = Affine(((0.0, -2.0, 0.0), (1.0, 0.0, 0.5), (0.0, 0.0, 3.0)), (5.0, -6.0, 7.0), DIRECTIONS)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Spaces whose axes OME-Zarr allows: straight, flipped, permuted or oblique."""
    names = draw(st.sampled_from(["yx", "zyx", "xyz", "tyx", "czyx", "tczyx"]))
    unit = draw(st.sampled_from([None, "mm", "micrometer"]))
    typed = draw(st.booleans())
    kinds = {"t": AxisType.TIME, "c": AxisType.CHANNEL}
    axes = tuple(
        SpaceAxis(
            name,
            unit if name in "zyx" else None,
            kinds.get(name, AxisType.SPACE) if typed else None,
        )
        for name in names
    )
    n_axes = len(names)
    steps = draw(st.lists(STEPS, min_size=n_axes, max_size=n_axes))
    origin = draw(st.lists(ORIGINS, min_size=n_axes, max_size=n_axes))
    affine = Affine.scaled(steps, origin)
    match draw(st.sampled_from(["none", "straight", "flipped", "permuted", "oblique"])):
        case "none":
            return Space(axes)
        case "flipped":
            affine = Affine.scaled([-steps[0], *steps[1:]], origin)
        case "permuted":
            affine = Affine(affine.matrix[::-1], affine.origin)
        case "oblique":
            shear = draw(st.floats(0.1, 1.0))
            first = tuple(n + shear for n in affine.matrix[0])
            affine = Affine((first, *affine.matrix[1:]), affine.origin)
        case _:
            pass
    return Space(axes, affine)


def attributes_of(metadata: dict[str, Any], *, n_axes: int = 3, version: int = 3) -> dict[str, Any]:
    """Describe an image of two elements along each axis."""
    shape = (2,) * n_axes
    return image_attributes(metadata, shape, np.dtype("u2"), name="image", version=version)


@given(space=spaces(), version=st.sampled_from([2, 3]))
def test_a_space_comes_back(space: Space, version: int) -> None:
    """Nothing that was known is lost or rounded, through JSON, in both versions."""
    n_axes = len(space.axes)
    made = attributes_of({"space": space}, n_axes=n_axes, version=version)
    read = read_level(json.loads(json.dumps(made)), "0", n_axes)

    assert read is not None
    assert includes(read.space, space)
    assert read.axes == tuple(axis.name for axis in space.axes)
    assert read.translated == made.keys()
    assert read_level(made, "1", n_axes) is None


@given(space=spaces(), data=st.data())
def test_other_readers_see_steps_and_relative_positions(space: Space, data: st.DataObject) -> None:
    """A crop moves the translation by the steps that were cut off, in any orientation."""
    starts = [data.draw(st.integers(0, 50)) for _ in space.axes]
    whole, part = make_image(space), make_image(crop(space, starts))

    assert whole.scale == part.scale
    assert all(n > 0 for n in whole.scale)
    if space.affine is not None and not hidden_from_others(space):
        for n, start in enumerate(starts):
            expected = whole.translation[n] + start * whole.scale[n]
            assert part.translation[n] == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_an_exact_space_is_kept_only_if_it_is_needed() -> None:
    """A straight image has no attribute of ours; an oblique one has, with all numbers."""
    straight = Space(tuple(map(SpaceAxis, "zyx")), Affine.scaled((2.0, 1.0, 1.0), (0.0, 5.0, 0.0)))
    oblique = Space(tuple(map(SpaceAxis, "xyz")), ROTATED)

    assert attributes_of({"space": straight}).keys() == {"ome"}
    made = attributes_of({"space": oblique})
    assert Space.from_json(made["dask_io"]["space"]) == oblique
    assert hidden_from_others(oblique) == (ORIENTATION,)
    assert not hidden_from_others(straight)


@pytest.mark.parametrize("version", [2, 3])
def test_names_of_channels_come_back(version: int) -> None:
    """Also if one has no name; colours of other tools are more than was translated."""
    axes = tuple(map(SpaceAxis, "cyx", [None] * 3, (AxisType.CHANNEL, None, None)))
    metadata = {"space": Space(axes), "channel_names": ("DAPI", "")}
    made = json.loads(json.dumps(attributes_of(metadata, version=version)))

    read = read_level(made, "0", 3)
    assert read is not None
    assert read.channel_names == ("DAPI", "")
    assert read.translated == made.keys()

    made.get("ome", made)["omero"]["channels"][0]["color"] = "123456"
    read = read_level(made, "0", 3)
    assert read is not None
    assert read.translated.isdisjoint({"ome", "omero"})


def test_names_of_other_channels_are_not_written() -> None:
    """Each channel of the array has a name, or none has."""
    axes = tuple(map(SpaceAxis, "cyx", [None] * 3, (AxisType.CHANNEL, None, None)))
    made = attributes_of({"space": Space(axes), "channel_names": ("a", "b", "c")})
    assert "omero" not in made["ome"]


def test_changes_by_other_tools_win() -> None:
    """If another tool has changed the scale of an image, our exact copy is out of date."""
    made = attributes_of(
        {"space": Space(tuple(map(SpaceAxis, "xyz")), ROTATED)}, n_axes=3, version=3
    )
    steps = made["ome"]["multiscales"][0]["datasets"][0]["coordinateTransformations"]
    steps[0]["scale"] = [9.0, 9.0, 9.0]

    read = read_level(made, "0", 3)

    assert read is not None
    assert read.space.affine is not None
    assert read.space.affine.steps == (9.0, 9.0, 9.0)


def test_transformations_of_level_and_image_are_composed() -> None:
    """First those of the level, then those of the image."""
    level = {
        "path": "s0/",
        "coordinateTransformations": [
            {"type": "scale", "scale": [2.0, 3]},
            {"type": "translation", "translation": [1.0, 10.0]},
        ],
    }
    image = {
        "axes": [{"name": "y", "type": "space", "unit": "micrometer"}, {"name": "x"}],
        "datasets": [level],
        "coordinateTransformations": [{"type": "scale", "scale": [10.0, 1.0]}],
        "omero": {},
    }

    read = read_level({"multiscales": [image]}, "s0", 2)

    assert read is not None
    assert read.space.affine == Affine.scaled((20.0, 3.0), (10.0, 10.0))
    assert read.space.axes[0] == SpaceAxis("y", "micrometer", AxisType.SPACE)
    assert read.translated == frozenset()


@pytest.mark.parametrize(
    "broken",
    [
        {"axes": None},
        {"axes": [1]},
        {"datasets": 7},
        {"datasets": [{"path": "0", "coordinateTransformations": {"type": "scale"}}]},
        {"datasets": [{"path": "0", "coordinateTransformations": [7]}]},
        {"datasets": [{"path": "0", "coordinateTransformations": [{"type": [1]}]}]},
        {
            "datasets": [
                {
                    "path": "0",
                    "coordinateTransformations": [{"type": "scale", "scale": [10**400, 1]}],
                }
            ]
        },
        {"datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale"}]}]},
        {
            "datasets": [
                {
                    "path": "0",
                    "coordinateTransformations": [{"type": "scale", "scale": [True, "a"]}],
                }
            ]
        },
        {
            "datasets": [
                {
                    "path": "0",
                    "coordinateTransformations": [{"type": "scale", "scale": [float("nan"), 1.0]}],
                }
            ]
        },
    ],
)
def test_what_makes_no_sense_is_left_out(broken: dict[str, Any]) -> None:
    """Hostile metadata neither raises nor becomes a position."""
    image = {"axes": [{"name": "y"}, {"name": "x"}], "datasets": [{"path": "0"}], **broken}

    read = read_level({"multiscales": [image], "dask_io": {"space": 7}}, "0", 2)

    assert read is None or read.space.affine is None


def test_the_only_level() -> None:
    """Images of several levels, and other groups, have none."""
    assert only_level({"multiscales": [{"datasets": [{"path": "0"}]}]}) == "0"
    assert only_level({"ome": {"multiscales": [{"datasets": [{"path": "/a/"}]}]}}) == "a"
    for other in ({}, {"ome": 1}, {"multiscales": [{"datasets": [{"path": "0"}, {}]}]}):
        assert only_level(other) is None


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("x", "has 2 to 5 axes, but the array has 1"),
        ("tc", "2 or 3 axes are of type space, but the axes are t"),
        ("zyxw", r"2 or 3 axes are of type space.*--axes c,z,y,x"),
        ("xyzt", "time comes first, then channel, then space"),
        (
            "tzcyx",
            (
                r"not re-order axes, so write slices 't\{0\}_z\{1\}_c\{2\}.tif' and read them as "
                r"'t\{0:slice\}_z\{2:slice\}_c\{1:slice\}.tif', or a plain Zarr array"
            ),
        ),
        ("yxc", "does not re-order axes, so write a plain Zarr array"),
        ("yy", "the names of axes differ"),
        ("?yx", r"needs a name for every axis, but the axes are axis 0, y, x"),
        ("????", "as in --axes c,z,y,x"),
    ],
)
def test_axes_that_ome_zarr_does_not_allow(names: str, problem: str) -> None:
    """One line says which rule is broken, and what to do."""
    axes = tuple(SpaceAxis(None if name == "?" else name) for name in names)

    with pytest.raises(UsageError, match=problem):
        make_image(Space(axes))


@pytest.mark.parametrize(
    ("matrix", "names"),
    [
        (((2.0, 0.0, 0.1), (0.0, -2.0, 0.0), (0.0, 0.0, 3.0)), "xyz"),
        (((0.0, 0.0, 2.0), (0.0, -2.0, 0.0), (3.0, 0.0, 0.0)), "zyx"),
        (((1.0, 1.0, 0.0), (1.0, -1.0, 0.0), (0.0, 0.0, 3.0)), "zyx"),
    ],
    ids=["straight", "reversed", "ambiguous"],
)
def test_names_follow_from_the_directions_in_the_world(
    matrix: tuple[tuple[float, ...], ...], names: str
) -> None:
    """Unnamed axes are called after the coordinate that changes most, else by position."""
    affine = Affine(matrix, (0.0, 0.0, 0.0), ("left", "posterior", "superior"))
    image = make_image(Space((SpaceAxis(),) * 3, affine))

    assert "".join(str(axis.name) for axis in image.axes) == names
