"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from dask_io.cli import reporting
from dask_io.cli.group import DEBUG, JSON, LOG, open_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask_io.geometry.chunks import Chunks
    from dask_io.stores.array_like import BlockArray

Command = TypeVar("Command", bound="Callable[..., Any]")


class Decorator(Protocol):
    """Adds options to a command."""

    def __call__(self, command: Command, /) -> Command:
        """Return the command with the options added."""


def stack(*decorators: Decorator) -> Decorator:
    """Combine options, so that help shows them in this order."""

    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def _note_debug(ctx: click.Context, _: click.Parameter, given: bool) -> None:  # noqa: FBT001
    if given:
        ctx.meta[DEBUG] = True


def _note_json(ctx: click.Context, _: click.Parameter, given: bool) -> bool:  # noqa: FBT001
    ctx.meta[JSON] = given
    return given


def _open_log(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    # Completing a command must not create files.
    if path is not None and not ctx.resilient_parsing:
        ctx.meta[LOG] = ctx.with_resource(open_log(path))


ORDER = click.Choice(["C", "F"], case_sensitive=False)

chunks = click.option(
    "--chunks",
    metavar="C,C,...",
    help="Blocks of the target: a length per axis, or one for all. -1: whole axis; auto: about "
    "cubes of up to 64 MiB; (3,4,3),5: all lengths along an axis; 0=24 or time=24: only that axis. "
    "Required, unless DST is a pattern of slices.",
)
region = click.option(
    "--region",
    metavar="A:B,...",
    help="Only this region of SRC: 0:100,:,5: or time=0:744,lat=:90 (other axes: all). Dates, and "
    "numbers after @, are values of the coordinate: time=2020-01:2020-02,lat=@60:@40.",
)
regions = click.option(
    "--region",
    "regions",
    multiple=True,
    metavar="A:B,...",
    help="A region of SRC: 0:100,:,5: or time=0:744,lat=:90 (other axes: all); may be repeated. "
    "Dates, and numbers after @, are values of the coordinate: time=2020-01:2020-02,lat=@60:@40.",
)
regions_file = click.option(
    "--regions-file", metavar="FILE", help="File with one region per line; # starts a comment."
)
memory = click.option(
    "--memory",
    metavar="SIZE",
    help="Memory budget, e.g. 4GiB or 4GB.  [default: half of available]",
)
memory_to_resume = click.option(
    "--memory",
    metavar="SIZE",
    help="Memory budget, e.g. 4GiB or 4GB.  [default: that of the first run]",
)
strategy = click.option(
    "--strategy",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="auto (the best), sweep, spill, ...; an unknown name lists all.",
)
objective = click.option(
    "--objective",
    type=click.Choice(["time", "seeks", "memory"]),
    metavar="O",
    help="What auto minimizes: time (the default), seeks or memory.",
)
device = click.option(
    "--device",
    type=click.Choice(["hdd", "ssd", "nvme", "nfs", "s3", "measured"]),
    metavar="D",
    help="Predict times for hdd, ssd, nvme, nfs, s3; measured: measure the folder.  [default: by "
    "filesystem]",
)
workers = click.option(
    "--workers", type=int, metavar="N", help="Most threads.  [default: by cores and blocks]"
)
order = click.option(
    "--order",
    type=ORDER,
    metavar="C|F",
    help="Storage order in the target's blocks.  [default: as source]",
)
dtype = click.option(
    "--dtype", metavar="TYPE", help="Data type of the target.  [default: as source]"
)
casting = click.option(
    "--casting",
    type=click.Choice(["no", "equiv", "safe", "same_kind", "unsafe"]),
    metavar="RULE",
    help="Conversions that --dtype may do, as in NumPy: no, equiv, safe (the default: values stay, "
    "but very large 64-bit integers are rounded as floats), same_kind, unsafe. Integers that do "
    "not fit wrap around; nothing is clipped or scaled.",
)
format_ = click.option("--format", metavar="F", help="Format of the target, such as zarr.")
codec = click.option(
    "--codec",
    metavar="C",
    help="Codec of the target, if its format has codecs: none, zstd:3, shuffle+gzip:4 (hdf5, "
    "netcdf), ...  [default: as source; if it has none: zstd for zarr, else none]",
)
as_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,
    callback=_note_json,
    help="Print one JSON object, also for errors.",
)
verbose = click.option(
    "-v", "--verbose", is_flag=True, help="Also compare predicted and measured costs."
)
quiet = click.option("--quiet", is_flag=True, help="Print errors only.")
progress = stack(
    click.option(
        "--progress",
        type=click.Choice(["auto", "bar", "plain", "json", "none"]),
        default="auto",
        metavar="HOW",
        help="bar, plain (a line now and then), json or none; auto (the default): a bar on a "
        "terminal, else plain.",
    ),
    click.option(
        "--log",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        expose_value=False,
        callback=_open_log,
        help="Append messages and progress, with times, to this file.",
    ),
)
debug = click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_note_debug,
    help="Show tracebacks.",
)


source = stack(
    click.option("--source-shape", metavar="N,N,...", help="Shape of a raw source."),
    click.option("--source-dtype", metavar="TYPE", help="Its data type, e.g. float32."),
    click.option("--source-chunks", metavar="C,C,...", help="Its blocks, if not one file."),
    click.option("--source-order", type=ORDER, metavar="C|F", help="Storage order in its blocks."),
    click.option(
        "--source-format",
        metavar="F",
        help="Its format, if its suffix does not tell.  [default: raw, with shape and type]",
    ),
    click.option(
        "--source-offset", type=int, metavar="N", help="Bytes before the data in each raw file."
    ),
    click.option("--strict", is_flag=True, help="Treat missing blocks as errors."),
)

max_rate = click.option(
    "--max-rate",
    metavar="SIZE",
    help="Most bytes read and written per second, e.g. 100MB.  [default: no limit]",
)
max_rate_to_resume = click.option(
    "--max-rate",
    metavar="SIZE",
    help="Most bytes read and written per second, e.g. 100MB.  [default: that of the first run]",
)
verify = click.option(
    "--verify", is_flag=True, help="Read the target back and compare its checksums."
)

consume = click.option(
    "--consume", is_flag=True, help="Remove source blocks that are no longer needed."
)

sidecar = click.option(
    "--no-sidecar",
    "sidecar",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Leave no hidden file with checksums next to a target of one file; it can then only be "
    "compared with its source.",
)

part = click.option(
    "--part",
    metavar="I/N",
    help="Write only part I of N; other processes write the others. Then: dask-io finish DST.",
)
processes = click.option(
    "--processes", type=int, metavar="N", help="Share memory and work among N processes."
)
parts = click.option(
    "--parts", type=int, metavar="N", help="Show N parts for a job array, and a script for SLURM."
)
scheduler = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run on the workers of this dask scheduler: its address or scheduler file. --memory is "
    "then per part.",
)

without_data = stack(
    click.option("--shape", metavar="N,N,...", help="Without SRC: shape of the array."),
    click.option("--from", "from_", metavar="C,C,...", help="Without SRC: blocks of the source."),
    click.option("--to", metavar="C,C,...", help="Without SRC: blocks of the target."),
)

target = stack(
    format_,
    click.option(
        "--format-version",
        type=int,
        metavar="N",
        help="Version of the format: Zarr 2 or 3, NIfTI 1 or 2.",
    ),
    codec,
    click.option(
        "--shards",
        metavar="C,C,...",
        help="Shards of a zarr target, which contain several chunks: a length per axis, or one for "
        "all. -1: whole axis; time=48: only that axis.",
    ),
    dtype,
    casting,
    order,
    click.option(
        "--fill-value", metavar="V", help="Value of blocks that a container does not store."
    ),
    click.option("--write-empty", is_flag=True, help="Also store blocks with only the fill value."),
    click.option(
        "--axes", metavar="A,A,...", help="Names of the axes, e.g. z,y,x.  [default: as source]"
    ),
    click.option(
        "--spacing",
        metavar="D,D,...",
        help="Distance between elements: one for all axes of space, one per axis, or by name: "
        "z=2,y=0.5,x=0.5.  [default: as source]",
    ),
    click.option("--unit", metavar="U,...", help="Its unit: one, one per axis, or t=s,z=um."),
    click.option("--overwrite", is_flag=True, help="Replace a target that exists."),
)

resources = stack(memory, workers)

choice = stack(strategy, objective, device)

durability = click.option(
    "--durability",
    type=click.Choice(["none", "rename", "fsync"]),
    default="fsync",
    metavar="D",
    help="Written blocks are safe: never (none), if the process ends (rename), if power fails "
    "(fsync, the default).",
)
check = click.option("--check", is_flag=True, help="Check the header of every block first.")

planning = stack(target, resources, choice, max_rate, durability, check, source)

running = stack(
    target,
    resources,
    max_rate,
    processes,
    part,
    scheduler,
    choice,
    click.option("--dry-run", is_flag=True, help="Show the plan; change nothing."),
    verify,
    sidecar,
    durability,
    check,
    reporting.option,
    source,
    progress,
    verbose,
    as_json,
    quiet,
    debug,
)


def open_source(path: str, given: dict[str, Any]) -> str | BlockArray:
    """Open a source with the user's description, if there is one; otherwise return the path."""
    names = ("shape", "dtype", "chunks", "order", "format", "offset")
    description: dict[str, Any] = {name: given.get(f"source_{name}") for name in names}
    description["strict"] = given.get("strict", False)
    if all(each is None or each is False for each in description.values()):
        return path
    from dask_io import api  # noqa: PLC0415  # only when it is used

    if description["strict"]:
        api.refuse_several(path, "--strict")
    if description["shape"]:
        description["shape"] = parse_shape(description["shape"], "--source-shape")
    if description["chunks"]:
        description["chunks"] = parse_chunks(description["chunks"])
    return api.open(path, **description)


def read_regions(path: str) -> list[str]:
    """Read a file with one region per line; a # starts a comment."""
    from pathlib import Path  # noqa: PLC0415  # only when it is used

    from dask_io.errors import UsageError  # noqa: PLC0415  # only when it is used
    from dask_io.storage.os_errors import storage_errors  # noqa: PLC0415  # only when it is used

    try:
        with storage_errors(path):
            lines = Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        message = f"{path} is not a text file; write one region per line, as 0:100,:,5:"
        raise UsageError(message) from None
    found = [text for line in lines if (text := line.partition("#")[0].strip())]
    if not found:
        raise UsageError(f"{path} has no regions; write one per line, as 0:100,:,5:")
    return found


def chunks_for(dst: str, given: dict[str, Any]) -> Chunks:
    """Return the chunks of a target; None if they follow from the pattern of its files.

    Raises
    ------
    click.UsageError
        If they are not given, and the target is not a pattern.
    """
    if given["chunks"] is not None:
        return parse_chunks(given["chunks"])
    from dask_io.formats.places import has_field  # noqa: PLC0415  # only when it is used

    if has_field(dst):
        return None
    from dask_io.formats.creating import names_one_file  # noqa: PLC0415  # only when it is used
    from dask_io.formats.registry import row_of  # noqa: PLC0415  # only when it is used

    row = row_of(dst)
    if row is not None and row.blocks and names_one_file(dst, given.get("format")):
        raise click.UsageError(
            f"missing option '--chunks': {dst} is one file; add --chunks -1, or use dask-io merge"
        )
    raise click.MissingParameter(param_hint="'--chunks'", param_type="option")


def parse_chunks(text: str) -> Chunks:
    """Parse chunks."""
    from dask_io.geometry import chunks  # noqa: PLC0415  # only when it is used

    return chunks.parse_chunks(text)


def select(given: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a command that are options of the verbs, by the same names."""
    from dask_io.geometry.shards import parse_shards  # noqa: PLC0415  # only when it is used
    from dask_io.jobs.settings import Settings  # noqa: PLC0415  # only when it is used

    found = {name: given[name] for name in Settings.__slots__ if name in given}
    if found.get("shards") is not None:
        found["shards"] = parse_shards(found["shards"])
    return found


def parse_shape(text: str, option: str) -> tuple[int, ...]:
    """Parse comma-separated lengths."""
    from dask_io.errors import UsageError  # noqa: PLC0415  # only when it is used

    try:
        lengths = re.sub(r"(?<=\d)\s*[x×]\s*(?=\d)", ",", text)
        shape = tuple(int(part) for part in lengths.strip(" ,()").split(","))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 0:
        message = f"{option} {text!r} is not a shape; write it as 3500,3500,3500"
        raise UsageError(message)
    return shape
