"""What users say about axes replaces what the source says."""

from __future__ import annotations

from typing import Any

import pytest

from dask_io.errors import UsageError
from dask_io.stores.given_space import GivenSpace
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis
from dask_io.stores.unit_words import unit_word


def given(**options: Any) -> GivenSpace:
    """Read options of which at least one is given."""
    made = GivenSpace.of(*(options.get(name) for name in ("axes", "spacing", "unit")))
    assert made is not None
    return made


def test_nothing_is_given() -> None:
    """Without options there is nothing to override."""
    assert GivenSpace.of(None, None, None) is None


def test_names_spacing_and_unit() -> None:
    """Of an array that says nothing; text and lists mean the same."""
    text = given(axes="t, z,y,x", spacing="2,0.5,0.1,0.1", unit="second,mm,mm,mm")
    lists = given(axes=list("tzyx"), spacing=(2, 0.5, 0.1, 0.1), unit=["second", *["mm"] * 3])

    space = text.override({}, 4)

    assert space == lists.override({}, 4)
    assert space.axes[0] == SpaceAxis("t", "second", AxisType.TIME)
    assert space.axes[3] == SpaceAxis("x", "millimeter", AxisType.SPACE)
    assert space.affine == Affine.scaled((2.0, 0.5, 0.1, 0.1), (0.0,) * 4)


def test_one_value_is_for_the_axes_of_space() -> None:
    """Time and channels keep what they have."""
    space = given(axes="c,y,x", spacing=0.5, unit="micrometer").override({}, 3)

    assert [axis.unit for axis in space.axes] == [None, "micrometer", "micrometer"]
    assert space.affine is not None
    assert space.affine.steps == (1.0, 0.5, 0.5)


def test_directions_and_origin_stay() -> None:
    """New spacing changes the lengths of steps only."""
    turned = Affine(((0.0, -2.0), (0.3, 0.0)), (5.0, 6.0), ("right", "anterior"))
    source = {"space": Space((SpaceAxis("a", "mm"), SpaceAxis("b", "mm")), turned)}

    space = given(spacing="7,0.1").override(source, 2)

    assert space.affine == Affine(((0.0, -0.1), (7.0, 0.0)), (5.0, 6.0), ("right", "anterior"))
    assert space.axes == source["space"].axes


def test_spacing_by_name_leaves_the_other_axes() -> None:
    """Text and a dict mean the same; an axis of slices gets the unit of the others."""
    axes = SpaceAxis("z", None, AxisType.SPACE), SpaceAxis("y", "micrometer", AxisType.SPACE)
    source = {"space": Space(axes, Affine.scaled((1.0, 0.5), (0.0, 3.0)))}

    space = given(spacing="z=2").override(source, 2)

    assert space == given(spacing={"z": 2}).override(source, 2)
    assert space.affine == Affine.scaled((2.0, 0.5), (0.0, 3.0))
    assert [axis.unit for axis in space.axes] == ["micrometer"] * 2


def test_units_by_name_leave_the_other_axes() -> None:
    """Text and a dict mean the same, and nothing after the name removes a unit."""
    source = {
        "space": Space((SpaceAxis("t"), SpaceAxis("c"), SpaceAxis("z", "mm"), SpaceAxis("x")))
    }

    space = given(unit="t=s, z=,x=um").override(source, 4)

    assert space == given(unit={"t": "second", "z": None, "x": "micrometer"}).override(source, 4)
    assert [axis.unit for axis in space.axes] == ["second", None, None, "micrometer"]
    assert given(unit="t=s").override(source, 4).axes[2].unit == "mm"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"spacing": "0.5,2"}, "x: 0.5 micrometer"),
        ({"spacing": "2,0.5"}, ""),
        ({"spacing": "2,500", "unit": "nm"}, ""),
        ({"spacing": "2,0.5", "unit": "nm"}, "x: 0.5 micrometer"),
        ({"spacing": "2,0.5001"}, ""),
        ({"unit": "nm"}, ""),
    ],
)
def test_spacing_may_contradict_the_source(options: dict[str, Any], found: str) -> None:
    """Only along axes whose step the source knows; units of length are converted."""
    axes = SpaceAxis("z", None, AxisType.SPACE), SpaceAxis("x", "micrometer", AxisType.SPACE)
    source = {"space": Space(axes, Affine.scaled((1.0, 0.5), (0.0, 0.0)))}

    assert given(**options).contradicts(source, 2) == found


def test_names_of_dimensions_are_a_start() -> None:
    """A source that only has names keeps them."""
    space = given(unit="mm").override({"dimension_names": ("y", "x")}, 2)

    assert space == Space((SpaceAxis("y", "millimeter"), SpaceAxis("x", "millimeter")))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"axes": "z,y"}, "axes z,y is for 2 axes, but the source has 3"),
        ({"axes": "zy"}, "axes zy is for 1 axis, but .* and separate them by commas"),
        ({"axes": "zyy"}, "axes zyy is for 1 axis"),
        ({"axes": "z,,x"}, "are not names that differ"),
        ({"axes": "z,z,x"}, "are not names that differ"),
        ({"spacing": "1,2"}, "spacing 1,2 is for 2 axes"),
        ({"spacing": "1,0,2"}, "not a list of numbers above 0"),
        ({"spacing": "a"}, "not a list of numbers above 0"),
        ({"spacing": float("inf")}, "not a list of numbers above 0"),
        ({"spacing": "x=0"}, "not a list of numbers above 0"),
        ({"spacing": "x=1,x=2"}, "contains an axis twice"),
        ({"spacing": "x=1"}, "the axes have no names; give them, as in --axes x"),
        ({"axes": "c,y,x", "spacing": "z=1"}, "given for axis 'z', but the axes are c, y, x"),
        ({"unit": "mm,mm"}, "unit millimeter,millimeter is for 2 axes"),
        ({"unit": "t=s,t=ms"}, "contains an axis twice"),
        ({"axes": "c,y,x", "unit": "t=s"}, "unit is given for axis 't', but the axes are c, y, x"),
        ({"unit": {}}, "not for axes by name"),
        ({"axes": "c,y,x", "spacing": "2,.3"}, "give one for each axis, or y=2,x=0.3$"),
        ({"axes": "t,y,x", "unit": "um,um"}, "each axis, or y=micrometer,x=micrometer$"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], problem: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(UsageError, match=problem):
        given(**options).override({}, 3)


def test_units_have_one_word() -> None:
    """Symbols, British spelling and plurals become the words of OME-Zarr."""
    words = {"um": "micrometer", "micrometres": "micrometer", "ms": "millisecond", "ppm": "ppm"}

    assert {unit: unit_word(unit) for unit in words} == words
    assert unit_word("meters") == unit_word("m") == "meter"


def test_letters_need_no_commas() -> None:
    """As many letters as axes are their names; a single axis may have a long name."""
    for axes in ("zyx", "z,y,x"):
        assert [axis.name for axis in given(axes=axes).override({}, 3).axes] == ["z", "y", "x"]
    assert [axis.name for axis in given(axes="zyx").override({}, 1).axes] == ["zyx"]
