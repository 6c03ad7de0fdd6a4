"""MINC files of others, put together as blocks of one array."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, InterruptedRunError, UsageError
from dask_io.formats import open_source
from dask_io.geometry import Grid, Region
from dask_io.stores.listing import Problems
from dask_io.stores.mosaic import common_space
from dask_io.stores.scaling import scaling_in
from dask_io.stores.space import Affine, Space, SpaceAxis, crop
from dask_io.testing.conformance import read_region
from tests.unit.formats.minc.volumes import REAL_FILES, load, make_raw, rewrite, run, stored

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

OPTIONS: dict[str, Any] = {"memory": "4MiB", "workers": 1, "durability": "none"}


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Make a volume whose slices are scaled differently."""
    values = np.random.default_rng(2).normal(size=(4, 6, 8)) * np.arange(1, 5)[:, None, None]
    path = tmp_path / "whole.mnc"
    make_raw(path, values, "-xstart", 1, "-ystart", 2, "-zstart", 3, "-xstep", 0.5)
    return path


def cut(whole: Path, folder: Path, lengths: Sequence[int]) -> NDArray[np.float64]:
    """Cut a volume into block files with mincreshape; return the real values of all of them."""
    folder.mkdir()
    values = load(whole)[0].copy()
    counts = [n // length for n, length in zip(values.shape, lengths, strict=True)]
    for index in np.ndindex(*counts):
        start = [i * length for i, length in zip(index, lengths, strict=True)]
        path = folder / f"b_{'_'.join(map(str, index))}.mnc"
        where = ("-start", ",".join(map(str, start)), "-count", ",".join(map(str, lengths)))
        run("mincreshape", "-quiet", "-2", *where, whole, path)
        slices = tuple(slice(a, a + n) for a, n in zip(start, lengths, strict=True))
        values[slices] = load(path)[0]
    return values


def make_scaled(whole: Path, folder: Path) -> NDArray[np.float64]:
    """Make files of two blocks in each slice, each scaled by its own least and greatest value."""
    folder.mkdir()
    values = load(whole)[0].copy()
    for z, x in np.ndindex(2, 2):
        block = (slice(2 * z, 2 * z + 2), slice(None), slice(4 * x, 4 * x + 4))
        path = folder / f"b_{z}_0_{x}.mnc"
        starts = ("-xstart", 1 + 2 * x, "-ystart", 2, "-zstart", 3 + 2 * z, "-xstep", 0.5)
        make_raw(path, values[block], *starts)
        values[block] = load(path)[0]
    return values


def test_blocks_that_scale_slices_alike_keep_their_integers(whole: Path, tmp_path: Path) -> None:
    """Blocks that mincreshape copied are merged to the same integers, scaling and place."""
    cut(whole, tmp_path / "blocks", (2, 3, 4))

    result = dask_io.merge(tmp_path / "blocks", tmp_path / "merged.mnc", **OPTIONS)

    assert result.not_kept == ()
    assert np.array_equal(stored(tmp_path / "merged.mnc"), stored(whole))
    for ours, theirs in zip(load(tmp_path / "merged.mnc"), load(whole), strict=True):
        assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_blocks_with_one_scale_each_get_a_scale_for_each_slice(whole: Path, tmp_path: Path) -> None:
    """Slabs with one scale each are merged to integers that are scaled slice by slice."""
    values = cut(whole, tmp_path / "slabs", (1, 6, 8))

    source = dask_io.open(tmp_path / "slabs").source

    scaling = scaling_in(source.metadata)
    assert source.dtype.kind == "i"
    assert scaling is not None
    assert scaling.low.shape == (4,)
    dask_io.merge(tmp_path / "slabs", tmp_path / "merged.mnc", **OPTIONS)
    assert np.array_equal(load(tmp_path / "merged.mnc")[0], values)


def test_blocks_that_scale_a_slice_differently_become_real_values(
    whole: Path, tmp_path: Path
) -> None:
    """If blocks of one slice have different scales, their real values are merged, as reported."""
    values = make_scaled(whole, tmp_path / "blocks")

    result = dask_io.merge(tmp_path / "blocks", tmp_path / "merged.mnc", **OPTIONS)

    assert result.not_kept == ("stored_integers",)
    merged, affine = load(tmp_path / "merged.mnc")
    assert stored(tmp_path / "merged.mnc").dtype == np.float64
    assert np.array_equal(merged, values)
    assert np.allclose(affine, load(whole)[1])
    assert dask_io.verify(tmp_path / "blocks", tmp_path / "merged.mnc", memory="4MiB").equal


def test_blocks_of_files_are_pickled(whole: Path, tmp_path: Path) -> None:
    """Real values of several files can be sent to other processes after their metadata was read."""
    make_scaled(whole, tmp_path / "blocks")
    source = open_source(tmp_path / "blocks")
    metadata = dict(source.metadata)
    assert metadata["stored_integers"]

    sent = pickle.loads(pickle.dumps(source))  # noqa: S301 - our own bytes

    assert dict(sent.metadata) == metadata
    index = next(source.grid.indices())
    region = Region.whole(source.grid.block(index).shape)
    assert np.array_equal(read_region(sent, index, region), read_region(source, index, region))


def test_compressed_blocks_of_either_kind_are_merged(whole: Path, tmp_path: Path) -> None:
    """Files in gzip chunks form one array, whose blocks are their chunks."""
    values = make_scaled(whole, tmp_path / "plain")
    (tmp_path / "blocks").mkdir()
    for path in (tmp_path / "plain").iterdir():
        rewrite(path, tmp_path / "blocks" / path.name, chunks=(1, 4, 4), compression="gzip")

    array = dask_io.open(tmp_path / "blocks")

    assert array.chunks == ((1, 1, 1, 1), (4, 2), (4, 4))
    assert np.array_equal(array[...], values)
    dask_io.resplit(tmp_path / "blocks", tmp_path / "slabs", chunks=(1, -1, -1), **OPTIONS)
    assert np.array_equal(dask_io.open(tmp_path / "slabs")[...], values)
    assert np.array_equal(load(tmp_path / "slabs" / "b_2_0_0.mnc")[0], values[2:3])


def test_blocks_of_version_1_are_merged(whole: Path, tmp_path: Path) -> None:
    """Block files may be of MINC 1, which only minc-tools write."""
    values = cut(whole, tmp_path / "new", (2, 6, 8))
    (tmp_path / "old").mkdir()
    for path in (tmp_path / "new").iterdir():
        run("mincconvert", path, tmp_path / "old" / path.name)

    dask_io.merge(tmp_path / "old", tmp_path / "merged.mnc", **OPTIONS)

    assert np.array_equal(load(tmp_path / "merged.mnc")[0], values)


def test_an_interrupted_merge_of_files_is_resumed(whole: Path, tmp_path: Path) -> None:
    """A run whose source is a directory of others' files finds it again."""
    values = make_scaled(whole, tmp_path / "blocks")

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            tmp_path / "blocks", tmp_path / "out", chunks=(1, -1, -1), progress=stop, **OPTIONS
        )
    dask_io.resume(tmp_path / "out", memory="4MiB", workers=1)

    assert np.array_equal(dask_io.open(tmp_path / "out")[...], values)


def _change(folder: Path, name: str) -> None:
    if name == "missing":
        (folder / "b_1_0_1.mnc").unlink()
    elif name == "far":
        (folder / "b_0_0_1.mnc").rename(folder / "b_0_0_99999999999.mnc")
    elif name == "other":
        (folder / "b_1_0_1.mnc").write_bytes((REAL_FILES / "small.mnc").read_bytes())
    elif name == "no-file":
        (folder / "b_1_0_1.mnc").write_bytes(b"nothing")
    elif name == "unit":
        with h5py.File(folder / "b_1_0_1.mnc", "r+") as file:
            file["minc-2.0/dimensions/zspace"].attrs["units"] = "um"
    else:
        with h5py.File(folder / "b_1_0_1.mnc", "r+") as file:
            file["minc-2.0/dimensions/zspace"].attrs["start"] = 77.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "b_1_0_1.mnc is missing"),
        ("far", "b_0_0_1.mnc is missing"),
        ("other", "b_1_0_1.mnc has .* blocks of"),
        ("no-file", "b_1_0_1.mnc .*is not a valid HDF5 file"),
        ("unit", "b_1_0_1.mnc has axes z space in um, .*expected z space"),
        ("moved", "b_1_0_1.mnc lies at another place in the world than its name"),
    ],
)
def test_files_that_do_not_fit_are_named(
    name: str, message: str, whole: Path, tmp_path: Path
) -> None:
    """A file that is missing, broken, of another shape or at another place is named."""
    cut(whole, tmp_path / "blocks", (2, 6, 4))
    _change(tmp_path / "blocks", name)

    with pytest.raises(DataError, match=message):
        dask_io.open(tmp_path / "blocks" / "b_{0}_{1}_{2}.mnc")


def test_attributes_on_which_files_differ_are_reported(whole: Path, tmp_path: Path) -> None:
    """What all files agree on is kept; the rest is left out, and the result says so."""
    cut(whole, tmp_path / "blocks", (2, 6, 4))
    for number, path in enumerate(sorted((tmp_path / "blocks").iterdir())):
        with h5py.File(path, "r+") as file:
            image = file["minc-2.0/image/0/image"]
            image.attrs["same"], image.attrs["other"] = "a", f"b{number}"

    result = dask_io.merge(tmp_path / "blocks", tmp_path / "merged.mnc", **OPTIONS)

    assert result.not_kept == ("metadata_of_some_files",)
    with h5py.File(tmp_path / "merged.mnc") as file:
        attributes = file["minc-2.0/image/0/image"].attrs
        assert attributes["same"] == b"a"
        assert "other" not in attributes


def test_a_file_without_a_place_does_not_hide_that_of_others() -> None:
    """If only the first file does not say where it lies, the others do."""
    grid = Grid.regular((4,), (2,))
    space = Space((SpaceAxis("x", "mm"),), Affine.scaled([0.5], [3.0]))
    for unknown in (None, Space.unknown(1)):
        sources: Any = {
            (0,): SimpleNamespace(metadata={"space": unknown}, place="b_0"),
            (1,): SimpleNamespace(metadata={"space": space}, place="b_1"),
        }
        assert common_space(sources, grid, Problems("blocks")) == crop(space, [-2])


def test_files_of_others_are_not_consumed(whole: Path, tmp_path: Path) -> None:
    """Nothing of a file that holds several chunks can be removed alone."""
    cut(whole, tmp_path / "blocks", (2, 6, 4))

    with pytest.raises(UsageError, match="single blocks cannot be removed"):
        dask_io.resplit(tmp_path / "blocks", tmp_path / "out", chunks=2, consume=True)
