"""Sums and products of large integers in 64 bits, exact up to a limit.

Seeks and elements of very large arrays exceed 64 bits, but a search only needs to know exactly
those that fit in its budget. All others are only known to be beyond it. Python integers would be
exact, too, but their arithmetic takes a hundred times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIMIT = 2**60
"""Integers below this are exact."""
BEYOND = 2**61
"""The value of integers that are beyond the limit. The sum of two such values fits in 64 bits."""
# Sums of terms up to this size are rounded by much less than the limit if they are floats.
_LARGEST = 2.0**105
_MODULUS = 2**64


class Wrapped(NamedTuple):
    """Integers modulo 2**64, and the same integers as floats, which show how large they are.

    Arithmetic modulo 2**64 is exact for all results that fit in 64 bits, however large the
    operands are.
    """

    exact: NDArray[np.int64]
    about: NDArray[np.float64]


def is_limited(*largest: int) -> bool:
    """Tell whether sums of integers of at most these sizes can be computed here."""
    return float(sum(largest)) < _LARGEST


def combine(constant: int, *terms: tuple[int, NDArray[np.int64]]) -> Wrapped:
    """Return ``constant + factor * values + ...``.

    Examples
    --------
    >>> combine(5 - 2**70, (2**70, np.array([1, 2]))).exact.tolist()
    [5, 5]
    """
    exact = np.full(terms[0][1].shape, constant % _MODULUS, np.uint64)
    about = np.full(terms[0][1].shape, float(constant))
    for factor, values in terms:
        exact += np.uint64(factor % _MODULUS) * values.view(np.uint64)
        about += float(factor) * values
    return Wrapped(exact.view(np.int64), about)


def add_pairs(first: Wrapped, second: Wrapped) -> NDArray[np.int64]:
    """Return the sum of every pair, 0 if it is negative, `BEYOND` if it is beyond the limit.

    Examples
    --------
    >>> [low, high] = add_pairs(
    ...     combine(0, (2**70, np.array([0, 1]))), combine(3, (0, np.zeros(1, int)))
    ... )
    >>> int(low[0]), int(high[0]) == BEYOND
    (3, True)
    """
    exact = first.exact[:, None] + second.exact
    about = first.about[:, None] + second.about
    # Floats of this size are rounded by less than the limit, so the others fit in 64 bits.
    exact[about > BEYOND] = BEYOND
    exact[about < -BEYOND] = 0
    return np.asarray(np.maximum(exact, 0), np.int64)


def multiply(values: NDArray[Any], factor: int) -> NDArray[Any]:
    """Multiply integers by one that is not negative; results beyond the limit are `BEYOND`.

    Examples
    --------
    >>> multiply(np.array([0, 3, 2**40]), 2**30).tolist() == [0, 3 * 2**30, BEYOND]
    True
    """
    if values.dtype == object:
        return np.asarray(values * factor)
    least_beyond = -(-LIMIT // factor) if factor else LIMIT
    return np.where(values < least_beyond, values * min(factor, LIMIT), BEYOND)
