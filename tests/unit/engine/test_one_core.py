"""Threads that share the interpreter stay on one core, and leave all others alone."""

import ctypes
import os
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dask_io
from dask_io.engine.one_core import on_all_cores, one_core

if not hasattr(os, "sched_setaffinity"):
    pytest.skip("threads cannot be kept on a core", allow_module_level=True)

ALL = os.sched_getaffinity(0)


def cores_of_new_thread() -> set[int]:
    """Return the cores that a thread may use which this one starts."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(os.sched_getaffinity, 0).result()


def note_choices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of cores of each run that chooses one."""
    found: list[int] = []

    @contextmanager
    def noted() -> Iterator[None]:
        with one_core():
            found.append(len(os.sched_getaffinity(0)))
            yield

    monkeypatch.setattr("dask_io.engine.run.one_core", noted)
    return found


def test_threads_started_inside_share_a_core() -> None:
    """A thread and those it starts are on the same core; others may use all, and later all may."""
    with ThreadPoolExecutor(1) as other:
        other.submit(int).result()
        with one_core():
            inside, started = os.sched_getaffinity(0), cores_of_new_thread()
            outside = other.submit(os.sched_getaffinity, 0).result()

    assert len(inside) == 1
    assert started == inside <= ALL
    assert outside == os.sched_getaffinity(0) == ALL


def test_all_cores_are_free_after_an_error() -> None:
    """An error inside frees the cores, too."""
    with pytest.raises(ZeroDivisionError), one_core():
        raise ZeroDivisionError

    assert os.sched_getaffinity(0) == ALL


def refuse(*_: object) -> None:
    """Refuse any call as a sandbox does."""
    raise PermissionError


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (os, "sched_setaffinity", refuse),
        (ctypes, "CDLL", lambda _: SimpleNamespace()),
        (ctypes, "CDLL", lambda _: SimpleNamespace(sched_getcpu=lambda: -1)),
        (sysconfig, "get_config_var", lambda _: 1),
    ],
    ids=["forbidden", "no such call", "unknown core", "no interpreter lock"],
)
def test_where_it_is_not_possible_nothing_changes(
    monkeypatch: pytest.MonkeyPatch, *, where: Any, name: str, value: Any
) -> None:
    """Without the means, or without need, all cores stay free."""
    monkeypatch.setattr(where, name, value)

    with one_core():
        assert os.sched_getaffinity(0) == ALL


@pytest.mark.skipif(len(ALL) < 2, reason="needs two cores")
@pytest.mark.parametrize(
    ("chunks", "codec", "shares"),
    [(32, "none", True), (32, "zstd", False), (128, "none", False)],
    ids=["small", "coded", "large"],
)
def test_only_small_blocks_without_a_codec_are_moved_on_one_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: int, codec: str, *, shares: bool
) -> None:
    """Codecs and long copies need all cores."""
    np.save(tmp_path / "one.npy", np.arange(128**3, dtype="u2").reshape((128,) * 3))
    found = note_choices(monkeypatch)

    dask_io.split(
        tmp_path / "one.npy", tmp_path / "target.zarr", chunks=chunks, codec=codec, progress="plain"
    )

    assert len(found) == shares
    assert os.sched_getaffinity(0) == ALL


@pytest.mark.skipif(len(ALL) < 2, reason="needs two cores")
def test_a_tiny_array_is_moved_on_any_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no threads, and a group may have thousands."""
    np.save(tmp_path / "one.npy", np.arange(16, dtype="u2"))
    found = note_choices(monkeypatch)

    dask_io.split(tmp_path / "one.npy", tmp_path / "target", chunks=4)

    assert found == []


@pytest.mark.skipif(len(ALL) < 2, reason="needs two cores")
def test_a_progress_function_and_its_threads_use_all_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may outlive the run, which goes on on its one core."""
    np.save(tmp_path / "one.npy", np.arange(128**3, dtype="u2").reshape((128,) * 3))
    chosen = note_choices(monkeypatch)
    found: list[set[int]] = []

    def note_cores(_: object) -> None:
        found.extend((os.sched_getaffinity(0), cores_of_new_thread()))

    dask_io.split(tmp_path / "one.npy", tmp_path / "target", chunks=32, progress=note_cores)

    assert chosen == [1]
    assert found
    assert all(each == ALL for each in found)


@pytest.mark.skipif(len(ALL) < 2, reason="needs two cores")
def test_a_run_stays_on_its_core_after_a_progress_function() -> None:
    """Also if the function fails."""

    def fail_for_zero(number: int) -> None:
        assert 1 // number

    outside = on_all_cores(fail_for_zero)
    with one_core():
        chosen = os.sched_getaffinity(0)
        outside(1)
        with pytest.raises(ZeroDivisionError):
            outside(0)
        assert os.sched_getaffinity(0) == chosen


@pytest.mark.skipif(len(ALL) < 2, reason="needs two cores")
@pytest.mark.parametrize("way", ["source", "target", "computed"])
def test_functions_of_the_user_use_all_cores(tmp_path: Path, way: str) -> None:
    """They may take long, and start threads that outlive the run and its one core."""
    np.save(tmp_path / "one.npy", np.arange(128**3, dtype="u2").reshape((128,) * 3))
    dask_io.split(tmp_path / "one.npy", tmp_path / "source", chunks=32)
    x: Any = dask_io.from_blocks(tmp_path / "source")
    found: list[int] = []

    def note_cores(block: Any) -> Any:
        found.append(len(os.sched_getaffinity(0)))
        return block

    if way == "source":
        y = x.map_blocks(note_cores, dtype=x.dtype).rechunk(16)
    elif way == "target":
        y = x.rechunk(16).map_blocks(note_cores, dtype=x.dtype)
    else:
        y = (x + x.mean()).map_blocks(note_cores, dtype=float)
    # Dask itself calls the function with an empty block, to learn the type of the result.
    found.clear()
    dask_io.store(y, tmp_path / "target.zarr", codec="none")

    assert set(found) == {len(ALL)}


@pytest.mark.skipif(len(ALL) < 2, reason="needs two cores")
def test_parts_use_all_cores(tmp_path: Path) -> None:
    """Several of them may run on one machine, and could choose the same core."""
    np.save(tmp_path / "one.npy", np.arange(128**3, dtype="u2").reshape((128,) * 3))
    dask_io.split(tmp_path / "one.npy", tmp_path / "source", chunks=32)
    found: list[int] = []

    dask_io.resplit(
        tmp_path / "source",
        tmp_path / "target",
        chunks=16,
        part=(1, 2),
        progress=lambda _: found.append(len(os.sched_getaffinity(0))),
    )

    assert set(found) == {len(ALL)}
