"""Stacks of Dask: it reads what is written here, and what it writes is read but never run."""

from __future__ import annotations

import os
import pickle
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_io
from dask_io.errors import DataError, TargetExistsError, UsageError
from dask_io.testing.conformance import DTYPES
from tests.refusals import may_refuse

# It has no types, so that calls of it are not checked.
da: Any = import_module("dask.array")
ARRAY = np.arange(9 * 7 * 4, dtype="<i4").reshape(9, 7, 4)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", [*DTYPES, "<f2", "?", "m8[25us]", "<M8[D]"], ids=str)
def test_what_dask_wrote_is_read(dtype: Any, axis: int, tmp_path: Path) -> None:
    """For any type of elements, along any axis, in chunks of any lengths."""
    raw = np.random.default_rng(1).integers(0, 2, 5 * 6 * 7 * np.dtype(dtype).itemsize)
    array = np.frombuffer(raw.astype("u1").tobytes(), dtype).reshape(5, 6, 7)
    da.to_npy_stack(tmp_path / "a", da.from_array(array, chunks=(2, 4, 3)), axis)

    opened = dask_io.open(tmp_path / "a")

    assert opened.source.format == "npy-stack"
    assert opened.dtype == array.dtype
    assert opened.chunks[axis] == ((2, 2, 1), (4, 2), (3, 3, 1))[axis]
    assert opened[...].tobytes() == array.tobytes()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chunks", [(4, -1, -1), (-1, 3, -1), (-1, -1, -1), ((1, 3, 5), 7, 4)])
def test_dask_reads_what_was_written(chunks: Any, order: str, tmp_path: Path) -> None:
    """And it is resumed, verified and overwritten as any target."""
    np.save(tmp_path / "a.npy", ARRAY)
    options = {"chunks": chunks, "format": "npy-stack", "order": order}

    done = dask_io.resplit(tmp_path / "a.npy", tmp_path / "b", verify=True, **options)

    stack = da.from_npy_stack(str(tmp_path / "b"))
    assert done.verified
    assert np.array_equal(stack.compute(), ARRAY)
    assert stack.dtype == ARRAY.dtype
    with pytest.raises(TargetExistsError):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "b", **options)
    np.save(tmp_path / "a.npy", -ARRAY)
    dask_io.resplit(tmp_path / "a.npy", tmp_path / "b", overwrite=True, **options)
    assert np.array_equal(da.from_npy_stack(str(tmp_path / "b")).compute(), -ARRAY)


def test_a_run_is_resumed_and_uses_up_its_source(tmp_path: Path) -> None:
    """A stack goes file by file, and its description last."""
    da.to_npy_stack(tmp_path / "a", da.from_array(ARRAY, chunks=(1, 7, 4)))

    def stop(progress: dask_io.Progress) -> None:
        if 2 * progress.n_bytes_written >= progress.n_bytes:
            raise KeyboardInterrupt

    with pytest.raises(dask_io.errors.InterruptedRunError):
        dask_io.resplit(
            tmp_path / "a",
            tmp_path / "b.npystack",
            chunks=(2, 7, 4),
            consume=True,
            progress=stop,
        )
    with pytest.raises(DataError, match="unfinished"):
        dask_io.open(tmp_path / "b.npystack")
    dask_io.resume(tmp_path / "b.npystack", verify=True, consume=True)

    assert not (tmp_path / "a").exists()
    assert np.array_equal(da.from_npy_stack(str(tmp_path / "b.npystack")).compute(), ARRAY)


class Hostile:
    """What runs a program when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def refused(folder: Path, info: bytes) -> str:
    """Return the one line that refuses a description."""
    (folder / "info").write_bytes(info)
    with pytest.raises(DataError) as error:
        dask_io.open(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_pickle_is_never_run(tmp_path: Path) -> None:
    """Whatever it names is named, not called."""
    stack, mark = tmp_path / "a", tmp_path / "mark"
    da.to_npy_stack(stack, da.from_array(ARRAY, chunks=(3, 7, 4)))
    good = pickle.loads((stack / "info").read_bytes())  # noqa: S301 - it was made above

    line = refused(stack, pickle.dumps({**good, "axis": Hostile(mark)}))
    assert "names posix.mkdir, which is never loaded" in line
    assert "builtins.eval" in refused(stack, b"cbuiltins\neval\n(S'1'\ntR.")
    assert "which is never loaded" in refused(stack, b"Pabc\n.")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"axis": 3}, "axis that is cut"),
        ({"axis": True}, "axis that is cut"),
        ({"axis": None}, "axis that is cut"),
        ({"chunks": ()}, "the lengths of its blocks"),
        ({"chunks": ((3, 3, 3), (7,), (-4,))}, "not integers"),
        ({"chunks": ((3, 3, 3), (7,), (4.0,))}, "not integers"),
        ({"chunks": ((3, 3, 3), (3, 4), (4,))}, "along more than one axis"),
        ({"chunks": ((3, 0, 6), (7,), (4,))}, "without elements"),
        ({"dtype": "f4"}, "a valid dtype"),
        ({"dtype": np.dtype("O")}, "Python objects"),
    ],
)
def test_descriptions_that_cannot_be(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    """Each gets one line."""
    da.to_npy_stack(tmp_path / "a", da.from_array(ARRAY, chunks=(3, 7, 4)))
    good = pickle.loads((tmp_path / "a" / "info").read_bytes())  # noqa: S301 - it was made above

    assert reason in refused(tmp_path / "a", pickle.dumps({**good, **changes}))


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    """Missing, extra, of another shape or type: named as of any blocks."""
    stack = tmp_path / "a"
    da.to_npy_stack(stack, da.from_array(ARRAY, chunks=(3, 7, 4)))
    np.save(stack / "1.npy", ARRAY[:2])
    (stack / "2.npy").rename(stack / "3.npy")

    with pytest.raises(DataError, match=r"3\.npy is extra.*2\.npy is missing.*1\.npy has shape"):
        dask_io.open(stack)


def test_only_one_axis_is_cut(tmp_path: Path) -> None:
    """A stack has no place for more, and none for codecs."""
    np.save(tmp_path / "a.npy", ARRAY)
    for options, reason in (
        ({"chunks": (3, 3, -1)}, "cut 2 axes, but a stack can be cut along one"),
        ({"chunks": (3, -1, -1), "codec": "zstd:1"}, "has no codec"),
    ):
        with pytest.raises(UsageError, match=reason):
            dask_io.resplit(tmp_path / "a.npy", tmp_path / "b", format="npy-stack", **options)
    with pytest.raises(UsageError, match="cannot contain"):
        dask_io.resplit(tmp_path / "a.npy", f"{tmp_path}/b.npystack::/c", chunks=-1)


def test_files_of_a_stack_that_is_none(tmp_path: Path) -> None:
    """What describes it says that there is nothing, and there is something."""
    info = pickle.dumps({"chunks": ((3, 6), (0,)), "dtype": np.dtype("<i4"), "axis": 0})
    np.save(tmp_path / "0.npy", ARRAY[:3, :, 0])
    (tmp_path / "info").write_bytes(info)
    with pytest.raises(DataError, match="but info describes an empty array"):
        dask_io.open(tmp_path)


@given(data=st.data())
def test_flipped_bytes(data: st.DataObject) -> None:
    """Whatever byte of the description is another, the stack is right or refused."""
    info = bytearray(pickle.dumps({"chunks": ((3, 6), (7,)), "dtype": np.dtype("<i4"), "axis": 0}))
    for _ in range(data.draw(st.integers(1, 3))):
        info[data.draw(st.integers(0, len(info) - 1))] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as folder:
        place = Path(folder)
        np.save(place / "0.npy", ARRAY[:3, :, 0])
        np.save(place / "1.npy", ARRAY[3:, :, 0])
        (place / "info").write_bytes(info)
        with may_refuse():
            found = np.asarray(dask_io.open(place))
            assert found.dtype == ARRAY.dtype
            assert np.array_equal(found, ARRAY[:, :, 0])
