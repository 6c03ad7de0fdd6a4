"""Dimensions of MINC and spaces say the same about places in the world."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.formats.minc.world import name_dimensions, place_dimensions, read_space
from dask_io.stores.space import Affine, Space, SpaceAxis, crop, is_close

DIMENSIONS = ("time", "zspace", "yspace", "xspace")
numbers = st.floats(-500, 500).map(lambda n: round(n, 3))


@st.composite
def attributes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return attributes of dimensions at any angle to the world, with steps of either sign."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0] if draw(st.booleans()) else np.eye(3)[::-1]
    steps = [draw(st.sampled_from([-3.0, -0.5, 0.25, 1.0, 7.0])) for _ in DIMENSIONS]
    found: list[dict[str, Any]] = [{"start": draw(numbers), "step": step} for step in steps]
    for about, cosines in zip(found[1:], turned, strict=True):
        about |= {"direction_cosines": cosines.tolist(), "units": "mm"}
    return found


@given(about=attributes(), is_kept=st.booleans())
def test_a_space_is_written_and_read_back(about: list[dict[str, Any]], *, is_kept: bool) -> None:
    """New attributes mean the same places, and known ones are written again as they were."""
    space = read_space(DIMENSIONS, about)

    known = about if is_kept else [{} for _ in about]
    placed = place_dimensions(space, DIMENSIONS, known)

    assert is_close(read_space(DIMENSIONS, placed), space, (10, 20, 30, 40), 1e-9)
    if is_kept:
        for old, new in zip(about, placed, strict=True):
            assert new["step"] == old["step"]
            assert new.get("direction_cosines") == old.get("direction_cosines")
            assert new["start"] == pytest.approx(old["start"], abs=1e-9)


@given(about=attributes(), corner=st.tuples(*[st.integers(0, 50)] * 4))
def test_each_start_moves_along_its_own_dimension(
    about: list[dict[str, Any]], corner: tuple[int, ...]
) -> None:
    """The start of a region is that of the whole, plus its index times the step."""
    space = crop(read_space(DIMENSIONS, about), corner)

    placed = place_dimensions(space, DIMENSIONS, about)

    for old, new, index in zip(about, placed, corner, strict=True):
        assert new["start"] == pytest.approx(old["start"] + index * old["step"], abs=1e-9)


def test_spaces_of_other_formats_find_their_dimensions() -> None:
    """Coordinates may be those of the axes, without names, or grow the other way."""
    axes = tuple(SpaceAxis(name) for name in "zyx")
    own = Space(axes, Affine.scaled((3, 2, 1), (30, 20, 10)))
    named = Space(axes, Affine.scaled((3, 2, 1), (30, 20, 10), ("z", "y", "x")))
    rows = ((0.0, 0.0, -1.0), (0.0, -2.0, 0.0), (3.0, 0.0, 0.0))
    dicom = Space(axes, Affine(rows, (-10.0, -20.0, 30.0), ("left", "posterior", "superior")))

    for space in (own, named, dicom):
        placed = place_dimensions(space, ("zspace", "yspace", "xspace"), [{}] * 3)
        assert [about["step"] for about in placed] == [3, 2, 1]
        assert [about["start"] for about in placed] == [30, 20, 10]
        cosines = [about["direction_cosines"] for about in placed]
        assert cosines == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("x", "y", "z"), ("xspace", "yspace", "zspace")),
        (("t", "z", "y", "x"), ("time", "zspace", "yspace", "xspace")),
        (("y", "x", "c"), ("yspace", "xspace", "vector_dimension")),
        (("c", "y", "x"), ("c", "yspace", "xspace")),
        (("lat", "lon"), ("yspace", "xspace")),
        (("x", "x"), ("yspace", "xspace")),
        ((), ("zspace", "yspace", "xspace")),
        ((None,) * 5, ("dimension0", "time", "zspace", "yspace", "xspace")),
    ],
)
def test_axes_get_the_names_that_minc_knows(
    names: tuple[str | None, ...], expected: tuple[str, ...]
) -> None:
    """Known names are translated; otherwise the order of axes decides."""
    assert name_dimensions(None, names, len(expected)) == expected
