"""Options of the verbs: what may be given, and what holds if it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from dask_io.codecs.cores import usable_cores
from dask_io.config import configured
from dask_io.engine.machine import available_memory
from dask_io.engine.measure import check_device_name
from dask_io.errors import UsageError
from dask_io.geometry import Region
from dask_io.planning import check_strategy, parse_objective
from dask_io.storage.medium import Durability
from dask_io.stores.container import Wishes
from dask_io.stores.dtypes import CASTINGS, check_cast
from dask_io.stores.user_description import parse_dtype
from dask_io.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import DTypeLike

    from dask_io.geometry.shards import Shards

# Threads that move and copy wait for the disk most of the time, so there are a few more than cores,
# and more where blocks are long, but no more than keep a disk busy; with short ones they would wait
# for the interpreter. Those that decode or encode need memory for it, and a core.
_MORE_THAN_CORES, _MORE_FOR_LONG, _MOST_MOVERS = 4, 8, 12
_FEWEST_CODERS, _MOST_CODERS = 4, 32
# It goes through scratch files of its own, which sweeps that follow one another do not share.
_FOR_ONE_TARGET = frozenset({"spill"})


class Options(TypedDict, total=False):
    """What `plan` and the verbs that run a plan have in common.

    Attributes
    ----------
    memory
        The budget: bytes, or text such as ``"4GiB"``. Half of what is available by default.
    strategy
        ``"auto"``, or the name of a strategy; `dask_io.planning.STRATEGIES` has them all. With a
        name, several targets are planned each alone; ``"spill"`` is for one target only.
    objective
        What ``"auto"`` looks for: about the least ``"time"`` (the default), the fewest
        ``"seeks"``, or the least ``"memory"`` at which a run takes at most a tenth longer than the
        fastest.
    device
        What time is predicted for: ``"hdd"``, ``"ssd"``, ``"nvme"``, ``"nfs"``, ``"s3"``,
        ``"measured"`` to measure the target's folder; by default the kind of filesystem says it.
    format
        Format of the target, such as ``"npy"``, ``"zarr"`` or ``"hdf5"``; by default what the
        target's name says, else that of the source's blocks.
    dtype
        Type of the target's elements, such as ``"float32"``; by default the source's.
    casting
        What may happen to values then, in NumPy's words: ``"safe"`` (the default), nothing;
        ``"same_kind"``, rounding; ``"unsafe"``, anything. ``"no"`` and ``"equiv"`` are stricter.
    format_version
        Version of the target's format, 2 or 3 for Zarr; by default the source's, else the newest.
    codec
        How the target's blocks are encoded, such as ``"zstd:3"``, ``"blosc:lz4:5:shuffle"`` or
        ``"none"``; by default as in the source.
    shards
        What is one file of the target, each of several chunks: a length per axis, -1 for all of
        it, or a dict by axis or by names of dimensions, whose other axes are as long as a chunk.
    fill_value
        The value of what the target does not store; by default the source's, else 0.
    write_empty
        Store blocks that hold only the fill value, too.
    region
        Move only this region of the source, such as ``"0:100,:,5:"``.
    order
        How elements lie in the target's blocks, ``"C"`` or ``"F"``; by default as in the source's.
        For several targets, one for all or a list with one for each.
    workers
        Number of threads at the most.
    max_rate
        Bytes read plus written a second at the most, or text such as ``"100MB"``; for machines
        that are shared.
    overwrite
        Replace a target that is there already.
    check
        Look at every block's header before planning.
    durability
        What blocks outlast once they are written: ``"fsync"`` (the default), a loss of power;
        ``"rename"``, the end of the process; ``"none"``: they may be found half written.
    consume
        Remove each source block as soon as everything that it feeds is durable.
    storage_options
        How to reach source and target if they are in an object store, in obstore's words, such as
        ``{"endpoint": "https://...", "region": "eu-1"}``. What is not said here is taken from the
        environment: ``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL`` and the like. They are neither
        shown nor kept.
    """

    memory: int | str | None
    strategy: str
    objective: str | None
    device: str | None
    format: str | None
    dtype: DTypeLike | None
    casting: str | None
    format_version: int | None
    codec: str | None
    shards: Shards | None
    fill_value: object
    write_empty: bool
    region: str | Region | None
    order: str | Sequence[str | None] | None
    workers: int | None
    max_rate: int | str | None
    overwrite: bool
    check: bool
    durability: str
    consume: bool
    storage_options: Mapping[str, Any] | None


# What can be asked for all arrays of a source at once.
_FOR_SEVERAL = frozenset(
    {
        "memory",
        "strategy",
        "objective",
        "device",
        "format",
        "codec",
        "shards",
        "write_empty",
        "workers",
        "max_rate",
        "overwrite",
        "check",
        "durability",
        "storage_options",
    }
)


class ResumeOptions(TypedDict, total=False):
    """What may be chosen when a run is resumed; as in `Options`."""

    memory: int | str | None
    strategy: str
    objective: str | None
    device: str | None
    workers: int | None
    max_rate: int | str | None
    source: str | None
    """Where the source is now, if it has been moved."""
    consume: bool
    """Continue to remove source blocks, if the first run was started to consume the source."""
    storage_options: Mapping[str, Any] | None


def check_options(options: Options) -> None:
    """Refuse what is no option of a run, or can be no value of one, whatever the array.

    Raises
    ------
    TypeError
        For an option that does not exist, as for arguments that are spelled out.
    UsageError
        For what cannot be its value.
    """
    _check_common(options, Options)
    durability = parse_durability(options.get("durability", Durability.FSYNC))
    if not options.get("consume", False):
        return
    if options.get("region") is not None:
        raise UsageError(
            "consume removes source blocks, but only a region of them is moved; leave one of the "
            "two out"
        )
    if durability is not Durability.FSYNC:
        raise UsageError(
            f"consume removes source blocks, but with durability {durability} what they became "
            "could be lost with the power; use fsync"
        )


def check_resume_options(options: ResumeOptions) -> None:
    """Refuse as `check_options` does what is no option when a run is resumed."""
    _check_common(options, ResumeOptions)


def _check_common(options: Options | ResumeOptions, known: type[Options | ResumeOptions]) -> None:
    """Check names, and the values of what both kinds of options have."""
    unknown = options.keys() - known.__annotations__.keys()
    if unknown:
        raise TypeError(f"there is no option {', '.join(sorted(unknown))}")
    parse_objective(options.get("objective"))
    check_strategy(options.get("strategy", "auto"))
    check_device_name(options.get("device"))
    parse_memory(options.get("memory"))
    parse_workers(options.get("workers"))
    parse_rate(options.get("max_rate"))


def refuse_for_several(options: Options, example: str) -> None:
    """Refuse what cannot be asked for all arrays of a source at once; an example names one.

    Raises
    ------
    UsageError
        If it is asked for.
    """
    for name, value in options.items():
        if name not in _FOR_SEVERAL and value is not None and value is not False:
            raise for_one_array(name.replace("_", "-"), example)


def for_one_array(word: str, example: str) -> UsageError:
    """Return what to say of an option that a source of several arrays cannot have."""
    return UsageError(
        f"{word} is for one array, but the source holds several; leave it out, or name one, as in "
        f"{example}"
    )


def check_several(options: Options) -> None:
    """Refuse what can be done for one target only.

    Raises
    ------
    UsageError
        If it is one.
    """
    if options.get("consume", False):
        raise UsageError(
            "consume removes source blocks after one target, but several are asked for"
        )
    strategy = options.get("strategy", "auto")
    if strategy in _FOR_ONE_TARGET:
        raise UsageError(
            f"strategy {strategy} writes one target, but several are asked for; "
            "write them one by one, or choose another strategy"
        )


def wishes_of(options: Options, shards: tuple[int, ...] | None = None) -> Wishes:
    """Return what is asked of the target's format; `shards` are those of its array."""
    return Wishes(
        codec=options.get("codec"),
        shards=shards,
        fill_value=options.get("fill_value"),
        format_version=options.get("format_version"),
        write_empty=options.get("write_empty", False),
    )


def dtype_of(options: Options, stored: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of a target's elements, of which the source's are `stored`.

    Raises
    ------
    UsageError
        If they cannot become that, or not without a loss that nobody has allowed.
    """
    dtype = parse_dtype(options.get("dtype"))
    casting = options.get("casting")
    if casting is not None and casting not in CASTINGS:
        raise UsageError(f"casting {casting!r} is none of {', '.join(CASTINGS)}")
    if dtype is None:
        if casting is not None:
            raise UsageError(f"casting {casting} is given, but no dtype to cast to; give --dtype")
        return stored
    problem = check_cast(stored, dtype, casting or "safe")
    if problem:
        raise UsageError(f"casting {problem}")
    return dtype


def orders_of(options: Options, n_targets: int) -> list[str | None]:
    """Return the order of elements of every target."""
    order = options.get("order")
    if order is None or isinstance(order, str):
        return [order] * n_targets
    if len(order) != n_targets:
        raise UsageError(f"{len(order)} orders are given for {n_targets} targets")
    return list(order)


def parse_region(region: str | Region, shape: tuple[int, ...]) -> Region:
    """Read a region of an array of this shape, one that holds something."""
    if not isinstance(region, (str, Region)):
        raise UsageError(f"a region is a text such as '0:100,:,5:', not {region!r}")
    try:
        found = Region.parse(str(region), shape)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not found.size and all(shape):
        raise UsageError(f"the region {region} is empty; give ranges that hold something")
    return found


def parse_durability(durability: str) -> Durability:
    """Read what blocks are to outlast."""
    try:
        return Durability(durability)
    except ValueError:
        names = ", ".join(Durability)
        raise UsageError(f"durability {durability!r} is none of {names}") from None


def parse_memory(memory: int | str | None) -> int:
    """Read a budget; by default half of what is available."""
    memory = configured("memory") if memory is None else memory
    if memory is None:
        return max(1, available_memory() // 2)
    try:
        return parse_bytes(memory)
    except ValueError as error:
        raise UsageError(str(error)) from None


def parse_workers(workers: int | None, *, codes: bool = True, long: bool = False) -> int:
    """Check a number of threads; by default what suits the machine, and what they do.

    They may code, or else move blocks, which may be `long`.
    """
    workers = configured("workers") if workers is None else workers
    if workers is None and codes:
        return min(max(_FEWEST_CODERS, usable_cores()), _MOST_CODERS)
    if workers is None:
        more = _MORE_FOR_LONG if long else _MORE_THAN_CORES
        return min(usable_cores() + more, _MOST_MOVERS)
    if not isinstance(workers, int) or workers < 1:
        message = f"at least one worker is needed, not {workers}"
        raise UsageError(message)
    return workers


def parse_rate(max_rate: int | str | None) -> int | None:
    """Read a number of bytes a second; by default there is no limit."""
    if max_rate is None:
        return None
    try:
        rate = parse_bytes(max_rate)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if rate < 1:
        raise UsageError(f"a rate of at least one byte a second is needed, not {max_rate}")
    return rate
