"""Headers of .npy files, friendly and hostile."""

from __future__ import annotations

import io
import pickle
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.lib import format as npy_format

from dask_io.formats.npy import FORMAT, LONGEST_HEADER
from dask_io.geometry import Layout
from dask_io.stores.block_format import Header

if TYPE_CHECKING:
    from pathlib import Path

DTYPES = ["<f4", ">f8", "?", "S3", "<U2", "<M8[ns]", "V7", [("a", "<i2"), ("é", ">f4", (2,))]]


def parse(content: bytes) -> Header:
    """The header of a file with this content."""
    return FORMAT.parse_header(lambda n_bytes: content[:n_bytes])


def framed(text: str | bytes, version: int = 1, length: int | None = None) -> bytes:
    """A file whose header is a given text."""
    body = text.encode("latin1") if isinstance(text, str) else text
    width = 2 if version == 1 else 4
    size = (len(body) if length is None else length).to_bytes(width, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + body


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_our_headers_are_numpys(dtype: Any, order: str, tmp_path: Path) -> None:
    """NumPy loads and maps our files, whose data begins at a multiple of 4096."""
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 2, 12 * np.dtype(dtype).itemsize, np.uint8).tobytes()
    array = np.frombuffer(raw, dtype).reshape((3, 4), order="F" if order == "F" else "C")
    header = FORMAT.make_header(Header((3, 4), array.dtype, Layout.named(order, 2)))
    path = tmp_path / "x.npy"
    path.write_bytes(header + raw)

    assert len(header) % 4096 == 0
    assert np.load(path).tobytes() == array.tobytes()
    mapped = np.load(path, mmap_mode="r")
    assert mapped.tobytes() == array.tobytes()
    assert mapped.flags.f_contiguous == (order == "F")
    assert parse(header) == Header((3, 4), array.dtype, Layout.named(order, 2), len(header))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_numpys_headers_are_read(version: tuple[int, int], dtype: str) -> None:
    """Every version that NumPy writes is understood."""
    file = io.BytesIO()
    npy_format.write_array(file, np.zeros((2, 3), dtype, order="F"), version=version)
    header = parse(file.getvalue())
    assert (header.shape, header.dtype, header.layout.name) == ((2, 3), np.dtype(dtype), "F")
    assert header.offset == len(file.getvalue()) - 6 * header.dtype.itemsize


def test_long_headers_stay_within_numpys_limit(tmp_path: Path) -> None:
    """A dtype of many fields is padded less rather than refused by NumPy."""
    dtype = np.dtype([(f"field{number:06}", "<f4") for number in range(380)])
    header = FORMAT.make_header(Header((1,), dtype, Layout.c(1)))
    assert len(header) % 64 == 0
    (tmp_path / "x.npy").write_bytes(header + bytes(dtype.itemsize))
    assert np.load(tmp_path / "x.npy").dtype == dtype


def test_headers_beyond_the_limit_are_not_written() -> None:
    """What we would not read again is refused."""
    dtype = np.dtype([(f"field{number:06}", "<f4") for number in range(4000)])
    with pytest.raises(ValueError, match="allows headers of"):
        FORMAT.make_header(Header((1,), dtype, Layout.c(1)))


def test_other_orders_cannot_be_written() -> None:
    """A .npy file is in C or in F order."""
    with pytest.raises(ValueError, match="C or F order, not with the axes 1,0,2"):
        FORMAT.make_header(Header((1, 2, 3), np.dtype("f4"), Layout((1, 0, 2))))


def test_headers_of_python_2_are_read() -> None:
    """Lengths may end in L, as old files have them."""
    header = parse(framed("{'descr': '<f4', 'fortran_order': False, 'shape': (10L, 2L)}"))
    assert header.shape == (10, 2)


def test_lengths_beyond_64_bits_are_exact() -> None:
    """A shape is Python's integers."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**70},)}}"
    assert parse(framed(text)).shape == (2**70,)


def entries(**changes: str) -> bytes:
    """A header that is good but for some entries."""
    good = {"descr": "'<f4'", "fortran_order": "False", "shape": "(2, 3)"} | changes
    return framed("{" + ", ".join(f"'{key}': {value}" for key, value in good.items()) + "}")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "truncated"),
        (b"\x93NUM", "truncated"),
        (b"PK\x03\x04 a zip archive", "not a .npy file"),
        (framed("{}", version=4), "version"),
        (framed("{}", length=60000), "truncated"),
        (framed("{}", version=2, length=2**32 - 1), "claims a header of 4294967295 bytes"),
        (framed("(" * 60000), "cannot be read"),
        (framed("-" * 60000 + "1"), "cannot be read"),
        (framed("9" * 60000), "cannot be read"),
        (framed("9**9**9**9"), "cannot be read"),
        (framed("__import__('os').system('true')"), "cannot be read"),
        (framed("\x00" * 9), "cannot be read"),
        (framed(b"\xff\xfe", version=3), "cannot be read"),
        (framed("[1, 2]"), "does not name"),
        (framed("{'descr': '<f4'}"), "does not name"),
        (entries(extra="1"), "does not name"),
        (entries(shape="(-2, 3)"), "shape"),
        (entries(shape="[2, 3]"), "shape"),
        (entries(shape="(2.0, 3)"), "shape"),
        (entries(shape="(True, 3)"), "shape"),
        (entries(shape="()"), "0 axes"),
        (entries(shape=str((1,) * 65)), "65 axes"),
        (entries(fortran_order="0"), "fortran_order"),
        (entries(descr="'|O'"), "Python objects"),
        (entries(descr="[('a', '|O')]"), "Python objects"),
        (entries(descr="'nonsense'"), "dtype is not known"),
        (entries(descr="5"), "dtype"),
        (entries(descr="[]"), "dtype|no size"),
        (entries(descr="'|S0'"), "no size"),
        (entries(descr="('<f4', (2,))"), "arrays themselves"),
        (entries(descr="'<U99999999999'"), "dtype is not known"),
        (entries(descr="[('a', '<f4', (-1,))]"), "dtype is not known"),
    ],
)
def test_hostile_headers_are_refused(content: bytes, says: str) -> None:
    """Each ends in one clear line."""
    with pytest.raises(ValueError, match=says) as caught:
        parse(content)
    assert "\n" not in str(caught.value)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    """A file of objects is refused by its header; its pickle is not looked at."""
    path = tmp_path / "x.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects, which are never loaded"):
        parse(path.read_bytes())
    with pytest.raises(ValueError, match="does not begin as one"):
        parse(pickle.dumps([1, 2]))


def test_a_claim_of_a_long_header_takes_no_memory() -> None:
    """Only as much is read as a header may have."""
    asked: list[int] = []

    def peek(n_bytes: int) -> bytes:
        asked.append(n_bytes)
        return framed("{}", version=2, length=2**31)[:n_bytes]

    with pytest.raises(ValueError, match="claims"):
        FORMAT.parse_header(peek)
    assert max(asked) <= LONGEST_HEADER


@given(content=st.binary(max_size=300) | st.binary(max_size=300).map(framed))
@example(framed("[" * 65000))
@example(framed("1," * 32000))
@example(framed("{" + "'a':" * 16000))
def test_any_bytes_are_a_header_or_refused(content: bytes) -> None:
    """Bytes give a header or a ValueError, in little memory, and nothing else."""
    tracemalloc.start()
    try:
        header = parse(content)
        assert not header.dtype.hasobject
    except ValueError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 64 * 2**20


literals = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["<f4", "O"]),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
)


@given(descr=literals, fortran=st.booleans() | literals, shape=literals)
def test_any_entries_are_a_header_or_refused(descr: object, fortran: object, shape: object) -> None:
    """The right keys with any values give a header or a ValueError."""
    text = repr({"descr": descr, "fortran_order": fortran, "shape": shape})
    try:
        header = parse(framed(text.encode("utf-8", "replace"), version=3))
    except ValueError:
        return
    assert min(header.shape) >= 0
    assert header.dtype.itemsize > 0
