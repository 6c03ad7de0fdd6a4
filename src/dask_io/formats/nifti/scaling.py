"""The scaling of NIfTI files: scl_slope and scl_inter, and the same map for other formats.

A slope of 0, or one that is not finite, means that stored values are the real values. NIfTI-1
stores both numbers in single precision.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.stores.scaling import (
    SCALED_FLOATS,
    SCALING,
    Scaling,
    describe_linear,
    linear,
    scaling_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nibabel.nifti1 import Nifti1Header

_IDENTITY = (1.0, 0.0)


def slope_and_inter(header: Nifti1Header) -> tuple[float, float]:
    """Return slope and intercept of a header; 1 and 0 if it has no valid ones."""
    slope, inter = float(header["scl_slope"]), float(header["scl_inter"])
    return (slope, inter) if slope and isfinite(slope) and isfinite(inter) else _IDENTITY


def describe_scaling(header: Nifti1Header, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the metadata that describes the scaling to other formats; empty without scaling."""
    return describe_linear(*slope_and_inter(header), dtype)


def keep_scaling(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scaling of a source if a slope and an intercept can express it."""
    kept = {key: metadata[key] for key in (SCALED_FLOATS,) if key in metadata}
    scaling = scaling_in(metadata)
    if scaling is None or not scaling.low.size:
        return kept
    low, high = scaling.low.flat[0], scaling.high.flat[0]
    if (scaling.low != low).any() or (scaling.high != high).any():
        return kept
    same = Scaling(scaling.valid, np.asarray(low), np.asarray(high))
    with np.errstate(all="ignore"):
        slope, inter = np.asarray(_slope_and_inter_of(same), np.float32)
    is_stored = slope and np.isfinite(slope) and np.isfinite(inter)
    return {**kept, SCALING: same.to_json()} if is_stored else kept


def set_scaling(header: Nifti1Header, metadata: Mapping[str, Any]) -> None:
    """Set slope and intercept to the scaling in the metadata, unless the header has it already."""
    scaling = scaling_in(metadata)
    if scaling is None or scaling.n_axes:
        return
    own = linear(*slope_and_inter(header), scaling.valid)
    if own is None or not own.is_same(scaling):
        header["scl_slope"], header["scl_inter"] = _slope_and_inter_of(scaling)


def _slope_and_inter_of(scaling: Scaling) -> tuple[float, float]:
    first, last = scaling.valid
    slope = (float(scaling.high) - float(scaling.low)) / (last - first)
    return slope, float(scaling.low) - first * slope
