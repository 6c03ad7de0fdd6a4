"""Switching it on and off, what it composes with, and what it does on doubt."""

import logging
import pickle
from collections.abc import Iterator
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import dask_io
from dask_io.errors import UsageError
from dask_io.graph import optimizer as module
from dask_io.graph.optimizer import Optimizer
from dask_io.graph.options import GraphOptions, OnMismatch
from tests.graph.shapes import da, dask, source, target, values

KEY = "array_optimize"


def stored(inputs: Path, folder: Path) -> Any:
    """Return a program that goes by plan, to be computed."""
    return (
        source(inputs).rechunk((25, 44)).store(target(folder / "x.zarr", (25, 44)), compute=False)
    )


def planned_tasks(collection: Any) -> list[Any]:
    """Return the keys of the plans in what Dask would run."""
    graph = dict(dask.optimize(collection)[0].dask)
    return [key for key in graph if "dask-io-plan" in str(key)]


def test_nothing_happens_without_being_asked_for(inputs: Path, tmp_path: Path) -> None:
    """Importing changes nothing, and neither does a context that is over."""
    collection = stored(inputs, tmp_path)

    assert not planned_tasks(collection)
    with dask_io.optimize(memory="1MiB"):
        assert planned_tasks(collection)
    assert not planned_tasks(collection)


def test_enable_and_disable(inputs: Path, tmp_path: Path) -> None:
    """Both hold until the other is called; enabling twice is enabling once."""
    collection = stored(inputs, tmp_path)
    try:
        dask_io.enable(memory="1MiB")
        dask_io.enable(memory="2MiB")
        assert planned_tasks(collection)
    finally:
        dask_io.disable()
    assert not planned_tasks(collection)
    assert KEY not in dask.config.config


def configured() -> dict[str, Any]:
    """Return what Dask looks at: nothing is not the same as None."""
    return {name: value for name, value in dask.config.config.items() if name == KEY}


def test_dask_optimizes_as_before_once_disabled() -> None:
    """A program that runs later has as few tasks as one that ran before."""
    array = da.ones(4, chunks=2) + 1
    n_tasks = len(dask.optimize(array)[0].dask)
    dask_io.enable(memory="1MiB")
    dask_io.disable()

    assert len(dask.optimize(array)[0].dask) == n_tasks


@pytest.fixture(params=["nothing", "None", "a function"])
def before(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """What is configured before Dask IO is: nothing, no optimization, or one of the user."""
    kinds: dict[str, Any] = {"nothing": {}, "None": {KEY: None}, "a function": {KEY: da.optimize}}
    with dask.config.set(kinds[request.param]):
        yield kinds[request.param]
    assert KEY not in dask.config.config


def test_every_way_out_leaves_the_configuration_as_it_was(before: dict[str, Any]) -> None:
    """Once the last context has ended, also with an error, nothing of Dask IO is left."""
    with dask_io.optimize(), dask_io.optimize():
        pass
    assert configured() == before

    with pytest.raises(ZeroDivisionError), dask_io.optimize(), dask_io.optimize():
        _ = 1 / 0
    assert configured() == before

    with dask_io.optimize(), dask.config.set({KEY: print}), dask_io.optimize():
        pass
    assert configured() == before

    with dask_io.optimize():
        dask.config.set({KEY: print})
    assert configured() == before

    dask_io.enable()
    with dask_io.optimize():
        dask_io.disable()
        assert configured() == before
    assert configured() == before

    with dask_io.optimize():
        dask_io.enable()
    assert isinstance(dask.config.get(KEY), Optimizer), "until it is disabled"
    dask_io.disable()
    dask_io.disable()
    assert configured() == before


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_contexts_that_overlap(before: dict[str, Any], order: tuple[int, ...]) -> None:
    """Contexts of several threads may end in any order; the newest that is open holds."""
    contexts = [dask_io.optimize(workers=1 + number) for number in range(3)]
    for context in contexts:
        context.__enter__()
    still_open = {0, 1, 2}
    for number in order:
        assert dask.config.get(KEY).options.workers == 1 + max(still_open)
        contexts[number].__exit__(None, None, None)
        still_open.remove(number)

    assert configured() == before


def test_no_optimization_stays_none(inputs: Path, tmp_path: Path) -> None:
    """Where the user wants none, Dask's own is not called; plans are in the graph."""
    collection = stored(inputs, tmp_path)
    array = da.ones(4, chunks=2) + 1
    with dask.config.set({KEY: None}):
        n_tasks = len(dask.optimize(array)[0].dask)
        with dask_io.optimize(memory="1MiB"):
            assert len(dask.optimize(array)[0].dask) == n_tasks
            assert planned_tasks(collection)
            collection.compute()

    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "x.zarr"))[:], values())


def test_what_was_set_before_is_still_called(inputs: Path, tmp_path: Path) -> None:
    """An optimization of the user's gets the graph with the plans in it."""
    seen = []

    def previous(dsk: Any, keys: Any, **kwargs: Any) -> Any:
        seen.append([name for name in dsk.layers if name.startswith("dask-io-plan")])
        return da.optimize(dsk, keys, **kwargs)

    collection = stored(inputs, tmp_path)
    with dask.config.set({KEY: previous}):
        with dask_io.optimize(memory="1MiB"):
            collection.compute()
        assert dask.config.get(KEY) is previous

    assert len(seen) == 1
    assert len(seen[0]) == 1
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "x.zarr"))[:], values())


def test_a_failure_of_ours_leaves_the_graph_untouched(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong in looking at a graph, Dask runs it as it is, and the log tells."""

    def fail(*_: Any) -> None:
        raise RuntimeError("not this one")

    monkeypatch.setattr(module, "analyze", fail)
    collection = stored(inputs, tmp_path)
    optimizer = Optimizer(GraphOptions(2**20, 2))

    with caplog.at_level(logging.ERROR):
        assert optimizer.rewrite(collection.dask, collection.__dask_keys__()) is collection.dask
    assert "not this one" in caplog.text


def test_other_graphs_are_the_very_same(inputs: Path) -> None:
    """A graph in which there is nothing to do is not even copied."""
    array = source(inputs).sum()
    optimizer = Optimizer(GraphOptions(2**20, 2))

    assert optimizer.rewrite(array.dask, array.__dask_keys__()) is array.dask
    assert optimizer.rewrite({"a": 1}, ["a"]) == {"a": 1}


def test_a_mismatch_can_warn_or_raise(inputs: Path, tmp_path: Path) -> None:
    """Where something is stored but not by plan, users are told as they wish to be."""
    array = source(inputs).T.rechunk((25, 20))
    collection = array.to_zarr(str(tmp_path / "x.zarr"), compute=False)

    with (
        dask_io.optimize(memory="1MiB", on_mismatch="warn"),
        pytest.warns(dask_io.MismatchWarning, match="other blocks than"),
    ):
        collection.compute()
    with (
        dask_io.optimize(memory="1MiB", on_mismatch="raise"),
        pytest.raises(UsageError, match="other blocks than"),
    ):
        collection.compute()


def test_too_little_memory_is_a_reason(inputs: Path, tmp_path: Path) -> None:
    """A budget that no plan fits leaves the program to Dask."""
    collection = stored(inputs, tmp_path)

    told = dask_io.explain(collection, memory="10kB")

    assert not told.matched
    assert "needs" in told.reasons[0]


def test_options_travel_with_the_graph() -> None:
    """What is pickled for a scheduler has its options in it, not those of the configuration."""
    optimizer = Optimizer(GraphOptions(memory=12345, workers=3, parts=7))

    assert pickle.loads(pickle.dumps(optimizer)) == optimizer  # noqa: S301 - our own
    assert hash(optimizer) == hash(Optimizer(GraphOptions(memory=12345, workers=3, parts=7)))


def test_options_that_are_not_for_programs_are_refused() -> None:
    """A program's own calls say where it writes, and how."""
    with pytest.raises(UsageError, match="codec"), dask_io.optimize(codec="zstd:3"):
        pass
    with (
        pytest.raises(UsageError, match="on_mismatch 'shout'"),
        dask_io.optimize(on_mismatch="shout"),
    ):
        pass
    with pytest.raises(UsageError, match="at least one part"), dask_io.optimize(parts=-1):
        pass


def test_options_come_from_the_configuration(inputs: Path, tmp_path: Path) -> None:
    """What a call leaves out is what Dask's configuration says."""
    said = {"dask-io.memory": "3MiB", "dask-io.workers": 3, "dask-io.optimize.on-mismatch": "warn"}
    with dask.config.set(said), dask_io.optimize():
        options = dask.config.get(KEY).options

    assert (options.memory, options.workers) == (3 * 2**20, 3)
    assert options.on_mismatch is OnMismatch.WARN
    with dask.config.set({"dask-io.memory": "10kB"}):
        assert not dask_io.explain(stored(inputs, tmp_path)).matched


def test_the_configuration_fits_its_schema() -> None:
    """Every default is described, and of the type that is described."""
    yaml = import_module("yaml")
    folder = Path(dask_io.__file__).parent
    defaults = yaml.safe_load((folder / "dask-io.yaml").read_text())["dask-io"]
    schema = yaml.safe_load((folder / "dask-io-schema.yaml").read_text())

    def compare(found: Any, described: Any) -> None:
        if described["type"] == "object":
            assert found.keys() == described["properties"].keys()
            for name, value in found.items():
                compare(value, described["properties"][name])
        elif "enum" in described:
            assert found in described["enum"]
        else:
            assert found is None
            assert "null" in described["type"]

    compare(defaults, schema["properties"]["dask-io"])


def test_a_plan_can_be_cut_into_parts(inputs: Path, tmp_path: Path) -> None:
    """Parts are tasks of their own, each with whole blocks of the target, and fill all of it."""
    collection = (
        source(inputs).rechunk((20, 44)).store(target(tmp_path / "x.zarr", (20, 11)), compute=False)
    )
    with dask_io.optimize(memory="1MiB", parts=3):
        told = dask_io.explain(collection)
        assert len(told.plans) == 3
        assert len(planned_tasks(collection)) == 4
        collection.compute()

    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "x.zarr"))[:], values())


def test_parts_of_another_number_have_other_keys(inputs: Path, tmp_path: Path) -> None:
    """A cluster that has carried out one of two parts does not take it for one of three."""
    collection = stored(inputs, tmp_path)
    found = []
    for parts in (2, 3):
        with dask_io.optimize(memory="1MiB", parts=parts):
            found.append(set(planned_tasks(collection)))

    assert all(found)
    assert found[0].isdisjoint(found[1])


def test_one_source_for_several_targets_is_read_once(inputs: Path, tmp_path: Path) -> None:
    """Targets that have their source in common are written from one read."""
    array = source(inputs)
    shapes = {"x": (25, 44), "y": (7, 7)}
    collections = da.store(
        [array.rechunk(chunks) for chunks in shapes.values()],
        [target(tmp_path / f"{name}.zarr", chunks) for name, chunks in shapes.items()],
        compute=False,
    )

    (plan,) = dask_io.explain(*collections, memory="1MiB").plans

    assert plan.seeks.read == 6 * 4


def test_what_a_function_computes_is_left_to_dask(inputs: Path, tmp_path: Path) -> None:
    """A plan on the way of another would wait for it for ever."""
    inner = stored(inputs, tmp_path)
    found: list[Any] = []

    def compute(block: Any) -> Any:
        found.append(planned_tasks(inner))
        return block

    outer = source(inputs).map_blocks(compute, dtype="i4").rechunk((25, 44))
    with dask_io.optimize(memory="1MiB"):
        collection = outer.to_zarr(str(tmp_path / "y.zarr"), compute=False)
        assert planned_tasks(collection)
        collection.compute()
        assert planned_tasks(inner)

    assert found
    assert not any(found)
