"""What the user chose: options as they are given, and the settings that they become.

Each verb resolves its options once, with Dask's configuration. Everything below takes `Settings`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from dask_io.codecs.cores import usable_cores
from dask_io.config import configured
from dask_io.engine.machine import available_memory
from dask_io.engine.measure import check_device_name
from dask_io.errors import UsageError
from dask_io.geometry import Region
from dask_io.planning import Objective, check_strategy, parse_objective
from dask_io.storage.medium import Durability
from dask_io.stores.container import TargetOptions
from dask_io.stores.dtypes import CASTINGS, check_cast
from dask_io.stores.given_space import GivenSpace
from dask_io.stores.user_description import parse_dtype
from dask_io.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    import numpy as np
    from numpy.typing import DTypeLike

    from dask_io.geometry.shards import Shards
    from dask_io.stores.dtypes import Casting
    from dask_io.stores.given_space import Numbers, Words

# Threads that move and copy wait for the disk most of the time, so there are a few more than cores,
# and more where blocks are long, but no more than keep a disk busy; with short ones they would wait
# for the interpreter. Those that decode or encode need memory for it, and a core.
_MORE_THAN_CORES, _MORE_FOR_LONG, _MOST_MOVERS = 4, 8, 12
_FEWEST_CODERS, _MOST_CODERS = 4, 32
# It goes through scratch files of its own, which sweeps that follow one another do not share.
_FOR_ONE_TARGET = frozenset({"spill"})
_FOR_ONE_ARRAY = (
    "dtype",
    "casting",
    "format_version",
    "fill_value",
    "region",
    "order",
    "consume",
    "axes",
    "spacing",
    "unit",
)


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
    axes
        Names of the axes, such as ``"z,y,x"`` or a list; by default the source's. Targets that
        store names, such as ``"ome-zarr"``, keep them.
    spacing
        Distance between neighbouring elements: one number for all axes of space, or a list with
        one for each axis. It replaces the source's.
    unit
        Unit of the spacing, such as ``"micrometer"``: one for all axes of space, or a list with
        one for each axis, None for an axis without a unit. It replaces the source's.
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
    axes: Words | None
    spacing: Numbers | None
    unit: Words | None
    workers: int | None
    max_rate: int | str | None
    overwrite: bool
    check: bool
    durability: str
    consume: bool
    storage_options: Mapping[str, Any] | None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that was chosen for a job: given by the user, configured, or the default.

    The names are those of `Options` and `ResumeOptions`. Values are parsed and checked, except
    `shards`, `region` and `order`, which only make sense for a known array.
    """

    memory: int
    strategy: str = "auto"
    objective: Objective = Objective.TIME
    device: str | None = None
    workers: int | None = None
    """None for as many threads as suit the problem, see `n_threads`."""
    max_rate: int | None = None
    format: str | None = None
    dtype: np.dtype[Any] | None = None
    casting: Casting | None = None
    format_version: int | None = None
    codec: str | None = None
    shards: Shards | None = None
    fill_value: object = None
    write_empty: bool = False
    region: str | Region | None = None
    order: str | Sequence[str | None] | None = None
    axes: Words | None = None
    spacing: Numbers | None = None
    unit: Words | None = None
    overwrite: bool = False
    check: bool = False
    durability: Durability = Durability.FSYNC
    consume: bool = False
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    source: str | None = None

    def __post_init__(self) -> None:
        _ = self.given_space
        check_strategy(self.strategy)
        check_device_name(self.device)
        if self.consume and self.region is not None:
            raise UsageError(
                "consume removes source blocks, but only a region of them is moved; leave one of "
                "the two out"
            )
        if self.consume and self.durability is not Durability.FSYNC:
            raise UsageError(
                f"consume removes source blocks, but with durability {self.durability} what they "
                "became could be lost with the power; use fsync"
            )

    @classmethod
    def of(cls, **options: Unpack[Options]) -> Settings:
        """Resolve the options of a run.

        Raises
        ------
        TypeError
            For an option that does not exist, as for arguments that are spelled out.
        UsageError
            For an impossible value.
        """
        return _resolve(options, Options)

    @classmethod
    def to_resume(cls, **options: Unpack[ResumeOptions]) -> Settings:
        """Resolve the options of a run that is resumed; raises as `of` does."""
        return _resolve(options, ResumeOptions)

    def n_threads(self, *, codes: bool = True, long: bool = False) -> int:
        """Return the number of threads; by default what suits the machine, and what they do.

        They may code, or else move blocks, which may be `long`.
        """
        if self.workers is not None:
            return self.workers
        if codes:
            return min(max(_FEWEST_CODERS, usable_cores()), _MOST_CODERS)
        return min(usable_cores() + (_MORE_FOR_LONG if long else _MORE_THAN_CORES), _MOST_MOVERS)

    def target_options(self, shards: tuple[int, ...] | None = None) -> TargetOptions:
        """Return what is asked of the target's format; `shards` are those of its array."""
        return TargetOptions(
            self.codec, shards, self.fill_value, self.format_version, self.write_empty
        )

    @property
    def given_space(self) -> GivenSpace | None:
        """What the user says about the axes of the source; None if nothing is said."""
        return GivenSpace.of(self.axes, self.spacing, self.unit)

    def dtype_for(self, stored: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type of a target's elements, given the type in the source.

        Raises
        ------
        UsageError
            If they cannot be converted, or not without a loss that the user has not allowed.
        """
        if self.dtype is None:
            if self.casting is not None:
                raise UsageError(
                    f"casting {self.casting} is given, but no dtype to cast to; give --dtype"
                )
            return stored
        problem = check_cast(stored, self.dtype, self.casting or "safe")
        if problem:
            raise UsageError(f"casting {problem}")
        return self.dtype

    def orders(self, n_targets: int) -> list[str | None]:
        """Return the order of elements of every target."""
        if self.order is None or isinstance(self.order, str):
            return [self.order] * n_targets
        if len(self.order) != n_targets:
            raise UsageError(f"{len(self.order)} orders are given for {n_targets} targets")
        return list(self.order)

    @property
    def is_for_one_array(self) -> bool:
        """Whether something is asked for that only makes sense for one array."""
        return any(self._is_asked(name) for name in _FOR_ONE_ARRAY)

    def _is_asked(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and value is not False

    def refuse_for_several_arrays(self, example: str) -> None:
        """Refuse what cannot be asked for all arrays of a source at once; an example names one.

        Raises
        ------
        UsageError
            If it is asked for.
        """
        for name in _FOR_ONE_ARRAY:
            if self._is_asked(name):
                raise for_one_array(name.replace("_", "-"), example)

    def refuse_for_several_targets(self) -> None:
        """Refuse what can be done for one target only.

        Raises
        ------
        UsageError
            If it is asked for.
        """
        if self.consume:
            raise UsageError(
                "consume removes source blocks after one target, but several are asked for"
            )
        if self.strategy in _FOR_ONE_TARGET:
            raise UsageError(
                f"strategy {self.strategy} writes one target, but several are asked for; "
                "write them one by one, or choose another strategy"
            )


def _resolve(options: Options | ResumeOptions, known: type[Options | ResumeOptions]) -> Settings:
    """Parse what is given, and add what is configured."""
    if unknown := options.keys() - known.__annotations__.keys():
        raise TypeError(f"there is no option {', '.join(sorted(unknown))}")
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in ("memory", "workers"):
        if name not in given and (found := configured(name)) is not None:
            given[name] = found
    for name, parse in _PARSERS.items():
        if name in given:
            given[name] = parse(given[name])
    if "memory" not in given:
        given["memory"] = max(1, available_memory() // 2)
    return Settings(**given)


def _parse_size(size: int | str) -> int:
    try:
        return parse_bytes(size)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _parse_rate(max_rate: int | str) -> int:
    rate = _parse_size(max_rate)
    if rate < 1:
        raise UsageError(f"a rate of at least one byte a second is needed, not {max_rate}")
    return rate


def _parse_workers(workers: object) -> int:
    if not isinstance(workers, int) or workers < 1:
        raise UsageError(f"at least one worker is needed, not {workers}")
    return workers


def _parse_casting(casting: str) -> str:
    if casting not in CASTINGS:
        raise UsageError(f"casting {casting!r} is none of {', '.join(CASTINGS)}")
    return casting


def _parse_durability(durability: str) -> Durability:
    try:
        return Durability(durability)
    except ValueError:
        names = ", ".join(Durability)
        raise UsageError(f"durability {durability!r} is none of {names}") from None


_PARSERS: Mapping[str, Callable[[Any], object]] = {
    "objective": parse_objective,
    "memory": _parse_size,
    "workers": _parse_workers,
    "max_rate": _parse_rate,
    "casting": _parse_casting,
    "dtype": parse_dtype,
    "durability": _parse_durability,
}


def for_one_array(word: str, example: str) -> UsageError:
    """Return the error for an option that a source with several arrays cannot have."""
    return UsageError(
        f"{word} is for one array, but the source holds several; leave it out, or name one, as in "
        f"{example}"
    )


def parse_region(region: str | Region, shape: tuple[int, ...]) -> Region:
    """Read a region of an array of this shape; it must not be empty."""
    if not isinstance(region, (str, Region)):
        raise UsageError(f"a region is a text such as '0:100,:,5:', not {region!r}")
    try:
        found = Region.parse(str(region), shape)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not found.size and all(shape):
        raise UsageError(f"the region {region} is empty; give ranges that hold something")
    return found
