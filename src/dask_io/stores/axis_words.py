"""Words in file names that name the axis whose slices the next number counts, as in ``t0_z12``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Words before a number that never numbers blocks along y and x, and the axis they stand for.
_WORDS = {
    **dict.fromkeys(("t", "tp", "time", "timepoint", "frame"), "t"),
    **dict.fromkeys(("c", "ch", "chan", "channel"), "c"),
    **dict.fromkeys(("z", "slice", "plane"), "z"),
    **dict.fromkeys(("s", "pos", "position", "page"), ""),
}
_WORD_BEFORE = re.compile(
    rf"(?:.*[\W_]|.*[a-z](?=[A-Z]))?((?i:{'|'.join(_WORDS)}))[\W_]*", re.DOTALL
)
# In r0_c1, the letter c stands for a column.
_ROW_BEFORE = re.compile(r"(?:.*[\W_])?r(?:ow)?[\W_]*", re.IGNORECASE | re.DOTALL)


def axes_by_word(literals: Sequence[str]) -> dict[int, str]:
    """Return the axis that each text before a number stands for.

    Texts without a word that numbers slices are left out. A word that does not name an axis, such
    as ``page``, has an empty text.

    Examples
    --------
    >>> axes_by_word(("scan_t", "_ch", "_", "_page"))
    {0: 't', 1: 'c', 3: ''}
    """
    has_rows = any(map(_ROW_BEFORE.fullmatch, literals))
    matches = {place: _WORD_BEFORE.fullmatch(text) for place, text in enumerate(literals)}
    words = {place: match[1].lower() for place, match in matches.items() if match is not None}
    return {place: _WORDS[word] for place, word in words.items() if not (has_rows and word == "c")}
