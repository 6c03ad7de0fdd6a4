"""Walk through everything in an HDF5 file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]

from dask_io.formats.hdf5.types import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# More than any sane file holds.
_MOST_OBJECTS = 100_000


@dataclass(frozen=True)
class Alias:
    """A second name of an object."""

    first: str


def walk(file: Any) -> Iterator[tuple[str, Any]]:
    """Yield every object in a file with its path, groups before their members.

    An object with several names is yielded once, then as an `Alias`. Soft and external links are
    yielded as links.

    Raises
    ------
    ValueError
        If there are too many objects.
    """
    seen: dict[int, str] = {h5py.h5o.get_info(file["/"].id).addr: "/"}
    waiting = [("", file)]
    while waiting:
        above, group = waiting.pop(0)
        for name in group:
            path = f"{above}{name}"
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink | h5py.ExternalLink):
                yield path, link
                continue
            found = group[name]
            address = h5py.h5o.get_info(found.id).addr
            if address in seen:
                yield path, Alias(seen[address])
                continue
            seen[address] = path
            if len(seen) > _MOST_OBJECTS:
                raise ValueError(f"holds more than {_MOST_OBJECTS:,} datasets and groups")
            yield path, found
            if isinstance(found, h5py.Group):
                waiting.append((f"{path}/", found))


def types_in(content: Mapping[str, Any]) -> dict[int | None, str]:
    """Return the paths of named types by their addresses."""
    types = {path: each.id for path, each in content.items() if isinstance(each, h5py.Datatype)}
    return {address_of(kind): path for path, kind in types.items()}


def named_type(dataset: Any) -> int | None:
    """Return the address of the type of a dataset, None if the type has no name."""
    kind = dataset.id.get_type()
    return address_of(kind) if kind.committed() else None
