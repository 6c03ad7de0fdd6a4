"""Journals and manifests that say something else than they should: one clear line, never more.

Every value in a record, single ones and those that hold others, is replaced by values of other
kinds. The checksums of journals are right all the same.
"""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from xxhash import xxh3_64_hexdigest

import dask_io
from tests.commands import fail, invoke

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Way = tuple[str | int, ...]
OTHERS: list[Any] = [[], {}, "x", 5, None, True, "a\0b", -1, 1.5]
ARRAY = np.arange(24, dtype="<i4").reshape(4, 6)
# By name: what is read, what is written, and how.
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "blocks": ("a.npy", "out", {"chunks": (2, 3)}),
    "region": ("a.npy", "out", {"chunks": (2, 3), "region": "1:3,:", "dtype": "<i8"}),
    "zarr": ("a.npy", "out.zarr", {"chunks": (2, 3), "codec": "none"}),
    "hdf5": ("a.npy", "out.h5", {"chunks": (2, 3)}),
    "netcdf": ("a.npy", "out.nc", {"chunks": (2, 3), "codec": "gzip"}),
    "icechunk": ("a.npy", "out.icechunk", {"chunks": (2, 3), "format": "icechunk"}),
    "group": ("in.zarr", "out.zarr", {"chunks": {"t": 2}}),
    "whole file": ("in.zarr", "out.nc", {"chunks": {"t": 2}}),
}


def make(kind: str, folder: Path) -> Path:
    """Write a target, with its source beside it; return the journal's file."""
    source, target, options = KINDS[kind]
    if source == "a.npy":
        np.save(folder / source, ARRAY)
    else:
        group = zarr.open_group(folder / source, mode="w", zarr_format=3)
        for name, values, names in (("x", ARRAY, ("t", "c")), ("t", ARRAY[:, 0], ("t",))):
            made = group.create_array(
                name, shape=values.shape, dtype="i4", chunks=values.shape, dimension_names=names
            )
            made[...] = values
    dask_io.resplit(folder / source, folder / target, **options)
    beside = folder.glob(f".{target}*.dask-io")
    return next(
        each for each in (folder / target / ".dask-io" / "journal", *beside) if each.is_file()
    )


def read_journal(path: Path) -> tuple[Any, list[str]]:
    """Return the job of a journal, and the lines that follow it."""
    first, *rest = (line.partition(" ")[2] for line in path.read_text().splitlines() if line)
    return json.loads(first.partition(" ")[2]), rest


def write_journal(path: Path, job: object, lines: list[str]) -> None:
    """Write a journal whose checksums are right."""
    texts = [f"job {json.dumps(job)}", *lines]
    path.write_text("".join(f"{xxh3_64_hexdigest(text.encode())} {text}\n" for text in texts))


def ways(value: object, way: Way = ()) -> Iterator[Way]:
    """Yield the ways to all values in a record; of a list to the first two."""
    if way:
        yield way
    if isinstance(value, dict):
        for key, each in value.items():
            yield from ways(each, (*way, key))
    elif isinstance(value, list):
        for number, each in enumerate(value[:2]):
            yield from ways(each, (*way, number))


def replaced(record: Any, way: Way, value: object) -> Any:
    """Return a record with another value in one place."""
    made = deepcopy(record)
    at = made
    for key in way[:-1]:
        at = at[key]
    at[way[-1]] = value
    return made


def changes(record: Any, *, thorough: bool) -> Iterator[tuple[Way, Any, Any]]:
    """Yield records with one value changed, and what has changed; one change a value, or all."""
    for number, way in enumerate(ways(record)):
        others = OTHERS if thorough else [OTHERS[number % len(OTHERS)]]
        for other in others:
            yield way, other, replaced(record, way, other)


def check(verb: str, place: Path, what: object) -> None:
    """Run a command, which may succeed if what has changed does not matter."""
    done = invoke(verb, place)
    assert done.exit_code in {0, 1, 2, 3}, (what, done.output)
    if done.exit_code:
        assert done.stderr.startswith("dask-io: "), what
        assert done.stderr.count("\n") == 1, (what, done.stderr)
        assert "--debug" not in done.stderr, (what, done.stderr)


def change_everything(kind: str, folder: Path, *, thorough: bool) -> None:
    """Change one value of a journal after another, and do with it what can be done."""
    (folder / "start").mkdir()
    journal = make(kind, folder / "start").relative_to(folder / "start")
    job, lines = read_journal(folder / "start" / journal)
    work = folder / "work"
    # It names its source by the whole path.
    job = json.loads(json.dumps(job).replace(str(folder / "start"), str(work)))
    place = work / KINDS[kind][1]
    unfinished = [line for line in lines if line != "sealed"]
    verbs = [("resume", unfinished), ("verify", lines), ("info", lines), ("resume", lines)]
    for number, (way, other, changed) in enumerate(changes(job, thorough=thorough)):
        # What goes on with a run reads most of it.
        for verb, rest in verbs if thorough else [verbs[max(0, number % 6 - 2)]]:
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(folder / "start", work)
            write_journal(work / journal, changed, rest)
            check(verb, place, (verb, way, other))


@pytest.mark.parametrize("kind", KINDS)
def test_journals_of_values_of_other_kinds(kind: str, quick_path: Path) -> None:
    """Every value is replaced by one other, and the commands say in one line what is wrong."""
    change_everything(kind, quick_path, thorough=False)


def as_earlier(job: dict[str, Any]) -> dict[str, Any]:
    """Return the job of a group or a file as earlier versions wrote it."""
    tree, arrays = job["tree"], job["arrays"]
    rest = {key: job[key] for key in ("version", "copies")}
    if not tree["described"]:
        known = ("source", "identity", "chunks", "codec", "write_empty", "durability", "format")
        targets = {name: each["target"] for name, each in arrays.items()}
        return {**rest, "file": {key: tree[key] for key in known}, "arrays": targets}
    group = {"source": tree["source"], "format": tree["source_format"], **tree["described"]}
    same = {key: tree[key] for key in ("durability", "identity", "not_kept")}
    return {**rest, **same, "group": group, "arrays": arrays}


@pytest.mark.parametrize(("kind", "chunk"), [("group", "out.zarr/x/c/0/0"), ("whole file", None)])
def test_what_earlier_versions_completed_is_verified_and_repaired(
    kind: str, chunk: str | None, tmp_path: Path
) -> None:
    """Their journals are understood once the run has ended; unfinished ones are refused."""
    journal, target = make(kind, tmp_path), tmp_path / KINDS[kind][1]
    job, lines = read_journal(journal)
    write_journal(journal, as_earlier(job), lines)
    assert dask_io.verify(target)
    assert dask_io.resume(target, verify=True).verified

    damaged = target if chunk is None else tmp_path / chunk
    damaged.write_bytes(damaged.read_bytes()[:-3])
    fail("verify", target, code=1)
    assert dask_io.repair(target).damaged
    assert dask_io.verify(tmp_path / KINDS[kind][0], target)
    assert dask_io.verify(target)

    write_journal(journal, as_earlier(job), [line for line in lines if line != "sealed"])
    assert "an earlier version of Dask IO began it" in fail("resume", target, code=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_journals_of_values_of_all_other_kinds(kind: str, quick_path: Path) -> None:
    """Every value is replaced by all others, for all commands."""
    change_everything(kind, quick_path, thorough=True)


def test_manifests_of_values_of_other_kinds(tmp_path: Path) -> None:
    """Of a directory of blocks that describes itself: one line, for every value."""
    make("blocks", tmp_path)
    manifest = tmp_path / "out" / "dask-io.json"
    for way, other, changed in changes(json.loads(manifest.read_text()), thorough=True):
        manifest.write_text(json.dumps(changed))
        check("info", tmp_path / "out", (way, other))


@pytest.mark.parametrize(
    ("way", "value", "said"),
    [
        (("target",), [], "is not a job: target is not an object"),
        (("region",), [], "is not a job: region is not a string"),
        (("consume",), "x", "is not a job: consume is not true or false"),
        (
            ("source", "folder"),
            "a\0b",
            "contains a NUL character, which names and paths cannot have",
        ),
        (("source", "shape"), [4, 5], "its journal describes a source of shape (4, 5), but"),
    ],
)
def test_what_is_wrong_is_named(way: Way, value: object, said: str, tmp_path: Path) -> None:
    """The line says which value it is, and what to do."""
    journal = make("blocks", tmp_path)
    job, lines = read_journal(journal)
    write_journal(journal, replaced(job, way, value), [each for each in lines if each != "sealed"])
    done = invoke("resume", tmp_path / "out")
    assert done.exit_code == 1
    assert said in done.stderr
    assert "start again with --overwrite" in done.stderr


@pytest.mark.parametrize("place", ["a\0b", "file:///tmp/a%00b", "out.zarr::/a\0b"])
def test_a_nul_in_a_path_is_an_error_of_usage(place: str, tmp_path: Path) -> None:
    """Whoever gives it, at either end."""
    np.save(tmp_path / "a.npy", ARRAY)
    for arguments in (
        ["info", place],
        ["verify", place],
        ["resume", place],
        ["resplit", place, f"{tmp_path}/out", "--chunks", "2"],
        ["resplit", f"{tmp_path}/a.npy", place, "--chunks", "2"],
    ):
        done = invoke(*arguments)
        assert done.exit_code == 2, (arguments, done.stderr)
        assert "NUL" in done.stderr, arguments
        assert done.stderr.count("\n") == 1
