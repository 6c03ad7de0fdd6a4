"""A fault at every request of a small run: it can be resumed, and nothing was ever wrong.

As with the calls to the system: requests to an object store come in one order. The process is
killed before the Nth of them, or after one that was carried out, or a request fails, for every N.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import obstore
import pytest
from obstore.exceptions import GenericError

import dask_io
from dask_io.engine import commit
from dask_io.errors import DaskIOError, StorageError
from dask_io.journal import lease
from dask_io.storage.objects.connect import parse_url
from dask_io.testing.faults import Killed, RequestFaults, inject_into_requests
from tests.faults.small_runs import ARRAY, PLAIN, Case, check_block, survive_all, with_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dask_io.storage.objects.path import ObjectPath


def cases(*, thorough: bool) -> Iterator[Case]:
    """Yield runs; more of them if there is time."""
    coded = {"chunks": (3, 2), "codec": "zstd:1", "fill_value": 0}
    yield Case("resplit", "out", {"chunks": (3, 2)})
    yield Case("resplit", "out", {"chunks": (3, 2), "consume": True})
    yield Case("resplit", "out", {"chunks": (3, 2), "overwrite": True}, is_there=True)
    yield Case("resplit", "out.npy", {"chunks": -1, "consume": True})
    yield Case("resplit", "out.zarr", coded)
    yield Case("resplit", "out", {"chunks": (3, 2), "consume": True}, source="in.zarr")
    if thorough:
        yield Case("resplit", "out.zarr::/a/b", coded)
        yield Case("resplit", "out.zarr", {**coded, "overwrite": True}, is_there=True)
        yield Case("resplit", "out.zarr", {**coded, "shards": (3, 4)})
        yield Case("resplit", "out.zarr", {"chunks": (3, 2), "codec": "none", "consume": True})
        yield Case("resplit", "out.npy", {"chunks": -1, "overwrite": True}, is_there=True)
        yield Case("resplit", "out", {"chunks": (3, 2), "format": "raw"})


@pytest.fixture(autouse=True)
def _small_batches_and_dead_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit often, and let runs that were killed be known to be."""
    monkeypatch.setattr(commit, "MOST_CELLS", 3)
    monkeypatch.setattr(lease, "_has_ended", lambda _: True)


def fill(bucket: ObjectPath, case: Case) -> None:
    """Put into an empty bucket what is there before a run."""
    content = BytesIO()
    np.save(content, ARRAY)
    obstore.put(bucket.store, "whole.npy", content.getvalue())
    dask_io.split(f"{bucket}/whole.npy", f"{bucket}/{case.source}", chunks=(2, 4))
    if case.is_there:
        content = BytesIO()
        np.save(content, -ARRAY)
        obstore.put(bucket.store, "old.npy", content.getvalue())
        # More blocks than the new target has, so that some have to go.
        chunks = -1 if case.target.endswith(".npy") else (1, 3)
        dask_io.resplit(f"{bucket}/old.npy", f"{bucket}/{case.target}", chunks=chunks)


def contents(place: ObjectPath) -> dict[str, bytes]:
    """Return all objects of a bucket."""
    listed = obstore.list(place.store).collect()
    return {each["path"]: bytes(obstore.get(place.store, each["path"]).bytes()) for each in listed}


def make(before: dict[str, bytes], case: Case) -> tuple[ObjectPath, Callable[[], object]]:
    """Make a bucket of its own as it is before a run; return what is to be done."""
    bucket = parse_url(f"memory://{uuid4()}")
    for key, content in before.items():
        obstore.put(bucket.store, key, content)
    run = partial(dask_io.resplit, f"{bucket}/{case.source}", f"{bucket}/{case.target}")
    return bucket, partial(run, **{**PLAIN, **case.options})


def check_blocks(bucket: ObjectPath, case: Case) -> None:
    """Check that what looks like a complete block, or a complete array, is one."""
    if case.is_there:
        return
    for key, content in contents(bucket).items():
        name = key.removeprefix("out/").removesuffix(".npy")
        if key.startswith("out/b_") and key.endswith(".npy"):
            check_block(np.load(BytesIO(content)), name.split("_")[1:], (3, 2), key)
        if key == "out.npy":
            assert np.array_equal(np.load(BytesIO(content)), ARRAY)
    try:
        found = dask_io.open(f"{bucket}/{case.target}")
    except DaskIOError:
        return
    assert np.array_equal(found[:, :], ARRAY)


def complete(bucket: ObjectPath, case: Case, run: Callable[[], object]) -> None:
    """Go on with what a fault left, or begin again if it left nothing."""
    top = case.target.partition("::")[0]
    keys = [key for key in contents(bucket) if key.startswith(top)]
    # A lock alone is nothing yet.
    is_begun = any(not key.endswith("/lock") for key in keys)
    case.complete(f"{bucket}/{case.target}", run, is_begun=is_begun)


def check_complete(bucket: ObjectPath, case: Case) -> None:
    """Check that all is there that should be, and nothing else."""
    place = f"{bucket}/{case.target}"
    assert np.array_equal(dask_io.open(place)[:, :], ARRAY)
    assert dask_io.verify(place)
    tops = {key.partition("/")[0].removesuffix(".dask-io") for key in contents(bucket)}
    expected = {"whole.npy", "old.npy", case.target.partition("::")[0]}
    assert tops <= expected if case.options.get("consume") else tops - {case.source} <= expected


def survive(before: dict[str, bytes], case: Case, faults: RequestFaults) -> None:
    """Run until a fault, look at what is left, and complete it."""
    bucket, run = make(before, case)
    with suppress(Killed, StorageError), inject_into_requests(faults):
        run()
    with with_log(faults):
        check_blocks(bucket, case)
        complete(bucket, case, run)
        check_complete(bucket, case)


def prepare(case: Case) -> tuple[dict[str, bytes], int]:
    """Return all objects before a run, and how many moments there are while it runs."""
    template = parse_url(f"memory://{uuid4()}")
    fill(template, case)
    before = contents(template)
    _, run = make(before, case)
    with inject_into_requests(counted := RequestFaults()):
        run()
    return before, counted.n_moments


def every_fault(
    case: Case, n_moments: int, *, thorough: bool
) -> Iterator[tuple[str, RequestFaults]]:
    """Yield faults at every moment, of both kinds, or at some moments one of them in turn."""
    step = 1 if thorough else 3 if len(case.options) == 1 else 5
    for number, at in enumerate(range(1, n_moments + 1, step)):
        failing = GenericError("Error performing a request: status code: 400 Bad Request:")
        kinds = [("kill", RequestFaults(at)), ("failing request", RequestFaults(at, failing))]
        yield from kinds if thorough else [kinds[number % 2]]


def enumerate_faults(case: Case, *, thorough: bool) -> dict[str, int]:
    """Survive all faults of a run, and return how many there were of each kind."""
    before, n_moments = prepare(case)
    chosen = every_fault(case, n_moments, thorough=thorough)
    return survive_all(
        case, ((kind, partial(survive, before, case, faults)) for kind, faults in chosen)
    )


@pytest.mark.parametrize("case", list(cases(thorough=False)), ids=str)
def test_a_fault_at_every_request(
    case: Case, record_property: Callable[[str, object], None]
) -> None:
    """The run is killed at some moments, and a request fails at others, in turn."""
    record_property("survived", enumerate_faults(case, thorough=False))


@pytest.mark.slow
@pytest.mark.parametrize("case", list(cases(thorough=True)), ids=str)
def test_every_fault_at_every_request(
    case: Case, record_property: Callable[[str, object], None]
) -> None:
    """Both at every moment."""
    record_property("survived", enumerate_faults(case, thorough=True))


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_second_fault_while_resuming(step: int) -> None:
    """What the first fault left is gone on with twice."""
    case = Case("resplit", "out", {"chunks": (3, 2), "consume": True})
    before, n_moments = prepare(case)
    for at in range(1, n_moments, step):
        bucket, run = make(before, case)
        for faults in (RequestFaults(at), RequestFaults(5 + 7 * at % n_moments)):
            try:
                with inject_into_requests(faults):
                    complete(bucket, case, run)
            except Killed:
                check_blocks(bucket, case)
        complete(bucket, case, run)
        check_complete(bucket, case)
