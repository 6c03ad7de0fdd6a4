"""Programs give the same by plan as by Dask alone, and the table says which go by plan."""

import logging
from functools import partial
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import zarr

import dask_io
from tests.graph.shapes import SHAPES, Shape, dask


def contents(folder: Path) -> dict[str, Any]:
    """Return all arrays in a folder, by their paths."""
    found: dict[str, Any] = {path.name: np.load(path) for path in folder.glob("*.npy")}
    for path in folder.glob("*.h5"):
        with h5py.File(path) as file:
            file.visititems(partial(_note, found))
    places = {path.parent for name in ("zarr.json", ".zarray") for path in folder.rglob(name)}
    for place in places:
        opened = zarr.open(str(place), mode="r")
        if isinstance(opened, zarr.Array):
            found[str(place.relative_to(folder))] = opened[...]
    return found


def _note(found: dict[str, Any], name: str, thing: Any) -> None:
    if isinstance(thing, h5py.Dataset):
        found[name] = thing[...]


def carry_out(shape: Shape, inputs: Path, out: Path) -> Any:
    """Run a program to its end."""
    out.mkdir()
    later = shape.run(inputs, out)
    return None if later is None else dask.compute(later)


def assert_same(shape: Shape, inputs: Path, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Compare a program by plan with Dask alone, bit by bit, and what is said with the table."""
    alone = carry_out(shape, inputs, folder / "dask")
    caplog.set_level(logging.INFO, "dask_io.graph")
    with dask_io.optimize(memory="1MiB"):
        planned = carry_out(shape, inputs, folder / "plan")

    ours = [record for record in caplog.records if record.name.startswith("dask_io")]
    said = [record.getMessage() for record in ours]
    by_plan = [text for text in said if text.startswith("by plan")]
    by_dask = [text for text in said if text.startswith("by Dask")]
    assert len(by_plan) + len(by_dask) == len(said), "nothing goes wrong unseen"
    if shape.reason:
        assert shape.reason in " ".join(by_dask)
    else:
        assert by_plan
        assert not by_dask
    expected, found = contents(folder / "dask"), contents(folder / "plan")
    assert found.keys() == expected.keys()
    assert found
    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        assert array.tobytes() == expected[name].tobytes(), name
    np.testing.assert_equal(planned, alone)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if not shape.cluster_only], ids=str)
def test_by_threads(
    shape: Shape, inputs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Programs give the same on the threads of this process."""
    assert_same(shape, inputs, tmp_path, caplog)


# All programs are tried by threads with every run. Here, those that Dask runs alone, and every
# second one of the others, are tried on demand.
ON_A_CLUSTER = [
    pytest.param(shape, marks=pytest.mark.slow if shape.reason or number % 2 else ())
    for number, shape in enumerate(SHAPES)
    if not shape.threads_only
]


@pytest.mark.parametrize("shape", ON_A_CLUSTER, ids=str)
@pytest.mark.usefixtures("client")
def test_on_a_cluster(
    shape: Shape, inputs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Programs give the same on workers that are processes, each with a part of the plan."""
    assert_same(shape, inputs, tmp_path, caplog)


def test_there_are_many_of_both() -> None:
    """The table is long enough to mean something, and no program is in it twice."""
    matched = {shape.name for shape in SHAPES if not shape.reason}
    declined = {shape.name for shape in SHAPES if shape.reason}

    assert len(matched) >= 30
    assert len(declined) >= 20
    assert len(matched | declined) == len(SHAPES)
