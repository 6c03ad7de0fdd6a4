"""Every verb with objects at either end, on the command line and in Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pytest
import zarr
from zarr.storage import ObjectStore

import dask_io
from dask_io.errors import DataError, StorageError, UsageError
from dask_io.storage.objects.connect import parse_url
from tests.commands import run
from tests.server import ACCESS_KEY, SECRET_KEY, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

ARRAY = np.arange(30 * 20, dtype="<f4").reshape(30, 20)


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A folder with an array as one file."""
    np.save(tmp_path / "whole.npy", ARRAY)
    return tmp_path


@pytest.fixture
def bucket() -> str:
    """A place of its own."""
    return f"memory://{uuid4()}/some/where"


def read(place: object) -> NDArray[Any]:
    """Return all of an array."""
    return dask_io.open(str(place))[:, :]


def test_every_verb_takes_objects(server: Server, local: Path) -> None:
    """On a real server, mixed with local files."""
    place = f"s3://{server.bucket}/{uuid4()}"
    run("split", local / "whole.npy", f"{place}/blocks", "--chunks", "10,20", "--quiet")
    assert np.array_equal(read(f"{place}/blocks"), ARRAY)
    told = json.loads(run("info", f"{place}/blocks", "--json"))
    assert (told["shape"], told["format"]) == ([30, 20], "npy")
    planned = json.loads(run("plan", f"{place}/blocks", "--chunks", "30,5", "--json"))
    assert planned["seeks"]["total"] == planned["seeks"]["lower_bound"] == 3 + 4
    run("resplit", f"{place}/blocks", f"{place}/a.zarr", "--chunks", "7,6", "--codec", "zstd:1")
    run("merge", f"{place}/a.zarr", local / "again.npy", "--quiet", "--verify")
    assert np.array_equal(np.load(local / "again.npy"), ARRAY)
    run("merge", f"{place}/a.zarr", f"{place}/one.npy", "--quiet", "--verify")
    run("extract", f"{place}/one.npy", f"{place}/rois", "--region", "0:3,:", "--region", "2:9,1:4")
    assert np.array_equal(read(f"{place}/rois/region_001.npy"), ARRAY[2:9, 1:4])
    run("verify", f"{place}/a.zarr", local / "whole.npy")
    run("verify", f"{place}/a.zarr")
    assert "complete" in run("resume", f"{place}/a.zarr")
    path = parse_url(f"{place}/a.zarr")
    theirs = zarr.open_array(ObjectStore(path.store), path=path.key, mode="r")
    assert np.array_equal(np.asarray(theirs), ARRAY)


def test_time_is_predicted_for_an_object_store(local: Path, bucket: str) -> None:
    """A seek is a request; whatever else is at the other end is faster."""
    job = dask_io.plan(local / "whole.npy", f"{bucket}/x", chunks=(10, 20))
    assert job.device.name == "s3"
    said = run("plan", local / "whole.npy", "--chunks", "9,9", "--device", "measured")
    assert said
    with pytest.raises(UsageError, match="needs a local folder"):
        dask_io.plan(local / "whole.npy", f"{bucket}/x", chunks=3, device="measured")


def test_options_in_python_reach_a_store(
    running_server: Server, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word in the environment; they are not kept, so `resume` and `verify` ask again."""
    for name in running_server.environment():
        monkeypatch.delenv(name, raising=False)
    reach = {
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY,
        "region": "us-east-1",
        "endpoint": f"http://127.0.0.1:{running_server.port}",
        "allow_http": True,
    }
    place = f"s3://{running_server.bucket}/{uuid4()}"
    whole, options = local / "whole.npy", {"storage_options": reach}
    dask_io.split(whole, f"{place}/a", chunks=(10, 20), verify=True, **options)  # type: ignore[arg-type]
    dask_io.resplit(f"{place}/a", f"{place}/b", chunks=(30, 5), verify=True, **options)  # type: ignore[arg-type]
    dask_io.extract(f"{place}/b", f"{place}/c", regions=["0:2,:", "1:3,:"], verify=True, **options)  # type: ignore[arg-type]
    dask_io.merge(f"{place}/b", f"{place}/d.npy", **options)  # type: ignore[arg-type]
    assert dask_io.verify(f"{place}/a", f"{place}/b", storage_options=reach)
    assert dask_io.verify(f"{place}/c/region_000.npy", storage_options=reach)
    assert dask_io.info(f"{place}/d.npy", storage_options=reach).shape == (30, 20)
    assert dask_io.resume(f"{place}/b", storage_options=reach).blocks_skipped == 4
    assert np.array_equal(dask_io.open(f"{place}/d.npy", storage_options=reach)[:, :], ARRAY)


def test_objects_are_consumed(local: Path, bucket: str) -> None:
    """A source of objects is gone when all of it is elsewhere, with its journal."""
    dask_io.split(local / "whole.npy", f"{bucket}/in", chunks=(10, 20))
    dask_io.resplit(f"{bucket}/in", f"{bucket}/out", chunks=(30, 5), consume=True)
    assert np.array_equal(read(f"{bucket}/out"), ARRAY)
    assert not parse_url(f"{bucket}/in").exists()


def test_only_ones_own_objects_are_overwritten(local: Path, bucket: str) -> None:
    """Others beside them are named, and stay."""
    dask_io.split(local / "whole.npy", f"{bucket}/out", chunks=(10, 20))
    stranger = parse_url(f"{bucket}/out/notes.txt")
    stranger.medium.write_whole(stranger, b"mine")
    with pytest.raises(UsageError, match=r"not part of a target: notes\.txt"):
        dask_io.split(local / "whole.npy", f"{bucket}/out", chunks=(5, 20), overwrite=True)
    stranger.medium.remove([stranger])
    dask_io.split(local / "whole.npy", f"{bucket}/out", chunks=(5, 20), overwrite=True)
    assert dask_io.open(f"{bucket}/out").chunks[0] == (5,) * 6
    assert np.array_equal(read(f"{bucket}/out"), ARRAY)


def test_a_source_that_changed_is_not_gone_on_with(
    local: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its objects have other versions."""
    dask_io.split(local / "whole.npy", f"{bucket}/in", chunks=(10, 20))
    monkeypatch.setattr("dask_io.engine.commit.MOST_CELLS", 1)
    stop_midway(f"{bucket}/in", f"{bucket}/out")
    dask_io.resplit(local / "whole.npy", f"{bucket}/in", chunks=(10, 20), overwrite=True)
    with pytest.raises(DataError, match="has changed since the run began"):
        dask_io.resume(f"{bucket}/out")


def stop_midway(source: str, target: str) -> None:
    """Stop a run when something is durable."""

    def stop(progress: dask_io.Progress) -> None:
        if progress.n_blocks_written == 2:
            raise KeyboardInterrupt

    with pytest.raises(dask_io.errors.InterruptedRunError, match=rf'dask_io\.resume\("{target}"\)'):
        dask_io.resplit(source, target, chunks=(30, 5), workers=1, progress=stop)


def test_a_run_that_was_stopped_is_resumed(
    local: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: the lock was let go of. Until then the target cannot be opened, or replaced."""
    dask_io.split(local / "whole.npy", f"{bucket}/in", chunks=(10, 20))
    monkeypatch.setattr("dask_io.engine.commit.MOST_CELLS", 1)
    stop_midway(f"{bucket}/in", f"{bucket}/out")
    with pytest.raises(DataError, match="it is unfinished"):
        dask_io.open(f"{bucket}/out")
    with pytest.raises(UsageError, match="exists and is unfinished"):
        dask_io.resplit(f"{bucket}/in", f"{bucket}/out", chunks=(30, 5))
    assert dask_io.resume(f"{bucket}/out", verify=True).blocks_skipped >= 1
    assert np.array_equal(read(f"{bucket}/out"), ARRAY)


def test_two_runs_do_not_write_one_target(local: Path, bucket: str) -> None:
    """The second is refused while the first goes on, and so is who would read."""
    said: list[str] = []

    def try_too(_: object) -> None:
        for attempt in (
            lambda: dask_io.split(local / "whole.npy", f"{bucket}/x", chunks=7, overwrite=True),
            lambda: dask_io.resume(f"{bucket}/x"),
            lambda: dask_io.open(f"{bucket}/x"),
        ):
            with pytest.raises(StorageError) as caught:
                attempt()
            said.append(str(caught.value))

    dask_io.split(local / "whole.npy", f"{bucket}/x", chunks=(10, 20), progress=try_too)
    assert said
    assert all("another run is writing it (process" in each for each in said)
    assert np.array_equal(read(f"{bucket}/x"), ARRAY)


@pytest.mark.parametrize("target", ["x", "x.zarr", "x.npy"])
def test_a_run_that_was_taken_over_stops(
    local: Path, bucket: str, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """It adds nothing to the journal, and takes nothing away that is another's now."""
    chunks, place = (-1 if target == "x.npy" else (10, 20)), f"{bucket}/{target}"
    others: list[dask_io.RunResult] = []

    def take_over(_: object) -> None:
        if not others:
            monkeypatch.setattr("dask_io.journal.lease._has_ended", lambda _: True)
            others.append(dask_io.resume(place, verify=True))

    with pytest.raises(StorageError, match="another run"):
        dask_io.resplit(local / "whole.npy", place, chunks=chunks, progress=take_over)
    assert others[0].verified
    assert np.array_equal(read(place), ARRAY)
    assert dask_io.verify(place)


def test_shards_without_a_codec_are_put(local: Path, bucket: str) -> None:
    """Chunks that are put together in the same memory, one after another, stay apart."""
    place = f"{bucket}/x.zarr"
    dask_io.resplit(local / "whole.npy", place, chunks=(5, 4), shards=(10, 12), codec="none")
    assert np.array_equal(read(place), ARRAY)


def test_large_objects_are_put_in_parts(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some at once; they appear as one."""
    monkeypatch.setattr("dask_io.storage.objects.transport.LARGE", 2**20)
    monkeypatch.setattr("dask_io.storage.objects.transport.PART", 5 * 2**20)
    array = np.arange(3 * 2**20, dtype="<i4").reshape(3, 1024, 1024)
    np.save(tmp_path / "large.npy", array)
    place = f"s3://{server.bucket}/{uuid4()}/large.npy"
    dask_io.merge(tmp_path / "large.npy", place, verify=True)
    assert np.array_equal(dask_io.open(place)[1:, 5:], array[1:, 5:])


WITHIN = """
import json, sys
import dask_io

source, target = sys.argv[1:]
dask_io.info(source)
job = dask_io.plan(source, target, chunks=(16, 512, 64), memory="20MiB", workers=4)
result = job.run()
assert result.held == job.plan.held_bytes
print(json.dumps([job.plan.peak_bytes, result.peak_memory]))
"""


@pytest.mark.linux
def test_the_budget_holds_for_objects(server: Server, tmp_path: Path) -> None:
    """What requests hold is counted too: the process grows by no more, and a constant."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((48, 512, 512), np.float32))
    place = f"s3://{server.bucket}/{uuid4()}"
    dask_io.split(tmp_path / "x.npy", f"{place}/in", chunks=(8, 128, 512), memory="64MiB")
    command = [sys.executable, "-c", WITHIN, f"{place}/in", f"{place}/out"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    predicted, grown = json.loads(done.stdout)
    assert predicted <= 20 * 2**20
    assert grown <= predicted + 24 * 2**20, f"{grown / 2**20:.1f} MiB"


def test_source_and_target_are_not_one_place(local: Path, bucket: str) -> None:
    """Nor is one in the other; what only begins alike is."""
    dask_io.split(local / "whole.npy", f"{bucket}/x", chunks=(10, 20))
    for target in (f"{bucket}/x", f"{bucket}/x/y", bucket):
        with pytest.raises(UsageError, match=r"are the same|lies in source|contains source"):
            dask_io.resplit(f"{bucket}/x", target, chunks=7, overwrite=True)
    dask_io.resplit(f"{bucket}/x", f"{bucket}/x2", chunks=7)


def test_what_is_spilled_on_the_way_is_gone(local: Path, bucket: str) -> None:
    """Scratch blocks for a target of objects lie where temporary files do."""
    dask_io.split(local / "whole.npy", f"{bucket}/in", chunks=(1, 20))
    options: Any = {"strategy": "spill", "memory": "3MiB"}
    dask_io.resplit(f"{bucket}/in", f"{bucket}/out", chunks=(30, 1), workers=1, **options)
    assert np.array_equal(read(f"{bucket}/out"), ARRAY)


class _Files(BaseHTTPRequestHandler):
    """Files of a folder, whole or by range, as web servers have them."""

    protocol_version = "HTTP/1.1"
    root: Path

    def do_GET(self) -> None:
        path = self.root / self.path.lstrip("/")
        if not path.is_file():
            self.send_response_only(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content, said = path.read_bytes(), self.headers.get("Range")
        low, high = 0, len(content)
        if said:
            first, _, last = said.removeprefix("bytes=").partition("-")
            low, high = int(first), min(int(last) + 1, high)
        self.send_response_only(206 if said else 200)
        if said:
            self.send_header("Content-Range", f"bytes {low}-{high - 1}/{len(content)}")
        self.send_header("Content-Length", str(high - low))
        self.send_header("Last-Modified", "Mon, 16 Nov 2026 00:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[low:high])

    do_HEAD = do_GET  # noqa: N815 - as above

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def web(local: Path) -> Iterator[str]:
    """The folder, as a web server has it."""
    with ExitStack() as stack:
        handler = type("Handler", (_Files,), {"root": local})
        listener = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler))
        Thread(target=listener.serve_forever, args=(0.05,), daemon=True).start()
        stack.callback(listener.shutdown)
        yield f"http://127.0.0.1:{listener.server_address[1]}"


def test_files_and_arrays_are_read_from_the_web(web: str, local: Path) -> None:
    """One file, or a Zarr array, whose chunks are known by name; nothing is written there."""
    dask_io.split(local / "whole.npy", local / "x.zarr", chunks=(7, 6), codec="zstd:1")
    assert np.array_equal(read(f"{web}/whole.npy"), ARRAY)
    assert np.array_equal(read(f"{web}/x.zarr"), ARRAY)
    dask_io.resplit(f"{web}/x.zarr", local / "out", chunks=(30, 5), verify=True)
    assert np.array_equal(read(local / "out"), ARRAY)
    with pytest.raises(UsageError, match="is read-only"):
        dask_io.resplit(local / "whole.npy", f"{web}/y.zarr", chunks=(7, 6))
    with pytest.raises(StorageError, match="no such file"):
        dask_io.open(f"{web}/nothing")
    with pytest.raises(StorageError, match="cannot be listed over HTTP"):
        dask_io.open(f"{web}/b_{{0}}_{{1}}.npy")


def test_objects_are_written_in_parts(server: Server, local: Path) -> None:
    """Parts join one target on a real server; a missing one is named, and none is lost."""
    place = f"s3://{server.bucket}/{uuid4()}"
    options: dict[str, Any] = {"chunks": (10, 5), "memory": "1MiB"}
    source, target = local / "whole.npy", f"{place}/parts.zarr"
    dask_io.resplit(source, target, part=(1, 3), **options)
    dask_io.resplit(source, target, part=(3, 3), **options)
    with pytest.raises(DataError, match="part 2"):
        dask_io.finish(target)

    dask_io.resplit(source, target, part=(2, 3), **options)
    dask_io.resplit(source, target, part=(3, 3), **options)
    dask_io.finish(target)

    assert np.array_equal(read(target), ARRAY)
    assert dask_io.verify(target).equal
