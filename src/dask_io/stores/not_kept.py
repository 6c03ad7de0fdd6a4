"""What a source says about its array that a target does not say again."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.stores.cf_attributes import FILL_VALUE, NAMES, REFERENCE, SAYS_TRUTH, TRUTH, gap_of
from dask_io.stores.scaling import SCALED_FLOATS, SCALING, STORED_INTEGERS, scaling_in
from dask_io.stores.space import Space, is_close, says_all_of
from dask_io.stores.spec import FOREIGN_HEADERS, SPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dask_io.stores.store import Source, Target

# What stores have the names of, and what is told if not all of them are kept.
_ONE_BY_ONE = {
    "coordinates": "coordinates",
    "attributes_of_file": "attributes_of_the_file",
    "attributes_of_groups": "attributes_of_groups",
    "names_of_values": "names_of_values",
    "extra_fields": "extra_fields",
    "user_block": "user_block",
    "extended_header": "extended_header",
    STORED_INTEGERS: "stored_integers",
    SCALED_FLOATS: SCALING,
}
_OLD_ZARR = 2


def not_kept(source: Source, target: Target, *, gives_space: bool = False) -> tuple[str, ...]:
    """Return what a source says about its array that a target has no place for.

    If the user `gives_space`, what the source says about its axes is replaced, not lost.

    Examples
    --------
    A target of raw files has no place for anything:

    >>> from types import SimpleNamespace as Store
    >>> said = {"attributes": {"unit": "mm"}, "dimension_names": ("y", None)}
    >>> source = Store(metadata=said, dtype=TRUTH)
    >>> not_kept(source, Store(metadata={}, dtype=TRUTH))
    ('attributes', 'dimension_names')
    >>> not_kept(source, Store(metadata={**said, "dimension_names": ("y", "x")}, dtype=TRUTH))
    ()
    """
    said, held = source.metadata, target.metadata
    if gives_space:
        said = {**said, "dimension_names": held.get("dimension_names"), SPACE: held.get(SPACE)}
    lost = [*_lost_attributes(said, held, source.dtype), *_lost_axes(said, held)]
    lost += [
        word
        for name, word in _ONE_BY_ONE.items()
        if not set(said.get(name, ())).issubset(held.get(name, ()))
    ]
    is_given = gives_space and SPACE not in held
    lost += [SPACE] if is_given else _lost_space(said, held, source.grid.shape)
    lost += [f"{key}_header" for key in sorted(FOREIGN_HEADERS & said.keys() - held.keys())]
    scaling = scaling_in(said)
    if scaling is not None and not scaling.is_identity and SCALING not in held:
        lost.append(SCALING)
    if said.get("has_named_type") and not held.get("has_named_type"):
        lost.append("names_of_types")
    if source.dtype.kind == "b" and _says_truth(target):
        lost.append("booleans")
    return tuple(dict.fromkeys(lost))


def _lost_attributes(
    said: Mapping[str, Any], held: Mapping[str, Any], dtype: np.dtype[Any]
) -> Iterator[str]:
    before, after = said.get("attributes", {}), held.get("attributes", {})
    types, held_types = (each.get("types_of_attributes", {}) for each in (said, held))
    beyond = set(said.get("beyond_json", ()))
    same = {name for name in beyond if types[name] == held_types.get(name)}
    references = {name for name in beyond if types[name] == REFERENCE}
    missing = before.keys() | beyond - same - references
    missing -= after.keys()
    # Some formats have a place of their own for these.
    if is_same(before.get(NAMES), held.get("dimension_names")):
        missing -= {NAMES}
    if held.get("fill_value") is not None and gap_of(said, dtype) is not None:
        missing -= {FILL_VALUE}
    if says_other_gap(said, dtype) and not is_same(before[FILL_VALUE], after.get(FILL_VALUE)):
        missing |= {FILL_VALUE}
    if missing:
        yield "some_attributes" if "attributes" in held else "attributes"
    changed = beyond - same - references - missing
    both = before.keys() & after.keys() - beyond - {FILL_VALUE}
    if changed or not all(is_same(before[name], after[name]) for name in both):
        yield "types_of_attributes"
    if references:
        yield "references"


def says_other_gap(said: Mapping[str, Any], dtype: np.dtype[Any]) -> bool:
    """Tell whether an attribute of Zarr 2 says other than the fill value, which is for gaps."""
    value, gap = said.get("attributes", {}).get(FILL_VALUE), gap_of(said, dtype)
    if value is None or said.get("zarr_format") != _OLD_ZARR:
        return False
    return gap is None or not is_same(value, np.asarray(gap).item())


def is_same(one: object, other: object) -> bool:
    """Tell whether two values of attributes are the same, of which one in a list is that one.

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
    # What is no number is not even equal to itself.
    return one == other or (one != one and other != other)  # noqa: PLR0124


def _lost_space(
    said: Mapping[str, Any], held: Mapping[str, Any], shape: tuple[int, ...]
) -> Iterator[str]:
    space, kept = said.get(SPACE), held.get(SPACE)
    if space is not None and space.is_known and not (kept and _is_said(space, kept, shape)):
        yield SPACE
    # Dask IO reads it back, but no other reader does.
    yield from held.get("hidden", ())


def _is_said(space: Space, kept: Space, shape: tuple[int, ...]) -> bool:
    """Tell whether a target keeps the units, types and positions of a space, up to rounding."""
    # The names of the axes are compared with those of all formats, as dimension names.
    axes = tuple(replace(axis, name=None) for axis in space.axes)
    is_placed = space.affine is None or is_close(replace(space, axes=kept.axes), kept, shape)
    return is_placed and says_all_of(Space(kept.axes), Space(axes))


def _lost_axes(said: Mapping[str, Any], held: Mapping[str, Any]) -> Iterator[str]:
    before, after = (each.get("dimension_names") or () for each in (said, held))
    if any(name and name != kept for name, kept in zip_longest(before, after)):
        yield "dimension_names"
    grows, still_grows = (each.get("maxshape") or () for each in (said, held))
    if grows and not still_grows:
        yield "unlimited_dimensions" if None in grows else "maxshape"


def _says_truth(target: Target) -> bool:
    """Tell whether numbers stand for truth in a target."""
    said = target.metadata.get("attributes", {})
    return target.dtype == TRUTH and SAYS_TRUTH.items() <= said.items()
