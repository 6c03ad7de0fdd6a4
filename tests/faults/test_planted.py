"""Links, pipes and folders under the names of the files that a run makes: nothing is led astray.

Someone who may write to the folder of a target can put them there, before a run or between a run
that was killed and its `resume`. Which files a run makes is learnt from a run that is watched.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import zarr

import dask_io
from dask_io.errors import DaskIOError
from dask_io.testing.faults import Faults, Killed, inject
from tests.notices import without_notices
from tests.places import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ARRAY = np.arange(1, 21, dtype="<i2").reshape(5, 4)
PLAIN: dict[str, Any] = {"workers": 1, "device": "ssd", "strategy": "naive"}
JOURNAL = ["journal", "lock", ".journal.part"]
# A journal is built in a folder whose name nobody can know before.
_UNKNOWN = re.compile(r"\.[0-9a-f]{8}\.part(/|$)|\.scratch(/|$)")


@dataclass(frozen=True)
class Case:
    """A run: its source, its target, the array to look at afterwards, and options."""

    source: str
    target: str
    inside: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        said = [f"{name}={value}" for name, value in self.options.items()]
        return "-".join([self.source, self.target, *said])


CHUNKS = {"chunks": (3, 2)}
CASES = [
    Case("in", "out", options=CHUNKS),
    Case("in", "out.npy", options={"chunks": -1}),
    Case("in", "out.zarr::/a", options=CHUNKS),
    Case("in", "out.h5", options={**CHUNKS, "codec": "none"}),
    Case("in", "out.icechunk::/a", options=CHUNKS),
    Case("two.nc", "out.nc", "::/a", CHUNKS),
    Case("two.zarr", "out.zarr", "::/a", CHUNKS),
]
MORE_CASES = [
    Case("in", "out", options={**CHUNKS, "durability": "none"}),
    Case("in", "out", options={**CHUNKS, "strategy": "spill"}),
    Case("in", "out.npy", options={"chunks": -1, "durability": "none"}),
    Case("in", "out.zarr", options=CHUNKS),
    Case("in", "out.h5", options={**CHUNKS, "codec": "gzip:1"}),
    Case("in", "out.nc", options={**CHUNKS, "codec": "none"}),
    Case("two.h5", "out.h5", "::/a", CHUNKS),
]


@pytest.fixture(scope="module")
def sources() -> Iterator[Path]:
    """The same array as blocks, and as one of two in a file and in a group; in memory."""
    with temporary_folder() as folder:
        np.save(folder / "whole.npy", ARRAY)
        dask_io.split(folder / "whole.npy", folder / "in", chunks=(2, 4), **PLAIN)
        group = zarr.create_group(folder / "two.zarr")
        with h5py.File(folder / "two.h5", "w") as file:
            for each in "ab":
                file.create_dataset(each, data=ARRAY, chunks=(2, 4))
                group.create_array(each, shape=ARRAY.shape, chunks=(2, 4), dtype="<i2")[...] = ARRAY
        shutil.copy(folder / "two.h5", folder / "two.nc")
        yield folder


@dataclass
class Place:
    """A folder for targets, and one beside it that nothing may be written to."""

    folder: Path
    outside: Path
    n_planted: int = 0

    def run(self, sources: Path, case: Case, **options: Any) -> Callable[[], object]:
        """Return what carries a case out."""
        more = {**PLAIN, **case.options, **options}
        return partial(dask_io.resplit, sources / case.source, self.folder / case.target, **more)

    def plant(self, kind: str, name: str) -> None:
        """Put something under a name; what was there goes outside, so that it would serve."""
        path = self.folder / name
        if not path.parent.is_dir():
            return
        self.n_planted += 1
        outside = self.outside / str(self.n_planted)
        if os.path.lexists(path):
            path.rename(outside)
        elif kind != "nowhere":
            outside.write_bytes(b"mine")
        if kind == "hard" and outside.is_file():
            path.hardlink_to(outside)
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(outside)

    def seen_outside(self) -> dict[str, bytes]:
        """What is outside, however deep."""
        files = (path for path in self.outside.rglob("*") if path.is_file())
        return {str(path.relative_to(self.outside)): path.read_bytes() for path in files}


@pytest.fixture
def places(sources: Path) -> Iterator[Callable[[], Place]]:
    """Return what makes one place after another."""
    with TemporaryDirectory(dir=sources) as name:

        def make() -> Place:
            folder = Path(name) / str(len(list(Path(name).iterdir())))
            place = Place(folder / "place", folder / "outside")
            place.folder.mkdir(parents=True)
            place.outside.mkdir()
            return place

        yield make


def watch(place: Place, run: Callable[[], object]) -> tuple[set[str], int]:
    """Carry a run out; return the names of the files it opened in its place, and all its calls."""
    faults = Faults()
    with inject(faults):
        run()
    found = (line.partition(" ")[2] for line in faults.log if line.startswith("open "))
    inside = [path.removeprefix(f"{place.folder}/") for path in found if path != str(place.folder)]
    names = {name for name in inside if not name.startswith("/") and not _UNKNOWN.search(name)}
    return {name for name in names if not (place.folder / name).is_dir()}, faults.n_calls


def kill_midway(run: Callable[[], object], n_calls: int) -> None:
    """Begin a run that makes so many calls, and kill it when most of its target is there."""
    with inject(Faults(at=2 * n_calls // 3)), suppress(Killed):
        run()
    # HDF5 writes to the files that it has open when it lets go of them.
    gc.collect()


def ways_to_plant(names: set[str]) -> list[list[str]]:
    """Return sets of names to plant something under: all files at once, and those of the journal.

    All at once are as good as each alone where none of them ends the run. A folder comes alone.
    """
    journals = sorted({name.rpartition("/")[0] for name in names if name.endswith("/journal")})
    of_journal = [f"{journals[0]}/{name}" for name in JOURNAL]
    others = sorted(name for name in names if name.rpartition("/")[0] not in journals)
    folders = sorted({"/".join(name.split("/")[:2]) for name in others if name.count("/") > 1})
    return [others, *([name] for name in (*of_journal, journals[0], *folders[:1]))]


def expect_safe(place: Place, run: Callable[[], object], result: Path, what: str) -> None:
    """Carry out a run: it succeeds or says in one line why not, and touches nothing outside."""
    before = place.seen_outside()
    said = None
    try:
        run()
    except DaskIOError as error:
        said = error
    if said is None:
        assert np.array_equal(np.asarray(dask_io.open(result)), ARRAY), what
    else:
        assert said.exit_code in {1, 2, 3}, what
        assert "\n" not in str(said), what
    assert place.seen_outside() == before, what


@pytest.mark.parametrize(
    "kind",
    ["link", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("nowhere", "hard"))],
)
@pytest.mark.parametrize(
    "case",
    [*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in MORE_CASES)],
    ids=str,
)
def test_nothing_outside_is_touched(
    case: Case, kind: str, sources: Path, places: Callable[[], Place]
) -> None:
    """Whatever leads elsewhere before a run, before it overwrites or resumes, is not followed."""
    first = places()
    names, n_calls = watch(first, first.run(sources, case))
    assert names
    for planted in ways_to_plant(names):
        for stage in ("new", "over", "resume"):
            place = places()
            target = place.folder / case.target
            run = place.run(sources, case)
            if stage == "over":
                run()
                run = place.run(sources, case, overwrite=True)
            elif stage == "resume":
                kill_midway(run, n_calls)
                run = partial(dask_io.resume, target)
            for name in planted:
                place.plant(kind, name)
            result = Path(f"{target}{case.inside}")
            if place.n_planted:
                expect_safe(place, run, result, f"{stage}: {planted}")


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[3]], ids=str)
def test_resume_leaves_nothing_over(case: Case, sources: Path, places: Callable[[], Place]) -> None:
    """Files that a killed run had in the making are gone, those of its journal too."""
    first = places()
    _, n_calls = watch(first, first.run(sources, case))
    place = places()
    kill_midway(place.run(sources, case), n_calls)
    (journal,) = place.folder.rglob("journal")
    (journal.parent / ".journal.part").write_bytes(b"half")
    dask_io.resume(place.folder / case.target, workers=1)
    assert not [*place.folder.rglob(".*.part")]


@pytest.mark.parametrize("name", [".out.dask-io.01234567.part", ".out.abcdefgh.scratch"])
def test_leftovers_that_are_links_are_not_followed(
    name: str, sources: Path, places: Callable[[], Place]
) -> None:
    """What a killed run would have left is removed, but not what a link in its place leads to."""
    place = places()
    for each in ("journal", "lock", "mine"):
        (place.outside / each).write_bytes(b"mine")
    (place.folder / name).symlink_to(place.outside)
    before = place.seen_outside()
    place.run(sources, CASES[0], strategy="spill")()
    assert place.seen_outside() == before
    assert np.array_equal(np.asarray(dask_io.open(place.folder / "out")), ARRAY)


# Carries out commands, one after another, and prints the code and the messages of each.
COMMANDS = """
import json, sys
from click.testing import CliRunner
from dask_io.cli import commands

for arguments in json.load(sys.stdin):
    done = CliRunner().invoke(commands, arguments)
    print(json.dumps([done.exit_code, done.stderr]), flush=True)
"""


def run_all(commands: list[list[object]]) -> list[tuple[int, str]]:
    """Run commands in a process of their own, which may hang; return codes and messages."""
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps([list(map(str, command)) for command in commands]),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [
        (code, without_notices(said)) for code, said in map(json.loads, done.stdout.splitlines())
    ]


@pytest.mark.parametrize("cases", [CASES, pytest.param(MORE_CASES, marks=pytest.mark.slow)])
def test_pipes_do_not_hang_a_run(
    cases: list[Case], sources: Path, places: Callable[[], Place]
) -> None:
    """Pipes in place of files in the making, or of the journal, are removed or refused at once."""
    commands: list[list[object]] = []
    for case in cases:
        first = places()
        names, n_calls = watch(first, first.run(sources, case))
        for planted in ways_to_plant(names):
            place = places()
            kill_midway(place.run(sources, case), n_calls)
            for name in (*planted, ".out.abcdefgh.scratch"):
                place.plant("pipe", name)
            commands.append(["resume", place.folder / case.target, "--workers", 1])
    for command, (code, said) in zip(commands, run_all(commands), strict=True):
        assert code in {0, 1, 2, 3}, command
        assert code == 0 or said.count("\n") == 1, said


def test_pipes_in_sources_are_refused(sources: Path, tmp_path: Path) -> None:
    """Whether it is the source itself or one of its files: a line that names it, and no wait."""
    dask_io.split(sources / "whole.npy", tmp_path / "one.icechunk", chunks=(3, 2), **PLAIN)
    zarr.create_group(tmp_path / "old.zarr", zarr_format=2).create_array(
        "a", shape=(2, 2), dtype="<i2"
    )
    shutil.copytree(sources / "two.zarr", tmp_path / "two.zarr")
    pipes = ["f.nc", "f.h5", "f.npy", "stray.zarr/stray", "new.zarr/a/zarr.json"]
    pipes += ["old.zarr/a/.zarray", "chunk.zarr/a/c/0/0"]
    for name in ("stray", "new", "chunk"):
        shutil.copytree(sources / "two.zarr", tmp_path / f"{name}.zarr")
    for kind in ("chunks", "refs", "snapshots"):
        shutil.copytree(tmp_path / "one.icechunk", tmp_path / f"{kind}.icechunk")
        files = (path for path in (tmp_path / f"{kind}.icechunk" / kind).rglob("*"))
        file = next(path for path in files if path.is_file())
        pipes.append(str(file.relative_to(tmp_path)))
    commands: list[list[object]] = []
    for pipe in pipes:
        path = tmp_path / pipe
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        source, target = pipe.partition("/")[0], Path(pipe).stem
        commands.append(["resplit", tmp_path / source, tmp_path / "out" / target, "--chunks", 2])
    for pipe, (code, said) in zip(pipes, run_all(commands), strict=True):
        assert code in {1, 3}, f"{pipe}: {said}"
        assert said.count("\n") == 1
        assert pipe in said


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_link_in_place_of_the_journals_of_parts_is_not_followed(
    *, is_complete: bool, tmp_path: Path
) -> None:
    """Neither a run that completes a target nor a later `resume` removes what is behind it."""
    np.save(tmp_path / "a.npy", ARRAY)
    inside = tmp_path / "outside" / "folder" / "file"
    inside.parent.mkdir(parents=True)
    inside.write_text("precious")
    link = tmp_path / "out" / ".dask-io" / "parts"

    def plant(_: object = None) -> None:
        if not link.is_symlink():
            link.symlink_to(tmp_path / "outside")

    progress = None if is_complete else plant
    with suppress(DaskIOError):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "out", chunks=(3, 2), progress=progress)
    plant()
    with pytest.raises(DaskIOError, match="symbolic link"):
        dask_io.resume(tmp_path / "out")

    assert inside.read_text() == "precious"
