"""Predict the time that a plan takes on a storage device.

The model ranks plans and tells minutes from days; it does not promise exact times. Detecting and
measuring devices is the engine's task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.planning.series import Series
    from dask_io.planning.spill import AnyPlan
    from dask_io.planning.together import Sweeps


@dataclass(frozen=True, slots=True)
class Device:
    """The timing of a storage device.

    Attributes
    ----------
    name
        Name of the device.
    seek_seconds
        Seconds to move from one run to the next.
    read_bandwidth, write_bandwidth
        Bytes per second within a run.
    request_latency
        Seconds until a request is answered: one request for each run and for each opening.
    concurrency
        Number of concurrent seeks and requests.
    """

    name: str
    seek_seconds: float
    read_bandwidth: float
    write_bandwidth: float
    request_latency: float
    concurrency: int

    def __post_init__(self) -> None:
        waits = (self.seek_seconds, self.request_latency)
        rates = (self.read_bandwidth, self.write_bandwidth, self.concurrency)
        if min(waits) < 0 or min(rates) <= 0:
            raise ValueError(f"times must not be negative, rates and concurrency positive: {self}")

    @property
    def seconds_per_seek(self) -> float:
        """Seconds that one seek adds to a plan, including the engine's own work."""
        return (self.seek_seconds + self.request_latency) / self.concurrency + SECONDS_PER_RUN

    def limited_to(self, rate: float, *, read: float = 1, written: float = 1) -> Device:
        """Return the device for a run that moves at most `rate` stored bytes per second.

        `read` and `written` are the stored bytes per decoded byte, which codecs make fewer.

        Examples
        --------
        >>> HDD.limited_to(10**6).read_bandwidth, HDD.limited_to(10**12) == HDD
        (1000000.0, True)
        >>> HDD.limited_to(10**6, read=0.25).read_bandwidth
        4000000.0
        """
        reads = min(self.read_bandwidth, rate / read if read else inf)
        writes = min(self.write_bandwidth, rate / written if written else inf)
        return replace(self, read_bandwidth=reads, write_bandwidth=writes)


# The engine's own work for a run, an opening and a copy, measured in memory. One thread at a time
# does this work, on any device. Without it, a million visits to a fast device would seem free.
# Creating a file takes up to four times as long as opening one, but all plans create the same ones.
SECONDS_PER_RUN, SECONDS_PER_OPENING, SECONDS_PER_PLACEMENT = 1e-5, 5e-5, 1e-5

# Rough figures of common devices. About eight concurrent requests saturate them. A disk with one
# arm serves requests one by one.
HDD = Device("hdd", 1e-2, 160e6, 160e6, 2e-5, 1)
SSD = Device("ssd", 1e-4, 500e6, 450e6, 2e-5, 8)
NVME = Device("nvme", 2e-5, 2.5e9, 1.5e9, 1e-5, 8)
# A gigabit network to a disk array; every opening is a request to the server.
NFS = Device("nfs", 1e-3, 110e6, 110e6, 1e-3, 8)
# On an object store a seek is just a request.
S3 = Device("s3", 0.0, 400e6, 200e6, 5e-2, 8)

DEVICES: Mapping[str, Device] = MappingProxyType(
    {device.name: device for device in (HDD, SSD, NVME, NFS, S3)}
)
"""The presets by name."""


def predict_seconds(plan: AnyPlan | Sweeps | Series, device: Device) -> float:
    """Predict the seconds that a plan takes with source and target on one device.

    ::

        (seeks × (seek_seconds + request_latency) + openings × request_latency) / concurrency
            + seeks × SECONDS_PER_RUN + openings × SECONDS_PER_OPENING
            + placements × SECONDS_PER_PLACEMENT
            + max(bytes read / read_bandwidth + bytes written / write_bandwidth, coding)

    The first line is the latency of the device. The next two lines are the engine's own work. The
    last line is the time to move the bytes, or to decode and encode them if this takes longer,
    because the engine does both at once.

    Read and write times are added although the engine overlaps them: source and target are
    usually on one device, which does one thing at a time. With two devices, every plan takes down
    to half of this time, so the ranking stays the same. For copies in memory, only the overhead of
    each copy counts, because all plans copy about the same number of bytes.

    Examples
    --------
    >>> from dask_io.planning import Problem, plan_naive
    >>> plan = plan_naive(Problem.regular((10**4, 10**4), (100, 10**4), (10**4, 100), budget=10**8))
    >>> [(device.name, round(predict_seconds(plan, device), 1)) for device in DEVICES.values()]
    [('hdd', 103.4), ('ssd', 1.3), ('nvme', 0.9), ('nfs', 6.3), ('s3', 127.7)]
    """
    seeks, openings = plan.seeks.total, plan.openings
    seeking = seeks * device.seconds_per_seek
    opening = openings * (device.request_latency / device.concurrency + SECONDS_PER_OPENING)
    placing = plan.n_placements * SECONDS_PER_PLACEMENT
    moving = plan.n_bytes_read / device.read_bandwidth
    moving += plan.n_bytes_written / device.write_bandwidth
    return seeking + opening + placing + max(moving, plan.coding_seconds)
