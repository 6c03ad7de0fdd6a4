"""Scaled integers: their real values, and the scaling of parts and of arrays made of parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Region
from dask_io.stores.mosaic import combine
from dask_io.stores.scaling import Scaling


@st.composite
def scalings(draw: st.DrawFn) -> tuple[Scaling, tuple[int, ...]]:
    """Return a scaling of the slices of an array, and the array's shape."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=3, max_size=4)))
    n_axes = draw(st.integers(0, len(shape) - 2))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    low, more = rng.normal(size=(2, *shape[:n_axes]))
    return Scaling((-10.0, 20.0), np.asarray(low), np.asarray(low + abs(more))), shape


def values_of(shape: tuple[int, ...]) -> Any:
    """Return integers, of which some are outside the valid range."""
    return np.random.default_rng(0).integers(-15, 25, shape)


@given(found=scalings(), data=st.data())
def test_a_part_has_the_real_values_of_the_whole(
    found: tuple[Scaling, tuple[int, ...]], data: st.DataObject
) -> None:
    """Scaling a region gives what scaling the array gives there."""
    scaling, shape = found
    bounds = [sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2))) for n in shape]
    region, values = Region.of((low, high) for low, high in bounds), values_of(shape)

    part = scaling.crop(region).apply(values[region.slices], (0,) * len(shape))

    whole = scaling.apply(values, (0,) * len(shape))
    assert np.array_equal(part, whole[region.slices])
    assert np.array_equal(part, scaling.apply(values[region.slices], region.start))


@given(found=scalings(), axis=st.integers(0, 2), data=st.data())
def test_parts_are_combined_to_the_whole(
    found: tuple[Scaling, tuple[int, ...]], axis: int, data: st.DataObject
) -> None:
    """The scalings of two parts of an array say together what that of the array says."""
    scaling, shape = found
    cut = data.draw(st.integers(0, shape[axis]))
    bounds = [(0, n) for n in shape]
    halves = [
        [*bounds[:axis], span, *bounds[axis + 1 :]] for span in ((0, cut), (cut, shape[axis]))
    ]
    regions = [region for region in map(Region.of, halves) if region.size]

    together = combine([(region, scaling.crop(region)) for region in regions], shape)

    assert together is not None
    origin, values = (0,) * len(shape), values_of(shape)
    assert np.array_equal(together.apply(values, origin), scaling.apply(values, origin))


def test_another_range_gives_the_same_values() -> None:
    """Real values at other ends describe the same map."""
    scaling = Scaling((0.0, 10.0), np.array([1.0, 2.0]), np.array([3.0, 7.0]))
    values = np.array([[0, 4, 10], [1, 5, 9]])

    rebased = scaling.rebase((-100.0, 300.0))

    assert np.allclose(rebased.apply(values, (0, 0)), scaling.apply(values, (0, 0)))


def test_parts_with_different_ranges_are_combined_only_if_they_are_not_scaled() -> None:
    """Integers that are their own real values stay so, whatever is valid in each part."""
    regions = [Region((0, 0), (1, 1)), Region((1, 0), (2, 1))]
    plain = [Scaling((0.0, end), np.array(0.0), np.array(end)) for end in (9.0, 12.0)]
    scaled = [Scaling((0.0, end), np.array(0.0), np.array(1.0)) for end in (9.0, 12.0)]

    together = combine([*zip(regions, plain, strict=True)], (2, 1))

    assert together is not None
    assert (together.valid, together.is_identity) == ((0.0, 12.0), True)
    assert combine([*zip(regions, scaled, strict=True)], (2, 1)) is None


@pytest.mark.parametrize(
    "value", [{}, {"valid": [0, 1], "low": 0}, {"valid": [1, 1], "low": 0, "high": 1}]
)
def test_other_values_are_no_scaling(value: dict[str, Any]) -> None:
    """Metadata that describes no scaling is refused."""
    with pytest.raises(ValueError, match=r"scaling|range"):
        Scaling.from_json(value)
