"""Copies within memory."""

from itertools import permutations
from math import prod
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dask_io.engine.copying import copy
from dask_io.geometry import Layout
from dask_io.stores.addressable import view_as_array

LAYOUTS = [Layout(axes) for n in (1, 2, 3, 4) for axes in permutations(range(n))]


@given(layout=st.sampled_from(LAYOUTS), data=st.data())
def test_a_copy_is_an_assignment(layout: Layout, data: st.DataObject) -> None:
    """Any box of an array goes to any box of another one, whatever layouts and types they have."""
    n_axes = len(layout.axes)
    lengths = st.lists(st.integers(1, 9), min_size=n_axes, max_size=n_axes)
    dtype = np.dtype(data.draw(st.sampled_from(["u1", "<i2", ">f8", "V3", "V700"]), label="type"))
    source_layout = data.draw(st.permutations(range(n_axes)).map(tuple).map(Layout), label="source")
    shape, more, before = (data.draw(lengths) for _ in range(3))
    whole = tuple(n + m + b for n, m, b in zip(shape, more, before, strict=True))
    box = tuple(slice(b, b + n) for n, b in zip(shape, before, strict=True))
    n_bytes = prod(whole) * dtype.itemsize
    noise = np.random.default_rng(0).bytes(n_bytes)
    source = view_as_array(memoryview(noise), whole, dtype, source_layout)[box]
    arrays = [view_as_array(memoryview(bytearray(n_bytes)), whole, dtype, layout) for _ in range(2)]

    arrays[0][box] = source
    # Tiles as small as the arrays are.
    with (
        patch("dask_io.engine.copying._SHORTEST", 2),
        patch("dask_io.engine.copying._ROW_PER_BYTE", data.draw(st.integers(1, 5), label="row")),
        patch("dask_io.engine.copying._THICKNESS", data.draw(st.integers(1, 5), label="thick")),
        patch("dask_io.engine.copying._TILE_SIZE", data.draw(st.integers(1, 99), label="tile")),
    ):
        copy(source, arrays[1][box], layout)

    assert arrays[1].tobytes() == arrays[0].tobytes()


NUMBERS = ["?", "u1", "<i2", ">i8", "<f2", ">f4", "<f8", "<c8", ">c16"]


@given(
    types=st.tuples(*[st.sampled_from(NUMBERS)] * 2),
    layouts=st.tuples(*[st.sampled_from([each for each in LAYOUTS if len(each.axes) == 2])] * 2),
    shape=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_values_become_what_numpy_makes_of_them(
    types: tuple[str, str], layouts: tuple[Layout, Layout], shape: tuple[int, int]
) -> None:
    """Of any type of numbers, without a warning; of complex ones the real part is what is left."""
    values = np.random.default_rng(0).integers(0, 100, shape) * 2.5
    one, two = (np.dtype(kind) for kind in types)
    buffers = [memoryview(bytearray(prod(shape) * kind.itemsize)) for kind in (one, two)]
    source, target = map(view_as_array, buffers, [shape, shape], (one, two), layouts)
    source[...] = values.astype(one)

    copy(source, target, layouts[1])

    real = source.real if two.kind != "c" else source
    assert np.array_equal(target, real.astype(two))


def test_what_does_not_fit_is_no_warning() -> None:
    """Whoever allowed the conversion knows: NaN and large values become what they become."""
    source = np.array([np.nan, np.inf, 1e300, 7.9])
    for kind in ("i2", "f4", "u1"):
        target = np.zeros(4, kind)
        copy(source, target, Layout.c(1))
        assert target[3] == np.array(7.9).astype(kind)
