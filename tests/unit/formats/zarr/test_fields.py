"""Metadata that is read and written without zarr-python."""

from __future__ import annotations

import json
import subprocess
import sys
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numcodecs  # type: ignore[import-untyped]
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from zarr.storage import MemoryStore

from dask_io.formats.zarr import documents as reading
from dask_io.formats.zarr.documents import V2, V2_ATTRIBUTES, V3, make_array_documents
from dask_io.formats.zarr.fields import read_usual
from dask_io.formats.zarr.metadata import understand
from dask_io.formats.zarr.quiet import quiet as silent

if TYPE_CHECKING:
    from pathlib import Path

USUAL = ["?", "i1", "u1", "<i2", ">u2", "<i4", ">i8", "<f2", "<f4", ">f8"]
UNUSUAL = ["c8", "c16", "S3", "<U2", "<M8[s]", "<m8[ms]"]
EACH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)
COMPRESSORS: dict[int, list[dict[str, Any]]] = {
    3: [
        {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
        {"name": "zstd", "configuration": {"level": -3, "checksum": True}},
        {"name": "gzip", "configuration": {"level": 9}},
        {"name": "crc32c", "configuration": {}},
    ],
    2: [
        {"id": "zstd", "level": 3},
        {"id": "zstd", "level": 3, "checksum": True},
        {"id": "zlib", "level": 4},
        {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1},
        {"id": "lz4", "acceleration": 1},
        {"id": "bz2", "level": 9},
    ],
}


@st.composite
def descriptions(draw: st.DrawFn, types: list[str] | None = None) -> dict[str, Any]:
    """Return arguments of `zarr.create_array`, as for a target."""
    version, n_axes = draw(st.sampled_from([2, 3])), draw(st.integers(1, 3))
    dtype = np.dtype(draw(st.sampled_from(types or USUAL + UNUSUAL)))
    lengths = st.integers(1, 9)
    chunks = tuple(draw(st.lists(lengths, min_size=n_axes, max_size=n_axes)))
    described: dict[str, Any] = {
        "zarr_format": version,
        "shape": tuple(draw(st.lists(st.integers(0, 99), min_size=n_axes, max_size=n_axes))),
        "chunks": chunks,
        "dtype": dtype,
        "fill_value": draw(hnp.from_dtype(dtype) | st.just(np.zeros((), dtype)[()])),
        "attributes": draw(st.dictionaries(st.text(max_size=3), JSON, max_size=2)),
        "filters": None,
    }
    if dtype.kind == "f":
        special = st.sampled_from([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0, 1])
        described["fill_value"] = draw(special | st.just(described["fill_value"]))
    compressors = draw(
        st.lists(st.sampled_from(COMPRESSORS[version]), max_size=3 - 2 * (version < 3))
    )
    separator = draw(st.sampled_from([".", "/"]))
    if version == 2:
        described["order"] = draw(st.sampled_from("CF"))
        described["compressors"] = next(map(numcodecs.get_codec, map(dict, compressors)), None)
        if draw(st.booleans()):
            described["filters"] = [numcodecs.Shuffle(dtype.itemsize)]
        if draw(st.integers(0, 3)) == 0:
            described["fill_value"] = None
        described["chunk_key_encoding"] = {"name": "v2", "separator": separator}
        return described
    if draw(st.booleans()):
        shuffle = draw(st.sampled_from(["noshuffle", "shuffle", "bitshuffle"]))
        blosc = {"cname": "zstd", "clevel": 5, "blocksize": 0}
        blosc |= {"shuffle": shuffle, "typesize": max(1, dtype.itemsize)}
        compressors = [{"name": "blosc", "configuration": blosc}, *compressors]
    described["compressors"] = compressors or None
    described["dimension_names"] = draw(
        st.none() | st.lists(st.none() | st.text(max_size=2), min_size=n_axes, max_size=n_axes)
    )
    kind = draw(st.sampled_from(["default", "v2"]))
    described["chunk_key_encoding"] = {"name": kind, "separator": separator}
    if draw(st.booleans()):
        order = tuple(draw(st.permutations(range(n_axes))))
        described["filters"] = [{"name": "transpose", "configuration": {"order": order}}]
    if dtype.str.startswith(">"):
        described["serializer"] = {"name": "bytes", "configuration": {"endian": "big"}}
    if draw(st.booleans()):
        described["shards"] = tuple(chunk * draw(st.integers(1, 3)) for chunk in chunks)
    return described


def made_by_zarr(description: dict[str, Any]) -> dict[str, bytes]:
    """Return the documents that zarr-python makes."""
    content: dict[str, Any] = {}
    with silent():
        zarr.create_array(MemoryStore(content), **description)
    return {name: each.to_bytes() for name, each in content.items()}


def outcome(documents: dict[str, bytes]) -> Any:
    """Return everything that is understood of documents, or that they are refused."""
    try:
        array = understand(documents)
    except ValueError:
        return "refused"
    # NaN among attributes is not equal to itself, but its representation is.
    return array.stored_as, repr(array.described()), array.has_fill, repr(array.attributes)


def outcome_by_zarr(documents: dict[str, bytes]) -> Any:
    """Return what is understood if zarr-python reads the documents."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "read_usual", lambda *_: None)
        return outcome(documents)


def refuse_to_load(*_: object) -> None:
    """Take the place of zarr-python."""
    pytest.fail("zarr-python was used")


@EACH
@given(descriptions())
def test_documents_of_zarr_python_are_read_as_it_does(description: dict[str, Any]) -> None:
    """All that zarr-python writes is understood as if zarr-python had read it."""
    documents = made_by_zarr(description)

    assert outcome(documents) == outcome_by_zarr(documents)


@EACH
@given(descriptions())
def test_documents_are_those_of_zarr_python(description: dict[str, Any]) -> None:
    """The documents of new arrays are equal, byte by byte."""
    with silent():
        assert make_array_documents(**description) == made_by_zarr(description)


@EACH
@given(descriptions(USUAL))
def test_usual_arrays_do_not_need_zarr_python(description: dict[str, Any]) -> None:
    """Usual arrays are written and read here, except for NaNs that have no name."""
    fill = description["fill_value"]
    if fill is not None and np.isnan(fill):
        description["fill_value"] = np.nan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_made", refuse_to_load)
        patch.setattr(reading, "_load_with_zarr", refuse_to_load)
        outcome(make_array_documents(**description))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the keys that lead to each entry of a document."""
    if isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        inner = (((*path, key), _paths(each, (*path, key))) for key, each in entries)
        return [each for own, below in inner for each in (own, *below)]
    return []


@EACH
@given(descriptions(USUAL), st.data())
def test_changed_documents_are_read_as_by_zarr_python(
    description: dict[str, Any], data: st.DataObject
) -> None:
    """A document with an entry changed, added or removed has the same outcome both ways."""
    documents = made_by_zarr(description)
    name = V3 if V3 in documents else V2
    document = json.loads(documents[name])
    before = deepcopy(document)
    *keys, last = data.draw(st.sampled_from(_paths(document)))
    inner = document
    for key in keys:
        inner = inner[key]
    change = data.draw(st.sampled_from(["remove", "add", "replace"]))
    if change == "remove":
        del inner[last]
    elif change == "add" and isinstance(inner, dict):
        inner[data.draw(st.sampled_from(["level", "id", "configuration", "x"]))] = data.draw(JSON)
    else:
        words = st.sampled_from(["big", "little", "NaN", "0x00", "end", "start", "v2", "f4", "|u1"])
        inner[last] = data.draw(JSON | words | st.sampled_from([inner[last], [], {}, 2**70, 1.0]))
    documents = {**documents, name: json.dumps(document).encode()}
    attributes = json.loads(documents.get(V2_ATTRIBUTES, b"{}"))

    if document != before and read_usual(document, attributes) is not None:
        assert outcome(documents) == outcome_by_zarr(documents)


def test_start_without_zarr_python(tmp_path: Path) -> None:
    """The commands on one usual array do not import zarr-python."""
    source, target = tmp_path / "a.zarr", tmp_path / "b.zarr"
    zarr.create_array(source, shape=(6, 6), chunks=(2, 2), dtype="u2")[:] = 7
    script = (
        "import sys, dask_io\n"
        f"dask_io.info({str(source)!r})\n"
        f"dask_io.resplit({str(source)!r}, {str(target)!r}, chunks=(3, 3))\n"
        "sys.exit('zarr' in sys.modules)"
    )

    subprocess.run([sys.executable, "-c", script], check=True)

    assert np.array_equal(zarr.open_array(target, mode="r")[:], np.full((6, 6), 7))
