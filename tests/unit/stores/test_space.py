"""What happens to the meaning of positions when an array is cut, reduced or re-ordered."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.stores.space import (
    Affine,
    AxisType,
    Space,
    SpaceAxis,
    crop,
    downsample,
    is_close,
    permute,
    reorient,
    select,
    stored_part,
)

NUMBERS = st.floats(-1e3, 1e3, allow_subnormal=False)
STEPS = st.floats(0.01, 100.0).flatmap(lambda step: st.sampled_from([step, -step]))
SHAPE = (50, 50, 50, 50)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Spaces of up to four axes: unknown, along the axes of the world, or oblique to them."""
    n_axes = draw(st.integers(1, 4))
    names, units = st.sampled_from(["x", "t", None]), st.sampled_from(["mm", "s", None])
    types = st.sampled_from([*AxisType, None])
    axes = tuple(SpaceAxis(draw(names), draw(units), draw(types)) for _ in range(n_axes))
    if draw(st.booleans()):
        return Space(axes)
    steps = draw(st.lists(STEPS, min_size=n_axes, max_size=n_axes))
    origin = draw(st.lists(NUMBERS, min_size=n_axes, max_size=n_axes))
    affine = Affine.scaled(steps, origin)
    if draw(st.booleans()):
        shear = draw(st.floats(-1.0, 1.0))
        first = tuple(n + shear for n in affine.matrix[0])
        affine = replace(affine, matrix=(first, *affine.matrix[1:]))
    return Space(axes, affine)


def draw_starts(data: st.DataObject, space: Space) -> list[int]:
    """Draw one index for each axis."""
    n_axes = len(space.axes)
    return data.draw(st.lists(st.integers(0, 40), min_size=n_axes, max_size=n_axes))


@given(space=spaces(), data=st.data())
def test_elements_of_a_region_stay_where_they_are(space: Space, data: st.DataObject) -> None:
    """An element has the same coordinates in an array and in a region of it."""
    start, index = draw_starts(data, space), draw_starts(data, space)
    cut = crop(space, start)
    if space.affine is None or cut.affine is None:
        assert cut == space
        return
    before = space.affine.at([a + b for a, b in zip(start, index, strict=True)])
    np.testing.assert_allclose(cut.affine.at(index), before, rtol=1e-12, atol=1e-9)


@given(space=spaces(), data=st.data())
def test_crops_add_up(space: Space, data: st.DataObject) -> None:
    """Two crops are one, none changes nothing, and the opposite crop undoes one."""
    first, second = draw_starts(data, space), draw_starts(data, space)
    both = [a + b for a, b in zip(first, second, strict=True)]
    shape = SHAPE[: len(first)]

    assert is_close(crop(crop(space, first), second), crop(space, both), shape, 1e-6)
    assert crop(space, [0] * len(first)) == space
    assert is_close(crop(crop(space, first), [-n for n in first]), space, shape, 1e-6)


@given(space=spaces(), data=st.data())
def test_downsampling_multiplies(space: Space, data: st.DataObject) -> None:
    """Factors multiply, a factor of 1 changes nothing, and a box's centre is the mean of it."""
    n_axes = len(space.axes)
    factors = st.lists(st.integers(1, 5), min_size=n_axes, max_size=n_axes)
    first, second = data.draw(factors), data.draw(factors)
    both = [a * b for a, b in zip(first, second, strict=True)]
    shape = SHAPE[:n_axes]

    assert is_close(downsample(downsample(space, first), second), downsample(space, both), shape)
    assert downsample(space, [1] * n_axes) == space
    if space.affine is not None and (made := downsample(space, first).affine) is not None:
        box = [space.affine.at(index) for index in np.ndindex(*first)]
        np.testing.assert_allclose(made.origin, np.mean(box, axis=0), rtol=1e-9, atol=1e-9)


@given(space=spaces(), data=st.data())
def test_downsampling_a_region_is_a_region_of_the_downsampled(
    space: Space, data: st.DataObject
) -> None:
    """A crop at whole boxes may come before or after."""
    n_axes = len(space.axes)
    factors = data.draw(st.lists(st.integers(1, 5), min_size=n_axes, max_size=n_axes))
    start = draw_starts(data, space)
    fine = [a * b for a, b in zip(start, factors, strict=True)]

    a, b = downsample(crop(space, fine), factors), crop(downsample(space, factors), start)
    assert is_close(a, b, SHAPE[:n_axes], 1e-6)


@given(space=spaces(), data=st.data())
def test_re_ordering_moves_axes_and_not_the_world(space: Space, data: st.DataObject) -> None:
    """An element has the same coordinates, crops follow, and the inverse order undoes it."""
    n_axes = len(space.axes)
    order = data.draw(st.permutations(range(n_axes)))
    index = draw_starts(data, space)
    moved = permute(space, order)

    assert permute(moved, np.argsort(order).tolist()) == space
    assert crop(moved, [index[axis] for axis in order]) == permute(crop(space, index), order)
    assert [axis.name for axis in moved.axes] == [space.axes[axis].name for axis in order]
    if space.affine is not None and moved.affine is not None:
        assert moved.affine.at([index[axis] for axis in order]) == space.affine.at(index)


@given(space=spaces())
def test_a_space_is_kept_as_json(space: Space) -> None:
    """Nothing is lost, and no number is rounded."""
    assert Space.from_json(json.loads(json.dumps(space.to_json()))) == space


@given(space=spaces())
def test_single_precision_is_close(space: Space) -> None:
    """What a format rounds to single precision is the same place; half a step is not."""
    shape = SHAPE[: len(space.axes)]
    assert is_close(space, space, shape)
    if space.affine is None:
        return
    matrix = np.array(space.affine.matrix, "f4").astype(float).tolist()
    origin = np.array(space.affine.origin, "f4").astype(float).tolist()
    rounded = Affine(tuple(map(tuple, matrix)), tuple(origin))
    step = min(space.affine.steps)
    assert is_close(space, replace(space, affine=rounded), shape, 0.01 + 1e-3 / step)
    low, *others = space.affine.origin
    shifted = replace(space.affine, origin=(low + step / 2, *others))
    assert not is_close(space, replace(space, affine=shifted), shape)


def test_a_slice_has_the_axes_that_are_left() -> None:
    """Selecting axes keeps their columns, and all coordinates of the world."""
    space = Space(tuple(map(SpaceAxis, "zyx")), Affine.scaled((3.0, 2.0, 1.0), (9.0, 8.0, 7.0)))
    cut = select(crop(space, (2, 0, 0)), (1, 2))

    assert [axis.name for axis in cut.axes] == ["y", "x"]
    assert cut.affine == Affine(((0.0, 0.0), (2.0, 0.0), (0.0, 1.0)), (15.0, 8.0, 7.0))


def test_steps_and_coordinates_of_axes() -> None:
    """An oblique array has steps, but no axis of its own is a coordinate."""
    straight = Affine(((0.0, 2.0), (-3.0, 0.0)), (0.0, 0.0), ("right", "anterior"))
    assert straight.rows_of_axes == (1, 0)
    assert straight.steps == (3.0, 2.0)
    oblique = Affine(((3.0, 0.0), (4.0, 1.0)), (0.0, 0.0))
    assert oblique.rows_of_axes is None
    assert oblique.steps == (5.0, 1.0)


def test_what_is_not_a_space_is_refused() -> None:
    """Lengths that disagree, numbers that are not finite, and other JSON."""
    for matrix, origin in [
        (((1.0,),), (0.0, 0.0)),
        (((1.0,), (0.0, 1.0)), (0.0, 0.0)),
        (((float("nan"),),), (0.0,)),
    ]:
        with pytest.raises(ValueError, match=r"rows|finite"):
            Affine(matrix, origin)
    with pytest.raises(ValueError, match="2 names"):
        Affine(((1.0,),), (0.0,), ("x", "y"))
    with pytest.raises(ValueError, match="another number of axes"):
        Space((SpaceAxis(),), Affine.scaled((1.0, 1.0), (0.0, 0.0)))
    smell = {"axes": [{"name": "x", "unit": None, "type": "smell"}]}
    wrong: list[dict[str, Any]] = [{}, {"axes": 3}, smell]
    for said in wrong:
        with pytest.raises(ValueError, match=r"axes|smell"):
            Space.from_json(said)


def test_spaces_of_other_axes_or_coordinates_are_not_close() -> None:
    """A name, an affine map, or a direction of the world makes a difference."""
    affine = Affine.scaled((1.0,), (0.0,))
    space = Space((SpaceAxis("x"),), affine)
    assert not is_close(space, Space((SpaceAxis("y"),), affine), (3,))
    assert not is_close(space, Space((SpaceAxis("x"),)), (3,))
    other = replace(affine, coordinates=("left",))
    assert not is_close(space, replace(space, affine=other), (3,))
    assert space.is_known
    assert not Space.unknown(3).is_known


def test_coordinates_are_reordered_and_turned() -> None:
    """The way back gives the same space; other coordinates are not found."""
    affine = Affine(((1.0, 2.0), (0.0, 3.0)), (4.0, -5.0), ("left", "superior"))
    space = Space((SpaceAxis(), SpaceAxis()), affine)
    turned = reorient(space, ("inferior", "left"))
    assert turned is not None
    assert turned.affine is not None
    assert turned.affine.origin == (5.0, 4.0)
    assert reorient(turned, ("left", "superior")) == space
    assert reorient(space, ("left", "anterior")) is None
    assert reorient(space, ("left",)) is None
    assert reorient(Space.unknown(2), ("left",)) == Space.unknown(2)


def test_what_a_file_holds_of_a_space() -> None:
    """Rounded, turned or without names of coordinates it is held; what else differs is lost."""
    affine = Affine.scaled((0.1, 0.2), (4.0, 5.0), ("left", "superior"))
    space = Space((SpaceAxis("x", "mm", AxisType.SPACE), SpaceAxis("z", "mm")), affine)
    untyped = replace(space, axes=(SpaceAxis("x", "mm"), SpaceAxis("z", "mm")))
    rounded = replace(affine, origin=(4.0000001, 5.0))
    for held in (rounded, replace(rounded, coordinates=())):
        assert stored_part(space, replace(untyped, affine=held), (9, 9)) == space
    assert stored_part(space, reorient(untyped, ("right", "superior")), (9, 9)) == space
    moved = replace(untyped, affine=replace(affine, origin=(5.0, 5.0)))
    found = stored_part(space, moved, (9, 9))
    assert found is not None
    assert found.affine == moved.affine
    assert stored_part(space, Space(untyped.axes), (9, 9)) == Space(space.axes)
    assert stored_part(space, None, (9, 9)) is None
