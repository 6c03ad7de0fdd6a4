"""Draw plots as SVG: panels in rows of two, each with lines or marks of several series."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLOURS = ("#3b6ea5", "#d1495b", "#2a8a4a", "#c98a1b", "#8a5a9e", "#555", "#3fa7a3", "#b07850")
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM, _KEY = 300, 200, 62, 30, 50, 30
_PER_ROW = 2
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Panel:
    """Series of points; with `names`, x counts these names from 0.

    Lines connect the points if `lines`. Axes are logarithmic unless told otherwise.
    """

    title: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    x_label: str = ""
    names: Sequence[str] = ()
    lines: bool = True
    x_log: bool = True
    y_log: bool = True
    notes: Mapping[str, float] = field(default_factory=dict)
    """Horizontal lines with a text."""


def draw(panels: Sequence[Panel]) -> str:
    """Return the panels as an SVG picture, with one key for all of them."""
    colours: dict[str, str] = {}
    for panel in panels:
        for name in panel.series:
            colours.setdefault(name, COLOURS[len(colours) % len(COLOURS)])
    body = [_panel(panel, number, colours) for number, panel in enumerate(panels)]
    n_rows = ceil(len(panels) / _PER_ROW)
    width = min(len(panels), _PER_ROW) * (_WIDTH + _LEFT) + 20
    x, height = float(_LEFT), n_rows * (_TOP + _HEIGHT + _BOTTOM) + _KEY
    for name, colour in colours.items():
        needed = 34 + 7 * len(name)
        if x + needed > width:
            x, height = float(_LEFT), height + _KEY
        body.append(
            f'<rect x="{x:.0f}" y="{height - 22}" width="10" height="10" fill="{colour}"/>'
            f'<text x="{x + 15:.0f}" y="{height - 13}">{escape(name)}</text>'
        )
        x += needed
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="#444">'
        f'<rect width="{width}" height="{height}" fill="white"/>{"".join(body)}</svg>\n'
    )


class _Scale:
    """Maps values to positions, and knows where ticks are."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, log: bool) -> None:
        self._log = log and bool(values) and min(values) > 0
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        if self._log:
            low, high = floor(log10(low) + 1e-9), ceil(log10(high) - 1e-9)
            self._low, self._high = float(low), float(max(high, low + 1))
            step = max(1, round((self._high - self._low) / 5))
            self.ticks = [10.0**n for n in range(int(low), int(self._high) + 1, step)]
        else:
            self._low, self._high = min(0.0, low), high * 1.05 or 1.0
            size = 10 ** floor(log10(self._high))
            step_size = next(
                n * size for n in (0.1, 0.2, 0.25, 0.5, 1, 2) if self._high / n / size <= 6
            )
            self.ticks = [n * step_size for n in range(int(self._high / step_size) + 1)]
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        value = log10(value) if self._log else value
        part = (value - self._low) / (self._high - self._low)
        return self._start + part * (self._end - self._start)


def _panel(panel: Panel, number: int, colours: Mapping[str, str]) -> str:
    left = _LEFT + number % _PER_ROW * (_WIDTH + _LEFT)
    top = _TOP + number // _PER_ROW * (_TOP + _HEIGHT + _BOTTOM)
    right, bottom = left + _WIDTH, top + _HEIGHT
    points = [point for series in panel.series.values() for point in series]
    y = _Scale([*(b for _, b in points), *panel.notes.values()], bottom, top + 5, log=panel.y_log)
    if panel.names:
        step = _WIDTH / len(panel.names)

        def x(value: float) -> float:
            return left + (value + 0.5) * step

        ticks = [(float(n), name) for n, name in enumerate(panel.names)]
    else:
        x = _Scale([a for a, _ in points], left, right - 5, log=panel.x_log)
        ticks = [(tick, _short(tick)) for tick in x.ticks]
    parts = [
        f'<text x="{left}" y="{top - 12}">{escape(panel.title)}</text>',
        (
            f'<text x="{(left + right) / 2:.0f}" y="{bottom + 36}" text-anchor="middle">'
            f"{escape(panel.x_label)}</text>"
        ),
        f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="#444"/>',
    ]
    parts += [
        f'<path d="M{left} {y(tick):.1f}H{right}" stroke="#ddd"/>'
        f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{_short(tick)}</text>'
        for tick in y.ticks
    ]
    parts += [
        f'<text x="{x(value):.1f}" y="{bottom + 17}" text-anchor="middle">{escape(name)}</text>'
        for value, name in ticks
    ]
    parts += [
        f'<path d="M{left} {y(value):.1f}H{right}" stroke="#444" stroke-dasharray="4 3"/>'
        f'<text x="{right - 4}" y="{y(value) - 4:.1f}" text-anchor="end">{escape(text)}</text>'
        for text, value in panel.notes.items()
    ]
    for turn, (name, series) in enumerate(panel.series.items()):
        # Marks of several series at one name stand side by side.
        aside = 6 * (turn - (len(panel.series) - 1) / 2) if panel.names else 0
        placed = [f"{x(a) + aside:.1f},{y(b):.1f}" for a, b in series]
        if panel.lines:
            parts.append(
                f'<polyline points="{" ".join(placed)}" fill="none" stroke="{colours[name]}" '
                'stroke-width="2"/>'
            )
        for place in placed:
            a, _, b = place.partition(",")
            parts.append(f'<circle cx="{a}" cy="{b}" r="3" fill="{colours[name]}"/>')
    return "".join(parts)


def _short(number: float) -> str:
    """Return a number with at most three digits and a unit."""
    for size, unit in _UNITS:
        if abs(number) >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"
