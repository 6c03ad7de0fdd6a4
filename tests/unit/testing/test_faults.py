"""Simulated kills."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from dask_io.storage.local import system
from dask_io.testing.faults import Faults, Killed, inject

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_killed_run_closes_later_is_not_a_file_of_others(tmp_path: Path) -> None:
    """A file object of the run that is collected late does not close a file opened since."""
    (tmp_path / "a").write_bytes(b"1")
    with suppress(Killed), inject(Faults(at=2)):
        late = os.fdopen(system.calls.open(tmp_path / "a", os.O_RDONLY), "rb")
        system.calls.unlink(tmp_path / "a")
    others = [os.open(tmp_path / "a", os.O_RDONLY) for _ in range(3)]
    late.close()
    assert [os.read(fd, 1) for fd in others] == [b"1"] * 3
    for fd in others:
        os.close(fd)


def test_a_killed_run_holds_no_lock(tmp_path: Path) -> None:
    """Files are closed at the kill, not when their numbers are given back."""
    with suppress(Killed), inject(Faults(at=3)):
        fd = system.calls.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
        system.calls.lock(fd)
        system.calls.unlink(tmp_path / "lock")
    again = os.open(tmp_path / "lock", os.O_RDWR)
    system.calls.lock(again)
    os.close(again)
