"""The manifest, friendly and hostile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.errors import DataError, StorageError
from dask_io.geometry import Axis, Grid, Layout
from dask_io.stores.block_names import BlockNames
from dask_io.stores.manifest import NAME, Manifest
from dask_io.stores.space import Space

if TYPE_CHECKING:
    from pathlib import Path

GOOD: dict[str, Any] = {
    "version": 1,
    "format": "npy",
    "shape": [10, 6],
    "dtype": "<f4",
    "chunks": [4, [5, 1]],
    "order": "F",
    "pattern": "b_{0}_{1}.npy",
    "offset": 0,
}


def test_good_manifest_is_understood() -> None:
    """Regular axes are one number, others all lengths; it is written as it was read."""
    manifest = Manifest.from_json(GOOD)
    assert manifest.grid == Grid((Axis.regular(10, 4), Axis.of([5, 1])))
    assert (manifest.dtype, manifest.layout) == (np.dtype("<f4"), Layout.f(2))
    assert manifest.to_json() == GOOD | {"chunks": [4, 5]}


def test_keys_to_come_are_left_aside() -> None:
    """A manifest may say more than we know."""
    assert Manifest.from_json(GOOD | {"more": [1]}) == Manifest.from_json(GOOD)


@pytest.mark.parametrize(
    "dtype",
    [">i2", "?", "S3", "<M8[ns]", [("é", "<f4", (2, 3)), ("b", [("c", "u1"), ("d", ">U2")])]],
)
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_written_and_read_back(dtype: Any, axes: tuple[int, ...], tmp_path: Path) -> None:
    """Any dtype, order and shape survives, however large."""
    grid = Grid((Axis.regular(2**80, 2**33), Axis.of([3, 1, 3]), Axis(())))
    names = BlockNames(
        "{0}-{1}-{2:offset}".replace("{0}", "{0:offset}").replace("{1}", "{1:offset}")
    )
    manifest = Manifest("raw", grid, np.dtype(dtype), Layout(axes), names)
    manifest.write(tmp_path)
    assert Manifest.read(tmp_path) == manifest
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_padded_fields_survive(tmp_path: Path) -> None:
    """Gaps between fields are part of a dtype."""
    dtype = np.dtype(
        {"names": ["a", "b"], "formats": ["u1", "<i4"], "offsets": [0, 4], "itemsize": 12}
    )
    Manifest("raw", Grid.regular((3,), (2,)), dtype, Layout.c(1), BlockNames("{0}")).write(tmp_path)
    assert Manifest.read(tmp_path).dtype == dtype


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"version": 2}, "version is 2, but this Dask IO knows 1"),
        ({"version": True}, "version"),
        ({"version": None}, "version"),
        ({"format": 3}, "format is not a string"),
        ({"pattern": ["b"]}, "pattern is not a string"),
        ({"shape": "10,6"}, "shape"),
        ({"shape": [10, -6]}, "shape"),
        ({"shape": [10.0, 6]}, "shape"),
        ({"shape": [True, 6]}, "shape"),
        ({"shape": []}, "0 axes"),
        ({"shape": [1] * 65, "chunks": [1] * 65}, "65 axes"),
        ({"space": 3}, "space is not a list of axes"),
        ({"space": {"axes": [{"name": ["x"], "unit": None, "type": None}] * 2}}, "space is not"),
        ({"space": Space.unknown(3).to_json()}, "space has 3 axes, but shape has 2"),
        ({"metadata": [1]}, "metadata is not an object"),
        ({"chunks": [4]}, "2 entries"),
        ({"chunks": 4}, "2 entries"),
        ({"chunks": [4, 0]}, "axis 1"),
        ({"chunks": [-4, 6]}, "axis 0"),
        ({"chunks": [4, 6.0]}, "axis 1"),
        ({"chunks": [4, "6"]}, "axis 1"),
        ({"chunks": [4, [5]]}, "add up to 5, but shape says 6"),
        ({"chunks": [4, [6, 0]]}, "axis 1"),
        ({"chunks": [4, [7, -1]]}, "axis 1"),
        ({"dtype": "O"}, "Python objects"),
        ({"dtype": [["a", "O"]]}, "Python objects"),
        ({"dtype": "nonsense"}, "dtype is not known"),
        ({"dtype": 5}, "dtype is not known"),
        ({"dtype": []}, "dtype"),
        ({"dtype": [["a"]]}, "dtype is not known"),
        ({"order": "K"}, "order"),
        ({"order": [0, 0]}, "order"),
        ({"order": [0]}, "order"),
        ({"order": [0, True]}, "order"),
        ({"order": {}}, "order"),
        ({"pattern": "../../{0}_{1}"}, "pattern"),
        ({"pattern": "/etc/{0}_{1}"}, "pattern"),
        ({"pattern": "{0}_{1}\u001b"}, "pattern"),
        ({"pattern": "{0}"}, "one slice along axis 0, but chunks are longer than 1"),
        ({"pattern": "{0:slice}"}, "one slice along axis 0, but chunks are longer than 1"),
        ({"offset": -7}, "offset"),
        ({"offset": "7"}, "offset"),
        ({"offset": True}, "offset"),
    ],
)
def test_wrong_manifests_are_refused(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    """Each ends in one clear line that names the file."""
    (tmp_path / NAME).write_text(json.dumps(GOOD | changes))
    with pytest.raises(DataError, match=says) as caught:
        Manifest.read(tmp_path)
    assert NAME in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("key", sorted(GOOD.keys() - {"offset", "version"}))
def test_missing_keys_are_named(key: str) -> None:
    """Everything but the offset has to be said."""
    with pytest.raises(ValueError, match=f"does not say {key}"):
        Manifest.from_json({k: v for k, v in GOOD.items() if k != key})


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff", b"[" * 10**5, b'{"version": 1e999}']
)
def test_what_is_not_a_manifest_is_refused(content: bytes, tmp_path: Path) -> None:
    """Broken JSON, and JSON that is no object, are one line too."""
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(DataError, match=NAME):
        Manifest.read(tmp_path)


def test_an_absent_manifest_is_a_matter_of_storage(tmp_path: Path) -> None:
    """What cannot be read is not wrong data."""
    with pytest.raises(StorageError):
        Manifest.read(tmp_path)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(changes=st.dictionaries(st.sampled_from(sorted(GOOD)), values))
def test_any_values_are_a_manifest_or_refused(changes: dict[str, Any]) -> None:
    """Whatever JSON says, it is understood or a ValueError."""
    try:
        manifest = Manifest.from_json(GOOD | changes)
    except ValueError:
        return
    assert Manifest.from_json(json.loads(manifest.to_bytes())) == manifest
