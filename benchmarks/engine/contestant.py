"""The engine, the floor and other programs, each timed in its own process.

The arguments of the process are a name, and the parameters as JSON. It prints its CPU seconds when
it is ready, starts when it receives a line, and ends with a line of JSON.
"""

from __future__ import annotations

import heapq
import json
import mmap
import os
import random
import sys
import time
from contextlib import closing
from functools import cache, partial
from itertools import accumulate, product
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.engine.disks import BufferedDisk, SlowDisk
from dask_io import api
from dask_io.engine.machine import ResidentMeter
from dask_io.planning import plan_to_json
from dask_io.report.jsonable import run_to_json
from dask_io.storage.local import system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

_ALIGNMENT = 4096
# Files up to this size are moved whole, longer ones in pieces of it.
_PIECE = 16 * 2**20
_O_DIRECT = getattr(os, "O_DIRECT", 0)


def resplit(
    source: str,
    target: str,
    *,
    buffered: bool = False,
    slow_disk: tuple[float, float] | None = None,
    **options: Any,
) -> Callable[[], dict[str, Any]]:
    """Prepare to resplit. The memory after `dask-io info` is the baseline.

    The disk can be slow, given by its seconds per seek and bytes per second.
    """
    api.info(source)
    if buffered:
        system.calls = BufferedDisk()
    if slow_disk:
        system.calls = SlowDisk(*slow_disk)
    return _run(partial(api.plan, source, target, **options))


def resplit_group(source: str, target: str, **options: Any) -> Callable[[], dict[str, Any]]:
    """Prepare to resplit all arrays of a group."""
    api.info_group(source)
    return _run(partial(api.plan, source, target, **options))


def extract(source: str, target: str, **options: Any) -> Callable[[], dict[str, Any]]:
    """Prepare to extract regions."""
    api.info(source)
    return _run(partial(api.plan_extract, source, target, **options))


def _run(plan: Callable[[], Any]) -> Callable[[], dict[str, Any]]:
    """Return how to plan and run a job, with what it reports and the memory that it took."""

    def run() -> dict[str, Any]:
        meter = ResidentMeter()
        job = plan()
        found = run_to_json(job.plan, job.run())
        return {**found, "resident_growth": meter.growth() or 0, "workers": job.workers}

    return run


def plan_shape(
    shape: list[int], dtype: str, before: int, after: int, **options: Any
) -> Callable[[], dict[str, Any]]:
    """Prepare to plan for an array that does not exist."""

    def run() -> dict[str, Any]:
        meter = ResidentMeter()
        plan = plan_to_json(api.plan_shape(shape, dtype, before, after, **options))
        return {"plan": plan, "resident_growth": meter.growth() or 0}

    return run


def resplit_by_processes(
    source: str, target: str, *, processes: int, **options: Any
) -> Callable[[], dict[str, Any]]:
    """Prepare to resplit with several processes."""
    api.info(source)

    def run() -> dict[str, Any]:
        api.resplit(source, target, processes=processes, **options)
        return {}

    return run


def h5py_loop(
    source: str, target: str, *, chunks: int, **filters: Any
) -> Callable[[], dict[str, Any]]:
    """Prepare to copy a dataset slab by slab with h5py, as its users do."""
    import h5py  # type: ignore[import-untyped]  # noqa: PLC0415 - not for other contestants

    def run() -> dict[str, Any]:
        with h5py.File(source) as read, h5py.File(target, "w") as written:
            array = read["data"]
            shape = array.shape
            made = written.create_dataset(
                "data", shape, array.dtype, chunks=(chunks,) * len(shape), **filters
            )
            for start in range(0, shape[0], chunks):
                made[start : start + chunks] = array[start : start + chunks]
        return {}

    return run


def nibabel_save(source: str, target: str) -> Callable[[], dict[str, Any]]:
    """Prepare to load a volume with nibabel, and to save it with its default level, 1."""
    import nibabel  # noqa: PLC0415 - as above

    def run() -> dict[str, Any]:
        nibabel.save(nibabel.load(source), target)
        return {}

    return run


class _Piece(NamedTuple):
    """Bytes of one file that are read or written at once, in the order of `turn`."""

    turn: int
    is_write: bool
    path: str
    offset: int
    n_bytes: int
    file_bytes: int


class _Floor:
    """Reads all bytes of some files, and writes the same number of other bytes.

    This is done with direct I/O, if wanted and possible. Each thread has one buffer for both. A
    piece is written only after the reads of as many bytes have started.
    """

    def __init__(self, workers: int, *, direct: bool) -> None:
        self._buffers = [mmap.mmap(-1, _PIECE) for _ in range(workers)]
        for buffer in self._buffers:
            # A device may be faster with zeros.
            buffer.write(random.randbytes(2**20) * (_PIECE // 2**20))
        self._lock = Lock()
        self._errors: list[BaseException] = []
        self.is_direct = direct and bool(_O_DIRECT)

    def run(self, reads: list[tuple[str, int]], writes: list[tuple[str, int]]) -> None:
        """Move the files, given as paths and sizes."""
        for path, n_bytes in writes:
            if n_bytes > _PIECE:
                self._reserve(path, n_bytes)
        pieces = heapq.merge(_pieces(reads, is_write=False), _pieces(writes, is_write=True))
        threads = [Thread(target=self._work, args=(pieces, b)) for b in self._buffers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _work(self, pieces: Iterator[_Piece], buffer: mmap.mmap) -> None:
        view = memoryview(buffer)
        try:
            while not self._errors:
                with self._lock:
                    piece = next(pieces, None)
                if piece is None:
                    return
                (self._write if piece.is_write else self._read)(piece, view)
        except OSError as error:
            self._errors.append(error)

    def _open(self, path: str, flags: int) -> int:
        if self.is_direct:
            try:
                return os.open(path, flags | _O_DIRECT, 0o666)
            except OSError:
                # The filesystem does not support it. Any other error is raised below.
                self.is_direct = False
        return os.open(path, flags, 0o666)

    def _read(self, piece: _Piece, buffer: memoryview) -> None:
        with closing(_Descriptor(self._open(piece.path, os.O_RDONLY))) as file:
            n_done, n_aligned = 0, _round_up(piece.n_bytes)
            while n_done < piece.n_bytes:
                part = buffer[n_done:n_aligned]
                n_read = os.preadv(file.fd, [part], piece.offset + n_done)
                if n_read == 0:
                    raise OSError(f"{piece.path} was truncated")
                n_done += n_read

    def _write(self, piece: _Piece, buffer: memoryview) -> None:
        with closing(_Descriptor(self._open(piece.path, os.O_WRONLY | os.O_CREAT))) as file:
            if piece.n_bytes == piece.file_bytes:
                _allocate(file.fd, piece.file_bytes)
            n_done, n_aligned = 0, _round_up(piece.n_bytes)
            while n_done < n_aligned:
                n_done += os.pwrite(file.fd, buffer[n_done:n_aligned], piece.offset + n_done)
            if piece.offset + piece.n_bytes == piece.file_bytes != piece.offset + n_aligned:
                os.ftruncate(file.fd, piece.file_bytes)

    def _reserve(self, path: str, n_bytes: int) -> None:
        with closing(_Descriptor(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))) as file:
            _allocate(file.fd, n_bytes)


class _Descriptor(NamedTuple):
    """An open file."""

    fd: int

    def close(self) -> None:
        os.close(self.fd)


def _round_up(n_bytes: int) -> int:
    return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT


def _allocate(fd: int, n_bytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, n_bytes)
    else:
        os.ftruncate(fd, n_bytes)


def _pieces(files: Iterable[tuple[str, int]], *, is_write: bool) -> Iterator[_Piece]:
    """Yield the pieces of files, ordered by first byte for reads, and by last byte for writes."""
    files = list(files)
    starts = accumulate((n_bytes for _, n_bytes in files), initial=0)
    for (path, file_bytes), start in zip(files, starts, strict=False):
        for offset in range(0, file_bytes, _PIECE):
            n_bytes = min(_PIECE, file_bytes - offset)
            turn = start + offset + n_bytes * is_write
            yield _Piece(turn, is_write, path, offset, n_bytes, file_bytes)


def floor(
    source: str, target: str, *, n_bytes: int, file_bytes: int, workers: int, direct: bool = True
) -> Callable[[], dict[str, Any]]:
    """Prepare to read the source, and to write `n_bytes` to files of another size."""
    engine = _Floor(workers, direct=direct)

    def run() -> dict[str, Any]:
        place, folder = Path(source), Path(target)
        files = sorted(filter(Path.is_file, place.rglob("*"))) if place.is_dir() else [place]
        reads = [(str(file), file.stat().st_size) for file in files]
        folder.mkdir()
        writes = [
            (str(folder / str(start)), min(file_bytes, n_bytes - start))
            for start in range(0, n_bytes, file_bytes)
        ]
        engine.run(reads, writes)
        return {"direct": engine.is_direct}

    return run


def tensorstore(
    source: str, target: str, *, chunks: int, memory: int
) -> Callable[[], dict[str, Any]]:
    """Prepare to copy one Zarr array to another, layer by layer, with TensorStore."""
    import tensorstore as ts  # noqa: PLC0415 - only this contestant needs it

    def run() -> dict[str, Any]:
        context = ts.Context({"cache_pool": {"total_bytes_limit": memory // 2}})
        found = ts.open(_zarr(source), open=True, context=context).result()
        document = json.loads(Path(source, "zarr.json").read_text())
        document["chunk_grid"]["configuration"]["chunk_shape"] = [chunks] * found.ndim
        names = ("shape", "data_type", "chunk_grid", "codecs")
        metadata = {name: document[name] for name in names}
        made = ts.open({**_zarr(target), "metadata": metadata}, create=True).result()
        for start in range(0, found.shape[0], chunks):
            layer = slice(start, min(start + chunks, found.shape[0]))
            made[layer].write(found[layer]).result()
        return {}

    return run


def _zarr(place: str) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": place}}


class NpyBlocks:
    """An array in `.npy` files, named by their indices, that is sliced through memory maps."""

    def __init__(self, folder: Path | str, shape: Sequence[int], chunks: Sequence[int]) -> None:
        self.shape, self._chunks = tuple(shape), tuple(chunks)
        # Each file is mapped once, which takes little memory.
        self._mapped = cache(lambda index: np.load(_npy(folder, index), mmap_mode="r"))

    def __getitem__(self, box: tuple[slice, ...]) -> NDArray[Any]:
        """Return a copy of a box."""
        result: NDArray[Any] | None = None
        cut = zip(box, self._chunks, strict=True)
        for index in product(*(range(s.start // n, -(-s.stop // n)) for s, n in cut)):
            found = self._mapped(index)
            if result is None:
                result = np.empty([s.stop - s.start for s in box], found.dtype)
            into, taken = [], []
            for s, i, chunk, length in zip(box, index, self._chunks, found.shape, strict=True):
                corner = i * chunk
                low, high = max(s.start, corner), min(s.stop, corner + length)
                into.append(slice(low - s.start, high - s.start))
                taken.append(slice(low - corner, high - corner))
            result[tuple(into)] = found[tuple(taken)]
        assert result is not None, "a box is not empty"
        return result


def memmap(
    source: str, target: str, *, shape: list[int], before: list[int], after: list[int]
) -> Callable[[], dict[str, Any]]:
    """Prepare to assemble `.npy` blocks one after another from memory maps of other blocks."""
    found = NpyBlocks(source, shape, before)

    def run() -> dict[str, Any]:
        Path(target).mkdir()
        cut = list(zip(shape, after, strict=True))
        for index in product(*(range(-(-n // b)) for n, b in cut)):
            box = tuple(
                slice(b * i, min(b * (i + 1), n)) for i, (n, b) in zip(index, cut, strict=True)
            )
            np.save(_npy(target, index), found[box])
        return {}

    return run


def _npy(folder: Path | str, index: tuple[int, ...]) -> Path:
    return Path(folder, f"b_{'_'.join(map(str, index))}.npy")


_CONTESTANTS: dict[str, Callable[..., Callable[[], dict[str, Any]]]] = {
    "resplit": resplit,
    "resplit_group": resplit_group,
    "extract": extract,
    "plan_shape": plan_shape,
    "processes": resplit_by_processes,
    "floor": floor,
    "h5py": h5py_loop,
    "nibabel": nibabel_save,
    "tensorstore": tensorstore,
    "memmap": memmap,
}


def main() -> None:
    """Prepare, wait, run, report."""
    kind, arguments = sys.argv[1:]
    run = _CONTESTANTS[kind](**json.loads(arguments))
    print(time.process_time(), flush=True)  # noqa: T201  # to the process that waits for it
    sys.stdin.readline()
    print(json.dumps(run()), flush=True)  # noqa: T201  # as above
    # Skip the shutdown of the interpreter, as the command `dask-io` does.
    os._exit(0)


if __name__ == "__main__":
    main()
