"""Draw the times of all contestants as bars: a panel for each workload and budget."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_OURS, _WITHIN, _BEYOND = "#d1495b", "#3b6ea5", "#b9c8da"
_WIDTH, _NAMES, _BAR, _HEAD, _GAP, _KEY = 470, 110, 18, 34, 16, 40
_PER_ROW = 2
# Longer bars end here, so that the others can be told apart; their numbers are written anyway.
_LONGEST = 8.0


@dataclass(frozen=True)
class Bar:
    """A contestant: how many times as long as ours it took, and whether it kept the budget."""

    name: str
    ratio: float
    is_within: bool
    is_ours: bool = False


@dataclass(frozen=True)
class Bars:
    """The bars of one workload."""

    title: str
    bars: Sequence[Bar]

    @property
    def height(self) -> int:
        """Height of the panel."""
        return _HEAD + len(self.bars) * _BAR + _GAP


def draw(panels: Sequence[Bars]) -> str:
    """Return the panels as an SVG picture, in rows of two."""
    rows = [panels[i : i + _PER_ROW] for i in range(0, len(panels), _PER_ROW)]
    width, height = _PER_ROW * _WIDTH, _KEY + sum(max(p.height for p in row) for row in rows)
    body, top = [_key()], _KEY
    for row in rows:
        body += [_panel(panel, number * _WIDTH, top) for number, panel in enumerate(row)]
        top += max(panel.height for panel in row)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="#333">'
        f'<rect width="{width}" height="{height}" fill="white"/>{"".join(body)}</svg>\n'
    )


def _key() -> str:
    words = (
        (_OURS, "Dask IO"),
        (_WITHIN, "within the memory budget"),
        (_BEYOND, "exceeds the memory budget"),
    )
    found, x = [], 12
    for colour, text in words:
        found.append(
            f'<rect x="{x}" y="14" width="12" height="12" fill="{colour}"/>'
            f'<text x="{x + 18}" y="24">{text}</text>'
        )
        x += 50 + 7 * len(text)
    return "".join(found)


def _panel(panel: Bars, left: int, top: int) -> str:
    longest = min(_LONGEST, max((bar.ratio for bar in panel.bars), default=1.0))
    scale = (_WIDTH - _NAMES - 70) / longest
    parts = [
        f'<text x="{left + 12}" y="{top + 20}" font-weight="bold">{escape(panel.title)}</text>'
    ]
    for number, bar in enumerate(panel.bars):
        y, length = top + _HEAD + number * _BAR, ceil(min(bar.ratio, longest) * scale)
        colour = _OURS if bar.is_ours else _WITHIN if bar.is_within else _BEYOND
        more = " »" if bar.ratio > longest else ""
        x = left + _NAMES
        parts.append(
            f'<text x="{x - 6}" y="{y + 11}" text-anchor="end">{escape(bar.name)}</text>'
            f'<rect x="{x}" y="{y}" width="{length}" height="{_BAR - 5}" fill="{colour}"/>'
            f'<text x="{x + length + 5}" y="{y + 11}">{bar.ratio:.2g}{more}</text>'
        )
    return "".join(parts)
