"""What a run will do, in a few lines, and a plan on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dask_io.errors import printable
from dask_io.planning import CopyPlan, Series, SpillPlan, Sweeps, explain_visits, predict_seconds
from dask_io.planning.describe import absent_of
from dask_io.report.text import plan_text
from dask_io.units import by, count, format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.planning import AnyPlan, Device, Side

ONCE = "each block is read once and written once"
"""The promise of a plan that visits every block once."""


class Move(NamedTuple):
    """A plan, with the places that it connects."""

    plan: AnyPlan | Sweeps | Series
    source: str
    target: str
    unit: str = "block"
    """What the target is written in: blocks, or shards."""
    codec: str = ""
    """The names of the codecs of the target; empty if it has none."""
    skipped: int = 0
    """Blocks of the target that an earlier run has written."""
    skipped_bytes: int = 0
    """Bytes of the array that an earlier run has written."""
    restarts: bool = False
    """Whether the file of an earlier run cannot be continued."""


class Shared(NamedTuple):
    """How several processes share a run."""

    costs: str
    """What each process takes, and writes of it."""
    n_shares: int = 1
    """Into how many shares the memory that the user gave is divided."""


def preview(move: Move, by_whom: Device | Shared) -> Iterator[str]:
    """Yield a line each for what goes where, how often blocks are visited, and the costs.

    A plan that several processes share is that of one process, which does not take the time and
    the memory of all.
    """
    plan = move.plan
    yield _what_goes_where(move)
    if move.skipped:
        plural = "s are" if move.skipped != 1 else " is"
        yield f"continues a run: {move.skipped:,} {move.unit}{plural} already written"
    elif move.skipped_bytes:
        yield f"continues a run: {format_bytes(move.skipped_bytes)} are already written"
    elif move.restarts:
        yield f"starts again: an incomplete {_file_name(move.target)} cannot be continued"
    if isinstance(by_whom, Shared):
        once = f"{ONCE}, except source blocks that several parts need"
        yield explain_visits(plan, n_shares=by_whom.n_shares) or once
        yield by_whom.costs
    else:
        yield explain_visits(plan) or ONCE
        seconds = format_seconds(_predict(move, by_whom))
        memory = f"up to {format_bytes(plan.peak_bytes)} of memory"
        disk = _disk(plan, "of disk space", move.skipped_bytes)
        yield f"takes about {seconds} on {by_whom.name}, {memory} and {disk}"


def _predict(move: Move, device: Device) -> float:
    """Predict the time that is left, in seconds."""
    plan, seconds = move.plan, predict_seconds(move.plan, device)
    if move.skipped_bytes:
        seconds *= 1 - move.skipped_bytes / _size(plan)
    return seconds


def _file_name(target: str) -> str:
    return printable(target.rstrip("/").rpartition("/")[2])


def _what_goes_where(move: Move) -> str:
    plan, source, target = move.plan, printable(move.source), printable(move.target)
    if isinstance(plan, Series):
        what = f"{count(len(plan.plans), 'array')}, {format_bytes(_size(plan))}"
        return f"copies {what}, from {source} to {target}"
    if isinstance(plan, Sweeps):
        problems = plan.problems
        n_blocks = sum(each.target.grid.n_blocks for each in problems)
        sizes = f"{format_bytes(_size(plan))} of {problems[0].dtype}"
        targets = f"{len(problems):,} targets, {count(n_blocks, 'block')}"
        return f"copies {sizes} from {source} to {target} ({targets})"
    problem = plan.problem
    what = f"{format_bytes(problem.n_bytes)} of {problem.dtype}"
    before, after = _blocks(problem.source), _blocks(problem.target, move.unit)
    after += _coded(move.codec)
    return f"copies {what} from {source} ({before}) to {target} ({after})"


def _blocks(side: Side, unit: str = "block") -> str:
    chunks = side.chunks_in_blocks
    parts = "" if chunks is None else f" with chunks of {by(chunks)}"
    word = unit if chunks is None else "shard"
    return f"{count(side.grid.n_blocks, f'{side.format} {word}')} of {side.stored}{parts}"


def _coded(codec: str) -> str:
    return f", {printable(codec)}" if codec else ""


def _disk(plan: AnyPlan | Sweeps | Series, what: str = "", n_bytes_there: int = 0) -> str:
    """Describe the disk space of a run; codecs make it smaller, but nobody knows by how much.

    `n_bytes_there` have been written before.
    """
    scratch = 0 if isinstance(plan, Sweeps) else plan.scratch_bytes
    aside = f", of which {format_bytes(scratch)} are scratch files" if scratch else ""
    n_bytes = max(0, _disk_bytes(plan) - n_bytes_there)
    more = "more " if n_bytes_there else ""
    return f"{format_bytes(n_bytes)} {more}{what}".rstrip() + aside


def _disk_bytes(plan: AnyPlan | Sweeps | Series) -> int:
    if isinstance(plan, Series):
        written = sum(each.disk_bytes - each.scratch_bytes for each in plan.plans.values())
        return written + plan.scratch_bytes
    if isinstance(plan, Sweeps):
        return plan.n_bytes_written
    return plan.disk_bytes


def plan_summary(
    plan: AnyPlan | Sweeps | Series,
    device: Device | None = None,
    *,
    inferred: str = "",
    codec: str = "",
    n_shares: int = 1,
) -> str:
    """Describe a plan on one screen, in words that need no explanation.

    `codec` are the names of the codecs of the target, if it has any. The plan has one of `n_shares`
    equal shares of the memory that the user gave.
    """
    if isinstance(plan, (Series, Sweeps)):
        # One line for each array or target.
        return plan_text(plan, device, inferred=inferred, n_shares=n_shares)
    rows = _single_rows(plan, device, inferred=inferred, codec=codec, n_shares=n_shares)
    return "\n".join(f"{name:<9} {text}" for name, text in rows)


def plan_facts(plan: AnyPlan | Sweeps | Series) -> Iterator[str]:
    """Yield what is most important about a plan, in a few words each."""
    if isinstance(plan, Series):
        yield count(len(plan.plans), "array")
    elif isinstance(plan, Sweeps):
        yield count(len(plan.problems), "target")
    else:
        yield plan.strategy
    yield count(plan.seeks.total, "seek")
    yield format_bytes(_size(plan))


def plan_rows(
    plan: AnyPlan | Sweeps | Series,
    device: Device | None = None,
    *,
    inferred: str = "",
    codec: str = "",
) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a table that describes a plan."""
    if not isinstance(plan, (Series, Sweeps)):
        yield from _single_rows(plan, device, inferred=inferred, codec=codec)
        return
    n_moved = len(plan.plans) if isinstance(plan, Series) else len(plan.problems)
    yield "arrays" if isinstance(plan, Series) else "targets", f"{n_moved:,}"
    yield "size", format_bytes(_size(plan))
    yield "visits", explain_visits(plan) or ONCE
    yield "seeks", f"{plan.seeks.read:,} read + {plan.seeks.write:,} write = {plan.seeks.total:,}"
    yield "memory", format_bytes(plan.peak_bytes)
    yield "disk", _disk(plan)
    if inferred:
        yield "names", f"{inferred}, inferred from the file names"
    if device is not None:
        seconds = format_seconds(predict_seconds(plan, device))
        yield "time", f"{seconds} predicted on {device.name}"


def _size(plan: AnyPlan | Sweeps | Series) -> int:
    """Return the bytes of all arrays that are written."""
    if isinstance(plan, Series):
        return sum(each.problem.n_bytes for each in plan.plans.values())
    problems = plan.problems if isinstance(plan, Sweeps) else (plan.problem,)
    return sum(each.n_bytes for each in problems)


def _single_rows(
    plan: AnyPlan, device: Device | None, *, inferred: str, codec: str, n_shares: int = 1
) -> Iterator[tuple[str, str]]:
    """Yield the names and values that describe the plan of one array."""
    problem = plan.problem
    shape = " x ".join(map(str, problem.shape))
    types = f"{problem.dtype}"
    if problem.converted is not None:
        types = f"{problem.converted} converted to {problem.dtype}"
    visits = explain_visits(plan, n_shares=n_shares)
    budget = format_bytes(problem.budget)
    seeks = plan.seeks
    bound = "the fewest possible"
    if seeks.total > problem.lower_bound:
        bound = f"the fewest possible: {problem.lower_bound:,}"
    yield "array", f"{shape} of {types}, {format_bytes(problem.n_bytes)}"
    yield "source", _side(problem.source)
    yield "target", f"{_side(problem.target)}{_coded(codec)}"
    yield "visits", visits or ONCE
    yield "seeks", f"{seeks.read:,} read + {seeks.write:,} write = {seeks.total:,}, {bound}"
    excess = "" if plan.fits else ", which it exceeds"
    yield "memory", f"{format_bytes(plan.peak_bytes)} of {budget}{excess}"
    yield "disk", _disk(plan)
    if inferred:
        yield "names", f"{printable(inferred)}, inferred from the file names"
    if device is not None:
        seconds = format_seconds(predict_seconds(plan, device))
        yield "time", f"{seconds} predicted on {device.name}"
    yield "strategy", f"{plan.strategy}{_how(plan)}"


def _how(plan: AnyPlan) -> str:
    if isinstance(plan, CopyPlan):
        return ": blocks are copied verbatim, without decoding"
    if isinstance(plan, SpillPlan):
        return ": two passes, through scratch files on disk"
    return ""


def _side(side: Side) -> str:
    blocks = f"{_blocks(side)}, {side.layout.name} order"
    window = "" if side.window is None else f", of which {side.window}"
    return f"{blocks}{window}{absent_of(side)}"


GLOSSARY = """\
In these lines:
  seek         one contiguous piece of a file that is read or written. The lower bound is the fewest
               possible; naive is one source block after another, written at once.
  opening      one visit to a block, however many seeks it takes.
  swept        the order in which the array is read; the innermost axis changes fastest.
  read         number × length of the pieces that are read at once along each axis. At the end of a
               piece, incomplete target blocks are kept in memory (keep) or written in part (flush).
  step         reading one such piece.
  held         array data in memory that waits for the rest of its target block; in pieces or in
               whole blocks.
  staging      memory to read ahead, to decode and encode, and to write behind.
  atomic       compressed: can only be read or written as a whole."""
"""The words of a whole plan, explained."""
