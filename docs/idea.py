"""Draw the idea of a sweep, step by step: `make house`.

The states come from a real plan: nine blocks of 4 x 4 become four blocks of 6 x 6.
"""

from __future__ import annotations

from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import dask_io

if TYPE_CHECKING:
    from dask_io.geometry import Region

PICTURE = Path(__file__).parent / "idea.svg"
_SHAPE, _SOURCE, _TARGET = (12, 12), 4, 6
_UNIT, _GAP, _TOP, _BOTTOM = 14, 22, 26, 34
# All boundaries lie between squares of this many elements.
_SQUARE = gcd(_SOURCE, _TARGET)
# Colours that colour-blind people can tell apart.
_STATES = (
    ("not read yet", "#ffffff"),
    ("read in this step", "#e69f00"),
    ("kept in memory", "#56b4e9"),
    ("complete and written", "#009e73"),
)
_UNREAD, _READ, _KEPT, _WRITTEN = range(4)


def _part(states: np.ndarray, region: Region) -> np.ndarray:
    return states[tuple(map(slice, region.start, region.stop))]


def find_states() -> list[np.ndarray]:
    """Return the state of every element while each step has its cell in memory."""
    plan = dask_io.plan_shape(_SHAPE, "uint8", _SOURCE, _TARGET, memory="64KiB", strategy="sweep")
    states, panels = np.full(_SHAPE, _UNREAD), []
    for step in plan.steps():
        _part(states, step.cell)[...] = _READ
        panels.append(states.copy())
        states[states == _READ] = _KEPT
        _part(states, step.done)[...] = _WRITTEN
    return [*panels, states]


def _square(x: float, y: float, side: float, fill: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{side:g}" height="{side:g}" fill="{fill}"/>'


def _squares(x: float, states: np.ndarray) -> list[str]:
    side = _SQUARE * _UNIT
    return [
        # Half a pixel more, so that no seams show between them.
        _square(x + side * column, _TOP + side * row, side + 0.5, _STATES[state][1])
        for (row, column), state in np.ndenumerate(states[::_SQUARE, ::_SQUARE])
        if state != _UNREAD
    ]


def _grid(x: float, step: int, stroke: str) -> str:
    side = _SHAPE[0] * _UNIT
    ends = [_UNIT * end for end in range(0, _SHAPE[0] + 1, step)]
    lines = [f"M{x:g} {_TOP + end:g}h{side:g}M{x + end:g} {_TOP:g}v{side:g}" for end in ends]
    return f'<path d="{"".join(lines)}" fill="none" {stroke}/>'


def draw() -> str:
    """Return the picture as SVG: one panel per step, and one for the end."""
    panels = find_states()
    side = _SHAPE[0] * _UNIT
    width, height = len(panels) * (side + _GAP) + _GAP, _TOP + side + _BOTTOM
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="13">'
        ),
        "<title>Nine source blocks become four target blocks, each read and written once</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, states in enumerate(panels):
        x = _GAP + number * (side + _GAP)
        title = f"step {number + 1}" if number < len(panels) - 1 else "done"
        lines.append(f'<text x="{x + side / 2:g}" y="17" text-anchor="middle">{title}</text>')
        lines += _squares(x, states)
        lines.append(_grid(x, _SOURCE, 'stroke="#555" stroke-dasharray="3 3"'))
        lines.append(_grid(x, _TARGET, 'stroke="#000" stroke-width="2.5"'))
    for place, (name, fill) in enumerate(_STATES):
        x, y = _GAP + (0, 115, 255, 380)[place], height - 22
        lines.append(_square(x, y, 13, fill))
        lines.append(f'<text x="{x + 19}" y="{y + 11}">{name}</text>')
    lines.append(f'<path d="M{_GAP} {y}h13v13h-13z" fill="none" stroke="#555"/>')
    grids = "dashed: source blocks, solid: target blocks"
    lines.append(f'<text x="{width - _GAP}" y="{y + 11}" text-anchor="end">{grids}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw())
    print(PICTURE.relative_to(Path.cwd()))  # noqa: T201 - what the command is run for
