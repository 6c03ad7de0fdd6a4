"""What all jobs have in common that several processes share."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from dask_io.jobs.job import Runnable

if TYPE_CHECKING:
    from dask_io.jobs.job import Job
    from dask_io.jobs.tree_job import SeriesJob
    from dask_io.planning import AnyPlan, Device, Series


class SharedJob(Runnable):
    """A job that several processes share. Its facts are those of the whole job."""

    @property
    @abstractmethod
    def whole(self) -> Job | SeriesJob:
        """The job as one process would run it, with the memory of one part."""

    @property
    def n_shares(self) -> int:
        """Into how many shares the memory of the run is divided; 1 if it is that of each part."""
        return 1

    @property
    def plan(self) -> AnyPlan | Series:
        """The plan of one process."""
        return self.whole.plan

    @property
    def device(self) -> Device:
        """The device for which time is predicted."""
        return self.whole.device

    @property
    def inferred(self) -> str:
        """What was inferred from the names of the source's files; empty if nothing was."""
        return self.whole.inferred

    @property
    def inferred_axes(self) -> str:
        """The names of the axes, if the target's format needs names and nothing gives them."""
        return self.whole.inferred_axes

    @property
    def resolved(self) -> str:
        """The indices of values of coordinates in the region; empty if it has none."""
        return self.whole.resolved
