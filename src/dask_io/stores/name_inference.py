"""Inferring the pattern of block files from their names; ambiguous names are refused."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError
from dask_io.stores.axis_words import axes_by_word
from dask_io.stores.block_names import BlockNames

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_NUMBERS = re.compile(r"([0-9]+)")
_WIDEST = 100
# Names that are listed if all others follow one pattern, and the part of all that they may be.
_MOST_ODD, _RARE = 3, 0.1
# Lengths of the axis of colours, and the least length of a picture along both other axes.
_COLOURS, _LEAST_SIDE = (3, 4), 5
# The axes that letters stand for, in the order in which arrays usually have them.
_USUAL, _VOLUME = "tczyx", "zyx"
_LETTER_BEFORE = re.compile(r"(?:.*[\W_])?([tczyx])[\W_]*", re.IGNORECASE | re.DOTALL)
_LETTER_AFTER = re.compile(r"[\W_]*([tczyx])(?:[\W_].*)?", re.IGNORECASE | re.DOTALL)


def guess_names(
    place: str,
    names: Collection[str],
    *,
    suffix: str,
    first_shape: Sequence[int],
    is_of_file: bool = True,
    slices_are_last: bool = False,
) -> BlockNames:
    """Infer the one pattern that all names follow.

    Numbers count blocks, from 0 or from 1. They are offsets if the second smallest one is the
    length of the first block. If files are 2-D and a single number varies, it counts the slices of
    a volume, from any first number. Numbers after a word such as z, t or channel count slices too,
    so there can be several. The same holds for pictures with a last axis of 3 or 4 colours. Other
    gaps mean that blocks are missing.

    Numbers belong to axes in the order of the name. Letters next to them, as in ``x0_y3``, must
    not contradict that: arrays usually have their axes in the order t, c, z, y, x.

    Parameters
    ----------
    place
        The directory, for the message.
    names
        All names, each ending in `suffix`.
    suffix
        The ending, which is not searched for numbers.
    first_shape
        The shape of the block whose numbers are the smallest.
    is_of_file
        Whether `first_shape` was read from the file. If not, it is the shape of a block of the
        array: the files do not describe themselves, and may lack the slice axis.
    slices_are_last
        Whether arrays of this format usually have the slowest axis, such as time, last. Only the
        advice in messages depends on it.

    Raises
    ------
    DataError
        If the names do not follow one pattern with a number per axis, or are ambiguous.

    Examples
    --------
    >>> names = ["v1_0_0.npy", "v1_0_4.npy", "v1_5_0.npy", "v1_5_4.npy"]
    >>> guess_names(".", names, suffix=".npy", first_shape=(5, 4)).pattern
    'v1_{0:offset}_{1:offset}.npy'
    >>> names = ["slice_01.npy", "slice_02.npy"]
    >>> guess_names(".", names, suffix=".npy", first_shape=(5, 4)).pattern
    'slice_{0:slice:from1:02}.npy'
    >>> names = [f"t{t}_z{z}.npy" for t in range(2) for z in range(3)]
    >>> guess_names(".", names, suffix=".npy", first_shape=(5, 4)).pattern
    't{0:slice}_z{1:slice}.npy'
    """
    n_axes, kinds = len(first_shape), _sort_by_words(names, suffix)
    if len(kinds) > 1:
        pattern, usual = "", max(kinds.values(), key=len)
        with suppress(DataError):
            given: Any = {"suffix": suffix, "first_shape": first_shape, "is_of_file": is_of_file}
            pattern = guess_names(place, usual, **given).pattern
        advice = _name_it(place, n_axes, suffix)
        raise _mixed(place, kinds, suffix, pattern=pattern, advice=advice)
    seen = _see(place, names, suffix)
    chosen, varying = seen.choose_axes(n_axes), seen.varying
    if not varying and len(seen.values) == 1:
        # A single slice.
        varying = [0]
    is_picture = n_axes == len(_VOLUME) - is_of_file or (is_of_file and is_coloured(first_shape))
    if is_picture and is_of_file and seen.are_named_slices(n_axes, chosen):
        return seen.write_slices(n_axes)
    may_be_slices = len(varying) == 1 and is_picture
    constants = {min(seen.values[group]) for group in chosen or () if group not in varying}
    in_order = {group: axis for axis, group in enumerate(chosen or ())}
    # A number that is always 0 may be part of the name of 2-D files.
    may_be_name = (
        constants == {0}
        and n_axes == 2  # noqa: PLR2004 - y and x
        and not seen.are_blocks(in_order, first_shape)
    )
    if may_be_slices and (chosen is None or (is_of_file and (constants - {0} or may_be_name))):
        if not may_be_name:
            seen.refuse_steps(varying[0])
        slices = seen.write({varying[0]: 0}, kind="slice", n_axes=n_axes + is_of_file)
        # Blocks count from 1 along all axes or none, and z numbers the slices of a volume.
        from_1 = constants == {1} and min(seen.values[varying[0]]) == 1
        if (may_be_name or from_1) and not seen.is_z(varying[0]):
            raise seen.undecided(
                "could be those of slices of a volume, or of 2-D blocks",
                {"for slices": slices, "for blocks": seen.write(in_order)},
            )
        seen.refuse_letters({varying[0]: 0}, seen.slice_by_letter(varying[0]), kind="slice")
        return slices
    if chosen is None:
        fields = ", ".join(f"{{{axis}}}" for axis in range(n_axes))
        n_found = len(seen.values)
        numbers = f"{n_found} number{'' if n_found == 1 else 's'}"
        found = f"the file names hold {numbers}, but the axes are {fields}"
        advice = _name_it(place, n_axes, suffix)
        if is_of_file and 0 < len(varying) < n_axes:
            advice += _advise_slices(seen, varying, first_shape, is_last=slices_are_last)
        raise DataError(place, [found], advice)
    by_letter = seen.by_letter(in_order)
    is_offset = any(seen.are_offsets(axes, first_shape) for axes in (in_order, by_letter))
    kind = "offset" if is_offset else ""
    if len(names) > 1:
        seen.refuse_letters(in_order, by_letter, kind=kind)
    return seen.write(in_order, kind=kind)


def _advise_slices(seen: _Seen, varying: list[int], shape: Sequence[int], *, is_last: bool) -> str:
    """Return a clause with the patterns for files of this shape that are slices."""
    n_axes = len(shape) + len(varying)
    # Slices of one channel or one time point may begin, or end, with its axis, of length 1.
    long = [axis for axis, length in enumerate(shape) if length != 1]
    usual = (max(long, default=-1) + 1) if is_last else min(long, default=0)
    patterns = []
    for first in dict.fromkeys((usual, 0)):
        axes = {group: axis for axis, group in enumerate(varying, first)}
        patterns.append(seen.write(axes, kind="slice", n_axes=n_axes).pattern)
    advice = (
        f"; if each file is one slice of an array with {n_axes} axes, give "
        f"'{seen.place}/{patterns[0]}'"
    )
    return f"{advice}, or '{seen.place}/{patterns[1]}' to number from axis 0" if usual else advice


def is_coloured(shape: Sequence[int]) -> bool:
    """Tell whether an array looks like a picture with its colours along the last axis.

    Examples
    --------
    >>> is_coloured((480, 640, 3)), is_coloured((480, 640)), is_coloured((3, 480, 640))
    (True, False, False)
    """
    *sides, last = shape
    return len(sides) == 2 and last in _COLOURS and min(sides) >= _LEAST_SIDE  # noqa: PLR2004 - a picture has two


@dataclass(frozen=True, slots=True)
class _Seen:
    """The text that all names share, and the numbers in between."""

    place: str
    literals: tuple[str, ...]
    texts: tuple[frozenset[str], ...]
    values: tuple[frozenset[int], ...]
    suffix: str

    @property
    def varying(self) -> list[int]:
        """The numbers that differ from name to name."""
        return [group for group, found in enumerate(self.values) if len(found) > 1]

    def choose_axes(self, n_axes: int) -> list[int] | None:
        """Return which numbers are axes: all, those that vary, or those that vary or are 0."""
        varying, groups = self.varying, list(range(len(self.values)))
        with_zeros = [group for group in groups if group in varying or self.values[group] == {0}]
        for chosen in (groups, varying, with_zeros):
            if len(chosen) == n_axes:
                return chosen
        return None

    def refuse_steps(self, group: int) -> None:
        """Refuse slices whose numbers all have the same distance above 1.

        Raises
        ------
        DataError
            If they do.
        """
        values = sorted(self.values[group])
        steps = {b - a for a, b in pairwise(values)}
        if len(values) > 2 and len(steps) == 1 and min(steps) > 1:  # noqa: PLR2004 - two show no rule
            first = ", ".join(map(str, values[:3]))
            raise DataError(
                self.place,
                [f"the slices are numbered in steps of {steps.pop()} ({first}, ...)"],
                "number them one by one, or add the missing files",
            )

    def write(
        self, axes: Mapping[int, int], *, kind: str = "", n_axes: int = len(_VOLUME)
    ) -> BlockNames:
        """Return the pattern in which these numbers belong to these axes.

        `n_axes` is the number of axes of an array in slices.
        """
        pattern = ""
        for group, literal in enumerate(self.literals):
            pattern += literal.replace("{", "{{").replace("}", "}}")
            if group in axes:
                number = self._first([group] if kind == "slice" else axes, kind)
                first = f"from{number}" if number else ""
                width = _padded_width(self.texts[group])
                spec = [kind, first, f"0{width}" if width else ""]
                pattern += f"{{{':'.join([str(axes[group]), *filter(None, spec)])}}}"
            elif group < len(self.texts):
                pattern += min(self.texts[group])
        try:
            known = n_axes if kind == "slice" else 0
            return BlockNames(pattern + self.suffix, n_axes=known, inferred=True)
        except ValueError as error:
            found = f"the file names give an invalid pattern: {error}"
            advice = _name_it(self.place, len(axes), self.suffix)
            raise DataError(self.place, [found], advice) from error

    def _first(self, axes: Collection[int], kind: str) -> int:
        """Return the first number: any for slices, 1 for blocks counted from 1 along all axes.

        If only some axes begin at 1, it is more likely that blocks are missing.
        """
        first = {min(self.values[group]) for group in axes}
        return min(first) if kind == "slice" or (kind == "" and first == {1}) else 0

    def are_offsets(self, axes: Mapping[int, int], first_shape: Sequence[int]) -> bool:
        """Tell whether numbers are offsets: the second smallest is the first block's length."""
        found = {axis: sorted(self.values[group]) for group, axis in axes.items()}
        if all(values == list(range(len(values))) for values in found.values()):
            return False
        return all(
            values[0] == 0 and (len(values) == 1 or values[1] == first_shape[axis])
            for axis, values in found.items()
        )

    def _words(self, groups: Collection[int]) -> dict[int, str]:
        """Return the axis of numbers after words such as z, t or channel, empty if unknown."""
        words = axes_by_word(self.literals)
        return {group: words[group] for group in groups if group in words}

    def are_named_slices(self, n_axes: int, chosen: Collection[int] | None) -> bool:
        """Tell whether words before the numbers show that files are slices, not blocks.

        Raises
        ------
        DataError
            If only some of the numbers can count blocks.
        """
        varying = self.varying
        others = [group for group in varying if group not in self._words(varying)]
        constant = [group for group in chosen or () if group not in varying]
        # Blocks of a volume may look like pictures with colours.
        is_flat = n_axes == 2  # noqa: PLR2004 - y and x
        is_named = len(self._words(constant)) == len(constant) or (is_flat and not others)
        if not varying or not is_named or (chosen and not is_flat and len(varying) == n_axes):
            return False
        if len(others) < len(varying):
            if len(others) <= 1 and not self._letters(others):
                return True
            slices = {group: axis for axis, group in enumerate(varying)}
            shown = {"for slices": self.write(slices, kind="slice", n_axes=n_axes + len(varying))}
            raise self.undecided("number both slices and blocks", shown)
        return len(varying) == 1 and bool(constant) and not self._letters(varying)

    def write_slices(self, n_axes: int) -> BlockNames:
        """Return the pattern in which all numbers that vary count slices.

        Raises
        ------
        DataError
            If words contradict the order of the numbers, or numbers have steps above 1.
        """
        varying = self.varying
        for group in varying:
            self.refuse_steps(group)
        n_all = n_axes + len(varying)
        in_order = {group: axis for axis, group in enumerate(varying)}
        known = {group: axis for group, axis in self._words(varying).items() if axis}
        usual = sorted(known, key=lambda group: _USUAL.index(known[group]))
        by_word = {**in_order, **dict(zip(usual, (in_order[g] for g in known), strict=True))}
        found = self.write(in_order, kind="slice", n_axes=n_all)
        if len(set(known.values())) < len(known) or by_word == in_order:
            return found
        order = ", ".join(known[group] for group in usual)
        raise self.undecided(
            f"count along {', '.join(known.values())}, but arrays usually have their axes in the "
            f"order {order}",
            {
                "for axes in the order of the name": found,
                f"for axes in the order {order}": self.write(by_word, kind="slice", n_axes=n_all),
            },
        )

    def are_blocks(self, axes: Mapping[int, int], first_shape: Sequence[int]) -> bool:
        """Tell whether numbers are offsets, have the letter y or x, or are in default names."""
        is_default = self.literals == ("b_", *"_" * (len(first_shape) - 1), "")
        has_letters = not {"y", "x"}.isdisjoint(self._letters(axes).values())
        return is_default or has_letters or self.are_offsets(axes, first_shape)

    def _letters(self, groups: Collection[int]) -> dict[int, str]:
        """Return the letters next to the numbers, empty if a letter repeats."""
        before = {group: _LETTER_BEFORE.fullmatch(self.literals[group]) for group in groups}
        after = {group: _LETTER_AFTER.fullmatch(self.literals[group + 1]) for group in groups}
        # In 0x_1y the letters follow the numbers, so more numbers have a letter after than before.
        either = [
            {group: match[1].lower() for group, match in side.items() if match is not None}
            for side in (before, after)
        ]
        letters = max(either, key=len)
        return letters if len(set(letters.values())) == len(letters) else {}

    def by_letter(self, in_order: Mapping[int, int]) -> dict[int, int]:
        """Return the axis of each number if numbers with a letter are put in the usual order."""
        letters = self._letters(in_order)
        axes = sorted(in_order[group] for group in letters)
        sorted_groups = sorted(letters, key=lambda group: _USUAL.index(letters[group]))
        return {**in_order, **dict(zip(sorted_groups, axes, strict=True))}

    def is_z(self, group: int) -> bool:
        """Tell whether the letter next to a number is z."""
        return self._letters([group]).get(group) == "z"

    def slice_by_letter(self, group: int) -> dict[int, int]:
        """Return the axis of a volume that the letter next to the slice number stands for."""
        letter = self._letters([group]).get(group, "")
        return {group: _VOLUME.index(letter) if letter and letter in _VOLUME else 0}

    def refuse_letters(
        self, in_order: Mapping[int, int], by_letter: Mapping[int, int], *, kind: str
    ) -> None:
        """Refuse names whose letters contradict the order of the numbers.

        Raises
        ------
        DataError
            If they do.
        """
        if by_letter == in_order:
            return
        letters = self._letters(in_order)
        given = ", ".join(letters[group] for group in in_order if group in letters)
        found = _VOLUME if kind == "slice" else letters.values()
        usual = ", ".join(sorted(found, key=_USUAL.index))
        raise self.undecided(
            f"count along {given}, but arrays usually have their axes in the order {usual}",
            {
                "for axes in the order of the name": self.write(in_order, kind=kind),
                f"for axes in the order {usual}": self.write(by_letter, kind=kind),
            },
        )

    def undecided(self, found: str, choices: Mapping[str, BlockNames]) -> DataError:
        """Return the error for ambiguous names."""
        patterns = ", or ".join(
            f"'{f'{self.place}/{names.pattern}'}' {what}" for what, names in choices.items()
        )
        place = self.place
        return DataError(place, [f"the file names {found}"], f"give the pattern: {patterns}")


def _words_of(name: str, suffix: str) -> tuple[str, ...]:
    """Return the text between the numbers of a name."""
    return tuple(_NUMBERS.split(name.removesuffix(suffix))[::2])


def _sort_by_words(names: Collection[str], suffix: str) -> dict[tuple[str, ...], list[str]]:
    """Return the names that differ only in their numbers, by the text between these."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        kinds.setdefault(_words_of(name, suffix), []).append(name)
    return kinds


def _see(place: str, names: Collection[str], suffix: str) -> _Seen:
    # Literals and numbers alternate.
    parts = [_NUMBERS.split(name.removesuffix(suffix)) for name in names]
    texts = tuple(map(frozenset, zip(*(each[1::2] for each in parts), strict=True)))
    values = tuple(frozenset(map(int, group)) for group in texts)
    return _Seen(place, tuple(parts[0][::2]), texts, values, suffix)


def _mixed(
    place: str,
    kinds: Mapping[tuple[str, ...], list[str]],
    suffix: str,
    *,
    pattern: str,
    advice: str,
) -> DataError:
    """Return the error for names of several kinds; `pattern` is that of most, if there is one."""
    words = max(kinds, key=lambda each: len(kinds[each]))
    odd = sorted(name for kind, names in kinds.items() if kind != words for name in names)
    n_usual = len(kinds[words])
    if len(odd) > max(_MOST_ODD, n_usual * _RARE) or n_usual <= _MOST_ODD:
        found = f"{n_usual + len(odd)} file names do not follow one pattern"
        return DataError(place, [found], advice)
    more = f" and {len(odd) - _MOST_ODD} more" if len(odd) > _MOST_ODD else ""
    listed = f"{', '.join(odd[:_MOST_ODD])}{more}"
    found = f"{n_usual} files follow {pattern or 'one pattern'}, these do not: {listed}"
    wildcard = f"{'*'.join(words)}{suffix}"
    if any(map(re.compile(".*".join(map(re.escape, words)) + re.escape(suffix)).fullmatch, odd)):
        return DataError(place, [found], "rename or move what is not a block")
    return DataError(place, [found], f"give '{place}/{wildcard}'")


def _padded_width(texts: Collection[str]) -> int:
    """Return the width of numbers that are padded with zeros, else 0."""
    widths = {len(text) for text in texts}
    padded = any(len(text) > 1 and text.startswith("0") for text in texts)
    return widths.pop() if padded and len(widths) == 1 and max(widths) < _WIDEST else 0


def _name_it(place: str, n_axes: int, suffix: str) -> str:
    example = BlockNames.default(n_axes, suffix).pattern
    return f"give the pattern, as in '{place}/{example}'"
