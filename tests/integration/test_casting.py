"""Elements of another type: any format to any other, refused where values would suffer unasked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import dask_io
from dask_io.errors import InterruptedRunError, UsageError
from dask_io.stores.dtypes import CASTINGS, check_cast
from tests.commands import invoke

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

TYPES = ["bool", "uint8", "int16", ">i4", "int64", "float16", "float32", ">f8", "complex64"]


@pytest.fixture
def array(tmp_path: Path) -> NDArray[Any]:
    """Numbers that float32 rounds, saved as one file."""
    array = np.random.default_rng(3).normal(0, 1000, (21, 17, 19))
    np.save(tmp_path / "a.npy", array)
    return array


@pytest.mark.parametrize("casting", CASTINGS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("stored", TYPES)
def test_what_is_allowed_is_what_numpy_allows(stored: str, dtype: str, casting: Any) -> None:
    """No word allows more than NumPy's; what is refused names the word that would do."""
    one, two = np.dtype(stored), np.dtype(dtype)

    problem = check_cast(one, two, casting)

    assert bool(problem) != np.can_cast(one, two, casting)
    if problem:
        enough: Any = problem.rpartition("--casting ")[2]
        assert not check_cast(one, two, enough)


@pytest.mark.parametrize(
    ("stored", "dtype"), [("f8", "S4"), ("S4", "f8"), ("M8[s]", "i8"), ([("a", "i4")], "i4")]
)
def test_what_is_no_conversion_of_numbers_is_refused(stored: Any, dtype: str) -> None:
    """Texts could turn out to be no numbers midway, so not even unsafe converts them."""
    assert "converts neither" in check_cast(np.dtype(stored), np.dtype(dtype), "unsafe")


@pytest.mark.parametrize(
    ("stored", "dtype", "loss"),
    [
        ("u2", "u1", "values that do not fit wrap around (nothing is clipped or scaled)"),
        ("i4", "u4", "values that do not fit wrap around (nothing is clipped or scaled)"),
        ("f4", "u1", "it cuts off fractions, and values that do not fit become any number"),
        ("c8", "i4", "it drops imaginary parts and fractions, and values"),
        ("c8", "f4", "it drops imaginary parts and rounds values"),
        ("f8", "f4", "it rounds values"),
        ("i8", "?", "all values but 0 become true"),
        ("S5", "S4", "it cuts off texts that are too long"),
        ("f4", ">f4", ""),
    ],
)
def test_a_refusal_says_what_happens_to_values(stored: str, dtype: str, loss: str) -> None:
    """16 bits become 8 by wrapping around, which few expect who read that it can be allowed."""
    problem = check_cast(np.dtype(stored), np.dtype(dtype), "no")

    assert (f", because {loss}" if loss else "is not no; allow it with --casting equiv") in problem


@pytest.mark.parametrize("target", ["blocks", "out.npy", "out.zarr", "out.zarr::/in/group"])
@pytest.mark.parametrize("dtype", [">f4", "int16", "complex128"])
@pytest.mark.parametrize("strategy", ["sweep", "naive", "spill"])
def test_values_are_numpys_in_any_format(
    target: str, dtype: str, strategy: str, array: NDArray[Any], tmp_path: Path
) -> None:
    """Verified by checksums, and against the source after the same conversion."""
    chunks = -1 if target == "out.npy" else (5, 17, 4)
    place = f"{tmp_path}/{target}"

    job = dask_io.plan(
        tmp_path / "a.npy",
        place,
        chunks=chunks,
        dtype=dtype,
        casting="unsafe",
        strategy=strategy,
        memory="1MiB" if chunks != -1 else None,
    )
    done = job.run(verify=True)

    found = np.asarray(dask_io.open(place))
    assert found.dtype == np.dtype(dtype)
    assert np.array_equal(found, array.astype(dtype))
    assert (done.n_bytes_read, done.held) == (job.plan.n_bytes_read, job.plan.held_bytes)
    assert done.n_bytes_read >= array.nbytes
    assert dask_io.verify(tmp_path / "a.npy", place)


def test_a_difference_after_the_conversion_is_found(array: NDArray[Any], tmp_path: Path) -> None:
    """A comparison after the same conversion is one of bits, not of what comes near."""
    dask_io.resplit(
        tmp_path / "a.npy", tmp_path / "b.zarr", chunks=9, dtype="f4", casting="same_kind"
    )
    made = zarr.open_array(tmp_path / "b.zarr")
    made[3, 4, 5] = np.nextafter(np.float32(array[3, 4, 5]), np.float32(np.inf))

    found = dask_io.verify(tmp_path / "a.npy", tmp_path / "b.zarr")

    assert str(found.first_difference) == "3:4,4:5,5:6"


def test_a_run_that_converts_is_resumed(array: NDArray[Any], tmp_path: Path) -> None:
    """The journal names both types; the rest is converted as the beginning was."""

    def stop_midway(progress: dask_io.Progress) -> None:
        if 2 * progress.n_bytes_written >= progress.n_bytes:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match=r"dask_io\.resume"):
        dask_io.resplit(
            tmp_path / "a.npy",
            tmp_path / "b",
            chunks=(5, 4, 4),
            dtype="int16",
            casting="unsafe",
            progress=stop_midway,
        )
    done = dask_io.resume(tmp_path / "b", verify=True)

    assert done.blocks_skipped > 0
    assert np.array_equal(np.asarray(dask_io.open(tmp_path / "b")), array.astype("i2"))
    assert dask_io.verify(tmp_path / "a.npy", tmp_path / "b")


def test_several_targets_are_converted_from_one_read(array: NDArray[Any], tmp_path: Path) -> None:
    """What each of them holds is of the type asked for; the source is read once."""
    done = dask_io.extract(
        tmp_path / "a.npy",
        tmp_path / "out",
        regions=["0:10,:,:", "5:21,3:9,:"],
        dtype="f4",
        casting="same_kind",
        memory="1MiB",
    )

    for number, region in enumerate([np.s_[0:10, 0:17], np.s_[5:21, 3:9]]):
        found = np.load(tmp_path / "out" / f"region_{number:03}.npy")
        assert found.dtype == np.float32
        assert np.array_equal(found, array[region].astype("f4"))
    assert done.n_bytes_read <= array.nbytes


def test_the_fill_value_is_converted_too(tmp_path: Path) -> None:
    """Chunks that are not stored mean the same values afterwards, and are not stored either."""
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(8, 8), chunks=(4, 4), dtype="f8", fill_value=2.5
    )
    made[:4, :4] = 7.5

    dask_io.resplit(
        tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(4, 4), dtype="i2", casting="unsafe"
    )

    found = zarr.open_array(tmp_path / "b.zarr", mode="r")
    assert found.fill_value == 2
    assert np.array_equal(np.asarray(found[...]), np.asarray(made[...]).astype("i2"))
    assert len(list((tmp_path / "b.zarr" / "c").rglob("*/*"))) == 1


def test_a_loss_is_refused_in_one_line(array: NDArray[Any], tmp_path: Path) -> None:
    """It names the option that allows it; nothing has been touched."""
    assert array.dtype == np.float64
    place = str(tmp_path / "a.npy")
    command = ["resplit", place, str(tmp_path / "b"), "--chunks", "9", "--dtype", "float32"]

    refused = invoke(*command)
    no_type = invoke(*command[:5], "--casting", "unsafe")
    shown = invoke(*command, "--casting", "same_kind", "--dry-run", "--json")

    assert refused.exit_code == no_type.exit_code == 2
    assert "float64 to float32 is not safe, because it rounds values" in refused.stderr
    assert "; allow it with --casting same_kind" in refused.stderr
    assert "give --dtype" in no_type.stderr
    told = json.loads(shown.stdout)
    assert (told["dtype"], told["converted"]) == ("<f4", "<f8")
    assert told["bytes"]["read"] == 2 * told["bytes"]["written"] == array.nbytes
    assert not (tmp_path / "b").exists()
    with pytest.raises(UsageError, match="is not one of no, equiv, safe"):
        dask_io.plan(place, chunks=9, dtype="f4", casting="lossy")
