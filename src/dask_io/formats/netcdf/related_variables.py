"""Everything that belongs to a variable: dimensions, variables that describe it, attributes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from dask_io.errors import UsageError
from dask_io.stores.cf_attributes import names_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.geometry import Region

# Largest size of all related variables together, which are read into memory.
MOST_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Variable:
    """A variable that is copied along with another.

    Its name, and those of its dimensions, are paths. `type_name` is the name of an enumeration, if
    the values are of one.
    """

    name: str
    dimensions: tuple[str, ...]
    values: NDArray[Any]
    attributes: Mapping[str, Any]
    type_name: str = ""


@dataclass(frozen=True)
class RelatedVariables:
    """Everything in a file that belongs to a variable, except its values.

    Names are paths in the file. `groups` has the attributes of all groups around the variable; the
    file itself has the path ``""``. `unlimited` are the unlimited dimensions. Attributes have the
    same types as in the file.
    """

    name: str
    dimensions: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    unlimited: frozenset[str] = frozenset()
    variables: tuple[Variable, ...] = ()

    def at(self, path: str) -> RelatedVariables:
        """Return the same for the variable at another path.

        Everything that belongs to it moves to its new group. A variable whose name is already
        taken there is left out.
        """
        if path == self.name:
            return self
        group = path[: -len(last_of(path))]
        first, found = dict[str, str](), []
        for axis, name in enumerate(dict.fromkeys(self.dimensions)):
            last = last_of(name)
            first[f"{last}_{axis}" if last in first else last] = name
        for each in self.variables:
            names = (each.name, *each.dimensions)
            if all(first.setdefault(last_of(name), name) == name for name in names):
                found.append(each)
        moved = {name: f"{group}{last}" for last, name in first.items()}
        return RelatedVariables(
            name=path,
            dimensions=tuple(moved[name] for name in self.dimensions),
            attributes=self.attributes,
            groups={"": self.groups[""]},
            unlimited=frozenset(moved[name] for name in self.unlimited.intersection(moved)),
            variables=tuple(
                replace(
                    each,
                    name=moved[each.name],
                    dimensions=tuple(moved[name] for name in each.dimensions),
                )
                for each in found
            ),
        )

    def without(self, name: str) -> RelatedVariables:
        """Return the same with a dimension renamed that has the new name of the variable."""
        names = {each: f"{each}_0" if each == name else each for each in self.dimensions}

        def renamed(dimensions: Iterable[str]) -> tuple[str, ...]:
            return tuple(names.get(each, each) for each in dimensions)

        return replace(
            self,
            dimensions=renamed(self.dimensions),
            unlimited=frozenset(renamed(self.unlimited)),
            variables=tuple(
                replace(each, dimensions=renamed(each.dimensions)) for each in self.variables
            ),
        )


def last_of(path: str) -> str:
    """Return the last part of a path, without its groups."""
    return path.rpartition("/")[2]


class Found(Protocol):
    """A variable of an open file."""

    @property
    def path(self) -> str:
        """Path in the file."""

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Paths of its dimensions."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each dimension."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its elements."""

    @property
    def type_name(self) -> str:
        """Name of the enumeration that its values are of; empty if they are of none."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Its attributes."""

    def read(self, slices: tuple[slice, ...]) -> NDArray[Any]:
        """Read a part of its values."""


class Lookup(Protocol):
    """Looks up variables by name."""

    def __call__(self, name: str) -> Found | None:
        """Return a variable, None if there is none with this name; with a ``/`` it is a path."""


def find_related(main: str, lookup: Lookup) -> dict[str, Found]:
    """Return the variables that belong to one, by path.

    These are the variables of its dimensions, those that its attributes refer to, and, in turn,
    those that belong to them.
    """
    first = lookup(main)
    waiting, found = list(_references(first)) if first else [], dict[str, Found]()
    while waiting:
        one = lookup(waiting.pop(0))
        if one is not None and one.path not in {main.strip("/"), *found}:
            found[one.path] = one
            waiting += _references(one)
    return found


def gather(main: str, lookup: Lookup, region: Region | None) -> tuple[Variable, ...]:
    """Read the variables that belong to one, or to the region of it that is moved.

    Raises
    ------
    UsageError
        If they are too large.
    """
    first = lookup(main)
    if first is None:
        return ()
    bounds = {} if region is None else dict(zip(first.dimensions, region.bounds, strict=True))
    found, n_bytes = list[Variable](), 0
    for path, one in find_related(main, lookup).items():
        n_bytes += prod(one.shape) * one.dtype.itemsize
        if n_bytes > MOST_BYTES:
            raise UsageError(
                f"the variables that belong to {first.path} are too large to be copied with it: "
                f"{n_bytes} bytes including {path}, but at most {MOST_BYTES} are allowed"
            )
        slices = tuple(slice(*bounds.get(each, (None, None))) for each in one.dimensions)
        values, type_name = one.read(slices), one.type_name
        found.append(Variable(path, one.dimensions, values, one.attributes, type_name))
    return tuple(found)


def _references(one: Found) -> Iterator[str]:
    yield from (f"/{path}" for path in one.dimensions)
    yield from names_in(one.attributes)
