"""What the machine has, and what the process uses of it."""

import mmap
from pathlib import Path

import pytest

from dask_io.engine import machine
from dask_io.engine.machine import ResidentMeter, available_memory

PLENTY = 2**62


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the system's control groups; the process is in ``/a/b``."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    monkeypatch.setattr(machine, "_memory_groups", lambda: [folder, folder.parent, tmp_path])
    monkeypatch.setattr(machine, "_field", lambda _, __: PLENTY)
    return tmp_path


def write(folder: Path, **files: str) -> None:
    """Write a group's files; dots in their names are given as underscores."""
    for name, content in files.items():
        (folder / name.replace("_", ".", 1)).write_text(content)


def test_without_limits_what_is_free_counts(groups: Path) -> None:
    """Groups without a limit change nothing."""
    write(groups / "a", memory_max="max", memory_current="1000", memory_stat="inactive_file 0")

    assert available_memory() == PLENTY


def test_the_tightest_group_counts(groups: Path) -> None:
    """The least that any group has left is available; what it only caches is free."""
    stat = "anon 1\ninactive_file 300\n"
    write(groups / "a", memory_max="5000", memory_current="1000", memory_stat=stat)
    write(groups / "a" / "b", memory_max="2000", memory_current="1500", memory_stat=stat)

    assert available_memory() == 2000 - 1500 + 300


def test_the_older_control_groups_are_read(groups: Path) -> None:
    """Limits of version 1 count as well."""
    write(
        groups / "a",
        memory_limit_in_bytes="5000",
        memory_usage_in_bytes="1000",
        memory_stat="total_inactive_file 10",
    )

    assert available_memory() == 4010


def test_what_is_available_is_never_negative(groups: Path) -> None:
    """A group beyond its limit has nothing left."""
    write(groups / "a", memory_max="10", memory_current="1000", memory_stat="inactive_file 0")

    assert available_memory() == 0


def test_this_machine_has_something() -> None:
    """There is some memory."""
    assert available_memory() > 0


@pytest.mark.linux
def test_growth_is_what_was_touched() -> None:
    """The meter sees memory that is touched, also when it is given back at once."""
    n_bytes = 64 * 2**20
    meter = ResidentMeter()
    with mmap.mmap(-1, n_bytes) as buffer:
        for page in range(0, n_bytes, mmap.PAGESIZE):
            buffer[page] = 1

    growth = meter.growth()
    assert growth is not None
    assert 0.9 * n_bytes <= growth <= 2 * n_bytes


def test_growth_is_unknown_if_nothing_can_be_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier peak is not taken for a growth."""
    monkeypatch.setattr(machine, "_RESET", tmp_path / "absent" / "clear_refs")

    assert machine.ResidentMeter().growth() is None
