"""Names of block files: a pattern with one field per axis, and how to recognise one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import starmap
from string import Formatter
from typing import TYPE_CHECKING, TypeAlias

from dask_io.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_FIELD = re.compile(r"(offset)?(?:(?<=offset):)?(?:0([1-9][0-9]?))?")
_WIDEST = 100
_NUMBERS = re.compile(r"([0-9]+)")


def printable(text: str) -> str:
    r"""Write a name so that it cannot move a terminal's cursor.

    Examples
    --------
    >>> print(printable("b_\x1b[2J.npy"))
    b_\x1b[2J.npy
    """
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


@dataclass(frozen=True, slots=True)
class BlockNames:
    """A file name with a field per axis: ``b_{0}_{1}.npy``.

    ``{0}`` is a block's number along axis 0, ``{0:03}`` the same with zeros in front,
    ``{0:offset}`` and ``{0:offset:06}`` the position of its first element. Braces that mean
    themselves are doubled. Names are read with any number of zeros in front of a number.

    Raises
    ------
    ValueError
        If the pattern is not a plain file name with one field for each axis.

    Examples
    --------
    >>> names = BlockNames("b_{0:02}_{1}.npy")
    >>> names.name_of((3, 14), (300, 1400)), names.parse("b_3_0014.npy")
    ('b_03_14.npy', (3, 14))
    """

    pattern: str
    _parts: tuple[tuple[str, int, int], ...] = field(init=False, repr=False, compare=False)
    _form: str = field(init=False, repr=False, compare=False)
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _order: tuple[int, ...] | None = field(init=False, repr=False, compare=False)
    _axes: tuple[int, ...] = field(init=False, repr=False, compare=False)
    by_offset: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts, kinds = [], set()
        for literal, axis, spec, conversion in Formatter().parse(self.pattern):
            if axis is None:
                parts.append((literal, -1, 0))
                continue
            match = _FIELD.fullmatch(spec or "")
            if conversion or match is None or not re.fullmatch(r"0|[1-9][0-9]?", axis):
                raise ValueError("its fields are not all like {0}, {0:03} or {0:offset}")
            kinds.add(match[1])
            parts.append((literal, int(axis), int(match[2] or 0)))
        axes = [axis for _, axis, _ in parts if axis >= 0]
        if not axes:
            raise ValueError("it has no field for an axis, such as {0}")
        if sorted(axes) != list(range(len(axes))):
            raise ValueError("its fields do not name every axis once, counted from 0")
        if len(kinds) > 1:
            raise ValueError("it mixes block numbers and offsets")
        between = [literal for literal, axis, _ in parts if axis >= 0][1:]
        if any(not literal or literal.isdecimal() for literal in between):
            raise ValueError("two of its fields have nothing but digits between them")
        _check_file_name("".join(literal or "" for literal, _, _ in parts), parts[0])
        object.__setattr__(self, "_parts", tuple(parts))
        object.__setattr__(self, "_form", "".join(starmap(_form_of, parts)))
        object.__setattr__(self, "by_offset", kinds == {"offset"})
        object.__setattr__(self, "_regex", _regex_of(parts))
        in_order = axes == sorted(axes)
        order = None if in_order else tuple(axes.index(axis) for axis in range(len(axes)))
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_axes", tuple(axes))

    @classmethod
    def default(cls, n_axes: int, suffix: str) -> BlockNames:
        """Return the names that new blocks get.

        Examples
        --------
        >>> BlockNames.default(3, ".npy").pattern
        'b_{0}_{1}_{2}.npy'
        """
        return cls("_".join(["b", *(f"{{{axis}}}" for axis in range(n_axes))]) + suffix)

    @property
    def n_axes(self) -> int:
        """Number of fields."""
        return sum(axis >= 0 for _, axis, _ in self._parts)

    def name_of(self, index: Sequence[int], starts: Sequence[int]) -> str:
        """Return the name of a block with this number and first element."""
        numbers = tuple(starts if self.by_offset else index)
        if self._order is not None:
            numbers = tuple(numbers[axis] for axis in self._axes)
        return self._form % numbers

    def parse(self, name: str) -> tuple[int, ...] | None:
        """Return the numbers in a name, by axis, or None if the pattern does not match it."""
        match = self._regex.fullmatch(name)
        if match is None:
            return None
        numbers = tuple(map(int, match.groups()))
        return numbers if self._order is None else tuple(numbers[place] for place in self._order)

    @classmethod
    def guess(
        cls, place: str, names: Collection[str], *, suffix: str, first_shape: Sequence[int]
    ) -> BlockNames:
        """Recognise the one pattern that all names show.

        Numbers that run from 0 to n - 1 along every axis count blocks; numbers whose second
        is the first block's length are offsets; other gaps are taken for missing blocks.

        Parameters
        ----------
        place
            The directory, for the message.
        names
            All names, each ending in `suffix`.
        suffix
            What is not searched for numbers.
        first_shape
            The shape of the block whose numbers are the smallest.

        Raises
        ------
        DataError
            If the names do not show one pattern with a number per axis.

        Examples
        --------
        >>> names = ["v1_0_0.npy", "v1_0_4.npy", "v1_5_0.npy", "v1_5_4.npy"]
        >>> BlockNames.guess(".", names, suffix=".npy", first_shape=(5, 4)).pattern
        'v1_{0:offset}_{1:offset}.npy'
        """
        n_axes = len(first_shape)
        stems = [name.removesuffix(suffix) for name in names]
        # Literals and numbers take turns.
        parts = [_NUMBERS.split(stem) for stem in stems]
        literals = {tuple(each[::2]) for each in parts}
        fields = ", ".join(f"{{{axis}}}" for axis in range(n_axes))
        if len(literals) != 1:
            found = f"{len(names)} file names show no one pattern"
            raise DataError(printable(place), [found], _name_it(place, n_axes, suffix))
        texts = [set(group) for group in zip(*(each[1::2] for each in parts), strict=True)]
        chosen = _choose_axes([set(map(int, group)) for group in texts], n_axes)
        if chosen is None:
            found = f"the file names hold {len(texts)} numbers, which do not tell {fields} apart"
            raise DataError(printable(place), [found], _name_it(place, n_axes, suffix))
        values = [sorted(set(map(int, texts[group]))) for group in chosen]
        by_offset = _are_offsets(values, first_shape)
        pattern = ""
        for group, literal in enumerate(literals.pop()):
            pattern += literal.replace("{", "{{").replace("}", "}}")
            if group in chosen:
                width = _padded_width(texts[group])
                spec = ":".join(["offset"] * by_offset + [f"0{width}"] * bool(width))
                pattern += f"{{{chosen.index(group)}{spec and ':' + spec}}}"
            elif group < len(texts):
                pattern += min(texts[group])
        try:
            return cls(pattern + suffix)
        except ValueError as error:
            advice = _name_it(place, n_axes, suffix)
            raise DataError(printable(place), [f"no pattern of names: {error}"], advice) from error


def _check_file_name(literals: str, first: tuple[str, int, int]) -> None:
    if "/" in literals or "\\" in literals or ".." in literals:
        raise ValueError("it is not a plain file name: it holds a path separator or '..'")
    if not literals.isprintable():
        raise ValueError("it holds control characters")
    if first[0].startswith("."):
        raise ValueError("it starts with a dot, as only hidden files do")


def _form_of(literal: str, axis: int, width: int) -> str:
    """Return what `%` makes a part of a name of, given its number: it is faster than `format`."""
    text = literal.replace("%", "%%")
    return text if axis < 0 else f"{text}%0{width}d" if width else f"{text}%d"


def _regex_of(parts: Sequence[tuple[str, int, int]]) -> re.Pattern[str]:
    return re.compile(
        "".join(
            re.escape(literal) + ("([0-9]+)" if axis >= 0 else "") for literal, axis, _ in parts
        )
    )


def _name_it(place: str, n_axes: int, suffix: str) -> str:
    example = BlockNames.default(n_axes, suffix).pattern
    return f"name the pattern, as in '{printable(place)}/{example}'"


def _choose_axes(values: list[set[int]], n_axes: int) -> list[int] | None:
    """Return which groups of digits are axes: all, those that vary, or with them those at 0."""
    groups = range(len(values))
    varying = [group for group in groups if len(values[group]) > 1]
    with_zeros = [group for group in groups if len(values[group]) > 1 or values[group] == {0}]
    for chosen in (list(groups), varying, with_zeros):
        if len(chosen) == n_axes:
            return chosen
    return None


def _are_offsets(values: list[list[int]], first_shape: Sequence[int]) -> bool:
    if all(found == list(range(len(found))) for found in values):
        return False
    return all(
        found[0] == 0 and (len(found) == 1 or found[1] == length)
        for found, length in zip(values, first_shape, strict=True)
    )


def _padded_width(texts: Collection[str]) -> int:
    """Return the width of numbers that are padded with zeros, else 0."""
    widths = {len(text) for text in texts}
    padded = any(len(text) > 1 and text.startswith("0") for text in texts)
    return widths.pop() if padded and len(widths) == 1 and max(widths) < _WIDEST else 0


@dataclass(frozen=True, slots=True)
class OneName:
    """The name of the only block of an array that is one file."""

    pattern: str
    n_axes: int
    by_offset: bool = False

    def name_of(self, index: Sequence[int], starts: Sequence[int]) -> str:  # noqa: ARG002 - there is one block
        """Return the name."""
        return self.pattern

    def parse(self, name: str) -> tuple[int, ...] | None:
        """Return zeros for the name, None for any other."""
        return (0,) * self.n_axes if name == self.pattern else None


@dataclass(frozen=True, slots=True)
class StackNames:
    """The names of blocks that are numbered along one axis, and reach to both ends of all others.

    Examples
    --------
    >>> names = StackNames(axis=1, n_axes=2)
    >>> names.name_of((0, 7), (0, 70)), names.parse("7.npy")
    ('7.npy', (0, 7))
    """

    axis: int
    n_axes: int
    by_offset: bool = False

    @property
    def pattern(self) -> str:
        """The names, as a pattern."""
        return f"{{{self.axis}}}.npy"

    def name_of(self, index: Sequence[int], starts: Sequence[int]) -> str:  # noqa: ARG002 - by number
        """Return the name of a block with this number."""
        return f"{index[self.axis]}.npy"

    def parse(self, name: str) -> tuple[int, ...] | None:
        """Return the numbers that a name means, None if it is no name of a block."""
        number = name.removesuffix(".npy")
        if number == name or not re.fullmatch("0|[1-9][0-9]*", number):
            return None
        return tuple(int(number) if axis == self.axis else 0 for axis in range(self.n_axes))


Names: TypeAlias = BlockNames | OneName | StackNames
