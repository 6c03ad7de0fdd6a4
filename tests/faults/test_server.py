"""A real server of objects that throttles, fails, hangs up and loses answers; and runs that die."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import obstore
import pytest

import dask_io
from dask_io.engine import commit
from dask_io.errors import StorageError
from dask_io.storage.objects import connect, failures
from dask_io.storage.objects.connect import parse_url
from tests.server import ACCESS_KEY, SECRET_KEY, Proxy, Server, start_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ARRAY = np.arange(6 * 4, dtype="<i4").reshape(6, 4)
PLAIN: dict[str, Any] = {"workers": 1, "strategy": "naive", "device": "ssd"}
FAULTS = ("throttle", "error", "refuse", "lose", "cut", "slow")


@pytest.fixture
def proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What stands before the server, and is asked instead; nobody waits long."""
    with ExitStack() as stack:
        made, port = start_proxy(server.port, stack)
        server.reach(monkeypatch, port)
        monkeypatch.setattr(commit, "MOST_CELLS", 1)
        monkeypatch.setitem(connect.RETRIES["backoff"], "init_backoff", timedelta(milliseconds=10))
        monkeypatch.setattr(failures, "_FIRST_WAIT", 0.01)
        yield made


@pytest.fixture
def bucket(server: Server, tmp_path: Path) -> str:
    """A place of its own, with an array as one object."""
    place = f"s3://{server.bucket}/{uuid4()}"
    np.save(tmp_path / "whole.npy", ARRAY)
    dask_io.resplit(tmp_path / "whole.npy", f"{place}/in", chunks=(3, 4))
    return place


def resplit(place: str, target: str) -> None:
    """Do what all of this is about."""
    dask_io.resplit(f"{place}/in", target, chunks=(2, 4), **PLAIN)


def test_the_server_sees_what_is_counted(proxy: Proxy, bucket: str, tmp_path: Path) -> None:
    """For each seek there is one request of data, for rows of blocks too."""
    dask_io.resplit(tmp_path / "whole.npy", f"{bucket}/raw", chunks=(3, 4), format="raw")
    options: Any = {**PLAIN, "region": "1:6,1:3"}
    job = dask_io.plan(f"{bucket}/raw", f"{bucket}/columns", chunks=(6, 1), **options)
    proxy.begin()
    result = job.run()
    read = [each for each in proxy.log if each.startswith("GET") and "/raw/b_" in each]
    put = [each for each in proxy.log if each.startswith("PUT") and "/columns/b_" in each]
    assert (len(read), len(put)) == (result.seeks.read, result.seeks.write)
    assert result.seeks == job.plan.seeks
    assert result.seeks.read >= 5, "rows are read one by one"


def test_what_goes_wrong_once_is_done_again(
    proxy: Proxy, bucket: str, record_property: Callable[[str, object], None]
) -> None:
    """At some request the server throttles, fails, hangs up or loses its answer: nobody notices."""
    proxy.begin()
    resplit(bucket, f"{bucket}/out")
    survived: Counter[str] = Counter()
    for at in range(1, len(proxy.log) + 1, 5):
        fault, target = FAULTS[at % len(FAULTS)], f"{bucket}/out-{at}"
        proxy.begin(at, fault)
        try:
            resplit(bucket, target)
        except BaseException as error:
            error.add_note(f"{fault} at {at}: {proxy.log[-8:]}")
            raise
        proxy.begin()
        assert np.array_equal(dask_io.open(target)[:, :], ARRAY), f"{fault} at {at}"
        assert dask_io.verify(target)
        survived[f"{fault} on a server"] += 1
    record_property("survived", dict(survived))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_goes_wrong_once_is_done_again(proxy: Proxy, bucket: str, fault: str) -> None:
    """Every fault at every request."""
    proxy.begin()
    resplit(bucket, f"{bucket}/out")
    for at in range(1, len(proxy.log) + 1):
        proxy.begin(at, fault)
        resplit(bucket, f"{bucket}/out-{at}")
        proxy.begin()
        assert np.array_equal(dask_io.open(f"{bucket}/out-{at}")[:, :], ARRAY), f"at {at}"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("throttle", "the store answered 503 Service Unavailable SlowDown"),
        ("error", "the store answered 500 Internal Server Error InternalError"),
        ("refuse", "the store cannot be reached"),
    ],
)
def test_what_stays_wrong_ends_a_run_that_can_be_resumed(
    proxy: Proxy, bucket: str, monkeypatch: pytest.MonkeyPatch, fault: str, said: str
) -> None:
    """One line says what the server said, no more, and how to go on."""
    monkeypatch.setattr(failures, "PATIENCE_SECONDS", 0.1)
    proxy.begin()
    resplit(bucket, f"{bucket}/out")
    proxy.begin(len(proxy.log) - 6, fault, n_times=10**6)
    with pytest.raises(StorageError) as caught:
        resplit(bucket, f"{bucket}/again")
    assert said in str(caught.value)
    assert f'dask_io.resume("{bucket}/again")' in str(caught.value)
    assert SECRET_KEY not in str(caught.value)
    proxy.begin()
    # The lock could not be let go of, but the process knows its own.
    result = dask_io.resume(f"{bucket}/again", verify=True)
    assert result.blocks_skipped
    assert np.array_equal(dask_io.open(f"{bucket}/again")[:, :], ARRAY)


def of_kinds(log: list[str]) -> dict[str, int]:
    """Return the number of the first request of each kind: a method, and what it is about."""
    found: dict[str, int] = {}
    for number, request in enumerate(log, 1):
        method, _, rest = request.partition(" ")
        path, _, query = rest.partition("?")
        name = re.sub("[0-9]+", "N", "list" if "list-type" in query else path.rpartition("/")[2])
        found.setdefault(f"{method} {name}", number)
    return found


def test_a_store_that_is_down_is_waited_for(
    proxy: Proxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many requests in a row find nobody, whatever they are about: reading, listing, putting."""
    monkeypatch.setattr(failures, "_LONGEST_WAIT", 0.01)
    proxy.begin()
    resplit(bucket, f"{bucket}/out")
    kinds = of_kinds(proxy.log)
    assert {"GET list", "GET b_N_N.npy", "GET lock"} <= kinds.keys()
    assert {"PUT lock", "PUT journal.N", "PUT dask-io.json", "PUT b_N_N.npy"} <= kinds.keys()
    for kind, at in kinds.items():
        target = f"{bucket}/out-{at}"
        proxy.begin(at, "refuse", n_times=20)
        resplit(bucket, target)
        proxy.begin()
        assert np.array_equal(dask_io.open(target)[:, :], ARRAY), kind
        assert dask_io.verify(target)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("absent", "the bucket does not exist; check the URL"),
        ("odd", "the store answered 404 Not Found NoSuchThing; check the URL and the endpoint"),
    ],
)
def test_a_put_that_finds_no_place_is_one_line(
    proxy: Proxy, bucket: str, fault: str, said: str
) -> None:
    """The put of a lock, a journal, a block or a manifest: nothing of the answer is quoted."""
    proxy.begin()
    resplit(bucket, f"{bucket}/out")
    puts = {kind: at for kind, at in of_kinds(proxy.log).items() if kind.startswith("PUT")}
    assert len(puts) == 4
    for kind, at in puts.items():
        proxy.begin(at, fault, n_times=1)
        with pytest.raises(StorageError) as caught:
            resplit(bucket, f"{bucket}/{fault}-{at}")
        assert said in str(caught.value), kind
        for word in ("\n", "Debug", "Error performing", SECRET_KEY):
            assert word not in str(caught.value), kind


def command(source: str, target: str, chunks: str = "2,4") -> list[str]:
    """Return the command that does the same in a process of its own."""
    run = "from dask_io.engine import commit; commit.MOST_CELLS = 1; from dask_io.cli import main"
    options = ["--chunks", chunks, "--workers", "1", "--strategy", "naive", "--device", "ssd"]
    return [sys.executable, "-c", f"{run}; main()", "resplit", source, target, *options]


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_a_process_is_killed_at_a_request(
    proxy: Proxy, bucket: str, record_property: Callable[[str, object], None], step: int
) -> None:
    """Another one on the same machine goes on at once."""
    proxy.begin()
    subprocess.run(command(f"{bucket}/in", f"{bucket}/out"), check=True, capture_output=True)
    n_requests, n_killed = len(proxy.log), 0
    for at in range(n_requests - 1, 0, -step):
        target = f"{bucket}/out-{at}"
        proxy.begin(at, "kill")
        run = subprocess.Popen(command(f"{bucket}/in", target), stderr=subprocess.DEVNULL)
        proxy.on_kill = run.kill
        assert run.wait() == -signal.SIGKILL
        proxy.begin()
        if any(b"journal" in each.encode() for each in keys(target)):
            dask_io.resume(target, **PLAIN)
        else:
            resplit(bucket, target)
        assert np.array_equal(dask_io.open(target)[:, :], ARRAY), f"killed at {at}"
        assert dask_io.verify(target)
        n_killed += 1
    record_property("survived", {"kill of a process at a request": n_killed})


def keys(place: str) -> list[str]:
    """Return the keys of all objects in a place."""
    path = parse_url(place)
    return [each["path"] for each in obstore.list(path.store, prefix=path.key).collect()]


def test_what_is_secret_is_nowhere(
    proxy: Proxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in what a run puts, nor in what it says, even if the server repeats it."""
    resplit(bucket, f"{bucket}/out")
    found = [
        bytes(obstore.get(parse_url(bucket).store, key).bytes()).decode(errors="replace")
        for key in keys(bucket)
    ]
    said = [str(dask_io.plan(f"{bucket}/in", f"{bucket}/b", chunks=(2, 4)))]
    said.append(repr(dask_io.open(f"{bucket}/in")))
    proxy.begin(1, "deny", n_times=10**6)
    for options in ([], ["--debug"]):
        tool = [sys.executable, "-m", "dask_io.cli", "info", f"{bucket}/in", *options]
        done = subprocess.run(tool, check=False, capture_output=True, text=True)
        assert done.returncode == 3
        said += [done.stdout, done.stderr]
    proxy.begin()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "AnotherSecretThatIsWrong")
    with pytest.raises(StorageError, match="access is denied") as caught:
        dask_io.open(f"{bucket}/in")
    said.append(str(caught.value))
    for secret in (ACCESS_KEY, SECRET_KEY, "AnotherSecretThatIsWrong"):
        assert not any(secret in text for text in found + said)
