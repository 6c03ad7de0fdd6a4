"""Copies within memory."""

from itertools import permutations
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dask_io.engine.copying import copy
from dask_io.geometry import Layout
from dask_io.stores.addressable import view_as_array

LAYOUTS = [Layout(axes) for n in (1, 2, 3) for axes in permutations(range(n))]


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
    copy(source, arrays[1][box], layout)

    assert arrays[1].tobytes() == arrays[0].tobytes()
