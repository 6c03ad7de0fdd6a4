"""What a storage device makes of a plan: seconds.

A model, not a promise: it is there to rank plans and to tell minutes from days. Measuring a
device, or reading what kind it is, is the engine's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.planning.series import Series
    from dask_io.planning.spill import AnyPlan
    from dask_io.planning.together import Sweeps


@dataclass(frozen=True, slots=True)
class Device:
    """Where blocks lie, as far as time is concerned.

    Attributes
    ----------
    name
        What it is called.
    seek_seconds
        Time from one run to the next, for each run touched.
    read_bandwidth, write_bandwidth
        Bytes per second once a run is under way.
    request_latency
        Time until a request is answered: one for each run, and one more for each opening.
    concurrency
        Seeks and requests under way at once.
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
            raise ValueError(f"times are at least 0, rates and concurrency above it: {self}")

    @property
    def seconds_a_seek(self) -> float:
        """What one seek adds to the time of a plan, the engine's own work included."""
        return (self.seek_seconds + self.request_latency) / self.concurrency + SECONDS_A_RUN


# What a run, an opening and a copy cost besides the device, as measured in memory: one thread at
# a time does this work, on any device. Without it a million visits to a fast one would seem free.
# To make a file takes up to four times as long as to open one, but all plans make the same files.
SECONDS_A_RUN, SECONDS_AN_OPENING, SECONDS_A_PLACEMENT = 1e-5, 5e-5, 1e-5

# Round figures of common devices. With some eight requests under way they give what they have; a
# disk with one arm serves them one after another.
HDD = Device("hdd", 1e-2, 160e6, 160e6, 2e-5, 1)
SSD = Device("ssd", 1e-4, 500e6, 450e6, 2e-5, 8)
NVME = Device("nvme", 2e-5, 2.5e9, 1.5e9, 1e-5, 8)
# A gigabit network to a disk array; every opening asks the server.
NFS = Device("nfs", 1e-3, 110e6, 110e6, 1e-3, 8)
# On an object store a seek is a request, and nothing but.
S3 = Device("s3", 0.0, 400e6, 200e6, 5e-2, 8)

DEVICES: Mapping[str, Device] = MappingProxyType(
    {device.name: device for device in (HDD, SSD, NVME, NFS, S3)}
)
"""The presets by name."""


def predict_seconds(plan: AnyPlan | Sweeps | Series, device: Device) -> float:
    """Predict how long a plan takes with source and target on one device.

    ::

        (seeks × (seek_seconds + request_latency) + openings × request_latency) / concurrency
            + seeks × SECONDS_A_RUN + openings × SECONDS_AN_OPENING
            + placements × SECONDS_A_PLACEMENT
            + max(bytes read / read_bandwidth + bytes written / write_bandwidth, coding)

    The first line is the device's waiting, the next two the engine's own work, the last moving, or
    decoding and encoding if that takes longer: the engine does both at once.
    Reading and writing are added up although the engine overlaps them: source and target mostly
    lie on one device, which does one thing at a time. With two devices a run takes down to
    half of that, whatever the plan, so that the ranking of plans stays. Of copying in memory
    only what each single copy costs is counted: the bytes are about the same for all plans.

    Examples
    --------
    >>> from dask_io.planning import Problem, plan_naive
    >>> plan = plan_naive(Problem.regular((10**4, 10**4), (100, 10**4), (10**4, 100), budget=10**8))
    >>> [(device.name, round(predict_seconds(plan, device), 1)) for device in DEVICES.values()]
    [('hdd', 103.4), ('ssd', 1.3), ('nvme', 0.9), ('nfs', 6.3), ('s3', 127.7)]
    """
    seeks, openings = plan.seeks.total, plan.openings
    seeking = seeks * device.seconds_a_seek
    opening = openings * (device.request_latency / device.concurrency + SECONDS_AN_OPENING)
    placing = plan.n_placements * SECONDS_A_PLACEMENT
    moving = plan.n_bytes_read / device.read_bandwidth
    moving += plan.n_bytes_written / device.write_bandwidth
    return seeking + opening + placing + max(moving, plan.coding_seconds)
