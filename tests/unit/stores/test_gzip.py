"""Gzip streams are read from any point, in bounded memory, and damage is found."""

from __future__ import annotations

import gzip
import random
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Axis, Grid, Layout
from dask_io.storage.files import open_reader
from dask_io.storage.tally import Tally
from dask_io.stores.gzip_files import bytes_at, cut_into_slabs
from dask_io.stores.gzip_stream import (
    GzipStream,
    content_of,
    longest_member,
    make_member,
    size_of_member,
)

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.storage.medium import Reader

CONTENT = random.Random(1).randbytes(3_000) * 700


def read(stream: GzipStream, path: Path, start: int, stop: int) -> bytes:
    """Read a part of a stream."""
    out = bytearray(stop - start)
    with open_reader(path, Tally()) as file:
        stream.read(file, start, memoryview(out))
    return bytes(out)


def stream_of(path: Path, n_bytes: int = len(CONTENT), *, listed: bool = False) -> GzipStream:
    """Look at a file as a stream."""
    stream = GzipStream(path.stat().st_size, n_bytes, 4)
    if listed:
        with open_reader(path, Tally()) as file:
            assert stream.list_members(bytes_at(file))
    return stream


@pytest.fixture(params=["plain", "several members", "zeros between", "with sizes"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A gzip file that another program, or this one, has written."""
    parts = [CONTENT[:352], CONTENT[352:700_000], CONTENT[700_000:]]
    contents = {
        "plain": gzip.compress(CONTENT, 1),
        "several members": b"".join(map(gzip.compress, parts)),
        "zeros between": bytes(7).join(map(gzip.compress, parts)) + bytes(512),
        "with sizes": b"".join(make_member(part, 6) for part in parts),
    }
    path = tmp_path / "x.gz"
    path.write_bytes(contents[request.param])
    assert gzip.decompress(path.read_bytes()) == CONTENT
    return path


def test_any_part_in_any_order(path: Path) -> None:
    """What is read is that part of the content, forwards, backwards and by several threads."""
    stream, generator = stream_of(path), random.Random(3)
    ends = [0, 352, *sorted(generator.sample(range(353, len(CONTENT)), 6)), len(CONTENT)]
    parts = list(pairwise(ends))
    for order in (parts, parts[::-1], generator.sample(parts, len(parts))):
        for start, stop in order:
            assert read(stream, path, start, stop) == CONTENT[start:stop]
    again = stream_of(path)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda part: read(again, path, *part), parts * 3)
        assert list(found) == [CONTENT[start:stop] for start, stop in parts * 3]


class Failing:
    """A file whose reads fail after the first few."""

    def __init__(self, file: Reader, failing: int, error: BaseException) -> None:
        self._file, self._left, self._error = file, failing, error
        self.size = file.size

    def read(self, offset: int, n_bytes: int, out: memoryview) -> memoryview:
        """Read, or fail."""
        self._left -= 1
        if self._left < 0:
            raise self._error
        return self._file.read(offset, n_bytes, out)


@pytest.mark.parametrize("error", [OSError("transient"), KeyboardInterrupt()])
def test_a_read_that_failed_is_repeated(tmp_path: Path, error: BaseException) -> None:
    """After a read that failed anywhere, the same read and all later ones return the right data."""
    content = random.Random(2).randbytes(5_000_000)
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(content, 1))
    out = bytearray(1_500_000)
    parts = [(start, min(start + len(out), len(content))) for start in (0, 1_500_000, 4_000_000)]
    with open_reader(path, Tally()) as file:
        for failing in (0, 3, 21):
            stream = GzipStream(file.size, len(content), 4)
            for start, stop in parts:
                with pytest.raises(type(error)):
                    stream.read(
                        Failing(file, failing, error),  # type: ignore[arg-type]
                        start,
                        memoryview(out)[: stop - start],
                    )
                stream.read(file, start, memoryview(out)[: stop - start])
                assert out[: stop - start] == content[start:stop]
            for start, stop in parts[::-1]:
                stream.read(file, start, memoryview(out)[: stop - start])
                assert out[: stop - start] == content[start:stop]


@given(st.binary(min_size=1, max_size=5000), st.integers(0, 9))
def test_a_member_says_its_sizes(content: bytes, level: int) -> None:
    """Every gzip reader takes it, and it is never longer than predicted."""
    member = make_member(content, level)
    assert gzip.decompress(member) == content
    assert size_of_member(member) == (len(member), len(content))
    assert len(member) <= longest_member(len(content))


def test_members_with_sizes_are_found_without_decoding(tmp_path: Path) -> None:
    """Decoding begins at the nearest of them."""
    path, parts = (
        tmp_path / "x.gz",
        [CONTENT[n : n + 500_000] for n in range(0, 2_100_000, 500_000)],
    )
    path.write_bytes(b"".join(make_member(part, 1) for part in parts))
    stream, tally = stream_of(path, listed=True), Tally()
    out = bytearray(100)
    with open_reader(path, tally) as file:
        stream.read(file, 2_000_050, memoryview(out))
    assert bytes(out) == CONTENT[2_000_050:2_000_150]
    assert tally.read.n_bytes < path.stat().st_size / 2
    assert read(stream, path, 0, len(CONTENT)) == CONTENT


def test_damage_is_found(tmp_path: Path) -> None:
    """Truncated, altered, too long, or not gzip at all: one line each."""
    path, whole = tmp_path / "x.gz", gzip.compress(CONTENT, 1)
    checksum = bytearray(whole)
    checksum[-6] ^= 1
    altered = bytearray(whole)
    altered[len(whole) // 2 : len(whole) // 2 + 40] = bytes(40)
    for content, problem in [
        (whole[: len(whole) // 2], "is truncated"),
        (whole[:-3], "is truncated"),
        (bytes(checksum), "is damaged"),
        (bytes(altered), "is damaged|is truncated"),
        (whole + gzip.compress(b"more"), "is too long"),
        (gzip.compress(CONTENT + b"x"), "is too long"),
        (gzip.compress(CONTENT[:-1]) + b"abc", "is damaged: something else follows"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=problem):
            read(stream_of(path), path, 0, len(CONTENT))
    with pytest.raises(ValueError, match="not a gzip file"):
        content_of(lambda n: b"abc"[:n], 5)


def test_sizes_that_are_not_true_are_found(tmp_path: Path) -> None:
    """A member that ends elsewhere than it says is damage, not other data."""
    first, second = make_member(CONTENT[:1000], 6), make_member(CONTENT[1000:], 6)
    lying = bytearray(first)
    lying[24:32] = (1100).to_bytes(8, "little")
    path = tmp_path / "x.gz"
    path.write_bytes(bytes(lying) + second)
    stream = stream_of(path, len(CONTENT) + 100, listed=True)
    with pytest.raises(ValueError, match="not as long as they say"):
        read(stream, path, 0, 1050)


def test_few_of_many_members_are_kept(tmp_path: Path) -> None:
    """A stream of many small members, as bgzip writes it, is read in any order with few points."""
    path = tmp_path / "x.gz"
    content = random.Random(4).randbytes(1_000) * 9_000
    parts = [content[at : at + 5_000] for at in range(0, len(content), 5_000)]
    path.write_bytes(b"".join(gzip.compress(part, 1) for part in parts))
    stream = stream_of(path, len(content))
    ends = range(0, len(content) + 1, 1_500_000)
    for start, stop in [*pairwise(ends), *reversed([*pairwise(ends)])]:
        assert read(stream, path, start, stop) == content[start:stop]
    assert 2 <= len(stream.members) <= 5


def test_other_streams_are_not_listed(tmp_path: Path) -> None:
    """If one member does not say its size, all are decoded from the start."""
    path = tmp_path / "x.gz"
    path.write_bytes(make_member(CONTENT[:1000], 6) + gzip.compress(CONTENT[1000:]))
    stream = stream_of(path)
    with open_reader(path, Tally()) as file:
        assert not stream.list_members(bytes_at(file))
    assert read(stream, path, 900, 2000) == CONTENT[900:2000]


def test_the_first_bytes_are_decoded_only_as_far_as_needed() -> None:
    """A bomb is not inflated to look at its header."""
    bomb = zlib.compressobj(9, wbits=31)
    content = b"".join([bomb.compress(bytes(2**20)) for _ in range(50)]) + bomb.flush()
    assert content_of(lambda n: content[:n], 348) == bytes(348)
    assert len(content_of(lambda n: content[:n], 2**16)) == 2**16


def test_slabs_are_not_listed_one_by_one() -> None:
    """An axis of many slabs has few runs, and slabs end where blocks end."""
    grid = Grid((Axis(((2**40, 3),)), Axis(((2**40 + 1, 2),))))
    cut = cut_into_slabs(grid, Layout.f(2), 1)
    assert cut.axes[0].runs == ((2**21, 3 * 2**19),)
    assert cut.axes[1].runs == ((1, 2 * (2**40 + 1)),)
    odd = cut_into_slabs(Grid((Axis(((2**21 + 1, 2),)),)), Layout.f(1), 1)
    assert odd.axes[0].runs == ((2**21, 1), (1, 1), (2**21, 1), (1, 1))
