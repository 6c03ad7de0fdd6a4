"""Arrays go from any format to any other, through plans, and come back the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import dask_io
from dask_io.errors import DataError
from dask_io.stores.zarr.documents import quiet

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# By name: how a place of this kind is called, and what is asked for.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "npy": ("{}", {"format": "npy"}),
    "raw": ("{}", {"format": "raw"}),
    "zarr 2": ("{}.zarr", {"format_version": 2, "codec": "none"}),
    "zarr 2 with blosc": ("{}.zarr", {"format_version": 2, "codec": "blosc:lz4:5:shuffle"}),
    "zarr 3": ("{}.zarr", {"format_version": 3, "codec": "none"}),
    "zarr 3 with zstd": ("{}.zarr::/in/group", {"format_version": 3, "codec": "zstd:1+crc32c"}),
    "zarr 3 in shards": (
        "{}.zarr",
        {"format_version": 3, "codec": "gzip:1", "shards": (8, 10, 12)},
    ),
}


@pytest.fixture(scope="module")
def array() -> NDArray[Any]:
    """An array of uneven lengths, a corner of which is zero."""
    array = np.random.default_rng(7).integers(0, 99, (21, 17, 19)).astype("<i4")
    array[:9, :12] = 0
    return array


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_every_kind_to_every_other(
    source: str, target: str, array: NDArray[Any], tmp_path: Path
) -> None:
    """In other chunks, within a budget that is smaller than the array, verified."""
    np.save(tmp_path / "start.npy", array)
    one, two = (f"{tmp_path}/{KINDS[kind][0].format(n)}" for n, kind in enumerate((source, target)))
    dask_io.resplit(tmp_path / "start.npy", one, chunks=(8, 5, 6), **KINDS[source][1])
    chunks = (4, 5, 12) if target == "zarr 3 in shards" else (5, 17, 4)

    done = dask_io.resplit(one, two, chunks=chunks, memory="1MiB", verify=True, **KINDS[target][1])

    assert done.verified
    assert np.array_equal(np.asarray(dask_io.open(two)), array)
    if target.startswith("zarr"):
        with quiet():
            path, _, inside = two.partition("::/")
            made = zarr.open_array(path, path=inside, mode="r")
        assert (made.chunks, made.metadata.zarr_format) == (
            chunks,
            KINDS[target][1]["format_version"],
        )
        assert np.array_equal(np.asarray(made[...]), array)


@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("memory", ["17KiB", "20KiB", "1MiB"])
def test_seeks_are_those_of_the_plan(kind: str, order: str, memory: str, tmp_path: Path) -> None:
    """Also at the far ends of an array, whose chunks are stored with padding."""
    options = KINDS[kind][1]
    np.save(
        tmp_path / "start.npy", np.arange(1, 21 * 17 * 19 + 1).astype("<i2").reshape(21, 17, 19)
    )
    dask_io.resplit(
        tmp_path / "start.npy", tmp_path / "a.zarr", chunks=(8, 5, 6), order=order, **options
    )
    job = dask_io.plan(
        tmp_path / "a.zarr",
        tmp_path / "b.zarr",
        chunks=(5, 8, 7),
        memory=memory,
        strategy="sweep",
        workers=1,
    )

    done = job.run()

    planned = job.plan.seeks
    assert (done.seeks.read, done.seeks.write) == (planned.read, planned.write)


def test_what_is_missing_is_filled_on_the_way(array: NDArray[Any], tmp_path: Path) -> None:
    """Chunks that are not stored cost nothing, and are not stored again; the plan is a bound."""
    np.save(tmp_path / "start.npy", array)
    dask_io.resplit(tmp_path / "start.npy", tmp_path / "a.zarr", chunks=(3, 4, 19), codec="zstd:1")
    job = dask_io.plan(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(3, 4, 10))

    done = job.run()

    assert done.seeks.read == 7 * 5 - 9 < job.plan.seeks.read
    assert len(list((tmp_path / "b.zarr").rglob("c/*/*/*"))) == 2 * (7 * 5 - 9)
    with pytest.raises(DataError, match="is missing; leave out --strict"):
        np.asarray(dask_io.open(tmp_path / "a.zarr", strict=True))
