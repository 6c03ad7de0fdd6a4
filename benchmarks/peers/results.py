"""What the runs of the peers say: tables, plots, and where the goal is missed."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.engine.measuring import FailedError
from benchmarks.experiments.setting import processor
from benchmarks.peers.bars import Bar, Bars, draw
from dask_io.units import format_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.peers.measuring import Found

NOT_INSTALLED = "not installed"
GOAL = 1.3
# Interpreters and libraries take memory of their own during a run.
_SLACK = 32 * 2**20
_YARDSTICKS = ("cp", "floor-direct", "floor-buffered")
_PACKAGES = (
    "dask-io",
    "cubed",
    "dask",
    "distributed",
    "h5py",
    "nibabel",
    "numpy",
    "rechunkit",
    "tensorstore",
    "zarr",
    "zarrs",
)
_TITLES = {"ours": "**Dask IO**", "dask": "Dask, tasks", "p2p": "Dask, p2p", "cp": "`cp -r`"}


@dataclass
class Row:
    """All runs of a workload with one budget."""

    name: str
    title: str
    label: str
    budget: int
    found: dict[str, list[Found]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    system_calls: dict[str, int | None] = field(default_factory=dict)

    def fail(self, name: str, message: str) -> None:
        """Record why a contestant has no result; a later failure counts, too."""
        kind = message.partition(":")[0]
        missing = kind in {"ModuleNotFoundError", "ImportError", "FileNotFoundError"}
        self.failures[name] = NOT_INSTALLED if missing else message[:200]
        self.found.pop(name, None)

    def again(self, name: str, run: Callable[[], Found]) -> None:
        """Repeat a disturbed run, and keep the repetition if it was disturbed less."""
        try:
            repeated = run()
        except FailedError as error:
            self.fail(name, str(error))
            return
        if name in self.found and repeated.other_cores < self.found[name][-1].other_cores:
            self.found[name][-1] = repeated

    def to_json(self) -> dict[str, Any]:
        """Return the runs, and the medians that the tables show."""
        return {
            "workload": self.name,
            "title": self.title,
            "budget": self.label,
            "results": {name: self._summary(name) for name in self.found},
            "failures": self.failures,
            "runs": {name: [one.to_json() for one in runs] for name, runs in self.found.items()},
        }

    def _summary(self, name: str) -> dict[str, Any]:
        runs = self.found[name]
        seconds = [one.seconds for one in runs]
        memory = [one.memory for one in runs if one.memory is not None]
        return {
            "seconds": round(median(seconds), 3),
            "least": round(min(seconds), 3),
            "most": round(max(seconds), 3),
            "disturbed": sum(one.is_disturbed for one in runs),
            "of_cp": self._ratio(name, ("cp",)),
            "of_floor": self._ratio(name, _YARDSTICKS[1:]),
            "memory": max(memory, default=None),
            "kept": max(memory) <= self.budget + _SLACK if memory else None,
            "read": runs[-1].read,
            "written": runs[-1].written,
            "calls": runs[-1].calls,
            "system_calls": self.system_calls.get(name),
            "temporary": max(one.temporary for one in runs),
        }

    def _ratio(self, name: str, others: tuple[str, ...]) -> float | None:
        """Return the median ratio to the fastest of some others, round by round."""
        rounds = [self.found[other] for other in others if self.found.get(other)]
        if not rounds:
            return None
        best = min(rounds, key=lambda runs: median(one.seconds for one in runs))
        pairs = zip(self.found[name], best, strict=False)
        return round(median(one.seconds / other.seconds for one, other in pairs), 2)


def table(row: Row) -> str:
    """Return the figures of a row as Markdown."""
    return _table(row.to_json())


def _table(row: dict[str, Any]) -> str:
    head = f"{row['title']}, {row['budget']}"
    lines = [
        (
            "| | seconds | of `cp -r` | of the floor | Dask IO takes | memory | within budget "
            "| read | written | calls | temporary |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    ours = row["results"].get("ours")
    for name, each in sorted(row["results"].items(), key=lambda item: item[1]["seconds"]):
        failure = row["failures"].get(name)
        if name in _YARDSTICKS[1:] and name != _floor(row):
            continue
        lines.append("| " + " | ".join(_cells(name, each, ours, failure)) + " |")
    lines += [
        f"| {_title(name)} | {failure} " + "| " * 9 + "|"
        for name, failure in row["failures"].items()
        if name not in row["results"]
    ]
    return f"### {head}\n\n" + "\n".join(lines)


def _cells(
    name: str, each: dict[str, Any], ours: dict[str, Any] | None, failure: str | None
) -> list[str]:
    seconds = f"{each['seconds']:.1f} ({each['least']:.1f} to {each['most']:.1f})"
    mark = "*" * bool(each["disturbed"])
    if name in _YARDSTICKS:
        return [_title(name), seconds + mark, *[""] * 9]
    ratio = "" if ours is None or name == "ours" else f"{ours['seconds'] / each['seconds']:.2f}"
    calls = each["system_calls"] if each["system_calls"] is not None else each["calls"]
    return [
        _title(name),
        f"{seconds}{mark}" + (f" {failure}" if failure else ""),
        _number(each["of_cp"]),
        _number(each["of_floor"]),
        ratio,
        format_bytes(each["memory"]),
        "yes" if each["kept"] else "**no**",
        format_bytes(each["read"]),
        format_bytes(each["written"]),
        f"{calls:,}",
        format_bytes(each["temporary"]) if each["temporary"] else "",
    ]


def _floor(row: dict[str, Any]) -> str | None:
    found = [name for name in _YARDSTICKS[1:] if name in row["results"]]
    return min(found, key=lambda name: row["results"][name]["seconds"], default=None)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _title(name: str) -> str:
    return _TITLES.get(name, name.replace("floor-", "floor, "))


def document(rows: list[Row], options: argparse.Namespace) -> dict[str, Any]:
    """Return everything as JSON, with what the figures depend on."""
    return {
        "date": date.today().isoformat(),  # noqa: DTZ011 - the day where it was run
        "machine": {
            "system": platform.system(),
            "processor": processor(),
            "cores": os.cpu_count(),
            "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        },
        "versions": _versions(options.rechunker),
        "size": options.size,
        "repeats": options.repeats,
        "caches_dropped": not options.warm,
        "rows": [row.to_json() for row in rows],
    }


def _versions(rechunker: Path) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if rechunker.exists():
        code = "from importlib.metadata import version as v; print(v('rechunker'), v('zarr'))"
        done = subprocess.run(
            [str(rechunker), "-c", code], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            number, zarr = done.stdout.split()
            found["rechunker"] = f"{number} with zarr {zarr}"
    return found


def verdict(document: dict[str, Any]) -> str:
    """Return, for each row, whether we are as much faster as we want to be."""
    lines = [
        (
            "| workload | budget | fastest peer within the memory | Dask IO takes | "
            f"{1 / GOAL:.2f} or less | fastest of all | Dask IO takes | our memory kept |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        ours = row["results"].get("ours")
        if ours is None:
            lines.append(f"| {row['title']} | {row['budget']} | | failed | no | | | |")
            continue
        peers = {
            name: each
            for name, each in row["results"].items()
            if name not in {"ours", *_YARDSTICKS} and name not in row["failures"]
        }
        within = {name: each for name, each in peers.items() if each["kept"]}
        cells = [row["title"], row["budget"]]
        cells += [*_fastest(within, ours), _met(within, ours)]
        cells += [*_fastest(peers, ours), "yes" if ours["kept"] else "**no**"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _fastest(peers: dict[str, Any], ours: dict[str, Any]) -> tuple[str, str]:
    if not peers:
        return "none", ""
    name = min(peers, key=lambda name: peers[name]["seconds"])
    return _title(name), f"{ours['seconds'] / peers[name]['seconds']:.2f}"


def _met(peers: dict[str, Any], ours: dict[str, Any]) -> str:
    return (
        "yes"
        if all(ours["seconds"] * GOAL <= each["seconds"] for each in peers.values())
        else "**no**"
    )


def write(document: dict[str, Any], folder: Path) -> None:
    """Write the data, and what they become in the documentation."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for name, text in pages(document).items():
        (folder / name).write_text(text, encoding="utf-8")


def pages(document: dict[str, Any]) -> dict[str, str]:
    """Return the content of the files of the documentation by their names."""
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    machine = document["machine"]
    tables = "\n\n".join(_table(row) for row in document["rows"])
    page = f"""# Figures of the comparison

`make bench-peers` wrote this page on {document["date"]}.
[The comparison](../comparison.md#figures) says how to read it.

- Machine: {machine["processor"]}, {machine["cores"]} cores,
  {format_bytes(machine["memory"])} of memory, {machine["system"]}
- Arrays of about {document["size"]}; rounds: {document["repeats"]}
- Versions: {versions}

## Dask IO and the fastest peers

{verdict(document)}

![Bars: the time of each tool, as a multiple of the time of Dask IO](peers.svg)

Each bar is the time of a tool, divided by the time of Dask IO.

## All contestants

{tables}
"""
    return {"figures.md": page, "peers.svg": plot(document)}


def plot(document: dict[str, Any]) -> str:
    """Draw the time of every contestant as a multiple of ours, quickest first."""
    panels = []
    for row in document["rows"]:
        ours = row["results"].get("ours")
        found = {
            name: each
            for name, each in row["results"].items()
            if ours and name not in {*_YARDSTICKS, *row["failures"]}
        }
        quickest = sorted(found.items(), key=lambda item: item[1]["seconds"])
        bars = [
            Bar(_plain(name), each["seconds"] / ours["seconds"], each["kept"], name == "ours")
            for name, each in quickest
        ]
        panels.append(Bars(f"{_plain(row['title'])}, {row['budget']}", bars))
    return draw(panels)


def _plain(name: str) -> str:
    return _title(name).replace("*", "").replace("`", "")
