"""Metadata of Zarr arrays that anyone may have written."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dask_io.errors import DaskIOError, DataError, StorageError, UsageError
from dask_io.formats import open_source
from dask_io.stores.json_documents import LONGEST
from tests.peak import stays_within

if TYPE_CHECKING:
    from pathlib import Path

V3: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [10, 6],
    "data_type": "int32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "attributes": {},
    "storage_transformers": [],
}
V2: dict[str, Any] = {
    "zarr_format": 2,
    "shape": [10, 6],
    "chunks": [4, 4],
    "dtype": "<i4",
    "fill_value": 0,
    "order": "C",
    "filters": None,
    "compressor": None,
    "dimension_separator": ".",
}
ENCODED = {"name": "bytes", "configuration": {"endian": "little"}}
SHARDING = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [2, 2],
        "codecs": [ENCODED],
        "index_codecs": [ENCODED, {"name": "crc32c"}],
        "index_location": "end",
    },
}


def changed(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a document with one entry changed."""
    result = deepcopy(document)
    *keys, last = path.split("/")
    inner = result
    for key in keys:
        inner = inner[key]
    inner[last] = value
    return result


def sharding(path: str, value: object) -> list[Any]:
    """Return codecs with one entry of the sharding changed."""
    return [
        {
            **SHARDING,
            "configuration": changed(SHARDING, f"configuration/{path}", value)["configuration"],
        }
    ]


def place(folder: Path, document: object) -> Path:
    """Write a document to where it belongs."""
    is_v2 = isinstance(document, dict) and document.get("zarr_format") == 2
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    (folder / (".zarray" if is_v2 else "zarr.json")).write_bytes(content)
    return folder


HOSTILE: list[tuple[object, str]] = [
    (b"", "is not JSON"),
    (b"[" * 100_000, "is not JSON"),
    (b"[1]", "is not a JSON object"),
    (b'{"zarr_format": true, "shape": [1]}', "does not name its version"),
    (b" " * (LONGEST + 1), "is longer than 16777216 bytes"),
    (changed(V3, "zarr_format", 4), "does not name its version"),
    (changed(V3, "shape", [10**30, 6]), "shape that are not all whole numbers"),
    (changed(V3, "shape", [-1, 6]), "shape that are not all whole numbers"),
    (changed(V3, "shape", [1.5, 6]), "shape that are not all whole numbers"),
    (changed(V3, "shape", [True, 6]), "shape that are not all whole numbers"),
    (changed(V3, "shape", None), "does not specify its shape"),
    (changed(V3, "shape", []), "has 0 axes; 1 to 64 are supported"),
    (changed(V3, "shape", [1] * 100_000), "has 100000 axes; 1 to 64 are supported"),
    (changed(V3, "chunk_grid", None), "does not specify its chunks"),
    (changed(V3, "chunk_grid/configuration/chunk_shape", [0, 4]), "from 1 to 2"),
    (changed(V3, "chunk_grid/configuration/chunk_shape", [-4, 4]), "from 1 to 2"),
    (changed(V3, "chunk_grid/configuration/chunk_shape", [4]), "has chunks of 1 axes"),
    (changed(V3, "chunk_grid/configuration/chunk_shape", [2**62, 2**62]), "no machine can hold"),
    (changed(V3, "chunk_grid/name", "rectilinear"), "cannot be understood"),
    (changed(V3, "chunk_key_encoding", {"name": "../../c"}), "cannot be understood"),
    (
        changed(V3, "chunk_key_encoding/configuration/separator", "/../"),
        "cannot be understood",
    ),
    (changed(V3, "data_type", "object"), "cannot be understood"),
    (changed(V3, "data_type", "string"), "objects|cannot be understood"),
    (changed(V3, "data_type", "\x1b[2J"), r"cannot be understood.*\\x1b"),
    (changed(V3, "fill_value", {}), "cannot be understood"),
    (changed(V3, "codecs", []), "cannot be understood"),
    (changed(V3, "codecs", [ENCODED, {"name": "no-such-codec"}]), "cannot be understood"),
    (
        changed(V3, "codecs", [ENCODED, {"name": "numcodecs.pickle", "configuration": {}}]),
        "cannot be understood|not supported",
    ),
    (changed(V3, "codecs", [SHARDING, {"name": "crc32c"}]), "after its sharding"),
    (
        changed(
            V3, "codecs", [{"name": "transpose", "configuration": {"order": [1, 0]}}, SHARDING]
        ),
        "before its sharding",
    ),
    (changed(V3, "codecs", sharding("codecs", [SHARDING])), "sharding|understood|not supported"),
    (changed(V3, "codecs", sharding("chunk_shape", [0, 2])), "from 1 to 2"),
    (changed(V3, "codecs", sharding("chunk_shape", [3, 2])), "cannot be understood"),
    (
        changed(
            V3,
            "codecs",
            sharding("index_codecs", [ENCODED, {"name": "gzip", "configuration": {"level": 1}}]),
        ),
        "index is compressed|cannot be understood",
    ),
    (changed(V3, "storage_transformers", [{"name": "x"}]), "cannot be understood"),
    (changed(V2, "shape", [10**30, 6]), "shape that are not all whole numbers"),
    (changed(V2, "chunks", [0, 4]), "from 1 to 2"),
    (changed(V2, "chunks", None), "does not specify its chunks"),
    (changed(V2, "dtype", "|O"), "objects|cannot be understood"),
    (changed(V2, "dtype", "evil"), "cannot be understood"),
    (changed(V2, "order", "Z"), "cannot be understood"),
    (changed(V2, "dimension_separator", "/../"), "cannot be understood"),
    (changed(V2, "compressor", {"id": "no-such-codec"}), "cannot be understood"),
    (changed(V2, "filters", 0), "cannot be understood"),
    (changed(V2, "filters", [{"id": "pickle", "protocol": 5}]), "cannot be understood"),
    (
        changed(V2, "filters", [{"id": "astype", "encode_dtype": "|u1", "decode_dtype": "<U9999"}]),
        "is not numeric",
    ),
]


@pytest.mark.parametrize(("document", "says"), HOSTILE, ids=[str(n) for n in range(len(HOSTILE))])
def test_hostile_metadata_is_one_line(document: object, says: str, tmp_path: Path) -> None:
    """Each is refused with the name of the file, in little memory and without control characters.

    The largest documents take as much as reading them.
    """
    # What zarr-python imports and begins at its first use is not what is measured.
    zarr.open_group(zarr.storage.MemoryStore(), mode="w")
    path = place(tmp_path, document)

    def try_to_open() -> None:
        with pytest.raises(DataError, match=says) as caught:
            open_source(path)
        assert str(caught.value).isprintable()
        assert str(tmp_path) in str(caught.value)

    assert stays_within(4 * LONGEST, try_to_open)


@pytest.mark.parametrize("document", [V2, V3, changed(V3, "codecs", [SHARDING])])
def test_the_documents_changed_above_are_good(document: object, tmp_path: Path) -> None:
    """What was refused was so for the change."""
    source = open_source(place(tmp_path, document))
    assert source.grid.shape == (10, 6)


@pytest.mark.parametrize("document", [V2, V3])
def test_absurd_sizes_that_are_numbers_are_exact(document: dict[str, Any], tmp_path: Path) -> None:
    """Nothing overflows, and nothing is listed chunk by chunk."""
    path = place(tmp_path, changed(document, "shape", [10**18, 10**18]))
    source = open_source(path, strict=True)
    assert source.grid.size == 10**36
    assert source.n_bytes_on_disk < 1000
    with pytest.raises(DataError, match=f"{(10**18 // 4) ** 2} of {(10**18 // 4) ** 2} chunks"):
        source.check()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def _paths(value: object, above: str = "") -> list[str]:
    if not isinstance(value, dict):
        return []
    found = []
    for key, inner in value.items():
        found += [above + key, *_paths(inner, f"{above}{key}/")]
    return found


def _fuzzed(document: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(changed, st.just(document), st.sampled_from(_paths(document)), _JSON)


@given(document=st.one_of(*map(_fuzzed, [V2, V3, changed(V3, "codecs", [SHARDING])])) | _JSON)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fuzzed_metadata_opens_or_is_refused(
    document: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever an entry is: the array opens and can be described, or one line says why not."""
    folder = tmp_path_factory.mktemp("fuzz")
    try:
        source = open_source(place(folder, document))
    except DaskIOError as error:
        said = str(error)
    else:
        assert source.grid.n_blocks >= 0
        assert source.codec_bytes >= 0
        said = f"Zarr {source.metadata['zarr_format']}"
    assert said.isprintable()


def test_groups_name_their_arrays(tmp_path: Path) -> None:
    """One is to be chosen, and what is not there is said to be absent."""
    group = zarr.create_group(tmp_path / "g.zarr")
    for name in ("b", "a"):
        group.create_array(name, shape=(4,), dtype="i4")
    with pytest.raises(
        UsageError, match=r"is a group; give an array in it, such as .*::/a, .*::/b"
    ):
        open_source(tmp_path / "g.zarr")
    assert open_source(f"{tmp_path}/g.zarr::/a").grid.shape == (4,)
    assert open_source(f"{tmp_path}/g.zarr/a").place == open_source(f"{tmp_path}/g.zarr::a").place
    with pytest.raises(StorageError, match=r"no such directory; give an array of .*, such as .*/a"):
        open_source(f"{tmp_path}/g.zarr::/c")
    with pytest.raises(StorageError, match="no such directory; check the path"):
        open_source(f"{tmp_path}/none.zarr::/c")
    zarr.create_group(tmp_path / "empty.zarr")
    with pytest.raises(StorageError, match="no such directory; check the path"):
        open_source(f"{tmp_path}/empty.zarr::/c")
    with pytest.raises(UsageError, match="a group without arrays"):
        open_source(tmp_path / "empty.zarr")


@pytest.mark.parametrize("inside", ["..", "a/../b", "a\\b", "\x1b[2J"])
def test_paths_inside_stay_inside(inside: str, tmp_path: Path) -> None:
    """No path leads out of the container, whatever it is written like."""
    zarr.create_group(tmp_path / "g.zarr")
    with pytest.raises(UsageError, match="does not name an array"):
        open_source(f"{tmp_path}/g.zarr::/{inside}")


def test_links_do_not_lead_out_of_a_container(tmp_path: Path) -> None:
    """Neither to an array elsewhere nor to the metadata of one."""
    zarr.create_array(tmp_path / "other", shape=(4,), dtype="i4")
    zarr.create_group(tmp_path / "g.zarr")
    (tmp_path / "g.zarr" / "a").symlink_to(tmp_path / "other")
    with pytest.raises(DataError, match="leads out of"):
        open_source(f"{tmp_path}/g.zarr::/a")
    (tmp_path / "b.zarr").mkdir()
    (tmp_path / "b.zarr" / "zarr.json").symlink_to(tmp_path / "other" / "zarr.json")
    with pytest.raises(DataError, match=r"zarr\.json: leads out of"):
        open_source(tmp_path / "b.zarr")


def test_what_is_no_array_is_said_to_be_none(tmp_path: Path) -> None:
    """By its name it should be one."""
    (tmp_path / "x.zarr").mkdir()
    with pytest.raises(DataError, match="it contains no Zarr array"):
        open_source(tmp_path / "x.zarr")


def test_both_versions_in_one_place_are_the_newer(tmp_path: Path) -> None:
    """As zarr-python has it, which may leave the older metadata behind."""
    place(tmp_path, V2)
    place(tmp_path, changed(V3, "shape", [20, 6]))
    assert open_source(tmp_path).grid.shape == (20, 6)


def test_metadata_of_a_store(tmp_path: Path) -> None:
    """All that a target may keep is there, the same for both versions."""
    described = []
    for version, key in ((2, {"name": "v2", "separator": "/"}), (3, {"name": "default"})):
        path, names = tmp_path / str(version), ("y", "x")
        how: dict[str, Any] = {"dimension_names": names} if version == 3 else {}
        zarr.create_array(
            path,
            shape=(10, 6),
            chunks=(4, 4),
            dtype="f4",
            fill_value=-1.0,
            attributes={"unit": "m"} | ({} if how else {"_ARRAY_DIMENSIONS": ["y", "x"]}),
            chunk_key_encoding=key,  # type: ignore[arg-type]
            zarr_format=version,  # type: ignore[arg-type]
            **how,
        )
        described.append(open_source(path).metadata)
    old, new = described
    assert (old["zarr_format"], new["zarr_format"]) == (2, 3)
    assert old["fill_value"] == new["fill_value"] == -1.0
    assert old["dimension_names"] == new["dimension_names"] == ("y", "x")
    assert old["attributes"]["unit"] == new["attributes"]["unit"] == "m"
    assert [codec["id"] for codec in old["codecs"]] == ["zstd"] == [c["id"] for c in new["codecs"]]
    assert old["chunk_key_encoding"] == {"prefix": "", "separator": "/"}
    assert new["chunk_key_encoding"] == {"prefix": "c", "separator": "/"}
    assert old["shards"] is new["shards"] is None
