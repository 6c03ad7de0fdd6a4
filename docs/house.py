"""Draw the rooms of the package and which room imports which: `make house`.

The import graph comes from grimp and includes imports for types only. An arrow that others imply
is left out: if `api` imports `jobs` and `jobs` imports `engine`, there is no arrow from `api` to
`engine`.
"""

from __future__ import annotations

from collections import defaultdict
from html import escape
from pathlib import Path

import grimp

PACKAGE = "dask_io"
PICTURE = Path(__file__).parent / "explanation" / "house.svg"
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 110, 30, 36, 34, 16


def import_rooms(package: str = PACKAGE) -> dict[str, set[str]]:
    """Return the rooms that each room imports."""
    graph = grimp.build_graph(package)
    rooms: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules - {package}:
        room = module.split(".")[1]
        imported = graph.find_modules_directly_imported_by(module) - {package}
        rooms[room] |= {each.split(".")[1] for each in imported} - {room}
    return dict(rooms)


def find_levels(rooms: dict[str, set[str]]) -> list[list[str]]:
    """Return rooms by level: a room lies above all rooms that it imports.

    Raises
    ------
    ValueError
        If rooms import each other in a cycle.
    """
    levels: list[list[str]] = []
    placed: set[str] = set()
    while len(placed) < len(rooms):
        level = sorted(
            room for room, below in rooms.items() if below <= placed and room not in placed
        )
        if not level:
            raise ValueError(f"these rooms import each other: {sorted(rooms.keys() - placed)}")
        levels.append(level)
        placed.update(level)
    return levels


def find_arrows(rooms: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the imports that no others imply."""

    def reach(room: str) -> set[str]:
        return rooms[room].union(*map(reach, rooms[room]))

    return sorted(
        (room, below)
        for room, imported in rooms.items()
        for below in imported
        if not any(below in reach(other) for other in imported)
    )


def draw(rooms: dict[str, set[str]]) -> str:
    """Return the picture as SVG: the command line is at the top."""
    levels = find_levels(rooms)
    widest = max(map(len, levels))
    width = 2 * _MARGIN + widest * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + len(levels) * (_HEIGHT + _GAP_Y) - _GAP_Y
    corners = {}
    for number, level in enumerate(reversed(levels)):
        left = (width - len(level) * (_WIDTH + _GAP_X) + _GAP_X) / 2
        for place, room in enumerate(level):
            corners[room] = (
                left + place * (_WIDTH + _GAP_X),
                _MARGIN + number * (_HEIGHT + _GAP_Y),
            )
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="sans-serif" font-size="13">'
        ),
        "<title>Rooms of Dask IO; an arrow leads from a room to one that it imports</title>",
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>'
        ),
    ]
    for room, below in find_arrows(rooms):
        (x, y), (to_x, to_y) = corners[room], corners[below]
        start, end = (x + _WIDTH / 2, y + _HEIGHT), (to_x + _WIDTH / 2, to_y)
        # An arrow past other levels swings out, so that it does not cross their boxes.
        bend = 0 if to_y - y <= _HEIGHT + _GAP_Y else _WIDTH * (1 if end[0] >= start[0] else -1)
        lines.append(
            f'<path d="M{start[0]:g} {start[1]:g}C{start[0] + bend:g} {start[1] + _GAP_Y:g} '
            f'{end[0] + bend:g} {end[1] - _GAP_Y:g} {end[0]:g} {end[1]:g}" fill="none" '
            'stroke="#777" marker-end="url(#tip)"/>'
        )
    for room, (x, y) in corners.items():
        lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" '
            'fill="#eef3f8" stroke="#3b6ea5"/>'
            f'<text x="{x + _WIDTH / 2:g}" y="{y + _HEIGHT / 2 + 4:g}" text-anchor="middle" '
            f'fill="#222">{escape(room)}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(import_rooms()))
    print(PICTURE.relative_to(Path.cwd()))  # noqa: T201 - what the command is run for
