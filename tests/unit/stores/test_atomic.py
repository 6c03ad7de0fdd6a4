"""Blocks that are encoded as a whole: how they are put together, and padded."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Layout, Region
from dask_io.stores.atomic import ChunkWriter, Padding
from dask_io.stores.filled import FilledReader
from dask_io.stores.staging import room_for
from dask_io.testing.strategies import dtypes, layouts

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Kept(ChunkWriter):
    """A visit that keeps what would be encoded, and the memory that is left to do so."""

    shape: tuple[int, ...]
    padding: Padding
    written: list[tuple[bytes, int]] = field(default_factory=list)

    def write_raw(self, raw: NDArray[np.uint8], staging: memoryview) -> None:
        """Keep it."""
        self.written.append((raw.tobytes(), len(staging)))


@st.composite
def chunks(draw: st.DrawFn) -> tuple[Kept, NDArray[Any]]:
    """Draw a chunk of any type, order and shape up to that it is stored in, and its elements."""
    stored = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    shape = tuple(draw(st.integers(1, length)) for length in stored)
    dtype, layout = draw(dtypes()), draw(layouts(len(stored)))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    fill = np.frombuffer(random.bytes(dtype.itemsize), dtype).reshape(())
    # Elements of plain bytes: nothing is lost between the fields of records.
    elements = np.frombuffer(random.bytes(dtype.itemsize * prod(shape)), f"V{dtype.itemsize}")
    return Kept(shape, Padding(stored, dtype, layout, fill.tobytes())), elements.reshape(shape)


def stored_bytes(padding: Padding, values: NDArray[Any]) -> bytes:
    """Return what is to be stored, element by element."""
    elements = np.empty(padding.chunks, object)
    # As it is: what ends in zeros would be cut short as a string of NumPy's.
    elements.fill(padding.fill.tobytes())
    for index in np.ndindex(values.shape):
        elements[index] = values[index].tobytes()
    return b"".join(elements.transpose(padding.layout.axes).ravel())


@given(chunk=chunks())
def test_a_chunk_is_the_same_wherever_it_is_padded(chunk: tuple[Kept, NDArray[Any]]) -> None:
    """Not a bit differs if it is put together in place, or padded afterwards, from any order."""
    writer, values = chunk
    padding, region = writer.padding, Region.whole(writer.shape)
    staging = b"\xff" * (room_for(padding.n_bytes) + 9)

    def fill(part: Region, found: NDArray[Any]) -> None:
        assert part == region
        found.view(values.dtype)[...] = values

    writer.write_filled(region, memoryview(bytearray(staging)), fill)
    for layout in (padding.layout, Layout.c(values.ndim), Layout.f(values.ndim)):
        laid_out = values.transpose(layout.axes).copy().transpose(layout.inverse)
        writer.write_from(region, laid_out.view(padding.dtype), memoryview(bytearray(staging)))

    assert writer.written == [(stored_bytes(padding, values), 9)] * 4


def test_a_part_of_a_chunk_is_refused() -> None:
    """Where it is put together as where it lies in memory already."""
    dtype = np.dtype("u1")
    padding = Padding((4,), dtype, Layout.c(1), bytes(dtype.itemsize))
    writer, part = Kept((3,), padding), Region((0,), (2,))
    staging = memoryview(bytearray(8192))
    with pytest.raises(AssertionError, match="a part of a chunk"):
        writer.write_from(part, np.ones(2, dtype), staging)
    with pytest.raises(AssertionError, match="a part of a chunk"):
        writer.write_filled(part, staging, lambda *_: None)
    assert not writer.written


def test_what_is_not_stored_has_nothing_of_its_buffer() -> None:
    """Nothing that was in memory before is left between the fields of records."""
    records = np.dtype({"names": ["a"], "formats": ["u1"], "offsets": [1], "itemsize": 3})
    reader = FilledReader(np.frombuffer(b"abc", records).reshape(()), Layout.c(1))
    found = reader.read_into(Region((0,), (2,)), memoryview(bytearray(b"\xff" * 6)))
    assert found.dtype == records
    assert found.tobytes() == b"abcabc"
