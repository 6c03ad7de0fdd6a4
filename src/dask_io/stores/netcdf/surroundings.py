"""What belongs to a variable: its dimensions, the variables that describe it, all attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from dask_io.errors import UsageError
from dask_io.stores.naming import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.geometry import Region

# What is copied along is small beside the array; it is kept in memory, and in the journal.
MOST_BYTES = 32 * 2**20
# Attributes that name variables, and so say that these belong to theirs.
_NAMING = ("coordinates", "grid_mapping", "bounds", "ancillary_variables")


@dataclass(frozen=True)
class Variable:
    """A variable that is copied along, with the names of its dimensions."""

    name: str
    dimensions: tuple[str, ...]
    values: NDArray[Any]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Surroundings:
    """All that a file says about a variable besides its values.

    `unlimited` are the dimensions that have no last index. Values of attributes have the types
    that they have in the file.
    """

    dimensions: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    of_file: Mapping[str, Any] = field(default_factory=dict)
    unlimited: frozenset[str] = frozenset()
    variables: tuple[Variable, ...] = ()


class Found(Protocol):
    """A variable of a file that is open."""

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of its dimensions."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its elements."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What it says about itself."""

    def read(self, slices: tuple[slice, ...]) -> NDArray[Any]:
        """Read a part of its values."""


class Lookup(Protocol):
    """A file in which variables are looked up by their names."""

    def __call__(self, name: str) -> Found | None:
        """Return a variable that belongs to another, None if there is none of this name."""


def belonging_to(main: str, lookup: Lookup) -> dict[str, Found]:
    """Return the variables that describe one, by their names.

    These are the ones with the names of its dimensions, those that its attributes name, and so on.
    """
    first = lookup(main)
    waiting, seen, found = list(_named_by(first)) if first else [], {main}, dict[str, Found]()
    while waiting:
        name = waiting.pop(0)
        one = None if name in seen else lookup(name)
        seen.add(name)
        if one is not None:
            found[name] = one
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
    for name, one in belonging_to(main, lookup).items():
        n_bytes += prod(one.shape) * one.dtype.itemsize
        if n_bytes > MOST_BYTES:
            raise UsageError(
                f"what belongs to variable {printable(main)} has {n_bytes} bytes with variable "
                f"{printable(name)}; more than {MOST_BYTES} are not copied along"
            )
        slices = tuple(slice(*bounds.get(each, (None, None))) for each in one.dimensions)
        found.append(Variable(name, one.dimensions, one.read(slices), one.attributes))
    return tuple(found)


def _named_by(one: Found) -> Iterator[str]:
    yield from one.dimensions
    for word in _NAMING:
        named = one.attributes.get(word)
        text = named.decode(errors="replace") if isinstance(named, bytes) else named
        if isinstance(text, str):
            # A mapping may be written as "name: first second".
            yield from (part.rstrip(":") for part in text.split())
