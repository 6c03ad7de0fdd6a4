"""Matching numbers in the names of block files to axes, by the positions of the blocks.

Headers of some formats have the position of the block in the world. Names may then number the axes
in any order: tools for brain images wrote ``prefix_{y}_{z}_{x}.nii``, for example.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from dask_io.stores.block_names import BlockNames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dask_io.stores.block_format import Header
    from dask_io.stores.space import Affine

_NUMBERS = re.compile("([0-9]+)")
# Tolerance, in steps, for the position of a block on the grid of voxels of another one.
_OF_A_STEP = 0.1


def names_by_position(
    names: Sequence[str], suffix: str, header_of: Callable[[str], Header | None]
) -> BlockNames | None:
    """Infer the pattern of block files from their names and positions.

    Only the headers of a few files along each axis are read.

    Parameters
    ----------
    names
        All names, each ending in `suffix`.
    suffix
        The ending, which is not searched for numbers.
    header_of
        Returns the header of a file, None if it is invalid.

    Returns
    -------
    BlockNames or None
        The pattern; None if positions do not explain the numbers.
    """
    split = {name: _NUMBERS.split(name.removesuffix(suffix)) for name in names}
    literals = {tuple(parts[::2]) for parts in split.values()}
    if len(literals) != 1 or len(names) < 2:  # noqa: PLR2004 - one file shows no order
        return None
    numbers = {name: tuple(map(int, parts[1::2])) for name, parts in split.items()}
    values = [sorted(set(along)) for along in zip(*numbers.values(), strict=True)]
    sample = _sample(numbers)
    starts = _starts(sample, header_of)
    if starts is None:
        return None
    found = _match(values, [(numbers[name], start) for name, start in starts.items()])
    texts = [set(along) for along in zip(*(parts[1::2] for parts in split.values()), strict=True)]
    return None if found is None else _write(next(iter(literals)), suffix, texts, found)


def _sample(numbers: dict[str, tuple[int, ...]]) -> list[str]:
    """Return one file for each value of each number."""
    found: dict[tuple[int, int], str] = {}
    for name in sorted(numbers, key=lambda name: numbers[name]):
        for group, value in enumerate(numbers[name]):
            found.setdefault((group, value), name)
    return sorted(set(found.values()))


def _starts(
    names: Sequence[str], header_of: Callable[[str], Header | None]
) -> dict[str, tuple[int, ...]] | None:
    """Return where blocks begin, counted in elements from the first of them."""
    first: Affine | None = None
    shifts: dict[str, list[int]] = {}
    for name in names:
        header = header_of(name)
        affine = header.space.affine if header is not None and header.space is not None else None
        if affine is None or not affine.coordinates:
            return None
        first = first or affine
        if first.coordinates != affine.coordinates or len(first.matrix[0]) != len(affine.matrix[0]):
            return None
        apart = np.subtract(affine.origin, first.origin)
        exact = np.linalg.lstsq(np.array(first.matrix), apart, rcond=None)[0]
        if np.abs(exact - np.rint(exact)).max(initial=0.0) > _OF_A_STEP:
            return None
        shifts[name] = np.rint(exact).astype(int).tolist()
    lowest = [min(along) for along in zip(*shifts.values(), strict=True)]
    return {name: tuple(map(int, np.subtract(each, lowest))) for name, each in shifts.items()}


def _match(
    values: list[list[int]], known: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> dict[int, tuple[int, str]] | None:
    """Return axis and meaning of each number that varies; None if that is not clear."""
    varying = [group for group, found in enumerate(values) if len(found) > 1]
    n_axes = len(known[0][1])
    cut = [axis for axis in range(n_axes) if len({start[axis] for _, start in known}) > 1]
    found: dict[int, tuple[int, str]] = {}
    for group in varying:
        meanings = {
            axis: meaning
            for axis in cut
            if (meaning := _meaning({(n[group], start[axis]) for n, start in known}))
        }
        if len(meanings) != 1:
            return None
        found[group] = next(iter(meanings.items()))
    if sorted(axis for axis, _ in found.values()) != cut:
        return None
    # Numbers that are the same in all names stand for the other axes, as far as there are some.
    others = [axis for axis in range(n_axes) if axis not in cut]
    rest = [group for group in range(len(values)) if group not in varying]
    if len(rest) > len(others):
        rest = [group for group in rest if values[group] == [0]][: len(others)]
    if len(rest) < len(others):
        return None
    if any(values[group] != [0] for group in rest):
        return None
    kind = next((meaning for _, meaning in found.values()), "")
    found |= {group: (axis, kind) for group, axis in zip(rest, others, strict=True)}
    kinds = {meaning == "offset" for _, meaning in found.values()}
    return found if len(kinds) == 1 else None


def _meaning(pairs: set[tuple[int, int]]) -> str:
    """Return the meaning of a number that grows with the start of blocks; else empty."""
    by_number = dict(pairs)
    numbers, starts = sorted(by_number), sorted(set(by_number.values()))
    if len(by_number) < len(pairs) or [by_number[n] for n in numbers] != starts:
        return ""
    if numbers == starts:
        return "offset"
    first = numbers[0]
    is_counted = first in {0, 1} and numbers[-1] - first < 2 * len(numbers)
    return (f"from{first}" if first else "block") if is_counted else ""


def _write(
    literals: tuple[str, ...],
    suffix: str,
    texts: list[set[str]],
    found: dict[int, tuple[int, str]],
) -> BlockNames | None:
    escaped = [literal.replace("{", "{{").replace("}", "}}") for literal in literals]
    pattern = escaped[0]
    for group, along in enumerate(texts):
        if group in found:
            axis, meaning = found[group]
            spec = "" if meaning == "block" else f":{meaning}"
            pattern += f"{{{axis}{spec}}}"
        else:
            # With its leading zeros, as in sub-01.
            pattern += min(along)
        pattern += escaped[group + 1]
    try:
        return BlockNames(pattern + suffix, inferred=True)
    except ValueError:
        return None
