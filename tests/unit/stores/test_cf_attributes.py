"""Values that stand for gaps are written as xarray writes them, and read back bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from xarray.backends.zarr import FillValueCoder

from dask_io.stores.cf_attributes import FILL_VALUE, encoded, is_plain_number, missing_value_of

KINDS = ["i1", "<u2", ">i4", "<i8", ">u8", "<f4", ">f4", "<f8", "S1", "S5"]
gaps = st.sampled_from(KINDS).flatmap(
    lambda kind: hnp.arrays(kind, (), elements=hnp.from_dtype(np.dtype(kind)))
)


@given(gaps)
def test_zarr_3_holds_what_xarray_reads(gap: Any) -> None:
    """Every value is encoded as xarray does, and comes back as it was."""
    attributes = {FILL_VALUE: encoded(gap[()], gap.dtype)}

    found = missing_value_of({"zarr_format": 3, "attributes": attributes}, gap.dtype)

    assert attributes[FILL_VALUE] == FillValueCoder.encode(gap[()], gap.dtype)
    assert found == gap or (np.isnan(found) and np.isnan(gap))


@given(gaps.filter(lambda gap: gap.dtype.kind != "S"))
def test_plain_values_are_taken_as_they_are(gap: Any) -> None:
    """NetCDF says the value itself, Zarr 2 has it as the fill value."""
    for said in (
        {"attributes": {FILL_VALUE: gap[()].item()}},
        {"zarr_format": 2, "fill_value": gap},
    ):
        found = np.asarray(missing_value_of(said, gap.dtype))
        assert found == gap or (np.isnan(found) and np.isnan(gap))


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"attributes": {}},
        {"zarr_format": 2, "fill_value": None, "attributes": {FILL_VALUE: 1}},
        {"zarr_format": 3, "fill_value": 0, "attributes": {}},
        {"zarr_format": 3, "attributes": {FILL_VALUE: "no base64"}},
        {"zarr_format": 3, "attributes": {FILL_VALUE: "AAAA"}},
        {"zarr_format": 3, "attributes": {FILL_VALUE: {"a": 1}}},
        {"attributes": {FILL_VALUE: [1, 2]}},
    ],
    ids=str,
)
def test_what_is_no_value_for_gaps(said: dict[str, Any]) -> None:
    """It is taken for none, whoever has written it."""
    assert missing_value_of(said, np.dtype("f4")) is None


def test_types_that_go_without_saying() -> None:
    """Those that numbers of JSON come back with, or that the variable's elements have."""
    short, double, whole = np.dtype("i2"), np.dtype("f8"), np.dtype("i4")
    assert is_plain_number("scale_factor", double, short)
    assert is_plain_number("levels", whole, None)
    assert is_plain_number("valid_range", np.dtype(">i2"), short)
    assert not is_plain_number("valid_range", whole, short)
    assert not is_plain_number("scale_factor", np.dtype("f4"), np.dtype("f4"))
