"""Journals of numbered objects: what is added stays, what is replaced is gone, at any moment."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import GenericError

from dask_io.errors import DataError, StorageError
from dask_io.formats import make_target, open_source
from dask_io.geometry import Grid, Layout, Region
from dask_io.journal import lease
from dask_io.journal import object_log as journals
from dask_io.journal.ledger import Written
from dask_io.journal.object_log import ObjectLogs
from dask_io.storage.objects import conditional, failures, requests
from dask_io.storage.objects.conditional import ConflictError, put_if
from dask_io.storage.objects.connect import parse_url
from dask_io.stores.staging import new_staging
from dask_io.testing.faults import Killed, RequestFaults, inject_into_requests

if TYPE_CHECKING:
    from dask_io.journal.object_log import ObjectLog
    from dask_io.storage.objects.path import ObjectPath
    from dask_io.stores.store import Target

LOGS = ObjectLogs()


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> ObjectPath:
    """Where a journal may be; whoever held it before is known to have ended."""
    monkeypatch.setattr(lease, "_has_ended", lambda _: True)
    return parse_url(f"memory://{uuid4()}/x/.dask-io")


def names(folder: ObjectPath) -> list[str]:
    """Return the names of all objects of a journal."""
    listed = obstore.list(folder.store, prefix=folder.key).collect()
    return sorted(each["path"].rpartition("/")[2] for each in listed)


@given(
    pieces=st.lists(
        st.one_of(st.tuples(st.just("append"), st.lists(st.binary())), st.just(("again", []))),
        max_size=20,
    ),
    n_tail=st.integers(1, 40),
)
def test_lines_come_back(pieces: list[tuple[str, list[bytes]]], n_tail: int) -> None:
    """Whatever is added, in however many pieces, by however many runs, in that order."""
    folder = parse_url(f"memory://{uuid4()}/x/.dask-io")
    expected = b"first\n"
    log = LOGS.begin(folder, expected, durable=True)
    for kind, lines in pieces:
        if kind == "again":
            log.close()
            log = LOGS.resume(folder, durable=True)
        else:
            content = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
            log.append(content)
            expected += content
    assert b"".join(LOGS.lines(folder)) == expected
    assert b"".join(LOGS.lines(folder, len(b"first\n"))) == expected[len(b"first\n") :]
    assert LOGS.tail(folder, n_tail) == expected[-n_tail:]
    log.close()


def test_there_is_one_from_its_first_line_on(folder: ObjectPath) -> None:
    """A lock alone is none; a second one cannot be begun, and does not spoil the first."""
    assert not LOGS.exists(folder)
    with inject_into_requests(RequestFaults(5)), pytest.raises(Killed):
        LOGS.begin(folder, b"job\n", durable=True)
    assert names(folder) == ["lock"]
    assert not LOGS.exists(folder)
    LOGS.begin(folder, b"job\n", durable=True).close()
    with pytest.raises(FileExistsError):
        LOGS.begin(folder, b"other\n", durable=True)
    assert list(LOGS.lines(folder)) == [b"job\n"]
    LOGS.resume(folder, durable=True).close()


def test_a_journal_is_replaced_at_once(folder: ObjectPath) -> None:
    """Killed at any moment, there is the old one or the new one; the old one's objects go."""
    n_moments, found = 0, set()
    for at in range(1, 40):
        LOGS.remove(folder)
        log = LOGS.begin(folder, b"old\n", durable=True)
        log.append(b"more\n")
        faults = RequestFaults(at)
        try:
            with inject_into_requests(faults):
                log.replace(b"new\n")
        except Killed:
            n_moments += 1
        found.add(b"".join(LOGS.lines(folder)))
        again = LOGS.resume(folder, durable=True)
        again.replace(b"newest\n")
        assert list(LOGS.lines(folder)) == [b"newest\n"]
        assert len(names(folder)) == 3, "the lock, the journal, the number that was next before"
        again.close()
    assert found == {b"old\nmore\n", b"new\n"}
    # Before and after the put, before the listing, before and after what removes the old ones.
    assert n_moments == 5


def begin_in_pieces(folder: ObjectPath, n_pieces: int) -> tuple[ObjectLog, bytes]:
    """Make a journal of many objects; return it and what it says."""
    lines = [b"line %d\n" % number for number in range(n_pieces)]
    log = LOGS.begin(folder, lines[0], durable=True)
    for line in lines[1:]:
        log.append(line)
    return log, b"".join(lines)


def test_many_objects_are_folded_into_one(folder: ObjectPath) -> None:
    """When a run is complete, and when one goes on: the lines are the same, and few objects."""
    log, expected = begin_in_pieces(folder, 30)
    log.fold()
    log.append(b"sealed\n")
    assert names(folder) == ["journal.000001", "journal.000031", "journal.000032", "lock"]
    assert b"".join(LOGS.lines(folder)) == expected + b"sealed\n"
    assert LOGS.tail(folder, 40) == (expected + b"sealed\n")[-40:]
    log.close()
    LOGS.remove(folder)
    log, expected = begin_in_pieces(folder, 30)
    log.close()
    LOGS.resume(folder, durable=True).close()
    assert names(folder) == ["journal.000031", "journal.000032", "lock"]
    assert b"".join(LOGS.lines(folder)) == expected


def test_few_objects_and_large_ones_stay_as_they_are(
    folder: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is folded is held in memory meanwhile, so it is bounded."""
    log, _ = begin_in_pieces(folder, 8)
    log.fold()
    assert len(names(folder)) == 9
    log.append(b"more\n")
    monkeypatch.setattr(journals, "_MOST_FOLDED", 100)
    log.fold()
    assert len(names(folder)) == 10
    monkeypatch.undo()
    log.fold()
    assert len(names(folder)) == 3


def test_folding_may_end_at_any_moment(folder: ObjectPath) -> None:
    """The lines are the same, and who goes on can add to them."""
    n_moments = 0
    for at in range(1, 30):
        LOGS.remove(folder)
        log, expected = begin_in_pieces(folder, 12)
        try:
            with inject_into_requests(RequestFaults(at)):
                log.fold()
        except Killed:
            n_moments += 1
        assert b"".join(LOGS.lines(folder)) == expected
        assert LOGS.tail(folder, 20) == expected[-20:]
        again = LOGS.resume(folder, durable=True)
        again.append(b"more\n")
        assert b"".join(LOGS.lines(folder)) == expected + b"more\n"
        again.close()
    assert n_moments == 19, "two listings, twelve objects read, one put, the rest removed"


def test_who_reads_while_another_folds_sees_all(folder: ObjectPath) -> None:
    """What has been listed may be gone when it is asked for; then it is listed anew."""
    log, expected = begin_in_pieces(folder, 12)
    listing = requests.Requests.list_with_delimiter
    left = [log.fold]

    class Folding(requests.Requests):
        @staticmethod
        def list_with_delimiter(store: Any, prefix: str) -> Any:
            found = listing(store, prefix)
            if left:
                left.pop()()
            return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "calls", Folding())
        assert b"".join(LOGS.lines(folder)) == expected
    assert len(names(folder)) == 3


def test_a_journal_is_taken_away_from_its_end(folder: ObjectPath) -> None:
    """Killed at any moment, there is what it began with, or none; never what it had replaced."""
    for at in range(1, 40):
        LOGS.remove(folder)
        log = LOGS.begin(folder, b"old\n", durable=True)
        with pytest.raises(Killed), inject_into_requests(RequestFaults(3)):
            # The new one is there, the old one is not yet gone.
            log.replace(b"new\n")
        log = LOGS.resume(folder, durable=True)
        log.append(b"more\n")
        try:
            with inject_into_requests(RequestFaults(at)):
                log.remove()
        except Killed:
            assert b"".join(LOGS.lines(folder)) in {b"new\nmore\n", b"new\n", b""}
        else:
            assert names(folder) == []


def test_who_was_taken_over_adds_nothing(folder: ObjectPath) -> None:
    """From the moment on when another one goes on, though that one has added nothing yet."""
    late = LOGS.begin(folder, b"job\n", durable=True)
    other = LOGS.resume(folder, durable=True)
    with pytest.raises(StorageError, match="another run has taken over"):
        late.append(b"late\n")
    other.append(b"more\n")
    assert list(LOGS.lines(folder)) == [b"job\n", b"more\n"]


def test_who_was_taken_over_adds_nothing_to_what_was_folded(folder: ObjectPath) -> None:
    """Its next number stays taken, though all that was before is one object now."""
    late, expected = begin_in_pieces(folder, 20)
    other = LOGS.resume(folder, durable=True)
    assert len(names(folder)) < 5
    assert b"".join(LOGS.lines(folder)) == expected
    other.replace(b"new\n")
    with pytest.raises(StorageError, match="another run has taken over"):
        late.append(b"late\n")
    assert list(LOGS.lines(folder)) == [b"new\n"]


def test_what_a_journal_holds_is_checked(folder: ObjectPath) -> None:
    """A flipped bit shows."""
    LOGS.begin(folder, b"job\n", durable=True).close()
    path = folder / "journal.000001"
    content = bytearray(obstore.get(path.store, path.key).bytes())
    content[-2] ^= 1
    obstore.put(path.store, path.key, bytes(content))
    with pytest.raises(DataError, match=r"journal\.000001: is damaged"):
        list(LOGS.lines(folder))


def test_a_put_whose_answer_is_lost_is_known_again(
    folder: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is repeated, refused, and found to be one's own."""
    monkeypatch.setattr(failures, "_FIRST_WAIT", 0.0)
    faults = RequestFaults(2, GenericError("the answer is lost"))
    with inject_into_requests(faults):
        version = put_if(folder / "a", b"mine", "create")
    assert faults.log == [
        "put x/.dask-io/a",
        "answer to put x/.dask-io/a",
        "put x/.dask-io/a",
        "get x/.dask-io/a",
    ]
    assert put_if(folder / "a", b"mine too", version) != version
    with pytest.raises(ConflictError):
        put_if(folder / "a", b"other", "create")
    with pytest.raises(ConflictError):
        put_if(folder / "a", b"other", version)


def target_at(place: ObjectPath) -> Target:
    """Return a target of two blocks."""
    grid, layout = Grid.regular((4, 2), (2, 2)), Layout.c(2)
    return make_target(place, format="npy", grid=grid, dtype=np.dtype("u1"), layout=layout)


def put_block(target: Target, index: tuple[int, int]) -> Written:
    """Put a block, and commit nothing."""
    with target.writer(index) as writer:
        writer.write_from(Region((0, 0), (2, 2)), np.full((2, 2), 7, "u1"), new_staging(target, 0))
        return Written(index, target.grid.block(index), writer.checksum, is_last=True)


def test_what_was_taken_over_is_not_taken_away(folder: ObjectPath) -> None:
    """A run that does not know yet removes none of another's blocks, and can add none."""
    place = folder.parent
    late, other = target_at(place), target_at(place)
    late.create()
    put_block(late, (0, 0))
    other.resume()
    other.commit([put_block(other, (0, 0)), put_block(other, (1, 0))])
    other.finish()
    with pytest.raises(StorageError, match="another run has taken over"):
        late.commit([put_block(late, (1, 0))])
    with pytest.raises(StorageError, match="another run may have taken over"):
        put_block(late, (0, 0))
    late.abandon()
    open_source(place).check()


def test_what_may_be_taken_over_meanwhile_is_not_put(
    folder: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is asked for when an object is put, which may be long after it was begun."""
    target, visit = target_at(folder.parent), ExitStack()
    target.create()
    writer = visit.enter_context(target.writer((0, 0)))
    writer.write_from(Region((0, 0), (2, 2)), np.full((2, 2), 7, "u1"), new_staging(target, 0))
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.0)
    with pytest.raises(StorageError, match="another run may have taken over"):
        visit.close()
    assert not (folder.parent / "b_0_0.npy").exists()


def test_what_describes_a_target_is_not_undone_by_a_late_put(
    folder: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked for before another run put it is refused by the store."""
    path, put = folder.parent / "zarr.json", conditional.put_if

    def late(path: ObjectPath, content: bytes, mode: Any) -> object:
        monkeypatch.undo()
        path.medium.write_whole(path, b"new")
        return put(path, content, mode)

    for was_there in (False, True):
        if was_there:
            path.medium.write_whole(path, b"old")
        monkeypatch.setattr("dask_io.storage.objects.bucket.put_if", late)
        with pytest.raises(StorageError, match="another run has changed it"):
            path.medium.write_whole(path, b"late")
        assert obstore.get(path.store, path.key).bytes() == b"new"


def test_what_nobody_took_over_is_taken_away(folder: ObjectPath) -> None:
    """A run that is given up leaves nothing."""
    target = target_at(folder.parent)
    target.create()
    put_block(target, (0, 0))
    target.abandon()
    assert names(folder.parent) == []
