"""Dask's configuration, as far as it is about us."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from dask_io import config
from dask_io.errors import UsageError
from dask_io.graph.options import graph_options
from dask_io.jobs.settings import Settings


def refuse(*_: object) -> NoReturn:
    """Do as the system does with folders and files of others."""
    raise PermissionError


@pytest.mark.parametrize("asked", ["is_dir", "iterdir", "read_bytes"])
def test_what_may_not_be_read_says_nothing(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with Dask: the home of another user, say, is no reason to fail."""
    (tmp_path / "any.yaml").write_text("dask-io: {memory: 1MiB}")
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path))
    assert config.is_configured()
    monkeypatch.setattr(Path, asked, refuse)

    assert not config.is_configured()


def test_numbers_that_are_none_are_refused() -> None:
    """Dask's configuration may hold anything."""
    with pytest.raises(UsageError, match="worker is needed, not two"):
        Settings.of(workers="two")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least one part, not two"):
        graph_options(parts="two")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cores", "to_move", "to_move_long", "to_code"),
    [(1, 5, 9, 4), (2, 6, 10, 4), (64, 12, 12, 32)],
)
def test_threads_suit_the_machine(
    cores: int, to_move: int, to_move_long: int, to_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that wait for a disk are a few more than cores, those that code as many."""
    monkeypatch.setattr("dask_io.jobs.settings.usable_cores", lambda: cores)
    any_number, three = Settings.of(), Settings.of(workers=3)
    assert any_number.n_threads(codes=False) == to_move
    assert any_number.n_threads(codes=False, long=True) == to_move_long
    assert any_number.n_threads() == any_number.n_threads(long=True) == to_code
    assert three.n_threads(codes=False) == three.n_threads() == 3
