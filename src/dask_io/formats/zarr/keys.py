"""Names of the files of chunks, by their index in the grid."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile("0|[1-9][0-9]{0,18}").fullmatch


@dataclass(frozen=True, slots=True)
class Keys:
    """How chunks are named.

    Examples
    --------
    >>> Keys("c", "/").name_of((3, 14)), Keys("", ".").name_of((3, 14))
    ('c/3/14', '3.14')
    >>> Keys("c", "/").parse("c/3/14"), Keys("", ".").parse("3.014")
    ((3, 14), None)
    """

    prefix: str
    separator: str

    def name_of(self, index: tuple[int, ...]) -> str:
        """Return the path of a chunk within its array."""
        return self.separator.join([*([self.prefix] if self.prefix else []), *map(str, index)])

    def parse(self, name: str) -> tuple[int, ...] | None:
        """Return the index of the chunk with this path, None if it is not the path of a chunk."""
        numbers = name.split(self.separator)
        if self.prefix and numbers.pop(0) != self.prefix:
            return None
        if not numbers or not all(map(_NUMBER, numbers)):
            return None
        return tuple(map(int, numbers))
