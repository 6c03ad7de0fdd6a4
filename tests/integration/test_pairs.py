"""Every ordered pair of formats: an array goes from one to the other with what both can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import dask_io
from dask_io.errors import BudgetTooSmallError

if TYPE_CHECKING:
    from pathlib import Path

ARRAY = np.random.default_rng(11).integers(-99, 99, (14, 9, 11)).astype("<i2")
ARRAY[:5, :9] = -7
SAID: dict[str, Any] = {"units": "K", "count": 3, "factor": 0.5, "flags": [1, 2, 3]}
NAMES = ("time", "y", "x")
# By name: how a place of this kind is called, what is asked for, and whether it holds metadata.
KINDS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "npy": ("{}", {"format": "npy"}, False),
    "one npy": ("{}.npy", {"chunks": -1}, False),
    "raw": ("{}", {"format": "raw"}, False),
    "npy-stack": ("{}", {"format": "npy-stack", "chunks": (4, -1, -1)}, False),
    "hdf5 blocks": ("{}", {"format": "hdf5"}, False),
    "nifti": ("{}", {"format": "nifti"}, False),
    "zarr": ("{}.zarr", {"codec": "none"}, True),
    "zarr with zstd": ("{}.zarr", {"codec": "zstd:1"}, True),
    "hdf5": ("{}.h5", {"codec": "none"}, True),
    "one hdf5": ("{}.h5::/deep/er", {"codec": "none", "chunks": -1}, True),
    "hdf5 with gzip": ("{}.hdf5", {"codec": "shuffle+gzip:1"}, True),
    "netcdf": ("{}.nc", {"codec": "none"}, True),
    "netcdf with zlib": ("{}.nc4::/v", {"codec": "shuffle+zlib:1"}, True),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An array that says something about itself."""
    path = tmp_path_factory.mktemp("start") / "start.zarr"
    made = zarr.create_array(
        path,
        shape=ARRAY.shape,
        chunks=(5, 4, 6),
        dtype=ARRAY.dtype,
        attributes=SAID,
        dimension_names=NAMES,
        fill_value=-7,
        compressors=None,
    )
    made[...] = ARRAY
    return path


# A third of the pairs with every run, so that each kind is at each end; the others on demand.
@pytest.mark.parametrize(
    ("one", "two"),
    [
        pytest.param(one, two, marks=pytest.mark.slow if (n + m) % 3 else ())
        for n, one in enumerate(KINDS)
        for m, two in enumerate(KINDS)
    ],
)
def test_every_format_to_every_other(one: str, two: str, start: Path, tmp_path: Path) -> None:
    """The same bytes, verified within a small budget, and the same metadata if both hold some."""
    places = [f"{tmp_path}/{KINDS[kind][0].format(n)}" for n, kind in enumerate((one, two))]
    first, second = ({"chunks": (6, 5, 4), **KINDS[kind][1]} for kind in (one, two))
    dask_io.resplit(start, places[0], **first)

    done = dask_io.resplit(*places, memory="4MiB", verify=True, **second)

    assert np.asarray(dask_io.open(places[1])).tobytes() == ARRAY.tobytes()
    assert dask_io.verify(*places)
    held = [KINDS[kind][2] for kind in (one, two)]
    if all(held):
        said = dask_io.info(places[1]).metadata
        assert {name: said["attributes"][name] for name in SAID} == SAID
        assert said["dimension_names"] == NAMES
        assert said["fill_value"] == -7
        assert done.not_kept == ()
    elif held[0]:
        assert set(done.not_kept) - {"codec"} == {"attributes", "dimension_names"}


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("two", ["zarr with blosc", "hdf5 with gzip"])
@pytest.mark.parametrize("one", ["one npy", "zarr with blosc", "hdf5 with gzip"])
def test_verifying_with_the_memory_that_it_asks_for(
    one: str, two: str, workers: int, tmp_path: Path
) -> None:
    """The first figure is the smallest that does, also beside chunks much larger than a slab."""
    kinds = {**KINDS, "zarr with blosc": ("{}.zarr", {"codec": "blosc:lz4:5:shuffle"}, True)}
    places = [f"{tmp_path}/{kinds[kind][0].format(n)}" for n, kind in enumerate((one, two))]
    np.save(tmp_path / "start.npy", np.arange(96 * 96 * 64, dtype="i4").reshape(96, 96, 64))
    chunks = [(48, 96, 64), (96, 48, 64)]
    for place, kind, each in zip(places, (one, two), chunks, strict=True):
        dask_io.resplit(tmp_path / "start.npy", place, **{"chunks": each, **kinds[kind][1]})
    with pytest.raises(BudgetTooSmallError) as first:
        dask_io.verify(*places, memory=1000, workers=workers)
    with pytest.raises(BudgetTooSmallError) as last:
        dask_io.verify(*places, memory=first.value.required - 1, workers=workers)

    assert dask_io.verify(*places, memory=first.value.required, workers=workers)

    assert last.value.required == first.value.required


def test_verifying_groups_with_the_memory_that_it_asks_for(tmp_path: Path) -> None:
    """The figure is that of the array that needs most, whichever comes first."""
    for name in ("a", "b"):
        group = zarr.create_group(tmp_path / f"{name}.zarr")
        for array, length in {"one": 100, "two": 300, "three": 200}.items():
            group.create_array(array, data=np.ones((length, 900)), chunks=(length, 900))
    places = [tmp_path / "a.zarr", tmp_path / "b.zarr"]

    with pytest.raises(BudgetTooSmallError, match="array two") as caught:
        dask_io.verify(*places, memory=1000)

    assert dask_io.verify(*places, memory=caught.value.required)
