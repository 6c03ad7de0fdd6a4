"""Whatever is damaged of a target, a repair makes it what it was, byte by byte."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import dask_io
from tests.places import temporary_folder

TARGETS: list[tuple[str, dict[str, Any]]] = [
    ("out", {}),
    ("out.zarr", {"codec": "none"}),
    ("out.zarr", {"codec": "zstd:1"}),
    ("out.npystack", {}),
]
KINDS = st.sampled_from(["flip", "truncate", "remove", "lengthen"])
WHERE = st.integers(0, 10**6)
# An example here plans twice and touches dozens of files.
EXAMPLES = settings().max_examples // 6


def damage(path: Path, kind: str, where: int) -> None:
    """Damage a file somewhere."""
    if not path.exists() or not (size := path.stat().st_size):
        return
    if kind == "flip":
        content = bytearray(path.read_bytes())
        content[where % size] ^= 1 << where % 8
        path.write_bytes(content)
    elif kind == "truncate":
        os.truncate(path, where % size)
    elif kind == "lengthen":
        os.truncate(path, size + 1 + where % 9)
    else:
        path.unlink()


def files_of(place: Path) -> dict[Path, bytes]:
    """Return all files of a target, but for those of its journal."""
    paths = (path for path in place.rglob("*") if path.is_file() and ".dask-io" not in path.parts)
    return {path: path.read_bytes() for path in paths}


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(TARGETS),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.lists(st.tuples(WHERE, KINDS, WHERE), min_size=1, max_size=4),
)
def test_a_repair_restores_every_byte_that_counts(
    target: tuple[str, dict[str, Any]],
    shape: tuple[int, int],
    chunks: tuple[int, int],
    broken: list[tuple[int, str, int]],
) -> None:
    """Afterwards the target is what it was, but for bits of headers that say nothing."""
    array = np.arange(1, 1 + shape[0] * shape[1], dtype="<i4").reshape(shape)
    name, options = target
    with temporary_folder() as folder:
        place = folder / name
        np.save(folder / "whole.npy", array)
        cut = (chunks[0], -1) if name == "out.npystack" else chunks
        dask_io.split(folder / "whole.npy", place, chunks=cut, workers=1, **options)
        before = files_of(place)
        blocks = sorted(
            path for path in before if path.suffix not in {".json", ""} or "c" in path.parts
        )
        for number, kind, where in broken:
            damage(blocks[number % len(blocks)], kind, where)
        differing = {path for path in before if files_of(place).get(path) != before[path]}
        found = dask_io.repair(place, workers=1)
        assert found.n_damaged <= len(differing)
        assert dask_io.verify(place, workers=1)
        assert np.array_equal(dask_io.open(place)[:, :], array)
        still = {path for path, content in files_of(place).items() if content != before[path]}
        assert found.n_damaged + len(still) == len(differing)
        assert files_of(place).keys() == before.keys()
