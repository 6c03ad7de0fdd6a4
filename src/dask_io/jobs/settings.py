"""Options of the user, and the settings that they are resolved to.

Each verb resolves its options once, with Dask's configuration. All other code takes `Settings`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar

from dask_io.codecs.cores import usable_cores
from dask_io.config import configured
from dask_io.engine.machine import available_memory
from dask_io.engine.measure import check_device_name
from dask_io.errors import OTHER_WORDS, UsageError, did_you_mean
from dask_io.geometry.ranges import Ranges
from dask_io.planning import Objective, check_strategy, parse_objective
from dask_io.storage.medium import Durability
from dask_io.stores.container import TargetOptions
from dask_io.stores.dtypes import CASTINGS, check_cast
from dask_io.stores.given_space import GivenSpace
from dask_io.stores.user_description import parse_dtype
from dask_io.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Unpack

    import numpy as np
    from numpy.typing import DTypeLike

    from dask_io.geometry.ranges import AnyRegion
    from dask_io.geometry.shards import Shards
    from dask_io.stores.dtypes import Casting
    from dask_io.stores.given_space import Numbers, Units, Words

P = ParamSpec("P")
T = TypeVar("T")

# Options of the method that runs a plan; verbs that do not only plan take them, too.
_OF_RUN = ("progress", "verify")
# Threads that only move data wait for the disk most of the time, so there are a few more than
# cores, up to the number that keeps a disk busy. With small blocks there are fewer, because they
# would wait for the interpreter. Threads that decode or encode need a core and memory each.
_MORE_THAN_CORES, _MORE_FOR_LONG, _MOST_MOVERS = 4, 8, 12
_FEWEST_CODERS, _MOST_CODERS = 4, 32
# Strategies with scratch files, which several targets cannot share.
_FOR_ONE_TARGET = frozenset({"spill"})
_FOR_ONE_ARRAY = (
    "dtype",
    "casting",
    "format_version",
    "fill_value",
    "order",
    "consume",
    "axes",
    "spacing",
    "unit",
)


class Options(TypedDict, total=False):
    """Options of `plan` and of the verbs that run a plan.

    Attributes
    ----------
    memory
        The memory budget: bytes, or text such as ``"4GiB"``. By default half of the available
        memory.
    strategy
        ``"auto"``, or the name of a strategy; `dask_io.planning.STRATEGIES` lists them. With a
        name, several targets are planned separately; ``"spill"`` can write one target only.
    objective
        The objective of ``"auto"``: about the least ``"time"`` (the default), the fewest
        ``"seeks"``, or the least ``"memory"`` at which a run takes at most a tenth longer than the
        fastest.
    device
        The device for which time is predicted: ``"hdd"``, ``"ssd"``, ``"nvme"``, ``"nfs"``,
        ``"s3"``, or ``"measured"`` to measure the target's folder. By default it is chosen by the
        kind of filesystem.
    format
        Format of the target, such as ``"npy"``, ``"zarr"`` or ``"hdf5"``. By default it is chosen
        by the target's suffix, else it is that of the source's blocks.
    dtype
        Type of the target's elements, such as ``"float32"``; by default the source's.
    casting
        Allowed conversions, as in NumPy: ``"safe"`` (the default) preserves values,
        ``"same_kind"`` may round them, and integers that do not fit wrap around, ``"unsafe"``
        allows all. ``"no"`` and ``"equiv"`` are stricter. Nothing is clipped or scaled.
    format_version
        Version of the target's format, 2 or 3 for Zarr; by default the source's, else the newest.
    codec
        Codec of the target's blocks, such as ``"zstd:3"``, ``"blosc:lz4:5:shuffle"`` or
        ``"none"``; by default the source's. If the source has none, Zarr gets ``"zstd:0"``.
    shards
        Shape of the target's shards, files of several chunks each: a length per axis, -1 for the
        whole axis, or a dict by axis number or dimension name. Axes that the dict leaves out are
        one chunk long.
    fill_value
        Value of elements that the target does not store; by default the source's, else 0.
    write_empty
        Also store blocks in which every element is the fill value.
    region
        Move only this region of the source: ranges along its axes, such as ``"0:100,:,5:"``, or
        by dimension name or axis number, such as ``"time=0:744,lat=:90"``. A dict may contain
        slices, pairs or text: ``{"time": slice(0, 744), "lat": (None, 90)}``. A tuple of slices is
        an index as in NumPy: ``np.s_[:100, ..., 5:]``. Dates, and numbers after an ``@``, are
        values of the coordinate: ``"time=2020-01:2020-02,lat=@60:@40"``; along an axis without one
        they are positions, if the source has a spacing and an origin. Of a group, or a file with
        several arrays, all arrays along a dimension are cut.
    order
        Order of the elements in the target's blocks, ``"C"`` or ``"F"``; by default the source's.
        For several targets, one order for all or a list with one for each.
    axes
        Names of the axes, such as ``"z,y,x"`` or a list; by default the source's. Targets that
        store names, such as ``"ome-zarr"``, keep them.
    spacing
        Distance between neighbouring elements: one number for all axes of space, a list with one
        for each axis, or a dict by axis name, such as ``{"z": 2, "y": 0.5, "x": 0.5}``. It
        replaces the source's; a `SpacingWarning` tells if the source has another.
    unit
        Unit of the spacing, such as ``"micrometer"``: one for all axes of space, a list with one
        for each axis, None for an axis without a unit, or a dict by axis name. It replaces the
        source's.
    workers
        Maximum number of threads.
    max_rate
        Maximum number of stored bytes read and written per second, or text such as ``"100MB"``;
        for machines that are shared. To predict the time, a compressed target is assumed to be as
        large as its compressed source, and as large as without codec if the source is not.
    overwrite
        Replace an existing target.
    check
        Check every block's header before planning.
    durability
        The failures that written blocks survive: ``"fsync"`` (the default), a loss of power;
        ``"rename"``, the end of the process; ``"none"``, neither: blocks may be half written.
    consume
        Remove each source block as soon as all data that comes from it is durable.
    sidecar
        False to leave no file with checksums next to a target of one file. Then it can be compared
        with its source, but neither verified alone nor repaired.
    storage_options
        Options to connect to an object store, as obstore takes them, such as
        ``{"endpoint": "https://...", "region": "eu-1"}``. Missing ones are taken from environment
        variables, such as ``AWS_ACCESS_KEY_ID`` or ``AWS_ENDPOINT_URL``. They are neither printed
        nor stored.
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
    region: AnyRegion | None
    order: str | Sequence[str | None] | None
    axes: Words | None
    spacing: Numbers | None
    unit: Units | None
    workers: int | None
    max_rate: int | str | None
    overwrite: bool
    check: bool
    durability: str
    consume: bool
    sidecar: bool
    storage_options: Mapping[str, Any] | None


class ResumeOptions(TypedDict, total=False):
    """Options to resume a run; the others are as in `Options`.

    Attributes
    ----------
    memory, max_rate
        As in `Options`. By default, those of the first run.
    source
        New place of the source, if it has been moved.
    consume
        Continue to remove source blocks, if the first run was started to consume the source.
    sidecar
        False to leave no file with checksums next to a target of one file.
    """

    memory: int | str | None
    strategy: str
    objective: str | None
    device: str | None
    workers: int | None
    max_rate: int | str | None
    source: str | None
    consume: bool
    sidecar: bool
    storage_options: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a job: given by the user, configured, or defaults.

    The names are those of `Options` and `ResumeOptions`. Values are parsed and checked, except
    `shards`, `region` and `order`, which only make sense for a known source.
    """

    memory: int
    gives_memory: bool = True
    """Whether the user chose `memory`; otherwise it is half of what is available."""
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
    region: Ranges | None = None
    order: str | Sequence[str | None] | None = None
    axes: Words | None = None
    spacing: Numbers | None = None
    unit: Units | None = None
    overwrite: bool = False
    check: bool = False
    durability: Durability = Durability.FSYNC
    consume: bool = False
    sidecar: bool = True
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    source: str | None = None
    in_parts: bool = False
    """Whether several processes write parts of the target, which have no scratch files."""

    def __post_init__(self) -> None:
        _ = self.given_space
        check_strategy(self.strategy)
        check_device_name(self.device)
        if self.consume and self.region is not None:
            raise UsageError(
                "consume removes source blocks, but only a region of them is moved; leave out "
                "region or consume"
            )
        if self.consume and self.durability is not Durability.FSYNC:
            raise UsageError(
                f"consume removes source blocks, but with durability {self.durability} a loss of "
                "power could destroy the target; use fsync"
            )

    @classmethod
    def of(cls, **options: Unpack[Options]) -> Settings:
        """Resolve the options of a run.

        Raises
        ------
        TypeError
            For an unknown option.
        UsageError
            For an invalid value.
        """
        return _resolve(options, Options)

    @classmethod
    def to_resume(cls, **options: Unpack[ResumeOptions]) -> Settings:
        """Resolve the options of a run that is resumed; raises as `of` does."""
        return _resolve(options, ResumeOptions)

    def n_threads(self, *, codes: bool = True, long: bool = False) -> int:
        """Return the number of threads; the default depends on the machine and on their work.

        They decode or encode blocks, or only move them. The blocks that they move may be `long`.
        """
        if self.workers is not None:
            return self.workers
        if codes:
            return min(max(_FEWEST_CODERS, usable_cores()), _MOST_CODERS)
        return min(usable_cores() + (_MORE_FOR_LONG if long else _MORE_THAN_CORES), _MOST_MOVERS)

    def target_options(self, shards: tuple[int, ...] | None = None) -> TargetOptions:
        """Return the options for the target's format; `shards` are those of its array."""
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
            If elements cannot be converted, or `casting` does not allow it.
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
        return any(self._is_asked(name) for name in (*_FOR_ONE_ARRAY, "region"))

    def _is_asked(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and value is not False

    def refuse_for_several_arrays(self, example: str) -> None:
        """Refuse settings that cannot apply to all arrays of a source.

        Raises
        ------
        UsageError
            If there is one; `example` shows how to give a single array.
        """
        for name in _FOR_ONE_ARRAY:
            if self._is_asked(name):
                raise for_one_array(name.replace("_", "-"), example)

    def limited_by(self, memory: int | None, max_rate: int | None) -> Settings:
        """Return these settings with the limits of an earlier run, where the user gave none.

        A budget that this machine no longer has is not taken over.
        """
        limits: dict[str, Any] = {}
        if memory is not None and not self.gives_memory and memory <= available_memory():
            limits["memory"] = memory
        if max_rate is not None and self.max_rate is None:
            limits["max_rate"] = max_rate
        return replace(self, **limits)

    def refuse_for_several_targets(self) -> None:
        """Refuse settings that work for one target only.

        Raises
        ------
        UsageError
            If there is one.
        """
        if self.consume:
            raise UsageError(
                "consume removes source blocks after one target, but several are requested"
            )
        if self.strategy in _FOR_ONE_TARGET:
            raise UsageError(
                f"strategy {self.strategy} writes one target, but several are requested; "
                "write them one by one, or choose another strategy"
            )


def _resolve(options: Options | ResumeOptions, known: type[Options | ResumeOptions]) -> Settings:
    """Parse the given options, and add those from Dask's configuration."""
    refuse_unknown(options, known.__annotations__)
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in ("memory", "workers"):
        if name not in given and (found := configured(name)) is not None:
            given[name] = found
    for name, parse in _PARSERS.items():
        if name in given:
            given[name] = parse(given[name])
    if "memory" not in given:
        given |= {"memory": max(1, available_memory() // 2), "gives_memory": False}
    return Settings(**given)


def refuse_unknown(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse options that do not exist, and name the most similar one.

    Raises
    ------
    TypeError
        If there is one.
    """
    if unknown := sorted(set(given).difference(known)):
        other = OTHER_WORDS.get(unknown[0])
        guess = did_you_mean(unknown[0], known)
        if other in known:
            guess = f"; did you mean {other}?"
        elif not guess and did_you_mean(unknown[0], _OF_RUN):
            guess = "; progress and verify are options of run(), as in plan(...).run(progress=True)"
        raise TypeError(f"unknown option {', '.join(unknown)}{guess}")


def with_known_options(function: Callable[P, T], options: Collection[str] = ()) -> Callable[P, T]:
    """Return a function that first refuses options that do not exist.

    `options` are those that it takes as keywords without declaring them one by one.
    """
    known = {*inspect.signature(function).parameters, *options}

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> T:
        refuse_unknown(keywords, known)
        return function(*arguments, **keywords)

    return call


def parse_size(size: int | str) -> int:
    """Parse a number of bytes.

    Raises
    ------
    UsageError
        If it is not a positive size.
    """
    try:
        return parse_bytes(size)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _parse_rate(max_rate: int | str) -> int:
    rate = parse_size(max_rate)
    if rate < 1:
        raise UsageError(f"max_rate must be at least one byte per second, not {max_rate}")
    return rate


def _parse_workers(workers: object) -> int:
    if not isinstance(workers, int) or workers < 1:
        raise UsageError(f"at least one worker is needed, not {workers}")
    return workers


def _parse_casting(casting: str) -> str:
    if casting not in CASTINGS:
        raise UsageError(f"casting {casting!r} is not one of {', '.join(CASTINGS)}")
    return casting


def _parse_durability(durability: str) -> Durability:
    try:
        return Durability(durability)
    except ValueError:
        names = ", ".join(Durability)
        raise UsageError(f"durability {durability!r} is not one of {names}") from None


def parse_ranges(region: object) -> Ranges:
    """Parse the region that a user gives.

    Raises
    ------
    UsageError
        If it is invalid.
    """
    try:
        return Ranges.parse(region)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


_PARSERS: Mapping[str, Callable[[Any], object]] = {
    "objective": parse_objective,
    "memory": parse_size,
    "workers": _parse_workers,
    "max_rate": _parse_rate,
    "casting": _parse_casting,
    "dtype": parse_dtype,
    "durability": _parse_durability,
    "region": parse_ranges,
}


def for_one_array(word: str, example: str) -> UsageError:
    """Return the error for an option that does not apply to a source with several arrays."""
    return UsageError(
        f"{word} is for one array, but the source holds several; leave it out, or give one array, "
        f"as in {example}"
    )
