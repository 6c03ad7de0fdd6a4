"""What users are told about a graph."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import dask_io
from dask_io.planning import Plan
from tests.graph.shapes import SHAPES, Shape, da, dask, source, target, values


def test_a_match_is_explained(inputs: Path, tmp_path: Path) -> None:
    """Printed, it names both places and the plan; as HTML, there is a drawing too."""
    stored = (
        source(inputs).rechunk((25, 44)).store(target(tmp_path / "x.zarr", (25, 44)), compute=False)
    )

    told = dask_io.explain(stored, memory="1MiB")

    assert told.matched
    assert told.reasons == ()
    assert [type(plan) for plan in told.plans] == [Plan]
    assert str(told).startswith(f"By plan: {inputs / 'a.zarr'} to {tmp_path / 'x.zarr'}\n")
    assert "<svg" in told._repr_html_()


def test_a_near_miss_is_explained(inputs: Path, tmp_path: Path) -> None:
    """The reason says what is in the way; markup in it is not markup on a page."""
    array = source(inputs).map_blocks(lambda block: block[:1] if "<" else block, dtype="i4")
    stored = array.rechunk((25, 44)).store(target(tmp_path / "x.zarr", (25, 44)), compute=False)

    told = dask_io.explain(stored, memory="1MiB")

    assert not told.matched
    assert not told.plans
    assert "a function cannot be tried" in str(told)
    assert "by Dask" in told._repr_html_()


def test_a_memory_map_is_to_be_opened_otherwise(tmp_path: Path) -> None:
    """Dask copies memory-mapped arrays; the way around is told."""
    np.save(tmp_path / "a.npy", values())
    array = da.from_array(np.load(tmp_path / "a.npy", mmap_mode="r"), chunks=(10, 11))
    stored = array.rechunk((25, 44)).store(target(tmp_path / "x.zarr", (25, 44)), compute=False)

    assert "dask_io.open" in dask_io.explain(stored).reasons[0]


def test_what_was_planned_already_is_told(inputs: Path, tmp_path: Path) -> None:
    """A delayed object is optimized when it is made, and has its plan from then on."""
    stored = (
        source(inputs).rechunk((25, 44)).store(target(tmp_path / "x.zarr", (25, 44)), compute=False)
    )
    with dask_io.optimize(memory="1MiB"):
        later = dask.delayed(len)([stored])

    told = dask_io.explain(later)

    assert told.matched
    assert len(told.plans) == 1


def test_nothing_to_do_is_told() -> None:
    """A graph that neither reads nor stores is not matched, and says why."""
    told = dask_io.explain(da.ones(5).sum())

    assert not told.matched
    assert told.reasons == ("the graph neither reads nor stores an array",)


def test_what_was_created_outside_the_context_is_told(inputs: Path, tmp_path: Path) -> None:
    """A delayed object that Dask has optimized stays so; the reason says how to change that."""
    stored = (
        source(inputs).rechunk((25, 44)).store(target(tmp_path / "x.zarr", (25, 44)), compute=False)
    )
    outside = dask.delayed(len)([stored])

    (reason,) = dask_io.explain(outside).reasons

    assert "outside the context of dask_io.optimize" in reason
    assert "create it within the context" in reason


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ("zarr", "xarray decodes t (_ElementwiseFunctionArray); open the dataset with mask_and"),
        ("netcdf4", "xarray itself reads NetCDF files (NetCDF4ArrayWrapper)"),
    ],
)
def test_what_xarray_decodes_is_told(engine: str, told: str, inputs: Path, tmp_path: Path) -> None:
    """Also of a delayed object that was created within the context, whose layers are gone."""
    place = inputs / "packed.zarr"
    with dask_io.optimize(memory="1MiB"):
        if engine != "zarr":
            place = tmp_path / "plain.nc"
            xr.Dataset({"t": (("y", "x"), values())}).to_netcdf(place, engine="netcdf4")
        dataset = xr.open_dataset(place, engine=engine, chunks={}).chunk(y=25, x=44)
        dataset["t"].encoding.clear()
        stored = dataset.to_zarr(tmp_path / "x.zarr", zarr_format=2, compute=False)

        (reason,) = dask_io.explain(stored).reasons

    assert reason.startswith(told)


def test_one_decoded_variable_is_told_next_to_plans(tmp_path: Path) -> None:
    """Each variable that goes by Dask is named with the option that stops xarray decoding it."""
    days = np.arange("2000-01-01", "2000-01-05", dtype="M8[D]").astype("M8[ns]")
    dataset = xr.Dataset({"plain": (("y", "x"), values()), "bounds": ("time", days)})
    dataset.to_zarr(tmp_path / "a.zarr", zarr_format=2, encoding={"plain": {"_FillValue": None}})
    opened = xr.open_zarr(tmp_path / "a.zarr").drop_encoding()
    with dask_io.optimize(memory="1MiB"):
        stored = opened.to_zarr(tmp_path / "x.zarr", zarr_format=2, compute=False)

        told = dask_io.explain(stored)

    (reason,) = told.reasons
    assert not told.matched
    assert len(told.plans) == 1
    assert reason.startswith("xarray decodes bounds (")
    assert "decode_times=False" in reason
    assert "By plan:" in str(told)
    assert "1 by plan, 1 by Dask" in repr(told)


def test_a_declined_store_is_told_next_to_plans(inputs: Path, tmp_path: Path) -> None:
    """A Delayed has no layers any more, yet its plans keep the reasons of the other stores."""
    stored = da.store(
        [source(inputs).rechunk((25, 44)), source(inputs, "b")[::-1]],
        [target(tmp_path / "x.zarr", (25, 44)), target(tmp_path / "y.zarr", (25, 44))],
        compute=False,
    )
    with dask_io.optimize(memory="1MiB"):
        told = dask_io.explain(dask.delayed(len)(stored))

    assert len(told.plans) == 1
    assert len(told.reasons) == 1
    assert not told.matched


@pytest.mark.parametrize(
    "shape",
    [shape for shape in SHAPES if shape.name in {"to_zarr_later", "xarray_dataset_later"}],
    ids=lambda shape: shape.name,
)
def test_what_programs_return_can_be_explained(shape: Shape, inputs: Path, tmp_path: Path) -> None:
    """Explaining needs nothing but what is to be computed."""
    with dask_io.optimize(memory="1MiB"):
        assert dask_io.explain(shape.run(inputs, tmp_path)).matched
