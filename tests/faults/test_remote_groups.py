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
from dask_io.formats.zarr.quiet import quiet
from dask_io.journal import lease
from dask_io.journal.journal import is_unfinished
from dask_io.storage.objects import failures
from dask_io.storage.objects.connect import parse_url
from dask_io.testing.faults import Killed, RequestFaults, inject_into_requests
from tests.faults.test_groups import PLAIN, content, make, make_old
from tests.faults.test_server import FAULTS, command, proxy
from tests.integration.test_remote_groups import save_small

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from dask_io.storage.objects.path import ObjectPath
    from tests.server import Proxy, Server

__all__ = ["proxy"]


@pytest.fixture
def _dead_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs that were killed be known to be, and nobody wait long."""
    monkeypatch.setattr(lease, "_has_ended", lambda _: True)
    monkeypatch.setattr(failures, "_FIRST_WAIT", 0.0)


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


def objects_in(bucket: ObjectPath, prefix: str) -> dict[str, bytes]:
    """Return what the objects of a group hold, but for what changes from run to run."""
    return {
        key: bytes(obstore.get(bucket.store, key).bytes())
        for key in keys(bucket, prefix)
        if "/.dask-io/" not in key
    }


class Replacing:
    """A group in an object store that is replaced by another."""

    def __init__(self, folder: Path, template: dict[str, bytes], *, ours: bool) -> None:
        make_old(folder / "old.zarr", ours=False)
        bucket = upload(template)
        place = f"{bucket}/{'out' if ours else 'unused'}.zarr"
        dask_io.resplit(folder / "old.zarr", place, chunks={"x": 3}, **PLAIN)
        self.template = {
            key: bytes(obstore.get(bucket.store, key).bytes())
            for key in keys(bucket, "")
            if not key.startswith("unused")
        }
        if not ours:
            files = (path for path in (folder / "old.zarr").rglob("*") if path.is_file())
            for path in files:
                key = f"out.zarr/{path.relative_to(folder / 'old.zarr')}"
                self.template[key] = path.read_bytes()
        self.old = objects_in(upload(self.template), "out.zarr")
        run(fresh := upload(template))
        self.new = objects_in(fresh, "out.zarr")

    def run(self, bucket: ObjectPath) -> None:
        """Replace it."""
        place, target = f"{bucket}/in.zarr", f"{bucket}/out.zarr"
        dask_io.resplit(place, target, chunks={"y": 3}, overwrite=True, **PLAIN)

    def n_moments(self) -> tuple[int, int]:
        """Return after which moment the old group begins to go, and how many there are."""
        with inject_into_requests(counted := RequestFaults()):
            self.run(upload(self.template))
        first = next(n for n, said in enumerate(counted.log) if said.startswith("put "))
        return first, counted.n_moments

    def survive(self, *faults: RequestFaults, resumes: bool) -> None:
        """Replace it until a fault, then go on until another one, and complete what is left."""
        bucket = upload(self.template)
        for fault in faults:
            with suppress(Killed, StorageError), inject_into_requests(fault):
                self.go_on(bucket, resumes=resumes)
            self.check_left(bucket)
        self.go_on(bucket, resumes=resumes)
        assert objects_in(bucket, "out.zarr") == self.new
        assert dask_io.verify(f"{bucket}/out.zarr")

    def go_on(self, bucket: ObjectPath, *, resumes: bool) -> None:
        """Complete what is unfinished, or begin again."""
        if resumes and is_unfinished(bucket / "out.zarr/.dask-io"):
            dask_io.resume(f"{bucket}/out.zarr", **PLAIN)
        else:
            self.run(bucket)

    def check_left(self, bucket: ObjectPath) -> None:
        """Check that it is the old group, the new one, unfinished or gone, and all arrays whole."""
        found = objects_in(bucket, "out.zarr")
        if "out.zarr/zarr.json" in found:
            assert any(each.items() <= found.items() for each in (self.old, self.new))
        else:
            is_empty = not keys(bucket, "out.zarr")
            assert is_empty or is_unfinished(bucket / "out.zarr/.dask-io")
        for key in found:
            folder, _, name = key.rpartition("/")
            if name == "zarr.json" and b'"array"' in found[key][:999]:
                within = {k: each for k, each in found.items() if k.startswith(f"{folder}/")}
                alike = (
                    {k: each for k, each in whole.items() if k.startswith(f"{folder}/")}
                    for whole in (self.old, self.new)
                )
                assert any(each.items() <= within.items() for each in alike if each), folder


def survive_replacing(replacing: Replacing, *, step: int, kinds: int) -> dict[str, int]:
    """Survive faults at every moment, or at some, and return how many of each kind."""
    survived: Counter[str] = Counter()
    first, last = replacing.n_moments()
    assert last - first > 100
    for number, at in enumerate(range(first, last + 1, step)):
        faults = {
            "kill while replacing": [RequestFaults(at)],
            "failing request while replacing": [failing(at)],
            "second kill while replacing": [RequestFaults(at), RequestFaults(1 + 7 * at % last)],
        }
        for kind in (list(faults) * 2)[number % 3 :][:kinds]:
            try:
                replacing.survive(*faults[kind], resumes=number % 2 == 0)
            except BaseException as error:
                log = "\n".join(faults[kind][-1].log[-12:])
                error.add_note(f"{kind} at {at} of {last}:\n{log}")
                raise
            survived[kind] += 1
    return dict(survived)


@pytest.mark.usefixtures("_dead_processes")
@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize(
    ("step", "kinds"),
    [(37, 1), pytest.param(1, 3, marks=pytest.mark.slow)],
    ids=["now and then", "each kind at every request"],
)
def test_a_fault_while_a_group_is_replaced(
    template: dict[str, bytes],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    *,
    step: int,
    kinds: int,
    ours: bool,
) -> None:
    """One of Dask IO, or of other tools; then it is resumed, or replaced again."""
    replacing = Replacing(tmp_path, template, ours=ours)
    record_property("survived", survive_replacing(replacing, step=step, kinds=kinds))


@pytest.mark.usefixtures("_dead_processes")
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_fault_while_an_array_joins_a_group(
    template: dict[str, bytes], record_property: Callable[[str, object], None], step: int
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
    for at in range(1, counted.n_moments + 1, step):
        bucket = upload(template)
        with (
            suppress(Killed, StorageError),
            inject_into_requests(RequestFaults(at) if at % 2 == 1 else failing(at)),
        ):
            join(bucket)
        assert gathered(bucket) in (before, before | {"inner/c"}), at
        is_begun = any("inner/c/.dask-io/journal" in key for key in keys(bucket, "in.zarr"))
        dask_io.resume(f"{bucket}/in.zarr::/inner/c", **PLAIN) if is_begun else join(bucket)
        assert gathered(bucket) == before | {"inner/c"}, at
        assert dask_io.verify(f"{bucket}/in.zarr::/a", f"{bucket}/in.zarr::/inner/c")
    record_property("survived", {"fault of a group's lock": counted.n_moments // step})


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
    proxy.begin()
    dask_io.resplit(source, f"{place}/a.zarr", chunks={"y": 2}, overwrite=True, **PLAIN)
    n_replacing = len(proxy.log)
    going = next(n for n, said in enumerate(proxy.log) if "DELETE" in said or "?delete" in said)
    for at, target in [
        (last // 2, f"{place}/killed.zarr"),
        (last - 3, f"{place}/killed-late.zarr"),
        (going + 1, f"{place}/a.zarr"),
        (n_replacing - 3, f"{place}/a.zarr"),
    ]:
        proxy.begin(at, "kill")
        asked = [*command(str(source), target, "y=3"), "--overwrite"]
        run = subprocess.Popen(asked, stderr=subprocess.DEVNULL)
        proxy.on_kill = run.kill
        assert run.wait() == -signal.SIGKILL
        proxy.begin()
        dask_io.resume(target, **PLAIN)
        assert dask_io.verify(source, target), f"killed at {at}"
        survived["kill of a process at a request"] += 1
    record_property("survived", dict(survived))
