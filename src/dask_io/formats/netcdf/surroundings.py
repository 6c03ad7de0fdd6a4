"""What belongs to a variable: its dimensions, the variables that describe it, all attributes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from dask_io.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.geometry import Region

# What is copied along is small beside the array; it is kept in memory, and in the journal.
MOST_BYTES = 32 * 2**20
# Attributes that name variables, and so say that these belong to theirs.
_NAMING = ("coordinates", "grid_mapping", "bounds", "ancillary_variables")


@dataclass(frozen=True)
class Variable:
    """A variable that is copied along; its name, and those of its dimensions, are paths.

    Its values may have names, in a type that has one.
    """

    name: str
    dimensions: tuple[str, ...]
    values: NDArray[Any]
    attributes: Mapping[str, Any]
    name_of_type: str = ""


@dataclass(frozen=True)
class Surroundings:
    """All that a file says about a variable besides its values.

    Names are paths in the file, so that it is known in which group everything is. `groups` are
    the attributes of the groups that the variable is in, of the file itself as ``""``; `unlimited`
    are the dimensions that have no last index. Values of attributes have the types that they have
    in the file.
    """

    name: str
    dimensions: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    unlimited: frozenset[str] = frozenset()
    variables: tuple[Variable, ...] = ()

    def at(self, path: str) -> Surroundings:
        """Return what there is to say about the variable if it has another path.

        All that belongs to it is in its group then, but what would have the name of another there.
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
        return Surroundings(
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

    def without(self, name: str) -> Surroundings:
        """Return the same, but no dimension has a name, which the variable is to have."""
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
    """Return a name without the groups that it is in."""
    return path.rpartition("/")[2]


class Found(Protocol):
    """A variable of a file that is open."""

    @property
    def path(self) -> str:
        """Where it is in the file."""

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Paths of its dimensions."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its elements."""

    @property
    def name_of_type(self) -> str:
        """The name of the type whose values have names, nothing if there is none."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What it says about itself."""

    def read(self, slices: tuple[slice, ...]) -> NDArray[Any]:
        """Read a part of its values."""


class Lookup(Protocol):
    """A file in which variables are looked up by their names."""

    def __call__(self, name: str) -> Found | None:
        """Return a variable that belongs to another, None if there is none of this name.

        It is a path if it begins with a ``/``.
        """


def belonging_to(main: str, lookup: Lookup) -> dict[str, Found]:
    """Return the variables that describe one, by their paths.

    These are the ones with the names of its dimensions, those that its attributes name, and so on.
    """
    first = lookup(main)
    waiting, found = list(_named_by(first)) if first else [], dict[str, Found]()
    while waiting:
        one = lookup(waiting.pop(0))
        if one is not None and one.path not in {main.strip("/"), *found}:
            found[one.path] = one
            waiting += _named_by(one)
    return found


def gather(main: str, lookup: Lookup, region: Region | None) -> tuple[Variable, ...]:
    """Return the variables that describe one, or the region of it that is moved.

    Raises
    ------
    UsageError
        If they are too large to be copied along.
    """
    first = lookup(main)
    if first is None:
        return ()
    bounds = {} if region is None else dict(zip(first.dimensions, region.bounds, strict=True))
    found, n_bytes = list[Variable](), 0
    for path, one in belonging_to(main, lookup).items():
        n_bytes += prod(one.shape) * one.dtype.itemsize
        if n_bytes > MOST_BYTES:
            raise UsageError(
                f"what belongs to variable {first.path} has {n_bytes} bytes with "
                f"variable {path}; more than {MOST_BYTES} are not copied along"
            )
        slices = tuple(slice(*bounds.get(each, (None, None))) for each in one.dimensions)
        values, name_of_type = one.read(slices), one.name_of_type
        found.append(Variable(path, one.dimensions, values, one.attributes, name_of_type))
    return tuple(found)


def _named_by(one: Found) -> Iterator[str]:
    yield from (f"/{path}" for path in one.dimensions)
    for word in _NAMING:
        named = one.attributes.get(word)
        text = named.decode(errors="replace") if isinstance(named, bytes) else named
        if isinstance(text, str):
            # A mapping may be written as "name: first second".
            yield from (part.rstrip(":") for part in text.split())
