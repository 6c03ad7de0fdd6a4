"""The transport for local files: long transfers, and filesystems that can do less."""

import errno
import os
from pathlib import Path

import pytest

from dask_io.errors import StorageError
from dask_io.stores import files, system
from dask_io.stores.files import FileReader, FileWriter, Publisher, Tally


def test_long_transfers_take_several_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No call moves more than systems allow; it is one seek all the same."""
    longest, pread, pwrite = [0], os.preadv, os.pwrite

    def note_read(fd: int, buffers: list[memoryview], offset: int) -> int:
        longest.append(sum(map(len, buffers)))
        return pread(fd, buffers, offset)

    def note_write(fd: int, buffer: memoryview, offset: int) -> int:
        longest.append(len(buffer))
        return pwrite(fd, buffer, offset)

    monkeypatch.setattr(files, "_MOST_AT_ONCE", 8192)
    monkeypatch.setattr(system.calls, "preadv", note_read)
    monkeypatch.setattr(system.calls, "pwrite", note_write)
    path, tally, content = tmp_path / "x", Tally(), os.urandom(100_000)
    path.touch()
    with FileWriter(path, tally) as writer:
        writer.write(0, memoryview(content))
    with FileReader(path, tally) as reader:
        read = bytes(reader.read(0, len(content), memoryview(bytearray(len(content)))))

    assert read == content == path.read_bytes()
    assert max(longest) == 8192
    assert (tally.read.seeks, tally.write.seeks) == (1, 1)


@pytest.mark.parametrize("code", [errno.EBADF, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL])
def test_space_that_cannot_be_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A filesystem that cannot do it gets files of the right size; the header is in place."""

    def refuse(*_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(system.calls, "fallocate", refuse)
    path = Publisher(tmp_path).begin("x", b"header", 10)
    assert path.read_bytes() == b"header\0\0\0\0"


def test_a_full_disk_shows_when_space_is_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no matter of ability is raised, and the file goes when all is abandoned."""

    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(system.calls, "fallocate", refuse)
    publisher = Publisher(tmp_path)
    with pytest.raises(StorageError, match="No space left"):
        publisher.begin("x", b"header", 10)
    publisher.abandon()
    assert not list(tmp_path.iterdir())
