"""Arrays of icechunk repositories in an object store are read; nothing is written there."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import icechunk
import numpy as np
import pytest
import zarr

import dask_io
from dask_io.errors import StorageError, UsageError
from tests.server import ACCESS_KEY, SECRET_KEY, Server

if TYPE_CHECKING:
    from pathlib import Path

ARRAY = np.arange(24, dtype="<i4").reshape(6, 4)


def make(server: Server) -> str:
    """Make a repository of two snapshots, as other tools do; return its URL."""
    name = f"{uuid4()}/r.icechunk"
    storage = icechunk.s3_storage(
        bucket=server.bucket,
        prefix=name,
        region="us-east-1",
        endpoint_url=f"http://127.0.0.1:{server.port}",
        allow_http=True,
        force_path_style=True,
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
    )
    repository = icechunk.Repository.create(storage)
    for values in (ARRAY, -ARRAY):
        session = repository.writable_session("main")
        group = zarr.open_group(session.store, mode="a")
        made = group.require_array("day/a", shape=ARRAY.shape, chunks=(3, 2), dtype="<i4")
        made[...] = values
        snapshot = session.commit("Write it")
        if values is ARRAY:
            repository.create_tag("first", snapshot_id=snapshot)
    return f"s3://{server.bucket}/{name}"


def test_a_repository_is_read(server: Server, tmp_path: Path) -> None:
    """Its tip or a tag, by its name; a run that reads it is verified, and resumed."""
    place = make(server)
    assert np.array_equal(dask_io.open(f"{place}::/day/a")[:, :], -ARRAY)
    dask_io.resplit(f"{place}::/@first/day/a", tmp_path / "x.zarr", chunks=(2, 4), verify=True)
    assert dask_io.verify(f"{place}::/@first/day/a", tmp_path / "x.zarr")
    assert not dask_io.verify(f"{place}::/day/a", tmp_path / "x.zarr")
    assert dask_io.info(f"{place}::/day/a").metadata["snapshot"]
    planned = dask_io.plan(dask_io.open(f"{place}::/day/a"), chunks=2).plan
    assert planned.problem.target.format == "icechunk"
    with pytest.raises(UsageError, match=r"is a group; give an array in it, such as .*::/day"):
        dask_io.open(place)
    with pytest.raises(UsageError, match="has no branch, tag or snapshot none"):
        dask_io.open(f"{place}::/@none/day/a")
    with pytest.raises(StorageError, match="no such directory"):
        dask_io.open(f"{place[:-9]}/nothing.icechunk::/a")


def test_options_reach_it(running_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in another process, to which they travel; they are not shown."""
    for name in running_server.environment():
        monkeypatch.delenv(name, raising=False)
    place = make(running_server)
    reach: Any = {
        "aws_access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY,
        "region": "us-east-1",
        "endpoint": f"http://127.0.0.1:{running_server.port}",
        "allow_http": True,
    }
    array = dask_io.open(f"{place}::/day/a", storage_options=reach)
    assert SECRET_KEY not in repr(array)
    again = pickle.loads(pickle.dumps(array))  # noqa: S301 - our own
    assert np.array_equal(again[:, :], -ARRAY)


def test_nothing_is_written_there(tmp_path: Path) -> None:
    """One line says what to do instead; other stores are not read either."""
    np.save(tmp_path / "x.npy", ARRAY)
    with pytest.raises(UsageError, match="can only be read; choose a target on local disk"):
        dask_io.resplit(tmp_path / "x.npy", "memory://trial/r.icechunk::/a", chunks=3)
    with pytest.raises(StorageError, match="no such directory"):
        dask_io.open("memory://trial/r.icechunk::/a")
