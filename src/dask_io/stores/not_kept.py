"""Metadata of a source that its target cannot store."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.codecs.zarr3 import in_zarr3, is_replaced
from dask_io.stores.cf_attributes import (
    BOOL_ATTRIBUTE,
    FILL_VALUE,
    NAMES,
    REFERENCE,
    STORED_BOOL,
    missing_value_of,
)
from dask_io.stores.kept_headers import headers_in
from dask_io.stores.scaling import SCALED_FLOATS, SCALING, STORED_INTEGERS, scaling_in
from dask_io.stores.space import Space, includes, is_close
from dask_io.stores.spec import CHANNEL_NAMES, IMAGES, LEVELS, SPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dask_io.stores.store import Source, Target

DIFFERING = "differing_entries"
"""Key of the metadata of several files: names of entries that differ between them."""
# Metadata that lists names, and the word reported if the target lacks one of the names.
_LISTED_NAMES = {
    "coordinates": "coordinates",
    "attributes_of_file": "attributes_of_the_file",
    "attributes_of_groups": "attributes_of_groups",
    "names_of_values": "names_of_values",
    "extra_fields": "extra_fields",
    "user_block": "user_block",
    CHANNEL_NAMES: "channel_names",
    IMAGES: "other_images",
    LEVELS: "levels",
    "texts_of_file": "description",
    "extended_header": "extended_header",
    STORED_INTEGERS: "stored_integers",
    DIFFERING: "metadata_of_some_files",
    SCALED_FLOATS: SCALING,
}
_OLD_ZARR, _NEW_ZARR = 2, 3


def not_kept(source: Source, target: Target, *, gives_space: bool = False) -> tuple[str, ...]:
    """Return the kinds of metadata that a source has and a target cannot store.

    If the user `gives_space`, the source's axes are replaced and do not count as lost.

    Examples
    --------
    A target of raw files cannot store any metadata:

    >>> from types import SimpleNamespace as Store
    >>> metadata = {"attributes": {"unit": "mm"}, "dimension_names": ("y", None)}
    >>> grid = Store(shape=(2, 3))
    >>> source = Store(metadata=metadata, dtype=STORED_BOOL, grid=grid)
    >>> not_kept(source, Store(metadata={}, dtype=STORED_BOOL))
    ('attributes', 'dimension_names')
    >>> named = {**metadata, "dimension_names": ("y", "x")}
    >>> not_kept(source, Store(metadata=named, dtype=STORED_BOOL))
    ()
    """
    wanted, held = source.metadata, target.metadata
    if gives_space:
        wanted = {**wanted, "dimension_names": held.get("dimension_names"), SPACE: held.get(SPACE)}
    lost = [*_lost_attributes(wanted, held, source.dtype), *_lost_axes(wanted, held)]
    lost += [
        word
        for name, word in _LISTED_NAMES.items()
        if not set(wanted.get(name, ())).issubset(held.get(name, ()))
    ]
    is_given = gives_space and SPACE not in held
    lost += [SPACE] if is_given else _lost_space(wanted, held, source.grid.shape)
    lost += [f"{name}_header" for name in headers_in(wanted) if name not in headers_in(held)]
    scaling = scaling_in(wanted)
    if scaling is not None and not scaling.is_identity and SCALING not in held:
        lost.append(SCALING)
    if wanted.get("has_named_type") and not held.get("has_named_type"):
        lost.append("names_of_types")
    if source.dtype.kind == "b" and _stores_integers_for_bool(target):
        lost.append("booleans")
    if loses_codec(source, target):
        lost.append("codec")
    return tuple(dict.fromkeys(lost))


def loses_codec(source: Source, target: Target) -> bool:
    """Tell whether the target has no codecs, or a default instead of one that Zarr 3 lacks."""
    codecs, dtype = source.metadata.get("codecs", ()), source.dtype
    if codecs and "codecs" not in target.metadata:
        return True
    versions = [store.metadata.get("zarr_format") for store in (source, target)]
    if versions[0] == _NEW_ZARR or versions[1] != _NEW_ZARR or not is_replaced(codecs, dtype):
        return False
    chosen, found = in_zarr3(codecs, dtype), target.metadata.get("codecs", ())
    # A codec that the user gave usually differs from the default.
    return len(chosen) == len(found) and all(
        a.items() <= b.items() for a, b in zip(chosen, found, strict=True)
    )


def _lost_attributes(
    wanted: Mapping[str, Any], held: Mapping[str, Any], dtype: np.dtype[Any]
) -> Iterator[str]:
    before, after = wanted.get("attributes", {}), held.get("attributes", {})
    types, held_types = (each.get("types_of_attributes", {}) for each in (wanted, held))
    beyond = set(wanted.get("beyond_json", ()))
    same = {name for name in beyond if types[name] == held_types.get(name)}
    references = {name for name in beyond if types[name] == REFERENCE}
    missing = before.keys() | beyond - same - references
    missing -= after.keys()
    # Some formats store these in a field of their own, not as an attribute.
    if is_same(before.get(NAMES), held.get("dimension_names")):
        missing -= {NAMES}
    if held.get("fill_value") is not None and missing_value_of(wanted, dtype) is not None:
        missing -= {FILL_VALUE}
    contradicts = attribute_contradicts_fill(wanted, dtype)
    if contradicts and not is_same(before[FILL_VALUE], after.get(FILL_VALUE)):
        missing |= {FILL_VALUE}
    if missing:
        yield "some_attributes" if "attributes" in held else "attributes"
    changed = beyond - same - references - missing
    both = before.keys() & after.keys() - beyond - {FILL_VALUE}
    if changed or not all(is_same(before[name], after[name]) for name in both):
        yield "types_of_attributes"
    if references:
        yield "references"


def attribute_contradicts_fill(metadata: Mapping[str, Any], dtype: np.dtype[Any]) -> bool:
    """Tell whether a Zarr 2 array has a ``_FillValue`` attribute unequal to its fill value.

    In Zarr 2, the array's fill value marks missing data, not the attribute.
    """
    value = metadata.get("attributes", {}).get(FILL_VALUE)
    if value is None or metadata.get("zarr_format") != _OLD_ZARR:
        return False
    missing = missing_value_of(metadata, dtype)
    return missing is None or not is_same(value, np.asarray(missing).item())


def is_same(one: object, other: object) -> bool:
    """Tell whether two attribute values are equal; a list of one value equals that value.

    Examples
    --------
    >>> is_same([1], 1), is_same(("y", "x"), ["y", "x"]), is_same({"a": 1}, '{"a": 1}')
    (True, True, False)
    """
    if isinstance(one, list | tuple) or isinstance(other, list | tuple):
        several, others = (
            each if isinstance(each, list | tuple) else [each] for each in (one, other)
        )
        return len(several) == len(others) and all(map(is_same, several, others))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    # NaN is not equal to itself.
    return one == other or (one != one and other != other)  # noqa: PLR0124


def _lost_space(
    wanted: Mapping[str, Any], held: Mapping[str, Any], shape: tuple[int, ...]
) -> Iterator[str]:
    space, kept = wanted.get(SPACE), held.get(SPACE)
    if space is not None and space.is_known and not (kept and _keeps_space(space, kept, shape)):
        yield SPACE
    # Dask IO reads these back, but no other reader does.
    yield from held.get("hidden", ())


def _keeps_space(space: Space, kept: Space, shape: tuple[int, ...]) -> bool:
    """Tell whether a target keeps the units, types and positions of a space, up to rounding."""
    # Axis names are left out: `_lost_axes` compares them as dimension names, for all formats.
    axes = tuple(replace(axis, name=None) for axis in space.axes)
    is_placed = space.affine is None or is_close(replace(space, axes=kept.axes), kept, shape)
    return is_placed and includes(Space(kept.axes), Space(axes))


def _lost_axes(wanted: Mapping[str, Any], held: Mapping[str, Any]) -> Iterator[str]:
    before, after = (each.get("dimension_names") or () for each in (wanted, held))
    if any(name and name != kept for name, kept in zip_longest(before, after)):
        yield "dimension_names"
    limits, held_limits = (each.get("maxshape") or () for each in (wanted, held))
    if limits and not held_limits:
        yield "unlimited_dimensions" if None in limits else "maxshape"


def _stores_integers_for_bool(target: Target) -> bool:
    """Tell whether a target stores booleans as integers."""
    attributes = target.metadata.get("attributes", {})
    return target.dtype == STORED_BOOL and BOOL_ATTRIBUTE.items() <= attributes.items()
