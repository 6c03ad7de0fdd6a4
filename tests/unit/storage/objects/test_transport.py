"""Objects are read by as few requests as there are runs, and what breaks off is asked for again."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import obstore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.exceptions import GenericError

import dask_io
from dask_io.errors import DataError, StorageError
from dask_io.storage.objects import failures, requests
from dask_io.storage.objects.connect import parse_url
from dask_io.storage.objects.transport import ObjectReader, ObjectWriter
from dask_io.storage.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dask_io.storage.objects.path import ObjectPath

CONTENT = np.random.default_rng(2017).integers(0, 256, 3 * 2**20, np.uint8).tobytes()


@pytest.fixture
def path() -> ObjectPath:
    """An object of 3 MiB."""
    made = parse_url(f"memory://{uuid4()}/x.raw")
    obstore.put(made.store, made.key, CONTENT)
    return made


@contextmanager
def watched() -> Iterator[Counter[str]]:
    """Count requests, and the ranges that they ask for."""
    counts: Counter[str] = Counter()
    before, standin = requests.calls, requests.Requests()

    def watch(name: str) -> Any:
        def call(store: Any, key: Any, *arguments: Any, **options: Any) -> Any:
            n_ranges = len(options["starts"]) if name == "get_ranges" else 1
            counts[name] += n_ranges
            counts[f"{name} {str(key).rpartition('/')[2]}"] += n_ranges
            return getattr(requests.Requests, name)(store, key, *arguments, **options)

        return call

    for name in ("get", "get_ranges", "head", "put", "delete"):
        setattr(standin, name, watch(name))
    requests.calls = standin
    try:
        yield counts
    finally:
        requests.calls = before


def test_what_is_expected_is_one_request(path: ObjectPath) -> None:
    """A run is read slab by slab from one answer; without a word it is one request a slab."""
    tally, slab = Tally(), memoryview(bytearray(300_000))
    with watched() as counts, ObjectReader(path, tally) as file:
        file.expect(1000, 2_500_000)
        for start in range(1000, 2_500_000, len(slab)):
            n_bytes = min(len(slab), 2_500_000 - start)
            assert file.read(start, n_bytes, slab) == CONTENT[start : start + n_bytes]
    assert counts["get"] == tally.read.seeks == 1
    assert tally.read.n_bytes == 2_500_000 - 1000
    with watched() as counts, ObjectReader(path, Tally()) as file:
        file.read(0, 10, slab)
        file.read(10, 10, slab)
    assert counts["get"] == 2


@given(
    runs=st.lists(
        st.tuples(st.integers(0, 2 * 2**20), st.integers(1, 2**20)), min_size=1, max_size=80
    )
)
@settings(max_examples=30)
def test_runs_are_what_lies_there(runs: list[tuple[int, int]]) -> None:
    """Any runs, short or long, in any order, come one behind the other, each one seek."""
    path, tally = parse_url("memory://runs/x"), Tally()
    obstore.put(path.store, path.key, CONTENT)
    buffer = memoryview(bytearray(sum(length for _, length in runs)))
    with watched() as counts, ObjectReader(path, tally) as file:
        file.read_runs(runs, buffer)
    expected = b"".join(CONTENT[start : start + length] for start, length in runs)
    assert buffer == expected
    follow = sum(a + n == b for (a, n), (b, _) in pairwise(runs))
    assert tally.read.seeks == len(runs) - follow
    assert counts["get"] + counts["get_ranges"] == len(runs)


def test_an_end_before_the_data_does_is_an_error(path: ObjectPath) -> None:
    """Be it within a range, before it, or in one of several."""
    size, buffer = len(CONTENT), memoryview(bytearray(100))
    for start in (size - 10, size, size + 10):
        with pytest.raises(DataError, match=r"ends at byte .* bytes too early"):
            ObjectReader(path, Tally()).read(start, 20, buffer)
    with pytest.raises(DataError, match="10 bytes too early"):
        ObjectReader(path, Tally()).read_runs([(0, 10), (size - 10, 20)], buffer)
    assert ObjectReader(path, Tally()).peek(2 * size) == CONTENT
    obstore.put(path.store, path.key, b"")
    assert ObjectReader(path, Tally()).peek(10) == b""


def test_what_is_not_there_is_an_error(path: ObjectPath) -> None:
    """It names the object."""
    gone = path.with_name("gone")
    with pytest.raises(StorageError, match="gone: no such object"):
        ObjectReader(gone, Tally()).read(0, 1, memoryview(bytearray(1)))
    with pytest.raises(StorageError, match="gone: no such file"):
        _ = ObjectReader(gone, Tally()).size


def test_an_object_that_changes_is_noticed(path: ObjectPath) -> None:
    """Parts of two are not put together."""
    buffer = memoryview(bytearray(10))
    with ObjectReader(path, Tally()) as file:
        file.read(0, 10, buffer)
        obstore.put(path.store, path.key, CONTENT[::-1])
        with pytest.raises(DataError, match="has changed while it was read"):
            file.read(100, 10, buffer)


class BreaksOff:
    """A store whose answers break off after some bytes, for some times."""

    def __init__(self, n_bytes: int, n_times: int) -> None:
        self.n_bytes, self.n_times, self.asked = n_bytes, n_times, []  # type: ignore[var-annotated]

    def get(self, store: Any, key: str, *, options: Any) -> Any:
        """Answer, with a stream that ends too early."""
        self.asked.append(options["range"][0])
        found = obstore.get(store, key, options=options)
        return self if self.n_times else found

    @property
    def meta(self) -> dict[str, Any]:
        """What is known of the object."""
        return {"size": len(CONTENT), "e_tag": None}

    def stream(self, _: int) -> Iterator[bytes]:
        """Break off."""
        self.n_times -= 1
        start = self.asked[-1]
        yield CONTENT[start : start + self.n_bytes]
        raise GenericError("error decoding response body")


def test_answers_that_break_off_are_asked_for_again(
    path: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From where they broke off, and not for ever."""
    monkeypatch.setattr(failures, "_FIRST_WAIT", 0.0)
    buffer = memoryview(bytearray(2**20))
    monkeypatch.setattr(requests, "calls", store := BreaksOff(1000, 5))
    tally = Tally()
    with ObjectReader(path, tally) as file:
        assert file.read(7, len(buffer), buffer) == CONTENT[7 : 7 + len(buffer)]
    assert store.asked == [7, 1007, 2007, 3007, 4007, 5007]
    assert tally.read.seeks == 1
    monkeypatch.setattr(failures, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(requests, "calls", BreaksOff(1, 10**6))
    with pytest.raises(StorageError, match="a request failed"), ObjectReader(path, Tally()) as file:
        file.read(0, len(buffer), buffer)


def test_an_object_is_put_once_and_whole(path: ObjectPath) -> None:
    """From one buffer or several, with a header or without; nothing is put after an error."""
    tally = Tally()

    def write(n_bytes: int | None, header: bytes, *pieces: tuple[int, bytes]) -> bytes:
        with ObjectWriter(path, tally, header=header, n_bytes=n_bytes, on_put=lambda: None) as file:
            for offset, piece in pieces:
                file.write(offset, memoryview(piece))
        return bytes(obstore.get(path.store, path.key).bytes())

    with watched() as counts:
        assert write(4, b"", (0, b"abcd")) == b"abcd"
        assert write(6, b"hd", (2, b"ab"), (4, b"cd")) == b"hdabcd"
        assert write(None, b"", (0, b"ab"), (2, b"c")) == b"abc"
        assert write(None, b"", (0, b"z")) == b"z"
    assert counts["put"] == tally.write.visits == tally.write.seeks == 4

    with pytest.raises(AssertionError, match="the rest would be zeros"):
        write(6, b"hd", (2, b"ab"))

    def fail() -> None:
        with ObjectWriter(path, tally, header=b"", n_bytes=4, on_put=lambda: None) as file:
            file.write(0, memoryview(b"1234"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert bytes(obstore.get(path.store, path.key).bytes()) == b"z"


@given(
    shape=st.tuples(*[st.integers(1, 12)] * 2),
    chunks=st.tuples(*[st.integers(1, 12)] * 4),
    order=st.sampled_from("CF"),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=25)
def test_a_seek_is_a_request(
    shape: tuple[int, ...], chunks: tuple[int, ...], order: str, seed: int
) -> None:
    """A plan's seeks are those that are counted, and the ranges and puts that are asked for."""
    array = np.random.default_rng(seed).integers(0, 2**16, shape, np.uint16)
    bucket = f"memory://{uuid4()}"
    whole = parse_url(f"{bucket}/whole.raw")
    obstore.put(whole.store, whole.key, array.tobytes())
    source = dask_io.open(str(whole), shape=shape, dtype=array.dtype)
    dask_io.resplit(source, f"{bucket}/in", chunks=chunks[:2], format="raw", order=order)
    job = dask_io.plan(f"{bucket}/in", f"{bucket}/out", chunks=chunks[2:], workers=2)
    with watched() as counts:
        result = job.run()
    assert result.seeks == job.plan.seeks
    n_read = sum(n for name, n in counts.items() if name.startswith(("get b_", "get_ranges b_")))
    n_put = sum(n for name, n in counts.items() if name.startswith("put b_"))
    assert (n_read, n_put) == (result.seeks.read, result.seeks.write)
    assert np.array_equal(dask_io.open(f"{bucket}/out")[:, :], array)


def test_a_padded_chunk_is_one_request(tmp_path: Path) -> None:
    """Also if it is read in several parts, and each of them in several pieces."""
    bucket, array = f"memory://{uuid4()}", np.arange(5 * 2**21, dtype=np.uint8).reshape(2**11, -1)
    np.save(tmp_path / "x.npy", array)
    chunks = (2**11, 2**12)
    dask_io.split(tmp_path / "x.npy", f"{bucket}/x.zarr", chunks=chunks, codec="none")
    with watched() as counts:
        done = dask_io.merge(f"{bucket}/x.zarr", tmp_path / "y.npy", memory="32MiB", workers=1)

    assert done.seeks.read == counts["get 0"] + counts["get 1"] == 2
    assert np.array_equal(np.load(tmp_path / "y.npy"), array)


def test_a_target_of_objects_is_never_cut(tmp_path: Path) -> None:
    """A budget that would cut a block of a file is too small for an object, and says so."""
    np.save(tmp_path / "x.npy", np.zeros((512, 512)))
    source = dask_io.open(tmp_path / "x.npy")
    cut = dask_io.plan(source, tmp_path / "y.npy", chunks=-1, memory="1MiB")
    assert cut.plan.problem.target.grid.n_blocks == 1
    with pytest.raises(dask_io.errors.BudgetTooSmallError):
        dask_io.plan(source, "memory://never/y.npy", chunks=-1, memory="1MiB")


def test_waiting_for_a_store_is_reported_once(
    path: ObjectPath, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says that requests are repeated, as soon as the wait is longer than a moment."""
    for name in ("_MOMENT_SECONDS", "_FIRST_WAIT"):
        monkeypatch.setattr(failures, name, 0.001)
    answers = [GenericError("Error performing GET: error sending request")] * 5

    def ask() -> str:
        if answers:
            raise answers.pop()
        return "done"

    assert failures.ask_again(path, ask) == "done"
    [line] = caplog.messages
    assert line.startswith(f"dask-io: {path}: ")
    assert line.endswith("; trying again for up to 120 seconds")
