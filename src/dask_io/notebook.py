"""Results as one line for a prompt, and as a small table for a notebook."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from dask_io.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LONGEST, _LONGEST_FACTS, _SHORTEST_PLACE = 196, 130, 24
_MOST_ROWS = 20
_LEFT = 'style="text-align: left"'


class Displayed:
    """Something with a short `repr`, and a table that notebooks show.

    A subclass gives its facts and rows, and leaves `repr` to this class: ``dataclass(repr=False)``.
    """

    __slots__ = ()

    def _facts(self) -> Iterable[str]:
        """Return what is most important, for one line."""
        return ()

    def _rows(self) -> Iterable[tuple[str, str]]:
        """Return the names and values of the table."""
        return ()

    def _where(self) -> Sequence[str]:
        """Return the place or, for what moves data, source and target."""
        return ()

    def _drawing(self) -> str:
        """Return a drawing, as SVG."""
        return ""

    def __repr__(self) -> str:
        return one_line(type(self).__name__, self._facts(), self._where())

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self._rows(), self._drawing())


def one_line(kind: str, facts: Iterable[str], places: Sequence[str] = ()) -> str:
    r"""Return a `repr` of less than 200 characters; of a long path, the end is shown.

    Examples
    --------
    >>> one_line("Job", ["sweep", "12 seeks"], ["scan", "out\n"])
    '<Job: scan to out\\n, sweep, 12 seeks>'
    """
    told = ", ".join(printable(fact) for fact in facts if fact)
    if len(told) > _LONGEST_FACTS:
        told = f"{told[: _LONGEST_FACTS - 3]}..."
    room = (_LONGEST - len(kind) - len(told)) // max(1, len(places)) - len(" to ")
    shown = " to ".join(_end_of(printable(place), max(_SHORTEST_PLACE, room)) for place in places)
    return f"<{kind}: {', '.join(filter(None, (shown, told)))}>"


def _end_of(text: str, most: int) -> str:
    return text if len(text) <= most else f"...{text[3 - most :]}"


def html_table(title: str, rows: Iterable[tuple[str, str]], drawing: str = "") -> str:
    """Return a table of names and values, and a drawing below it.

    Examples
    --------
    >>> print(html_table("Info", [("place", "<b>")]).replace(' style="text-align: left"', ""))
    <table><thead><tr><th colspan="2">Info</th></tr></thead>\
<tbody><tr><th>place</th><td>&lt;b&gt;</td></tr></tbody></table>
    """
    listed = list(islice(rows, _MOST_ROWS + 1))
    if len(listed) > _MOST_ROWS:
        listed[-1] = ("...", "")
    body = "".join(
        f"<tr><th {_LEFT}>{_text(name)}</th><td {_LEFT}>{_text(value)}</td></tr>"
        for name, value in listed
    )
    head = f'<tr><th colspan="2" {_LEFT}>{_text(title)}</th></tr>'
    table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f"<div>{table}<div>{drawing}</div></div>" if drawing else table


def _text(text: str) -> str:
    return escape(printable(text))
