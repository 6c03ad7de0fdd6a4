"""Files are opened as what they are meant to be, or refused; nothing else is touched."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dask_io.errors import StorageError
from dask_io.storage.local import regular_files as regular

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ["link", "nowhere", "hard", "pipe"]


def plant(kind: str, path: Path) -> Path:
    """Put something under a name; return the file that it leads to, if it does."""
    other = path.with_name("other")
    if kind != "nowhere":
        other.write_bytes(b"mine")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "hard":
        path.hardlink_to(other)
    else:
        path.symlink_to(other)
    return other


@pytest.mark.parametrize("kind", [*KINDS, "file"])
def test_a_new_file_is_new(kind: str, tmp_path: Path) -> None:
    """What had its name is removed, and what that led to stays as it was."""
    path = tmp_path / "new"
    other = tmp_path / "other"
    if kind == "file":
        path.write_bytes(b"left over")
    else:
        plant(kind, path)
    fd = regular.make(path)
    os.write(fd, b"new")
    os.close(fd)
    assert path.read_bytes() == b"new"
    assert not path.is_symlink()
    assert not other.exists() or other.read_bytes() == b"mine"
    assert other.exists() == (kind in {"link", "hard", "pipe"})


def test_a_directory_is_no_leftover(tmp_path: Path) -> None:
    """It is not removed to make a file."""
    (tmp_path / "new").mkdir()
    with pytest.raises(OSError, match=r"directory|permitted"):
        regular.make(tmp_path / "new")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("link", "is a symbolic link"),
        ("nowhere", "is a symbolic link"),
        ("hard", "also has another name"),
        ("pipe", "is a pipe, a socket or a device"),
    ],
)
def test_what_is_not_a_runs_own_is_refused(kind: str, reason: str, tmp_path: Path) -> None:
    """In one line, before anything is written, and however it is opened."""
    path = tmp_path / "own"
    other = plant(kind, path)
    with pytest.raises(StorageError, match=reason):
        os.close(regular.open_own(path, os.O_RDWR | os.O_CREAT))
    with pytest.raises(StorageError, match=reason):
        regular.check_own(path)
    assert other.exists() == (kind != "nowhere")


def test_own_files_are_opened(tmp_path: Path) -> None:
    """To read one that has another name too is harmless."""
    path = tmp_path / "own"
    os.close(regular.open_own(path, os.O_WRONLY | os.O_CREAT))
    assert os.path.samestat(regular.check_own(path), path.stat())
    (tmp_path / "other").hardlink_to(path)
    os.close(regular.open_own(path, os.O_RDONLY))


def test_links_of_users_are_read(tmp_path: Path) -> None:
    """What a link leads to is read, unless it is no file."""
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.close(regular.open_to_read(tmp_path / "link"))
    (tmp_path / "device").symlink_to(os.devnull)
    with pytest.raises(StorageError, match="is a pipe, a socket or a device, not a file"):
        regular.open_to_read(tmp_path / "device")
    with pytest.raises(StorageError, match="is a directory, not a file"):
        regular.open_to_read(tmp_path)


def test_links_in_place_of_folders_are_refused(tmp_path: Path) -> None:
    """A link to a folder is one, and so is one that leads nowhere."""
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    for name in ("link", "nowhere"):
        with pytest.raises(StorageError, match="is a symbolic link, not a folder"):
            regular.refuse_link(tmp_path / name)
    regular.refuse_link(tmp_path)
    regular.refuse_link(tmp_path / "absent")
