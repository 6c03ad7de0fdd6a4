"""Types of elements that have a name in their file, as those of NetCDF have whose values do."""

from __future__ import annotations

from typing import Any

import h5py  # type: ignore[import-untyped]

from dask_io.stores.hdf5.file import make_groups


def type_in(dataset: Any) -> tuple[Any, str]:
    """Return the type of a dataset, and its path in the file, nothing if it has no name."""
    kind = dataset.id.get_type()
    return kind, _find(dataset.file, kind)


def _find(file: Any, kind: Any) -> str:
    """Return the path of a type.

    Enumerations of the NetCDF library are of a type that is equal to one with a name.
    """
    if kind.committed():
        address = _address(kind)
    elif isinstance(kind, h5py.h5t.TypeEnumID):
        address = None
    else:
        return ""

    def path_of(path: str, found: Any) -> str | None:
        if not isinstance(found, h5py.Datatype):
            return None
        is_it = found.id.equal(kind) if address is None else _address(found.id) == address
        return path if is_it else None

    return file.visititems(path_of) or ""


def _address(kind: Any) -> int:
    address: int = h5py.h5o.get_info(kind).addr
    return address


def type_with_name(file: Any, kind: Any, path: str, *, in_order: bool) -> Any:
    """Return a type as the one that has a name in a file, which is made if it is not there.

    If there is something else of that name, the type has none.
    """
    found = file.get(path)
    if isinstance(found, h5py.Datatype) and found.id.equal(kind):
        return found.id
    made = kind.copy()
    if found is None:
        group = make_groups(file, path, in_order=in_order)
        made.commit(group.id, path.rpartition("/")[2].encode())
    return made
