"""The attribute in which containers keep metadata that they have no field for.

Zarr, HDF5 and NetCDF have attributes, but no field for an affine map or for the header of another
format. Dask IO stores these under one attribute of its own, `KEY`, and removes it again when the
array is read, so that users see only their own attributes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dask_io.stores.kept_headers import HEADERS, headers_in
from dask_io.stores.space import Space
from dask_io.stores.spec import SPACE

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "dask_io"
"""Name of the attribute."""


def own_value(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of the attribute for the metadata of a source; empty if none is needed.

    It has the space, and each header under the name of its format.
    """
    space = metadata.get(SPACE)
    if not isinstance(space, Space) or not space.is_known:
        return headers_in(metadata)
    return {SPACE: space.to_json(), **headers_in(metadata)}


def add_own(metadata: Mapping[str, Any], *, as_text: bool = False) -> Mapping[str, Any]:
    """Return metadata whose attributes include the space and the headers of other formats.

    They are written `as_text` where attributes cannot be JSON values. An attribute of the user
    that has the same name stays as it is.

    Examples
    --------
    >>> from dask_io.stores.space import Space, SpaceAxis
    >>> add_own({"space": Space((SpaceAxis("x"),)), "attributes": {}})["attributes"]
    {'dask_io': {'space': {'axes': [{'name': 'x', 'unit': None, 'type': None}]}}}
    """
    attributes, value = metadata.get("attributes", {}), own_value(metadata)
    if not value or KEY in attributes:
        return metadata
    stored = json.dumps(value) if as_text else value
    return {**metadata, "attributes": {**attributes, KEY: stored}}


def take_own(described: Mapping[str, Any], n_axes: int) -> dict[str, Any]:
    """Undo `add_own`: return metadata with the space and the headers.

    An attribute that was not written by `add_own` stays as it is.
    """
    attributes = dict(described["attributes"])
    found = read_own(attributes.pop(KEY, None), n_axes)
    if found is None:
        return dict(described)
    return {**described, "attributes": attributes, **found}


def read_own(value: object, n_axes: int) -> dict[str, Any] | None:
    """Return the space and the headers in the value of the attribute; None if it is not ours."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, dict) or not value:
        return None
    headers = {name: header for name, header in value.items() if name != SPACE}
    found: dict[str, Any] = {HEADERS: headers} if headers else {}
    if SPACE in value:
        try:
            found[SPACE] = Space.from_json(value[SPACE])
        except ValueError:
            return None
        if len(found[SPACE].axes) != n_axes:
            return None
    return found if own_value(found) == value else None
