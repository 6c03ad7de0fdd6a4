"""Plans, runs, stores and comparisons as readable text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask_io.errors import list_names, printable
from dask_io.planning import Seeks, explain_visits, memory_for_lower_bound, predict_seconds
from dask_io.planning.describe import table
from dask_io.report.jsonable import DamagedArray, Repaired, compression_ratio
from dask_io.report.space import space_rows
from dask_io.stores.scaling import scaling_in
from dask_io.stores.space import Space, shown_names
from dask_io.stores.spec import CODECS_OF_FILES, SPACE
from dask_io.units import at_least, by, count, format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dask_io.engine.run import RunResult
    from dask_io.planning import AnyPlan, Device, Series, Sweeps
    from dask_io.report.explain import Explanation
    from dask_io.report.jsonable import Described, DescribedGroup

_NARROWEST, _LONGEST_LINE = 8, 72
_MOST_LISTED = 20


def plan_text(
    plan: AnyPlan | Sweeps | Series,
    device: Device | None = None,
    *,
    inferred: str = "",
    n_shares: int = 1,
) -> str:
    """Describe a plan and its costs, with its predicted time if a device is given.

    The text also shows what was inferred from file names, and which blocks are visited more than
    once. The plan has one of `n_shares` equal shares of the memory that the user gave.
    """
    lines = [str(plan).rstrip()]
    if visits := explain_visits(plan, n_shares=n_shares):
        lines.append(f"  {'visits':<9} {visits}")
    if inferred:
        lines.append(f"  {'names':<9} {printable(inferred)}, inferred from the file names")
    if device is not None:
        lines.append(f"  {'time':<9} {_predicted(plan, device)} predicted on {device.name}")
    return "\n".join(lines)


def explained_series_text(series: Series, arrays: Mapping[str, Explanation], device: Device) -> str:
    """Describe the joint cost of the plans of several arrays, then explain each plan."""
    most = max((each.plan.problem.n_bytes for each in arrays.values()), default=0)
    shown = {n: one for n, one in arrays.items() if one.plan.problem.n_bytes * 100 >= most}
    texts = [f"array {printable(name)}: {explained_text(each)}" for name, each in shown.items()]
    if small := [printable(name) for name in arrays if name not in shown]:
        texts.append(f"not explained, below 1 % of the largest array: {list_names(small)}")
    return "\n\n".join([plan_text(series, device), *texts])


def explained_text(explanation: Explanation, *, inferred: str = "") -> str:
    """Describe a plan, the costs of every strategy, and why one was chosen."""
    plan, device = explanation.plan, explanation.device
    rows: list[tuple[str, ...]] = [("strategy", "seeks", "openings", "memory", "steps", "time", "")]
    for one in explanation.candidates:
        if one.plan is None:
            rows.append((one.strategy, *["-"] * 5, f"does not fit: {one.why_not}"))
            continue
        counts = (one.plan.seeks.total, one.plan.openings, one.plan.n_steps)
        seeks, openings, steps = (f"{count:,}" for count in counts)
        memory, time = format_bytes(one.plan.peak_bytes), _predicted(one.plan, device)
        chosen = "chosen" if one.plan == plan else ""
        rows.append((one.strategy, seeks, openings, memory, steps, time, chosen))
    problem = plan.problem
    is_partial = any(map(any, problem.source.partial))
    how = "each run of a block's part touched once" if is_partial else "every block touched once"
    bound = f"{problem.lower_bound:,} seeks are the fewest possible: {how}"
    if plan.seeks.total > problem.lower_bound:
        needed = memory_for_lower_bound(problem)
        bound += f", with --memory {at_least(needed)} or more"
    text = plan_text(plan, device, inferred=inferred)
    return f"{text}\n\n{table(rows)}\n{bound}\n{explanation.reason}"


def _predicted(plan: AnyPlan | Sweeps | Series, device: Device) -> str:
    return format_seconds(predict_seconds(plan, device))


def run_text(plan: AnyPlan | Sweeps | Series, result: RunResult, *, unit: str = "block") -> str:
    """Describe a run in two lines: what was written, and at which cost."""
    return f"{result.describe(unit=unit)}\n{_costs(plan, result)}"


def counts_text(plan: AnyPlan | Sweeps | Series, result: RunResult) -> str:
    """Compare the measured costs of a run with those predicted, in a table."""
    peak = "unknown" if result.peak_memory is None else format_bytes(result.peak_memory)
    rows = [
        ("", "predicted for all" if result.blocks_skipped else "predicted", "measured"),
        ("seeks, read", f"{plan.seeks.read:,}", f"{result.seeks.read:,}"),
        ("seeks, write", f"{plan.seeks.write:,}", f"{result.seeks.write:,}"),
        ("data held", format_bytes(plan.held_bytes), format_bytes(result.held)),
        ("data and buffers", format_bytes(plan.peak_bytes), "not more"),
        ("growth of the process", "", peak),
    ]
    return table(rows)


def _costs(plan: AnyPlan | Sweeps | Series, result: RunResult) -> str:
    """Describe how often blocks were visited, and the memory.

    The budget limits data and buffers. The process also grows by what Python and libraries take.
    """
    seeks = f"{result.seeks.read:,} read and {count(result.seeks.write, 'write seek')}"
    if result.blocks_skipped:
        # The plan also covers what an earlier run has written.
        how = ""
    elif result.seeks == plan.seeks:
        how = ", as predicted"
    elif result.seeks == Seeks(plan.seeks.read, plan.seeks.write - result.blocks_left_out):
        how = ", as predicted for the blocks that are stored"
    else:
        how = f" ({plan.seeks.read:,} and {plan.seeks.write:,} predicted)"
    scratch = ""
    if result.n_bytes_scratch:
        scratch = f"; {format_bytes(result.n_bytes_scratch)} passed through scratch files"
    peak = ""
    if result.peak_memory is not None:
        grown, buffers = format_bytes(result.peak_memory), format_bytes(plan.peak_bytes)
        peak = f"; the process grew by {grown} ({buffers} for data and buffers)"
    return f"{seeks}{how}{scratch}{peak}"


def info_text(info: Described) -> str:
    """Describe a store."""
    rows = info_rows(info)
    width = max(_NARROWEST, *(len(name) for name, _ in rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def info_rows(info: Described) -> list[tuple[str, str]]:
    """Return what describes a store, each with its name."""
    axes, blocks = info.grid.axes, f"{info.grid.n_blocks:,}"
    if info.n_files is not None:
        blocks = f"{count(info.n_files, 'file')}, decoded in {blocks} slabs"
    uneven = ["" if axis.chunk else f", uneven along axis {i}" for i, axis in enumerate(axes)]
    orders = {"C": "C (last axis fastest)", "F": "F (first axis fastest)"}
    size, on_disk = format_bytes(info.n_bytes), format_bytes(info.n_bytes_on_disk)
    return [
        ("place", printable(info.place)),
        ("format", info.format),
        ("shape", by(info.shape)),
        ("dtype", printable(str(info.dtype))),
        ("blocks", f"{blocks} of {by(info.grid.longest)}{''.join(uneven)}"),
        ("order", orders.get(info.order, f"axes {info.order}, slowest first")),
        ("size", f"{size} ({info.n_bytes:,} bytes)"),
        ("on disk", f"{on_disk} ({info.n_bytes_on_disk:,} bytes){_compressed(info)}"),
        *_naming_rows(info),
        *_metadata_rows(info.metadata),
    ]


def group_text(group: DescribedGroup) -> str:
    """Describe a group, with a line for every array."""
    rows: list[tuple[str, ...]] = [("array", "shape", "dtype", "blocks", "size", "on disk", "")]
    for name, info in group.arrays.items():
        sizes = format_bytes(info.n_bytes), format_bytes(info.n_bytes_on_disk)
        blocks = f"{info.grid.n_blocks:,} of {by(info.grid.longest)}"
        names = ", ".join(map(str, info.metadata.get("dimension_names") or ()))
        dtype = _brief(str(info.dtype))
        rows.append((printable(name), by(info.shape), dtype, blocks, *sizes, _brief(names)))
    for name, problem in group.others.items():
        is_copied = name not in group.uncopied
        how = "copied verbatim" if is_copied else f"cannot be copied: it {problem}"
        rows.append((printable(name), *["-"] * 5, _brief(how)))
    head = f"{printable(group.place)}: a group of {count(len(rows) - 1, f'{group.format} array')}"
    about = f"\nattributes: {_brief(', '.join(group.attributes))}" if group.attributes else ""
    return f"{head}\n{table(rows)}{about}{_space_of_group(group)}"


def _space_of_group(group: DescribedGroup) -> str:
    """Write the space of the first array that has one, such as the first level of an image."""
    spaces = ((name, info.metadata.get(SPACE)) for name, info in group.arrays.items())
    name, space = next((each for each in spaces if each[1] is not None), ("", None))
    if space is None:
        return ""
    rows = "".join(f"\n  {word}: {printable(value)}" for word, value in space_rows(space))
    return f"\nspace of {printable(name)}:{rows}"


def _compressed(info: Described) -> str:
    ratio = compression_ratio(info)
    return "" if ratio is None else f", compressed {ratio:.2f} to 1"


def _naming_rows(info: Described) -> Iterator[tuple[str, str]]:
    """Yield the pattern of block files, and what was inferred from their names."""
    if info.pattern is not None:
        yield "pattern", printable(info.pattern)
    if info.inferred is not None:
        yield "inferred", f"{printable(info.inferred)}, from the file names"


def _metadata_rows(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a short form of a container's other metadata."""
    if "codecs" in metadata:
        several = metadata.get(CODECS_OF_FILES) or [metadata["codecs"]]
        words = sorted(" + ".join(map(_codec, codecs)) or "none" for codecs in several)
        yield "codec", printable(" and ".join(words))
    if metadata.get("shards"):
        yield "shards", by(metadata["shards"])
    if (scaling := scaling_in(metadata)) is not None and not scaling.is_identity:
        yield "scaling", f"{scaling}; Dask IO reads stored values"
    if metadata.get("fill_value") is not None:
        yield "fill", _brief(str(metadata["fill_value"]))
    if metadata.get("dimension_names"):
        yield "axes", _brief(", ".join(shown_names(metadata["dimension_names"])))
    if isinstance(space := metadata.get(SPACE), Space):
        yield from ((name, printable(value)) for name, value in space_rows(space))
    if metadata.get("note"):
        yield "note", printable(metadata["note"])
    if metadata.get("attributes"):
        yield "attributes", _brief(", ".join(metadata["attributes"]))
    if metadata.get("snapshot"):
        yield "snapshot", printable(metadata["snapshot"])


def _codec(config: Mapping[str, Any]) -> str:
    parameters = [f"{name}={value}" for name, value in config.items() if name != "id"]
    return f"{config['id']} ({', '.join(parameters)})" if parameters else str(config["id"])


def _brief(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _LONGEST_LINE else f"{shown[: _LONGEST_LINE - 3]}..."


def repair_text(repair: Repaired) -> str:
    """Describe the damage, and what was or would be rewritten."""
    if not repair.damaged:
        blocks = count(repair.n_blocks, "block")
        return f"nothing to repair: {blocks} checked, none damaged"
    result = repair.result
    if result.verified:
        size = format_bytes(result.n_bytes_written - result.n_bytes_scratch)
        time = format_seconds(result.seconds)
        written = count(result.blocks_written, "block")
        head = f"rewrote {written}, {size}, in {time}; these were damaged or changed:"
    else:
        head = "these are damaged, or changed since, and the source's would replace them:"
    return "\n".join([head, *(f"  {damage_text(each)}" for each in repair.damaged)])


def damage_text(damage: DamagedArray) -> str:
    """Describe the damage to one array, in a line."""
    return printable(f"{damage.place}: {what_is_damaged(damage)}")


def what_is_damaged(damage: DamagedArray) -> str:
    """Describe the damage to one array, without its name."""
    listed = [",".join(map(str, index)) for index in damage.blocks[:_MOST_LISTED]]
    rest = damage.n_damaged - len(listed)
    parts = list(damage.others)
    if listed:
        more = f" and {rest:,} more" if rest else ""
        parts.insert(0, f"block{'s' * (damage.n_damaged != 1)} {' '.join(listed)}{more}")
    whole = " (the whole file is rewritten)" if damage.needs_whole_file else ""
    return f"{', '.join(parts) or 'nothing is damaged'}{whole}"
