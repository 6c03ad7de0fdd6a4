"""The transport for local files: long transfers, and filesystems that can do less."""

import errno
import os
from itertools import pairwise
from mmap import mmap
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from time import sleep
from unittest.mock import Mock

import pytest
from xxhash import xxh3_64, xxh3_64_intdigest

from dask_io.errors import StorageError
from dask_io.storage.local import system
from dask_io.storage.local import transport as files
from dask_io.storage.local.publishing import Publisher
from dask_io.storage.local.transport import FileReader, FileWriter
from dask_io.storage.medium import ALIGNMENT
from dask_io.storage.tally import Tally


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


class SlowChecksum:
    """One that is taken only once something is being written, and then takes a while."""

    def __init__(self) -> None:
        self.is_writing, self.has_ended = Event(), Event()
        self._all = xxh3_64()
        self.intdigest = self._all.intdigest

    def update(self, buffer: memoryview) -> None:
        """Wait, if it is not for nothing."""
        if current_thread() is not main_thread():
            assert self.is_writing.wait(10)
            sleep(0.05)
        self._all.update(buffer)
        self.has_ended.set()


@pytest.fixture
def checksum(monkeypatch: pytest.MonkeyPatch) -> SlowChecksum:
    """What every writer of the test takes, of more than a thousand bytes meanwhile."""
    slow = SlowChecksum()
    monkeypatch.setattr(files, "_LONG", 1000)
    monkeypatch.setattr(files, "xxh3_64", lambda: slow)
    return slow


def test_the_checksum_of_much_is_taken_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checksum: SlowChecksum
) -> None:
    """It is the same as of little, and there when the bytes are."""
    path, content, pwrite = tmp_path / "x", os.urandom(5000), os.pwrite
    path.touch()

    def write(fd: int, buffer: memoryview, offset: int) -> int:
        checksum.is_writing.set()
        return pwrite(fd, buffer, offset)

    monkeypatch.setattr(system.calls, "pwrite", write)
    with FileWriter(path, Tally()) as writer:
        for start, stop in pairwise((0, 999, 4000, 5000)):
            writer.write(start, memoryview(content[start:stop]))
        assert writer.checksum == xxh3_64_intdigest(content)
    assert path.read_bytes() == content


def test_no_one_reads_a_buffer_any_more_that_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checksum: SlowChecksum
) -> None:
    """Whoever takes the checksum has ended before the buffer is someone else's."""

    def refuse(*_: object) -> int:
        checksum.is_writing.set()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(system.calls, "pwrite", refuse)
    (tmp_path / "x").touch()
    with FileWriter(tmp_path / "x", Tally()) as writer:
        with pytest.raises(StorageError, match="free some space"):
            writer.write(0, memoryview(bytes(5000)))
        assert checksum.has_ended.is_set()


@pytest.mark.parametrize("is_taken", [False, True])
def test_without_another_thread_the_checksum_is_taken_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_taken: bool
) -> None:
    """There may be no more threads to be had, and one at a time is enough."""
    monkeypatch.setattr(files, "_LONG", 1000)
    if is_taken:
        monkeypatch.setattr(files, "_ANOTHER", Mock(acquire=lambda *, blocking: blocking))
    else:
        monkeypatch.setattr(Thread, "start", Mock(side_effect=RuntimeError("no more threads")))
    path, content = tmp_path / "x", os.urandom(5000)
    path.touch()
    with FileWriter(path, Tally()) as writer:
        writer.write(0, memoryview(content))
        assert writer.checksum == xxh3_64_intdigest(content)
    assert path.read_bytes() == content


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


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="the system has no direct I/O")
@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP, errno.EIO])
def test_a_new_file_where_nothing_goes_past_the_page_cache(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filesystem that refuses to open files so gets them through the page cache."""

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            raise OSError(code, os.strerror(code))
        return os.open(path, flags, mode)

    monkeypatch.setattr(system.calls, "open", refuse)
    content = os.urandom(2**18)
    buffer = memoryview(mmap(-1, len(content)))
    buffer[:] = content
    with Publisher(tmp_path).writer("x", Tally(), n_bytes=len(content)) as file:
        file.write(0, buffer)
    assert (tmp_path / ".x.part").read_bytes() == content


@pytest.mark.parametrize("n_bytes", [100, 2**18, 2**18 + 100])
@pytest.mark.parametrize("n_head", [0, 6, ALIGNMENT, 3 * ALIGNMENT // 2])
@pytest.mark.parametrize("skipped", [0, ALIGNMENT])
def test_a_header_goes_with_the_data_behind_it(
    tmp_path: Path, n_head: int, n_bytes: int, skipped: int
) -> None:
    """A file is the same whether its header can go with the first data or is written alone."""
    head, content = os.urandom(n_head), os.urandom(n_bytes)
    buffer = memoryview(mmap(-1, n_bytes))
    buffer[:] = content
    size, tally = n_head + skipped + n_bytes, Tally()
    with Publisher(tmp_path).writer("x", tally, header=head, n_bytes=size) as file:
        file.write(n_head + skipped, buffer)
    assert (tmp_path / ".x.part").read_bytes() == head + bytes(skipped) + content
    assert (tally.write.seeks, tally.write.n_bytes) == (1, n_bytes)


def test_a_header_that_is_cut_short_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call may write less than it was asked to: within the header, or within the data."""
    for n_at_once in (1, 5, 6, 7, 100):

        def write_less(fd: int, buffers: list[memoryview], offset: int, n: int = n_at_once) -> int:
            return os.pwrite(fd, b"".join(buffers)[:n], offset)

        monkeypatch.setattr(system.calls, "pwritev", write_less)
        with Publisher(tmp_path).writer("x", Tally(), header=b"header", n_bytes=20) as file:
            file.write(6, memoryview(b"some of the da"))
        assert (tmp_path / ".x.part").read_bytes() == b"headersome of the da"
