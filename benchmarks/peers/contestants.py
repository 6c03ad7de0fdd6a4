"""What users would run instead, each as they would write it, within a memory budget if it has one.

The arguments of the process are a name, and the parameters as JSON. It prints its CPU seconds when
it is ready, starts when it receives a line, prints a line of JSON when it is done, and ends with
its stdin. Loops move boxes of whole target blocks of at most half of the budget.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Run = Callable[[], dict[str, Any] | None]
    Job = dict[str, Any]

CORES = os.cpu_count() or 1
# A worker of Dask has this much before it does anything.
_WORKER_BYTES = 256 * 2**20


def create_zarr(path: Any, job: Job, chunks: Any, *, zarr_format: Literal[2, 3] = 3) -> Any:
    """Create the Zarr array of a job with zarr-python 3."""
    import zarr  # noqa: PLC0415 - not for every contestant
    from zarr import codecs  # noqa: PLC0415

    made: Any = None
    if job["codec"] == "zstd":
        made = codecs.ZstdCodec(level=3)
    elif job["codec"] == "blosc":
        typesize = np.dtype(job["dtype"]).itemsize
        made = codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=typesize)
    if made is not None and zarr_format == 2:
        import numcodecs  # type: ignore[import-untyped]  # noqa: PLC0415

        made = {"zstd": numcodecs.Zstd(3), "blosc": numcodecs.Blosc("lz4", 5, 1)}[job["codec"]]
    return zarr.create_array(
        str(path),
        shape=tuple(job["shape"]),
        chunks=tuple(chunks),
        shards=job["shards"] and tuple(job["shards"]),
        dtype=job["dtype"],
        compressors=made,
        filters=None,
        # Chunks of zeros are stored, too, by all contestants.
        config={"write_empty_chunks": True},
        zarr_format=zarr_format,
    )


def create_hdf5(path: Any, job: Job, chunks: Any) -> Any:
    """Create the HDF5 dataset of a job, in a file of its own."""
    import h5py  # type: ignore[import-untyped]  # noqa: PLC0415

    filters = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
    return h5py.File(path, "w").create_dataset(
        "data",
        tuple(job["shape"]),
        job["dtype"],
        chunks=tuple(chunks),
        **(filters if job["codec"] == "gzip" else {}),
    )


def _boxes(job: Job) -> Iterator[Any]:
    from benchmarks.peers.workloads import regions  # noqa: PLC0415 - imports Dask IO

    n_elements = job["budget"] // 2 // np.dtype(job["dtype"]).itemsize
    return regions(job["shape"], job["shards"] or job["after"], n_elements)


def ours(job: Job) -> Run:
    """Dask IO."""
    from dask_io import api  # noqa: PLC0415

    api.info(job["source"])
    options: dict[str, Any] = {"shards": tuple(job["shards"])} if job["shards"] else {}
    if job["container"] != job["target_container"]:
        options["codec"] = job["codec"]

    def run() -> dict[str, Any]:
        plan = api.plan(
            job["source"],
            job["target"],
            chunks=tuple(job["after"]),
            memory=job["budget"],
            **options,
        )
        done = plan.run()
        return {"predicted": plan.plan.peak_bytes, "held": done.held}

    return run


def tensorstore(job: Job) -> Run:
    """A loop over boxes with TensorStore, with the other half of the budget as its cache."""
    import tensorstore as ts  # noqa: PLC0415

    def run() -> None:
        create_zarr(job["target"], job, job["after"])
        context = ts.Context({"cache_pool": {"total_bytes_limit": job["budget"] // 2}})
        before, after = (
            ts.open(
                {"driver": "zarr3", "kvstore": {"driver": "file", "path": job[place]}},
                open=True,
                context=context,
            ).result()
            for place in ("source", "target")
        )
        for box in _boxes(job):
            after[box].write(before[box]).result()

    return run


def zarr_python(job: Job) -> Run:
    """A loop over boxes with zarr-python."""
    import zarr  # noqa: PLC0415

    def run() -> None:
        before = zarr.open_array(job["source"], mode="r")
        after = create_zarr(job["target"], job, job["after"])
        for box in _boxes(job):
            after[box] = before[box]

    return run


def zarrs(job: Job) -> Run:
    """The same loop, with the codecs of zarrs."""
    import zarr  # noqa: PLC0415
    import zarrs  # noqa: F401, PLC0415 - fails early if it is missing

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    return zarr_python(job)


def memmap(job: Job) -> Run:
    """A loop over target blocks, each assembled from memory maps of the source blocks."""
    from benchmarks.engine import contestant  # noqa: PLC0415

    return contestant.memmap(
        job["source"], job["target"], shape=job["shape"], before=job["before"], after=job["after"]
    )


def rechunkit(job: Job) -> Run:
    """The generator of rechunkit, whose blocks are stored as they come."""
    import rechunkit  # noqa: PLC0415

    from benchmarks.peers.workloads import open_array  # noqa: PLC0415

    def run() -> None:
        before = open_array(Path(job["source"]), job["container"], job, job["before"])
        store = _store(job)
        blocks = rechunkit.rechunker(
            before.__getitem__,
            tuple(job["shape"]),
            np.dtype(job["dtype"]),
            tuple(job["before"]),
            tuple(job["after"]),
            job["budget"],
        )
        for box, block in blocks:
            store(box, block)

    return run


def _store(job: Job) -> Callable[[Any, Any], None]:
    """Return how to store a target block."""
    if job["target_container"] == "npy":
        folder = Path(job["target"])
        folder.mkdir()

        def save(box: Any, block: Any) -> None:
            index = (s.start // n for s, n in zip(box, job["after"], strict=True))
            np.save(folder / f"b_{'_'.join(map(str, index))}.npy", block)

        return save
    create = create_hdf5 if job["target_container"] == "hdf5" else create_zarr
    made = create(job["target"], job, job["after"])
    store: Callable[[Any, Any], None] = made.__setitem__
    return store


def dask(job: Job) -> Run:
    """Rechunk by tasks on threads; it has no memory limit."""
    import dask  # noqa: PLC0415
    import dask.array as da  # noqa: PLC0415

    def run() -> None:
        with dask.config.set(scheduler="threads", num_workers=CORES):
            if job["container"] == "npy":
                _dask_blocks(job, da)
                return
            if job["container"] == "nifti":
                import nibabel  # noqa: PLC0415

                array = da.from_array(nibabel.load(job["source"]).dataobj, chunks="auto")
            else:
                array = da.from_zarr(job["source"])
            # Each task writes what no other one writes: a chunk or a shard.
            array = array.rechunk(tuple(job["shards"] or job["after"]))
            array.store(create_zarr(job["target"], job, job["after"]), lock=False)

    return run


def _dask_blocks(job: Job, da: Any) -> None:
    source, target = Path(job["source"]), Path(job["target"])
    target.mkdir()
    shape, dtype = tuple(job["shape"]), np.dtype(job["dtype"])

    def name(index: Any) -> str:
        return f"b_{'_'.join(map(str, index))}.npy"

    def load(block_id: Any) -> Any:
        return np.load(source / name(block_id))

    def save(block: Any, block_id: Any) -> Any:
        np.save(target / name(block_id), block)
        return np.zeros((1, 1, 1), "u1")

    chunks = da.core.normalize_chunks(tuple(job["before"]), shape)
    array = da.map_blocks(load, chunks=chunks, dtype=dtype, meta=np.empty((0, 0, 0), dtype))
    array = array.rechunk(tuple(job["after"]))
    array.map_blocks(save, dtype="u1", chunks=(1, 1, 1), meta=np.empty((0, 0, 0), "u1")).compute()


def p2p(job: Job) -> Run:
    """Dask's rechunk by p2p on a local cluster, whose workers share the budget."""
    import dask.array as da  # noqa: PLC0415
    from distributed import Client, LocalCluster  # noqa: PLC0415

    cluster = LocalCluster(
        n_workers=CORES,
        threads_per_worker=1,
        memory_limit=job["budget"] // CORES + _WORKER_BYTES,
        local_directory=job["temporary"],
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
    )
    client = Client(cluster)
    client.run(_import_zarr)

    def run() -> None:
        array = da.from_zarr(job["source"]).rechunk(tuple(job["after"]), method="p2p")
        array.store(create_zarr(job["target"], job, job["after"]), lock=False)

    return run


def _import_zarr() -> None:
    import dask.array  # noqa: F401, PLC0415
    import zarr  # noqa: F401, PLC0415


def cubed(job: Job) -> Run:
    """Rechunk by cubed on threads, which share the budget."""
    import cubed  # noqa: PLC0415
    from cubed.runtime.executors.local import ThreadsExecutor  # noqa: PLC0415

    def run() -> None:
        codec = None if job["codec"] == "none" else "default"
        spec = cubed.Spec(
            job["temporary"], allowed_mem=job["budget"] // CORES, zarr_compressor=codec
        )
        array = cubed.from_zarr(job["source"], spec=spec).rechunk(tuple(job["after"]))
        cubed.to_zarr(array, job["target"], executor=ThreadsExecutor(max_workers=CORES))

    return run


def rechunker(job: Job) -> Run:
    """Rechunk by rechunker, which needs Zarr 2, on as many threads of Dask as there are cores."""
    import dask  # noqa: PLC0415
    import numcodecs  # noqa: PLC0415
    import rechunker  # noqa: PLC0415
    import zarr  # noqa: PLC0415

    codec = {
        "none": None,
        "zstd": numcodecs.Zstd(3),
        "blosc": numcodecs.Blosc("lz4", 5, 1),
    }[job["codec"]]

    def run() -> None:
        # The limit holds for one worker.
        plan = rechunker.rechunk(
            zarr.open(job["source2"], mode="r"),
            tuple(job["after"]),
            job["budget"] // CORES,
            job["target"],
            temp_store=str(Path(job["temporary"]) / "between.zarr"),
            target_options={"compressor": codec},
        )
        with dask.config.set(num_workers=CORES):
            plan.execute()

    return run


def h5py(job: Job) -> Run:
    """A loop over boxes with h5py, with a quarter of the budget as chunk cache."""
    import h5py  # noqa: PLC0415

    def run() -> None:
        with h5py.File(job["source"], rdcc_nbytes=job["budget"] // 4) as file:
            made = create_hdf5(job["target"], job, job["after"])
            for box in _boxes(job):
                made[box] = file["data"][box]
            made.file.close()

    return run


def h5repack(job: Job) -> Run:
    """The command of HDF5; it has no memory limit."""
    chunks = "x".join(map(str, job["after"]))
    return _command(["h5repack", "-l", f"/data:CHUNK={chunks}", job["source"], job["target"]])


def nccopy(job: Job) -> Run:
    """The command of NetCDF, with half of the budget as buffer, and a quarter as chunk cache."""
    chunks = ",".join(map(str, job["after"]))
    sizes = ["-m", str(job["budget"] // 2), "-h", str(job["budget"] // 4)]
    return _command(["nccopy", *sizes, "-c", f"data:{chunks}", job["source"], job["target"]])


def _command(words: list[str]) -> Run:
    def run() -> None:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])

    return run


def nibabel(job: Job) -> Run:
    """A loop over slabs along the slowest axis, read with nibabel and written with zarr-python."""
    import nibabel  # noqa: PLC0415
    import zarr  # noqa: F401, PLC0415 - takes time

    def run() -> None:
        before = nibabel.load(job["source"]).dataobj
        after = create_zarr(job["target"], job, job["after"])
        length, step = job["shape"][2], job["after"][2]
        plane = job["shape"][0] * job["shape"][1] * np.dtype(job["dtype"]).itemsize
        thickness = max(1, job["budget"] // 2 // (plane * step)) * step
        for start in range(0, length, thickness):
            slab = (slice(None), slice(None), slice(start, min(start + thickness, length)))
            after[slab] = before[slab]

    return run


CONTESTANTS: dict[str, Callable[[Job], Run]] = {
    "ours": ours,
    "tensorstore": tensorstore,
    "zarr-python": zarr_python,
    "zarrs": zarrs,
    "memmap": memmap,
    "rechunkit": rechunkit,
    "dask": dask,
    "p2p": p2p,
    "cubed": cubed,
    "rechunker": rechunker,
    "h5py": h5py,
    "h5repack": h5repack,
    "nccopy": nccopy,
    "nibabel": nibabel,
}


def main() -> None:
    """Prepare, wait, run, report."""
    kind, arguments = sys.argv[1:]
    run = CONTESTANTS[kind](json.loads(arguments))
    print(time.process_time(), flush=True)  # noqa: T201  # to the process that waits for it
    sys.stdin.readline()
    print(json.dumps(run() or {}), flush=True)  # noqa: T201  # as above


if __name__ == "__main__":
    main()
