"""A fault at every request of a run that re-splits a group in an object store."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import obstore
import pytest
import zarr
from obstore.exceptions import GenericError
from zarr.storage import ObjectStore

import dask_io
from dask_io.errors import StorageError
from dask_io.stores.objects import conditional, lease
from dask_io.stores.objects.connect import parse_url
from dask_io.stores.zarr.documents import quiet
from dask_io.testing.faults import Killed, RequestFaults, inject_into_requests
from tests.faults.test_groups import PLAIN, content, make
from tests.faults.test_server import FAULTS, command, proxy
from tests.integration.test_remote_groups import save_small

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from dask_io.stores.objects.path import ObjectPath
    from tests.server import Proxy, Server

__all__ = ["proxy"]


@pytest.fixture
def _dead_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs that were killed be known to be, and nobody wait long."""
    monkeypatch.setattr(lease, "_has_ended", lambda _: True)
    monkeypatch.setattr(conditional, "_FIRST_WAIT", 0.0)


@pytest.fixture
def template(tmp_path: Path) -> dict[str, bytes]:
    """The objects of a group that is to be re-split."""
    make(tmp_path / "in.zarr")
    files = (path for path in (tmp_path / "in.zarr").rglob("*") if path.is_file())
    return {str(path.relative_to(tmp_path)): path.read_bytes() for path in files}


@pytest.fixture
def expected(tmp_path: Path, template: dict[str, bytes]) -> dict[str, NDArray[Any]]:
    """What is in it."""
    assert template
    return content(tmp_path / "in.zarr")


def upload(template: dict[str, bytes]) -> ObjectPath:
    """Make a bucket of its own with objects in it."""
    bucket = parse_url(f"memory://{uuid4()}")
    for key, each in template.items():
        obstore.put(bucket.store, key, each)
    return bucket


def run(bucket: ObjectPath) -> object:
    """Do what all of this is about."""
    return dask_io.resplit(f"{bucket}/in.zarr", f"{bucket}/out.zarr", chunks={"y": 3}, **PLAIN)


def keys(bucket: ObjectPath, prefix: str = "out.zarr") -> list[str]:
    """Return the keys of what is written."""
    return [each["path"] for each in obstore.list(bucket.store, prefix=prefix).collect()]


def check(bucket: ObjectPath, expected: dict[str, NDArray[Any]]) -> None:
    """Check that what a reader takes for a group is all of it."""
    with quiet():
        group = zarr.open_group(ObjectStore(bucket.store), path="out.zarr", mode="r")
        assert group.attrs["title"] == "T"
        assert group.metadata.consolidated_metadata is not None
        for name, array in expected.items():
            found = group[name]
            assert isinstance(found, zarr.Array)
            assert np.array_equal(np.asarray(found[...]), array), name


def complete(bucket: ObjectPath) -> None:
    """Go on with what a fault left; a lock alone is nothing."""
    if any(not key.endswith("/lock") for key in keys(bucket)):
        dask_io.resume(f"{bucket}/out.zarr", **PLAIN)
    else:
        run(bucket)


def survive(
    template: dict[str, bytes], expected: dict[str, NDArray[Any]], *faults: RequestFaults
) -> None:
    """Run until a fault, then go on until another one, and complete what is left."""
    bucket = upload(template)
    for number, fault in enumerate(faults):
        try:
            with inject_into_requests(fault):
                complete(bucket) if number else run(bucket)
        except (Killed, StorageError):
            pass
        if "out.zarr/zarr.json" in keys(bucket):
            check(bucket, expected)
    complete(bucket)
    check(bucket, expected)
    assert dask_io.verify(f"{bucket}/out.zarr")
    assert dask_io.verify(f"{bucket}/in.zarr", f"{bucket}/out.zarr")


def n_moments(template: dict[str, bytes]) -> int:
    """Return how many moments there are at which something can go wrong."""
    with inject_into_requests(counted := RequestFaults()):
        run(upload(template))
    return counted.n_moments


def failing(at: int) -> RequestFaults:
    """Have a request fail."""
    error = GenericError("Error performing a request: status code: 400 Bad Request:")
    return RequestFaults(at, error)


def enumerate_faults(
    template: dict[str, bytes], expected: dict[str, NDArray[Any]], *, step: int
) -> dict[str, int]:
    """Survive faults at every moment, or at some, and return how many of each kind."""
    survived: Counter[str] = Counter()
    last = n_moments(template)
    assert last > 100
    for number, at in enumerate(range(1, last + 1, step)):
        kinds = {"kill": [RequestFaults(at)], "failing request": [failing(at)]}
        kinds["second kill"] = [RequestFaults(at), RequestFaults(1 + 7 * at % last)]
        for kind in [list(kinds)[number % 3]] if step > 1 else kinds:
            try:
                survive(template, expected, *kinds[kind])
            except BaseException as error:
                log = "\n".join(kinds[kind][-1].log[-12:])
                error.add_note(f"{kind} at {at} of {last}:\n{log}")
                raise
            survived[kind] += 1
    return dict(survived)


@pytest.mark.usefixtures("_dead_processes")
def test_a_fault_at_some_requests(
    template: dict[str, bytes],
    expected: dict[str, NDArray[Any]],
    record_property: Callable[[str, object], None],
) -> None:
    """Killed once or twice, or with a request that fails: one of these at every 17th moment."""
    record_property("survived", enumerate_faults(template, expected, step=17))


@pytest.mark.slow
@pytest.mark.usefixtures("_dead_processes")
def test_every_fault_at_every_request(
    template: dict[str, bytes],
    expected: dict[str, NDArray[Any]],
    record_property: Callable[[str, object], None],
) -> None:
    """All of them at every moment."""
    record_property("survived", enumerate_faults(template, expected, step=1))


@pytest.mark.usefixtures("_dead_processes")
def test_a_fault_while_an_array_joins_a_group(
    template: dict[str, bytes], record_property: Callable[[str, object], None]
) -> None:
    """What the group gathers of its members is theirs, before and after."""

    def join(bucket: ObjectPath) -> object:
        whole = f"{bucket}/in.zarr::/a"
        return dask_io.resplit(whole, f"{bucket}/in.zarr::/inner/c", chunks=(4, 3), **PLAIN)

    def gathered(bucket: ObjectPath) -> set[str]:
        with quiet():
            group = zarr.open_group(ObjectStore(bucket.store), path="in.zarr", mode="r")
        assert group.metadata.consolidated_metadata is not None
        return set(group.metadata.consolidated_metadata.flattened_metadata)

    before = gathered(upload(template))
    with inject_into_requests(counted := RequestFaults()):
        join(bucket := upload(template))
    assert gathered(bucket) == before | {"inner/c"}
    for at in range(1, counted.n_moments + 1, 2):
        bucket = upload(template)
        with (
            suppress(Killed, StorageError),
            inject_into_requests(RequestFaults(at) if at % 4 == 1 else failing(at)),
        ):
            join(bucket)
        assert gathered(bucket) in (before, before | {"inner/c"}), at
        is_begun = any("inner/c/.dask-io/journal" in key for key in keys(bucket, "in.zarr"))
        dask_io.resume(f"{bucket}/in.zarr::/inner/c", **PLAIN) if is_begun else join(bucket)
        assert gathered(bucket) == before | {"inner/c"}, at
        assert dask_io.verify(f"{bucket}/in.zarr::/a", f"{bucket}/in.zarr::/inner/c")
    record_property("survived", {"fault of a group's lock": counted.n_moments // 2})


def test_what_goes_wrong_on_a_server(
    proxy: Proxy, server: Server, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """What fails once is done again, and what a process leaves that is killed is completed."""
    source, place = save_small(tmp_path / "in.zarr"), f"s3://{server.bucket}/{uuid4()}"
    proxy.begin()
    dask_io.resplit(source, f"{place}/a.zarr", chunks={"y": 3}, **PLAIN)
    last, survived = len(proxy.log), Counter[str]()
    for number, fault in enumerate(FAULTS):
        target = f"{place}/{fault}.zarr"
        proxy.begin((number + 1) * last // (len(FAULTS) + 1), fault)
        dask_io.resplit(source, target, chunks={"y": 3}, **PLAIN)
        proxy.begin()
        assert dask_io.verify(source, target), fault
        survived[f"{fault} on a server"] += 1
    for at in (last // 2, last - 3):
        target = f"{place}/killed-{at}.zarr"
        proxy.begin(at, "kill")
        run = subprocess.Popen(command(str(source), target, "y=3"), stderr=subprocess.DEVNULL)
        proxy.on_kill = run.kill
        assert run.wait() == -signal.SIGKILL
        proxy.begin()
        dask_io.resume(target, **PLAIN)
        assert dask_io.verify(source, target), f"killed at {at}"
        survived["kill of a process at a request"] += 1
    record_property("survived", dict(survived))
