"""Names of block files: a pattern with one field per axis."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import groupby
from string import Formatter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dask_io.stores.axis_words import axes_by_word

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPEC = re.compile(
    r"(?:(offset|slice)(?::(?=.)|$))?"
    r"(?:from([1-9][0-9]{0,17})(?::(?=.)|$))?"
    r"(?:0([1-9][0-9]?))?"
    # As in Python's own format strings.
    r"d?"
)


class _Field(NamedTuple):
    """The number of an axis in a pattern, and the text before it."""

    literal: str
    axis: int
    kind: str
    first: int
    width: int

    @classmethod
    def parse(cls, literal: str, axis: str, spec: str) -> _Field:
        match = _SPEC.fullmatch(spec)
        if match is None or not re.fullmatch(r"0|[1-9][0-9]?", axis):
            message = "each field must be like {0}, {0:03}, {0:from1}, {0:slice} or {0:offset}"
            raise ValueError(message)
        if match[1] == "offset" and match[2]:
            raise ValueError("offsets always count from 0, so they cannot have a first number")
        return cls(literal, int(axis), match[1] or "", int(match[2] or 0), int(match[3] or 0))

    @property
    def text(self) -> str:
        """The field and the text before it, as a pattern usually spells them."""
        first = f"from{self.first}" if self.first else ""
        width = f"0{self.width}" if self.width else ""
        spec = ":".join(filter(None, [str(self.axis), self.kind, first, width]))
        return f"{_with_braces(self.literal)}{{{spec}}}"

    @property
    def form(self) -> str:
        """The template for `%`, which is faster than `format`, for this part of a name."""
        return _escaped(self.literal) + (f"%0{self.width}d" if self.width else "%d")

    @property
    def meaning(self) -> str:
        """What the number means."""
        kind = "offsets" if self.kind == "offset" else f"{self.kind or 'block'} numbers"
        return f"{kind} from {self.first}" if self.first else kind


@dataclass(frozen=True, slots=True)
class BlockNames:
    """A file name with a field per axis: ``b_{0}_{1}.npy``.

    ``{0}`` is a block's number along axis 0, ``{0:03}`` the same padded with zeros, and
    ``{0:from1}`` the same counted from 1. ``{0:offset}`` is the position of its first element.
    ``{0:slice}`` numbers the slices along axis 0: each file holds one of them, as an array without
    that axis. Axes that such a pattern leaves out are not cut. These can be combined, as in
    ``{0:slice:from1:04}``. Literal braces are doubled. When names are read, numbers may have any
    number of leading zeros. ``{0:04d}`` is the same as ``{0:04}``.

    If a pattern of block numbers has fewer fields than the array has axes, they number slices:
    ``z_{0}.npy`` is short for ``z_{0:slice}.npy`` if there are three axes.

    Parameters
    ----------
    pattern
        The file name with its fields.
    n_axes
        Number of axes of the array, if the pattern leaves some out.
    inferred
        Whether the pattern was inferred, not given.

    Raises
    ------
    ValueError
        If the pattern is not a plain file name with one field for each axis.

    Examples
    --------
    >>> names = BlockNames("b_{0:02}_{1:from1}.npy")
    >>> names.name_of((3, 14), (300, 1400)), names.parse("b_3_0015.npy")
    ('b_03_15.npy', (3, 14))
    >>> slices = BlockNames("slice_{0:slice:04}.npy", n_axes=3)
    >>> slices.parse("slice_0007.npy"), slices.meaning
    ((7, 0, 0), 'slice numbers along axis 0')
    >>> BlockNames("z_{0:04d}.tif", n_axes=3).pattern
    'z_{0:slice:04}.tif'
    """

    pattern: str
    n_axes: int = field(default=0, repr=False, compare=False)
    inferred: bool = field(default=False, repr=False, compare=False)
    by_offset: bool = field(init=False, repr=False, compare=False)
    _fields: tuple[_Field, ...] = field(init=False, repr=False, compare=False)
    _form: str = field(init=False, repr=False, compare=False)
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _is_plain: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fields, rest = [], ""
        for literal, axis, spec, conversion in Formatter().parse(self.pattern):
            rest += literal
            if axis is not None:
                fields.append(_Field.parse(rest, axis, f"!{spec}" if conversion else spec or ""))
                rest = ""
        if not fields:
            raise ValueError("it has no field for an axis, such as {0}")
        axes, kinds = [each.axis for each in fields], {each.kind for each in fields}
        if kinds == {""} and len(axes) < self.n_axes:
            fields, kinds = [each._replace(kind="slice") for each in fields], {"slice"}
        if len(kinds) > 1 and "offset" in kinds:
            raise ValueError("it mixes block numbers and offsets")
        if len(set(axes)) < len(axes) or ("slice" not in kinds and max(axes) >= len(axes)):
            raise ValueError(
                "its fields must have every axis exactly once, counted from 0; "
                f"for slices along axis {max(axes)}, write {{{max(axes)}:slice}}"
            )
        if any(not each.literal or each.literal.isdecimal() for each in fields[1:]):
            raise ValueError("two of its fields have nothing but digits between them")
        n_axes = self.n_axes or max(axes) + 1
        if n_axes <= max(axes) or (n_axes > len(axes) and "slice" not in kinds):
            raise ValueError(f"it has {len(axes)} fields for {n_axes} axes")
        _check_file_name(rest, fields)
        regex = "".join(re.escape(each.literal) + "([0-9]+)" for each in fields) + re.escape(rest)
        is_plain = axes == list(range(n_axes)) and not any(each.first for each in fields)
        pattern = "".join(each.text for each in fields) + _with_braces(rest)
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "n_axes", n_axes)
        object.__setattr__(self, "by_offset", kinds == {"offset"})
        object.__setattr__(self, "_fields", tuple(fields))
        object.__setattr__(self, "_form", "".join(each.form for each in fields) + _escaped(rest))
        object.__setattr__(self, "_regex", re.compile(regex))
        object.__setattr__(self, "_is_plain", is_plain)

    @classmethod
    def default(cls, n_axes: int, suffix: str) -> BlockNames:
        """Return the default names of new blocks.

        Examples
        --------
        >>> BlockNames.default(3, ".npy").pattern
        'b_{0}_{1}_{2}.npy'
        """
        return cls("_".join(["b", *(f"{{{axis}}}" for axis in range(n_axes))]) + suffix)

    @property
    def slice_axes(self) -> tuple[int, ...]:
        """The axes that files do not have: each file holds one slice along them."""
        return tuple(sorted(each.axis for each in self._fields if each.kind == "slice"))

    @property
    def words(self) -> dict[int, str]:
        """The names of axes along which files are slices: t, c or z, if words give different ones.

        Examples
        --------
        >>> BlockNames("scan_t{0:slice}_ch{1:slice}.tif", n_axes=4).words
        {0: 't', 1: 'c'}
        """
        # Digits end a text, as in t00_z{0:slice}, where t numbers nothing.
        parts = [re.split("[0-9]+", each.literal) for each in self._fields]
        texts, places = list[str](), dict[int, int]()
        for each, literals in zip(self._fields, parts, strict=True):
            texts += literals
            places[len(texts) - 1] = each.axis if each.kind == "slice" else -1
        found = axes_by_word(texts)
        named = {places[at]: word for at, word in found.items() if word and places.get(at, -1) >= 0}
        return named if len(set(named.values())) == len(named) else {}

    @property
    def axes(self) -> frozenset[int]:
        """The axes along which files are numbered; all others are not cut."""
        return frozenset(each.axis for each in self._fields)

    @property
    def only_slices(self) -> bool:
        """Whether files are numbered along one axis, and each holds one slice along it."""
        return len(self._fields) == 1 and self._fields[0].kind == "slice"

    def number_of(self, index: int) -> int:
        """Return the number in the name of a slice, if files are only numbered along one axis."""
        return index + self._fields[0].first

    def counted_from(self, first: int) -> BlockNames:
        """Return the same names with another first number, for slices along one axis."""
        field = self._fields[0]
        rest = self.pattern.removeprefix(field.text)
        return BlockNames(field._replace(first=first).text + rest, self.n_axes)

    @property
    def meaning(self) -> str:
        """What each number means, in the order of the name."""
        # A volume in slices along z is the usual case.
        shown = {} if set(self.words.values()) == {"z"} else self.words
        words = {axis: f" ({word})" for axis, word in shown.items()}
        meanings = []
        for meaning, fields in groupby(self._fields, lambda each: each.meaning):
            axes = [f"{each.axis}{words.get(each.axis, '')}" for each in fields]
            meanings.append(
                f"{meaning} along {'axes' if len(axes) > 1 else 'axis'} {', '.join(axes)}"
            )
        return "; ".join(meanings)

    def name_of(self, index: Sequence[int], starts: Sequence[int]) -> str:
        """Return the name of a block with this number and first element."""
        numbers = tuple(starts if self.by_offset else index)
        if not self._is_plain:
            numbers = tuple(numbers[each.axis] + each.first for each in self._fields)
        return self._form % numbers

    def parse(self, name: str) -> tuple[int, ...] | None:
        """Return the numbers in a name, by axis, or None if the pattern does not match it.

        Blocks count from 0; numbers below the first number of an axis become negative.
        """
        match = self._regex.fullmatch(name)
        if match is None:
            return None
        numbers = tuple(map(int, match.groups()))
        if self._is_plain:
            return numbers
        found = [0] * self.n_axes
        for each, number in zip(self._fields, numbers, strict=True):
            found[each.axis] = number - each.first
        return tuple(found)


def _check_file_name(rest: str, fields: Sequence[_Field]) -> None:
    # Numbers separate the literals, so that scan.{0}.tif does not contain two dots in a row.
    literals = [*(each.literal for each in fields), rest]
    if any(part in literal for literal in literals for part in ("/", "\\", "..")):
        raise ValueError("it is not a plain file name: it holds a path separator or '..'")
    if not "".join(literals).isprintable():
        raise ValueError("it holds control characters")
    if fields[0].literal.startswith("."):
        raise ValueError("it starts with a dot, as only hidden files do")


def _with_braces(literal: str) -> str:
    return literal.replace("{", "{{").replace("}", "}}")


def _escaped(literal: str) -> str:
    return literal.replace("%", "%%")


@dataclass(frozen=True, slots=True)
class OneName:
    """The name of the only block of an array that is one file.

    If a header in another file names this file, `header` is the path of the header, relative to
    the directory of the file.
    """

    pattern: str
    n_axes: int
    by_offset: bool = False
    header: str = ""

    def name_of(self, index: Sequence[int], starts: Sequence[int]) -> str:  # noqa: ARG002 - there is one block
        """Return the name."""
        return self.pattern

    def parse(self, name: str) -> tuple[int, ...] | None:
        """Return zeros for the name, None for any other."""
        return (0,) * self.n_axes if name == self.pattern else None


@dataclass(frozen=True, slots=True)
class StackNames:
    """The names of blocks that are numbered along one axis, and span all other axes.

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
        """Return the numbers in a name, None if it is not the name of a block."""
        number = name.removesuffix(".npy")
        if number == name or not re.fullmatch("0|[1-9][0-9]*", number):
            return None
        return tuple(int(number) if axis == self.axis else 0 for axis in range(self.n_axes))


Names: TypeAlias = BlockNames | OneName | StackNames
