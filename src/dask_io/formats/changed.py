"""Find out whether a written array was replaced by another one, or has grown, since it was written.

The checksums of a target say what was written. They say nothing about an array that another program
has put in its place: its blocks are not damaged, and a repair would destroy them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import DataError, StorageError, UsageError
from dask_io.formats.opening import open_source
from dask_io.formats.places import holder_of
from dask_io.formats.reopening import read_back, remake_target
from dask_io.storage.medium import Durability
from dask_io.stores.container import INSIDE
from dask_io.stores.scaling import SCALING
from dask_io.units import by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dask_io.storage.location import Location
    from dask_io.stores.store import Source, Target

LEFT_AS_IT_IS = (
    "this may be on purpose, so it is not repaired; to write it again from its source, run the "
    "first command with --overwrite"
)
"""The advice for an array that is intact, but not the one that was written."""
# Metadata without which stored bytes have another meaning, and the words for it.
_MEANINGS = {
    "zarr_format": "version of the format",
    "chunks": "chunk shape",
    "shards": "shard shape",
    "codecs": "codec",
    "fill_value": "fill value",
    SCALING: "scaling",
}
_ATTRIBUTES = "scale_factor", "add_offset"


def refuse_other_array(described: Mapping[str, Any], place: Location) -> None:
    """Refuse a target that is intact, but not the array that its journal describes.

    A target that cannot be opened is not refused, because it is missing or damaged.

    Raises
    ------
    DataError
        If it is another array.
    """
    inside = described.get("inside")
    # A file may hold several arrays.
    at = f"{holder_of(place)}{INSIDE}/{inside}" if "path" in described and inside else place
    try:
        found = open_source(at, format=str(described.get("format")))
    except (DataError, StorageError, UsageError):
        return
    problems = list(_differences(described, place, found))
    if not problems:
        try:
            read_back(described, at=place)
        except DataError as error:
            problems = list(error.problems)
    if problems:
        raise DataError(str(at), problems, LEFT_AS_IT_IS)


def say_reshaped(before: Sequence[int], after: Sequence[int], names: Sequence[object] = ()) -> str:
    """Describe how the shape of an array has changed; `names` are those of its axes, if known.

    Examples
    --------
    >>> say_reshaped((92, 4), (184, 4), ("time", "lat"))
    'the array has grown from 92 to 184 along time since it was written'
    >>> say_reshaped((92, 4), (91, 5))
    'the shape of the array has changed from 92 x 4 to 91 x 5 since it was written'
    """
    since = "since it was written"
    if len(before) == len(after):
        grown = [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        (axis, *others) = grown
        if not others and before[axis] < after[axis]:
            name = names[axis] if axis < len(names) and names[axis] else f"axis {axis}"
            return f"the array has grown from {before[axis]} to {after[axis]} along {name} {since}"
    return f"the shape of the array has changed from {by(before)} to {by(after)} {since}"


def _differences(described: Mapping[str, Any], place: Location, found: Source) -> Iterator[str]:
    """Yield what makes an array another one than was described when it was written."""
    since, after = "since it was written", found.grid.shape
    shape = described.get("shape")
    # An invalid description is reported when the target is made from it again.
    before = after
    if isinstance(shape, list) and all(type(length) is int for length in shape):
        before = tuple(shape)
    if before != after:
        yield say_reshaped(before, after, found.metadata.get("dimension_names") or ())
    with suppress(DataError):
        # An array of a file with several cannot be remade alone.
        written = remake_target(described, at=place, durability=Durability.NONE, reserve=False)
        if written.dtype != found.dtype:
            yield f"its dtype has changed from {written.dtype} to {found.dtype} {since}"
        if written.layout != found.layout:
            yield f"the order of its elements has changed {since}"
        for word in _changed(written, found.metadata):
            yield f"its {word} has changed {since}"


def _changed(written: Target, found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the metadata that gives stored bytes another meaning."""
    before = written.metadata
    for key, word in _MEANINGS.items():
        if key in before and key in found:
            is_same = _are_same_codecs if key == "codecs" else _is_same
            if not is_same(before[key], found[key]):
                yield word
    for key in _ATTRIBUTES:
        # HDF5 returns an attribute of one value as that value.
        values = (np.ravel(each.get("attributes", {}).get(key)) for each in (before, found))
        if not _is_same(*values):
            yield f"attribute {key}"


def _are_same_codecs(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> bool:
    """Compare what both describe: many files do not record the level of their codec."""
    return len(a) == len(b) and all(
        _is_same(first[key], second[key])
        for first, second in zip(a, b, strict=True)
        for key in first.keys() & second.keys()
    )


def _is_same(a: object, b: object) -> bool:
    """Compare metadata; unlike in Python, NaN is equal to itself."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = (np.asarray(each).tolist() for each in (a, b))
    return a == b or repr(a) == repr(b)
