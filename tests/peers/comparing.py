"""Runs tests of other projects with and without Dask IO, and finds those that end differently."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import dask

import dask_io

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_OURS = Path(__file__).parents[2]
# A test that takes longer hangs; its worker is ended and replaced.
_SECONDS_PER_TEST = 300
_N_MORE_ROUNDS = 2
# Everything passed, or something failed. Others say that pytest itself could not run.
_TESTS_RAN = (0, 1)
_ABSENT = "absent"


@dataclass(frozen=True)
class Part:
    """Tests to run, and how many graphs must be matched so that the result means something.

    `paths` are relative to `root`, where pytest finds no other configuration; `options` are more
    options of pytest.
    """

    paths: tuple[str, ...]
    least_matched: int
    options: tuple[str, ...] = ()
    root: Path = Path(dask.__file__).parents[1]

    def __str__(self) -> str:
        return " ".join((*self.paths, *self.options))


@dataclass(frozen=True)
class Run:
    """The outcome of every test and, with Dask IO, the graphs that it saw and matched in each."""

    outcomes: dict[str, str]
    counts: dict[str, dict[str, Any]]
    seconds: float

    def total(self, name: str) -> int:
        """Return the number of graphs that were `seen` or `matched`."""
        return sum(count[name] for count in self.counts.values())

    @property
    def errors(self) -> dict[str, list[str]]:
        """What Dask IO raised when it looked at graphs, for each test in which it did."""
        return {name: count["errors"] for name, count in self.counts.items() if count["errors"]}


@dataclass(frozen=True)
class Comparison:
    """Two runs of the same tests, and those that ended differently.

    A test is `different` if it ended differently again when its file was run again, and
    `unstable` if it did not.
    """

    plain: Run
    enabled: Run
    different: list[str]
    unstable: list[str]
    least_matched: int

    @property
    def is_passed(self) -> bool:
        """Whether Dask IO changes no outcome, raises nothing and does take part."""
        is_same = not self.different and not self.enabled.errors
        return is_same and self.enabled.total("matched") >= self.least_matched

    def __str__(self) -> str:
        outcomes = Counter(self.plain.outcomes.values()).most_common()
        counted = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes)
        seen, matched = self.enabled.total("seen"), self.enabled.total("matched")
        lines = [
            f"{len(self.plain.outcomes):,} tests without Dask IO: {counted}",
            f"{seen:,} graphs seen by Dask IO, {matched:,} by plan ({self.least_matched:,} needed)",
            f"{self.plain.seconds:.0f} s without Dask IO, {self.enabled.seconds:.0f} s with it",
        ]
        lines += [f"DIFFERENT {self._both(name)}" for name in self.different]
        lines += [f"unstable, then the same: {self._both(name)}" for name in self.unstable]
        lines += [f"ERROR in {name}: {text}" for name, text in self.enabled.errors.items()]
        lines.append("passed" if self.is_passed else "FAILED")
        return "\n".join(lines)

    def _both(self, name: str) -> str:
        plain = self.plain.outcomes.get(name, _ABSENT)
        return f"{name}: {plain} without, {self.enabled.outcomes.get(name, _ABSENT)} with Dask IO"


def compare(part: Part, run: Callable[..., Run]) -> Comparison:
    """Run a part both ways; files with tests that end differently are run both ways again."""
    plain, enabled = run(part, enabled=False), run(part, enabled=True)
    suspects = _differing(plain, enabled)
    confirmed: set[str] = set()
    files = tuple(sorted({name.partition("::")[0] for name in suspects}))
    fewer = replace(part, paths=files)
    for _ in range(_N_MORE_ROUNDS):
        if suspects - confirmed:
            confirmed |= _differing(run(fewer, enabled=False), run(fewer, enabled=True))
    return Comparison(
        plain,
        enabled,
        different=sorted(suspects & confirmed),
        unstable=sorted(suspects - confirmed),
        least_matched=part.least_matched,
    )


def _differing(plain: Run, enabled: Run) -> set[str]:
    names = plain.outcomes.keys() | enabled.outcomes.keys()
    return {name for name in names if plain.outcomes.get(name) != enabled.outcomes.get(name)}


def run_part(part: Part, *, enabled: bool) -> Run:
    """Run tests in processes and a folder of their own, with none of our pytest options."""
    with TemporaryDirectory() as folder:
        outcomes = Path(folder, "outcomes.json")
        paths = [Path(dask_io.__file__).parents[1], _OURS]
        # Options of a pytest around this one are not for these tests.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        environment = {
            **inherited,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "TMPDIR": folder,
        }
        began = time.monotonic()
        done = subprocess.run(
            _command(part, outcomes, enabled=enabled),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
        )
        if done.returncode not in _TESTS_RAN or not outcomes.exists():
            said = f"{done.stdout}\n{done.stderr}"[-3000:]
            sys.exit(f"the tests cannot be run (pytest exit code {done.returncode}):\n{said}")
        found: dict[str, Any] = json.loads(outcomes.read_text(encoding="utf-8"))
        return Run(**found, seconds=time.monotonic() - began)


def _command(part: Part, outcomes: Path, *, enabled: bool) -> Sequence[str | Path]:
    plugins = ("-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "tests.peers.plugin")
    limits = (f"faulthandler_timeout={_SECONDS_PER_TEST}", "faulthandler_exit_on_timeout=true")
    return (
        *(sys.executable, "-m", "pytest", "--quiet", "-n", "2", "-c", os.devnull),
        *("--rootdir", part.root, "--confcutdir", part.root, *plugins),
        *(argument for limit in limits for argument in ("-o", limit)),
        *("--continue-on-collection-errors", "--tb=no", "--outcomes", outcomes),
        *(("--enable-dask-io",) if enabled else ()),
        *part.options,
        *(part.root / path for path in part.paths),
    )
