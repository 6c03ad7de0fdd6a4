"""Find out what the workers of a cluster offer, before anything runs on them."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dask_io.cluster.probe import Probe, count_slots, per_slot
from dask_io.errors import StorageError, UsageError, list_names
from dask_io.storage.location import is_url
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Resources = Mapping[str, float]

_WAIT_SECONDS = 60.0
_FEW = 5


@dataclass(frozen=True, slots=True)
class Worker:
    """What one worker offers: memory, threads and resources."""

    address: str
    host: str
    memory_limit: int
    threads: int
    resources: Mapping[str, float]
    probe: Probe

    def n_slots(self, wanted: Resources) -> int:
        """Return the number of parts that run on it at once."""
        return count_slots(self.threads, self.resources, wanted)

    def memory_per_part(self, wanted: Resources, n_on_host: int = 1) -> int:
        """Return the bytes that each of its parts may use; 0 if nothing is left.

        Without a memory limit it is half of the memory that its machine has left, divided among
        the workers of the machine.
        """
        n_slots = self.n_slots(wanted)
        if not self.memory_limit:
            return self.probe.available // 2 // n_on_host // n_slots
        return per_slot(self.memory_limit, self.probe.share, self.probe.resident, n_slots)


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a cluster that are ready for a run.

    `resources` are the amounts that each part takes of a worker's resources.
    """

    scheduler: str
    workers: tuple[Worker, ...]
    resources: Mapping[str, float] = field(default_factory=dict)

    @property
    def n_slots(self) -> int:
        """The number of parts that run at once."""
        return sum(each.n_slots(self.resources) for each in self.workers)

    @property
    def smallest(self) -> Worker:
        """The worker whose parts have the least memory."""
        return min(self.workers, key=self._memory_of)

    @property
    def memory_per_part(self) -> int:
        """Bytes that a part may use, whichever worker runs it."""
        return self._memory_of(self.smallest)

    def _memory_of(self, worker: Worker) -> int:
        n_on_host = sum(other.host == worker.host for other in self.workers)
        return worker.memory_per_part(self.resources, n_on_host)

    def choose_memory(self, requested: int | None) -> int:
        """Return the memory budget of each part.

        Parameters
        ----------
        requested
            The budget that the user gives; by default as much as the smallest worker allows.

        Raises
        ------
        UsageError
            If the workers do not have that much memory.
        """
        possible = self.memory_per_part
        if possible and (requested is None or requested <= possible):
            return possible if requested is None else requested
        worker = self.smallest
        n_slots, limit = worker.n_slots(self.resources), worker.memory_limit
        wanted = "memory" if requested is None else f"memory of {format_bytes(requested)}"
        raise UsageError(
            f"each part needs {wanted}, but worker {worker.address} has {format_bytes(possible)} "
            f"per part: {worker.probe.share:.0%} of its limit of {format_bytes(limit)}, less "
            f"{format_bytes(worker.probe.resident)} that its process uses, for {n_slots} at once; "
            "start workers with a larger --memory-limit or fewer --nthreads"
            + ("" if requested is None else ", or lower the memory")
        )


def find_workers(
    client: Any,
    source: Sequence[str],
    target: Sequence[str],
    *,
    resources: Resources | None = None,
    wait_seconds: float = _WAIT_SECONDS,
) -> Workers:
    """Check that the workers of a cluster can run parts, and return what they offer.

    Every worker runs a short function that reports its version of Dask IO and whether it sees the
    source and the target.

    Parameters
    ----------
    client
        The client of the cluster.
    source, target
        Paths or URLs that workers read and write.
    resources
        Amounts that each part takes of a worker's resources, such as ``{"disk": 1}``.
    wait_seconds
        How long to wait for the first worker.

    Raises
    ------
    StorageError
        If there are no workers, or they do not see the source or the target.
    UsageError
        If no worker has the resources, or the versions differ.
    """
    wanted = dict(resources or {})
    scheduler, deadline = client.scheduler.address, monotonic() + wait_seconds
    anchors = [anchor for place in source if (anchor := find_anchor(place))]
    known: dict[str, Any] = {}
    probes: dict[str, Probe] = {}
    with _marker_files(target) as markers:
        # All workers may leave while they are asked.
        while not probes:
            known = _await_workers(client, deadline, wait_seconds)
            probes = _probe_all(client, list(known), [*anchors, *markers], markers)
            if not probes and monotonic() >= deadline:
                raise StorageError(scheduler, "no worker of the cluster answers")
    workers = []
    for address, probe in probes.items():
        about = known[address]
        workers.append(
            Worker(
                address=address,
                host=about["host"],
                memory_limit=about["memory_limit"] or 0,
                threads=about["nthreads"],
                resources=about["resources"],
                probe=probe,
            )
        )
    able = tuple(each for each in workers if each.n_slots(wanted) > 0)
    if not able:
        raise _without_resources(scheduler, workers, wanted)
    _check_paths(able)
    return Workers(scheduler, able, wanted)


def _await_workers(client: Any, deadline: float, wait_seconds: float) -> dict[str, Any]:
    """Return what the scheduler knows about its workers, by address; wait for the first one."""
    waiting = None
    try:
        while True:
            known: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
            if known:
                return known
            if monotonic() >= deadline:
                break
            if waiting is None:
                # A cluster that scales by its load starts workers only if there are tasks.
                waiting = client.submit(os.getpid, key=f"dask-io-wait-{uuid4()}", pure=False)
            sleep(0.1)
    finally:
        if waiting is not None:
            client.cancel([waiting])
    raise StorageError(
        client.scheduler.address,
        f"the cluster has no workers after {wait_seconds:.0f} s",
        f"start some with: dask worker {client.scheduler.address}",
    )


def _probe_all(
    client: Any, addresses: list[str], places: list[str], writable: list[str]
) -> dict[str, Probe]:
    """Return what each worker reports; leave out workers that have left meanwhile."""

    # A nested function is sent by value, so that it also runs where Dask IO is not installed.
    async def probe(dask_worker: Any, places: list[str], writable: list[str]) -> Any:
        try:
            from dask_io.cluster.probe import probe_worker  # noqa: PLC0415  # imported on the worker
        except ImportError as error:
            return str(error)
        return await probe_worker(dask_worker, places, writable)

    found = client.run(
        probe, places=places, writable=writable, workers=addresses, on_error="return"
    )
    here, probes = version("dask-io"), {}
    for address, answer in found.items():
        if isinstance(answer, str):
            raise UsageError(
                f"worker {address} cannot import Dask IO ({answer}); install dask-io {here} there"
            )
        if isinstance(answer, OSError):
            continue
        if isinstance(answer, BaseException):
            raise StorageError(
                address, f"the worker failed: {answer}", "look at its log"
            ) from answer
        if answer.version != here:
            raise UsageError(
                f"worker {address} has dask-io {answer.version}, but this is "
                f"{here}; install the same version on both"
            )
        probes[address] = answer
    return probes


def find_anchor(place: str) -> str:
    """Return the existing path that a place is in or is; empty for an object store.

    A place may be a pattern of file names, or an array in a file.

    Examples
    --------
    >>> find_anchor("/b_{0}_{1}.npy"), find_anchor("/::/day/1"), find_anchor("s3://bucket/scan")
    ('/', '/', '')
    """
    if is_url(place):
        return ""
    path = Path(place.partition("::")[0]).absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return str(path)


@contextmanager
def _marker_files(targets: Sequence[str]) -> Iterator[list[str]]:
    """Create an empty file next to each local target, which workers on one filesystem see."""
    markers: list[Path] = []
    try:
        for target in targets:
            folder = find_anchor(str(Path(target).parent)) if not is_url(target) else ""
            if not folder:
                continue
            marker = Path(folder) / f".dask-io-{uuid4().hex}.seen"
            with suppress(OSError):  # the run reports that it cannot write here
                marker.touch(exist_ok=False)
                markers.append(marker)
        yield [str(each) for each in markers]
    finally:
        for marker in markers:
            with suppress(OSError):
                marker.unlink()


def _check_paths(workers: Sequence[Worker]) -> None:
    """Refuse workers on other filesystems."""
    blind = [each for each in workers if each.probe.missing]
    if not blind:
        return
    place, _, problem = blind[0].probe.missing[0].rpartition(": ")
    is_marker = place.endswith(".seen")
    path = str(Path(place).parent) if is_marker else place
    names = list_names((each.address for each in blind), _FEW)
    raise StorageError(
        path,
        f"{len(blind)} of {len(workers)} workers cannot {'write' if is_marker else 'read'} here "
        f"({problem}): {names}",
        "put source and target on a filesystem that all workers share, or in an object store",
    )


def _without_resources(scheduler: str, workers: Sequence[Worker], wanted: Resources) -> UsageError:
    """Tasks with such resources would wait forever."""
    offered = {str(dict(each.resources)) for each in workers}
    return UsageError(
        f"each part needs the resources {dict(wanted)}, but the workers of {scheduler} offer "
        f"{list_names(sorted(offered), _FEW)}; start them with --resources, or ask for less"
    )
