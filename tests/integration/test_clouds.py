"""Google's and Azure's stores are reached as the environment says, and errors are one line."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

import dask_io
from dask_io.errors import StorageError
from dask_io.journal import lease
from dask_io.journal.lease import Lease
from dask_io.storage.objects import connect, failures
from dask_io.storage.objects.connect import parse_url
from tests.clouds import azure, google
from tests.commands import fail, run
from tests.integration.test_remote_groups import save_small

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clouds import Cloud

__all__ = ["azure", "google"]

ARRAY = np.arange(30 * 20, dtype="<f4").reshape(30, 20)
URLS = {"google": "gs://bucket", "azure": "az://bucket"}


@pytest.fixture(params=list(URLS))
def cloud(request: pytest.FixtureRequest) -> tuple[str, Cloud]:
    """A bucket, and its URL."""
    found: Cloud = request.getfixturevalue(request.param)
    return URLS[request.param], found


def test_arrays_come_and_go(cloud: tuple[str, Cloud], tmp_path: Path) -> None:
    """As at any other place: written, replaced, verified, consumed, with a lock meanwhile."""
    url, objects = cloud
    np.save(tmp_path / "x.npy", ARRAY)
    run("split", tmp_path / "x.npy", f"{url}/deep/blocks", "--chunks", "10,20", "--verify")
    assert "deep/blocks/b_2_0.npy" in objects.objects
    run("resplit", f"{url}/deep/blocks", f"{url}/x.zarr", "--chunks", "7,6", "--codec", "zstd:1")
    overwriting = ["--chunks", "9,6", "--overwrite", "--verify"]
    run("resplit", tmp_path / "x.npy", f"{url}/x.zarr", *overwriting)
    assert dask_io.open(f"{url}/x.zarr").chunks[0] == (9, 9, 9, 3)
    run("verify", f"{url}/x.zarr", tmp_path / "x.npy")
    run("resplit", f"{url}/deep/blocks", tmp_path / "out", "--chunks", "30,5", "--consume")
    assert np.array_equal(dask_io.open(tmp_path / "out")[:, :], ARRAY)
    assert not [key for key in objects.objects if key.startswith("deep")]


def test_what_is_not_there_does_not_keep_the_rest(cloud: tuple[str, Cloud]) -> None:
    """Some stores stop removing many at once where one is missing."""
    url, objects = cloud
    folder = parse_url(f"{url}/x")
    present = [f"{number:03}" for number in range(0, 300, 2)]
    for name in present:
        objects.put(f"x/{name}", b"", expected=None)
    folder.medium.remove(folder / f"{number:03}" for number in range(300))
    assert not objects.objects
    folder.medium.remove([folder / "000"])


def test_what_stands_for_a_folder_is_no_object(cloud: tuple[str, Cloud], tmp_path: Path) -> None:
    """Consoles put empty objects there whose names end in a slash; groups are read all the same."""
    url, objects = cloud
    save_small(tmp_path / "in.zarr")
    for path in (tmp_path / "in.zarr").rglob("*"):
        key, content = str(path.relative_to(tmp_path)), b""
        if path.is_file():
            content = path.read_bytes()
        objects.put(key if path.is_file() else f"{key}/", content, expected=None)
    for key in ("in.zarr/", "in.zarr/empty/", "in.zarr/a/c/9/"):
        objects.put(key, b"", expected=None)
    objects.put("in.zarr/nothing.txt", b"", expected=None)
    dask_io.resplit(f"{url}/in.zarr", tmp_path / "out.zarr", chunks={"y": 3})
    dask_io.resplit(f"{url}/in.zarr", f"{url}/out.zarr", chunks={"y": 3})
    assert dask_io.verify(tmp_path / "in.zarr", tmp_path / "out.zarr")
    assert dask_io.verify(f"{url}/in.zarr", f"{url}/out.zarr")
    assert (tmp_path / "out.zarr/nothing.txt").is_file()
    assert not (tmp_path / "out.zarr/empty").exists()


@pytest.mark.parametrize("name", ["/b.npy", "../b.npy", "./b.npy", "b\n.npy"])
def test_a_name_that_is_none_is_told(name: str, cloud: tuple[str, Cloud], tmp_path: Path) -> None:
    """Nothing can be listed that such an object is among, however often it is tried."""
    url, held = cloud
    np.save(tmp_path / "a.npy", np.arange(6))
    dask_io.split(tmp_path / "a.npy", f"{url}/in", chunks=2)
    key = next(key for key in held.objects if key.endswith("b_0.npy"))
    held.objects[key.replace("b_0.npy", name)] = b"", 1
    with pytest.raises(StorageError, match="with control characters; rename or remove it"):
        dask_io.open(f"{url}/in")


def test_an_object_with_others_in_it_is_named(cloud: tuple[str, Cloud], tmp_path: Path) -> None:
    """Of a folder and an object of one name neither is left out unsaid."""
    url, objects = cloud
    dask_io.resplit(save_small(tmp_path / "in.zarr"), f"{url}/in.zarr", chunks={"y": 3})
    objects.put("in.zarr/a", b"something", expected=None)
    with pytest.raises(dask_io.errors.DataError, match="is both an object and a prefix"):
        dask_io.info_group(f"{url}/in.zarr")


def test_locks_are_renewed_and_let_go_of(cloud: tuple[str, Cloud]) -> None:
    """By conditions that each store puts in its own words."""
    url, objects = cloud
    held = Lease.take(parse_url(f"{url}/x/.dask-io/lock"))
    n_puts = objects.n_puts
    held.renew()
    held.check()
    assert objects.n_puts == n_puts + 1
    with pytest.raises(dask_io.errors.LockedError):
        Lease.take(parse_url(f"{url}/x/.dask-io/lock"))
    held.release()
    other = Lease.take(parse_url(f"{url}/x/.dask-io/lock"))
    held.renew()
    other.renew()
    other.check()
    other.remove()
    assert not objects.objects


def test_a_store_that_denies_is_named_in_one_line(cloud: tuple[str, Cloud]) -> None:
    """With what to do, and the code for the environment; nothing is asked again and again."""
    url, objects = cloud
    objects.denies = True
    said = fail("info", f"{url}/x", code=3)
    assert said.startswith(f"dask-io: {url}/x: access is denied (403 Forbidden")
    assert "check the credentials" in said


@pytest.mark.parametrize("url", ["gs://bucket/x", "az://bucket/x"])
def test_a_store_that_cannot_be_reached_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """After some attempts: nobody listens there any more."""
    monkeypatch.setitem(connect.RETRIES["backoff"], "init_backoff", timedelta(milliseconds=1))
    monkeypatch.setattr(failures, "PATIENCE_SECONDS", 0.1)
    request.getfixturevalue("google" if url.startswith("gs") else "azure")
    key = '{"gcs_base_url": "http://127.0.0.1:1", "disable_oauth": true, "client_email": "", '
    key += '"private_key": "", "private_key_id": ""}'
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", key)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:1")
    said = fail("info", url, code=3)
    assert said == (
        f"dask-io: {url}: the store cannot be reached; check the endpoint and the network"
    )


def test_an_account_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL of Azure's does not say whose container it is."""
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    said = fail("info", "az://bucket/x", code=2)
    assert "check AZURE_STORAGE_ACCOUNT_NAME" in said


def test_attempts_end_some_time() -> None:
    """Neither the number of attempts nor the time that they take is without bound."""
    assert connect.RETRIES["max_retries"] <= 10
    assert connect.RETRIES["retry_timeout"] <= timedelta(minutes=2)
    assert failures.PATIENCE_SECONDS <= 120
    assert lease.LEASE_SECONDS <= 60
