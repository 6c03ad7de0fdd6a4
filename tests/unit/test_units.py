"""Sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.units import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("512", 512),
        (512, 512),
        ("1B", 1),
        ("4GiB", 4 * 2**30),
        ("4 gib", 4 * 2**30),
        ("1.5GB", 1_500_000_000),
        ("200kB", 200_000),
        ("0.5 KiB", 512),
        (".5k", 500),
        ("2.", 2),
        ("3T", 3 * 10**12),
        ("1EiB", 2**60),
        ("0.1GB", 100_000_000),
        ("1e9", 10**9),
        ("1.5E3 MB", 1_500_000_000),
        (1e9, 10**9),
    ],
)
def test_sizes_are_read(text: str | float, n_bytes: int) -> None:
    """Decimal and binary units, any case, with or without a fraction."""
    assert parse_bytes(text) == n_bytes


@pytest.mark.parametrize(
    "text", ["", "GiB", "4 apples", "-1", "1e-9", "1e999", "0", "0.0001", "1,5GB", "nan"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    """Anything else is one clear line that quotes it."""
    with pytest.raises(ValueError, match=r"is not a (positive )?size") as caught:
        parse_bytes(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (2**30, "1.00 GiB"),
        (10**9, "953.67 MiB"),
        (5 * 2**70, "5120.00 EiB"),
    ],
)
def test_sizes_are_written(n_bytes: int, text: str) -> None:
    """Binary units with two decimals, rounded down."""
    assert format_bytes(n_bytes) == text


@given(n_bytes=st.integers(1, 2**80))
def test_what_is_written_can_be_read(n_bytes: int) -> None:
    """A size comes back within the hundredth that is shown."""
    again = parse_bytes(format_bytes(n_bytes))
    assert again <= n_bytes <= again * 1.01 + 1
