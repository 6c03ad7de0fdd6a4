"""What a command says before it runs a job."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dask_io.cli.group import current_log, one_line, say
from dask_io.errors import in_words
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dask_io.api import Complete, Job, JointJob, SeriesJob
    from dask_io.cluster.distributed import ClusterJob
    from dask_io.cluster.processes import ProcessJob
    from dask_io.cluster.sharing import OnePart
    from dask_io.engine.run import Progress
    from dask_io.report.progress import Watch
    from dask_io.report.summary import Move, Shared
    from dask_io.stores.space import Space
    from dask_io.stores.store import Target

    AnyJob = Job | JointJob | SeriesJob | Complete | ClusterJob | OnePart | ProcessJob


def say_first(job: AnyJob) -> None:
    """Print what a job will move, at which cost, and what was inferred."""
    for line in _notices(job):
        say(f"dask-io: {one_line(line)}")


def _notices(job: AnyJob) -> Iterator[str]:
    from dask_io.report.summary import preview  # noqa: PLC0415  # loaded on use

    if job.inferred:
        yield f"file names are taken as {job.inferred}"
    yield from remarks(job)
    by_whom = _shared(job) or job.device
    if by_whom is not None and (move := _move_of(job)) is not None:
        yield from preview(move, by_whom)


def _shared(job: AnyJob) -> Shared | None:
    """Return how several processes share a job, None if they do not."""
    from dask_io.cluster.processes import ProcessJob  # noqa: PLC0415  # loaded on use
    from dask_io.cluster.shared_job import SharedJob  # noqa: PLC0415  # loaded on use
    from dask_io.cluster.sharing import OnePart  # noqa: PLC0415  # loaded on use
    from dask_io.report.summary import Shared  # noqa: PLC0415  # loaded on use

    if not isinstance(job, SharedJob):
        return None
    most = format_bytes(job.plan.peak_bytes)
    if isinstance(job, OnePart):
        # To plan the part would take as long again as it takes to begin.
        memory = f"one process for all of it would take up to {most} of memory"
        return Shared(f"writes {job.part} of this; {memory}")
    if parts := job.parted.parts:
        most = format_bytes(max(part.memory for part in parts))
    memory = f"takes up to {most} of memory"
    if isinstance(job, ProcessJob):
        n = job.processes
        return Shared(f"each of {n:,} process{'es' * (n != 1)} {memory}", job.n_shares)
    return Shared(f"each part {memory}")


_NEWEST_ZARR = 3


@contextmanager
def show_progress(
    watch: Watch, given: dict[str, Any]
) -> Iterator[Callable[[Progress], None] | None]:
    """Show progress as the user asks for, and in the log."""
    from dask_io.report import progress  # noqa: PLC0415  # loaded on use

    kind = "none" if given["quiet"] else given["progress"]
    with progress.showing(kind, watch, log=current_log()) as update:
        yield update


def remarks(job: AnyJob) -> Iterator[str]:
    """Yield what the user should know about the axes, the region and the codec of a target."""
    if job.inferred_axes:
        yield f"axes are taken as {job.inferred_axes}; give other names with --axes"
    yield from _left_out(job)
    yield from _spacing(job)
    yield from _lost_scaling(job)
    yield from _hidden_orientation(job)
    if job.resolved:
        yield f"in the region, {job.resolved}"
    yield from _unspecified_codecs(job)


def _spacing(job: AnyJob) -> Iterator[str]:
    """Yield the steps that a target stores, if they could surprise, and those that are unknown."""
    from dask_io.report.space import (  # noqa: PLC0415  # loaded on use
        spacing_line,
        unknown_steps,
        unknown_units,
    )
    from dask_io.stores.spec import SPACE  # noqa: PLC0415  # loaded on use, as above

    one, target = _single(job), _target_of(job)
    space = None if target is None else target.metadata.get(SPACE)
    if one is None or target is None or space is None:
        return
    is_image = target.format == "ome-zarr"
    if (is_image or one.gives_space) and (line := spacing_line(space)):
        yield line
    own = space if one.gives_steps else one.source.metadata.get(SPACE)
    if is_image and (names := unknown_steps(space, own)):
        steps = "step" if len(names) == 1 else "steps"
        verb = "is" if len(names) == 1 else "are"
        given = "--spacing" if one.gives_space and _has_units(space) else "--spacing and --unit"
        yield f"the {steps} along {in_words(names)} {verb} not known and written as 1; give {given}"
    if is_image and (units := unknown_units(space)):
        subject = "unit" if len(units) == 1 else "units"
        verb = "is" if len(units) == 1 else "are"
        given = ",".join(f"{name}={unit}" for name, unit in units.items())
        yield f"the {subject} along {in_words(list(units))} {verb} not known; give --unit {given}"


def _has_units(space: Space) -> bool:
    return any(axis.unit for axis in space.axes)


def _left_out(job: AnyJob) -> Iterator[str]:
    """Yield what else is in the file of an image, and will not be in the target."""
    from dask_io.jobs.job import JointJob  # noqa: PLC0415  # loaded on use
    from dask_io.stores.spec import IMAGES, LEVELS  # noqa: PLC0415  # loaded on use, as above

    one = job if isinstance(job, JointJob) else _single(job)
    found = {} if one is None else one.source.metadata
    if one is not None and (others := found.get(IMAGES)):
        name, images = one.source.place, len(others) + 1
        if one.source.block_names is not None:
            yield f"files have {images} images, of which only the first is read"
        else:
            yield (
                f"{name} has {images} images, of which only the first is read; choose another one, "
                f"as in {name}::/1"
            )
    if levels := found.get(LEVELS):
        more = "a smaller level" if len(levels) == 1 else f"{len(levels)} smaller levels"
        yield f"the image has {more} (a pyramid), of which nothing is kept"


def _lost_scaling(job: AnyJob) -> Iterator[str]:
    """Yield a line if the target cannot say which real values the stored ones stand for."""
    from dask_io.stores.scaling import SCALING, scaling_in  # noqa: PLC0415  # loaded on use

    one, target = _single(job), _target_of(job)
    scaling = None if one is None else scaling_in(one.source.metadata)
    if scaling is None or target is None or scaling.is_identity or SCALING in target.metadata:
        return
    yield (
        f"{target.format} cannot store the scaling of the source ({scaling}); stored values are "
        "copied without it"
    )


def _hidden_orientation(job: AnyJob) -> Iterator[str]:
    """Yield lines if other readers will show an image mirrored or rotated, or misname its axes."""
    from dask_io.stores.orientation import explain_hidden, find_misnamed  # noqa: PLC0415
    from dask_io.stores.spec import SPACE  # noqa: PLC0415  # loaded on use, as above

    target = _target_of(job)
    space = None if target is None else target.metadata.get(SPACE)
    if target is None or space is None or not target.metadata.get("hidden"):
        return
    if found := explain_hidden(space):
        yield (
            "other programs show the image mirrored or rotated, because only Dask IO reads from "
            f"{target.format} that {found}"
        )
    if misnamed := find_misnamed(space):
        name, way = misnamed
        yield f"the axis named {name} points to {way}, because names do not re-order axes"


def _unspecified_codecs(job: AnyJob) -> Iterator[str]:
    """Yield a line if other readers of Zarr may not know a codec."""
    from dask_io.codecs.zarr3 import find_unspecified  # noqa: PLC0415  # loaded on use

    target = _target_of(job)
    if target is None or target.metadata.get("zarr_format") != _NEWEST_ZARR:
        return
    if found := find_unspecified(target.metadata.get("codecs", ()), target.dtype):
        names = in_words(found)
        yield (
            f"the Zarr specification does not have the codec {names}, so that some readers cannot "
            "decode it; zstd, gzip and blosc are in it"
        )


def unit_of(job: AnyJob) -> str:
    """Return what the target of a job is written in."""
    target = _target_of(job)
    return "shard" if target is not None and target.metadata.get("shards") else "block"


def _target_of(job: AnyJob) -> Target | None:
    one = _single(job)
    return None if one is None else one.target


def _single(job: AnyJob) -> Job | None:
    """Return the job of one array that this job is, or that processes share."""
    from dask_io.jobs.job import Job  # noqa: PLC0415  # loaded on use

    whole = _whole(job)
    return whole if isinstance(whole, Job) else None


def _whole(job: AnyJob) -> Job | JointJob | SeriesJob | Complete:
    """Return the job as one process would run it."""
    from dask_io.cluster.shared_job import SharedJob  # noqa: PLC0415  # loaded on use

    return job.whole if isinstance(job, SharedJob) else job


def _move_of(job: AnyJob) -> Move | None:
    from dask_io.jobs.job import Job, JointJob  # noqa: PLC0415  # loaded on use
    from dask_io.jobs.tree_job import SeriesJob  # noqa: PLC0415  # loaded on use
    from dask_io.report.summary import Move  # noqa: PLC0415  # loaded on use

    one = _whole(job)
    if isinstance(one, JointJob):
        first, *others = (target.place for target in one.targets)
        target = f"{first} ... {others[-1]}" if others else first
        return Move(one.plan, one.source.place, target)
    if isinstance(one, SeriesJob):
        return Move(one.plan, one.place, one.named_output.place)
    if not isinstance(one, Job):
        return None
    move = Move(one.plan, one.source.place, one.named_target.place, unit_of(one), one.codec)
    if one.outlet is None or (ledger := one.outlet.ledger) is None:
        return move
    written = one.plan.problem.itemsize * ledger.size
    restarts = not ledger and one.named_target.is_indivisible
    return move._replace(skipped=ledger.n_blocks, skipped_bytes=written, restarts=restarts)
