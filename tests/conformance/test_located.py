"""A format whose files say where they lie: it keeps the laws, and its space goes along."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.formats import make_target, open_source
from dask_io.formats.reopening import remake_target
from dask_io.geometry import Grid, Layout
from dask_io.storage.medium import Durability
from dask_io.stores.block_format import Format, Header
from dask_io.stores.dtypes import dtype_from_json, dtype_to_json
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Source, Target
    from dask_io.stores.block_format import Peek

AXES = (SpaceAxis("y", "mm", AxisType.SPACE), SpaceAxis("x", "mm", AxisType.SPACE))
# The array lies obliquely in the world.
AFFINE = Affine(((0.5, 0.1), (0.0, 2.0)), (10.0, -3.0), ("right", "anterior"))
ARRAY = np.arange(60, dtype="<i2").reshape(10, 6)
LENGTH = 2048


def parse_header(peek: Peek) -> Header:
    """Read JSON, padded to a fixed length."""
    content = peek(LENGTH)
    if len(content) < LENGTH:
        raise ValueError("is truncated: it ends within its header")
    try:
        found = json.loads(content)
        dtype, layout = dtype_from_json(found["dtype"]), Layout(tuple(found["order"]))
        space = None if found["space"] is None else Space.from_json(found["space"])
        shape = tuple(map(int, found["shape"]))
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError("does not begin with JSON") from error
    return Header(shape, dtype, layout, LENGTH, space, found["metadata"])


def make_header(block: Header) -> bytes:
    """Write JSON."""
    said = {
        "shape": block.shape,
        "dtype": dtype_to_json(block.dtype),
        "order": block.layout.axes,
        "space": None if block.space is None else block.space.to_json(),
        "metadata": dict(block.metadata),
    }
    return json.dumps(said).encode().ljust(LENGTH)


FORMAT = Format(
    "located",
    (".loc",),
    LENGTH,
    parse_header,
    make_header,
    has_space=True,
    keeps=frozenset({"attributes"}),
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a package that adds the format."""
    module = ModuleType("located_of_another_package")
    module.FORMAT = FORMAT  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entries = {"located": f"{module.__name__}:FORMAT"}
    monkeypatch.setattr("dask_io.formats.registry._others", lambda: entries)


class TestLocated(StoreConformance):
    """A directory of blocks of which each says where it lies."""

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make a directory of blocks."""
        n_axes = len(case.grid.axes)
        space = Space((SpaceAxis(),) * n_axes, Affine.scaled((0.5,) * n_axes, (1.0,) * n_axes))
        kind: Any = {"grid": case.grid, "dtype": case.dtype, "layout": case.layout}
        return make_target(
            folder / "blocks",
            format="located",
            overwrite=overwrite,
            metadata={"space": space},
            **kind,
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - it has a manifest
        """Open it."""
        return open_source(folder / "blocks")


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """Save a file."""
    said = Header(
        (10, 6),
        ARRAY.dtype,
        Layout.c(2),
        space=Space(AXES, AFFINE),
        metadata={"attributes": {"subject": "sub-01"}},
    )
    path = tmp_path / "scan.loc"
    path.write_bytes(make_header(said) + ARRAY.tobytes())
    return path


def header_of(path: Path) -> Header:
    """Read what a file says."""
    content = path.read_bytes()
    return parse_header(lambda n_bytes: content[:n_bytes])


def origin_of(header: Header) -> tuple[float, ...]:
    """Return where a block begins."""
    assert header.space is not None
    assert header.space.affine is not None
    return header.space.affine.origin


def test_every_block_says_where_it_lies(scan: Path, tmp_path: Path) -> None:
    """Its origin is that of its first element; all else is that of the array."""
    dask_io.split(scan, tmp_path / "blocks", chunks=(4, 3))
    for path in (tmp_path / "blocks").glob("*.loc"):
        header = header_of(path)
        y, x = divmod(int(np.frombuffer(path.read_bytes()[LENGTH:], "<i2")[0]), 6)
        assert origin_of(header) == AFFINE.at((y, x))
        assert header.space is not None
        assert header.space.axes == AXES
        assert header.metadata == {"attributes": {"subject": "sub-01"}}


@pytest.mark.parametrize("is_described", [True, False])
def test_blocks_are_one_array_again(scan: Path, tmp_path: Path, *, is_described: bool) -> None:
    """Split, re-split and merged, the file is the same, whether a manifest says so or headers."""
    dask_io.split(scan, tmp_path / "blocks", chunks=(4, 3))
    if not is_described:
        (tmp_path / "blocks" / "dask-io.json").unlink()
    dask_io.resplit(tmp_path / "blocks", tmp_path / "others", chunks=(3, 5))
    dask_io.merge(tmp_path / "others", tmp_path / "whole.loc")

    before, after = header_of(scan), header_of(tmp_path / "whole.loc")
    assert (after.shape, after.metadata) == (before.shape, before.metadata)
    assert origin_of(after) == pytest.approx(origin_of(before), abs=1e-12)
    assert dask_io.verify(scan, tmp_path / "whole.loc").equal


def test_a_region_lies_where_it_was(scan: Path, tmp_path: Path) -> None:
    """Extracting shifts the origin, and so do its blocks."""
    dask_io.extract(scan, tmp_path / "part.loc", regions="2:9,1:6")
    dask_io.extract(scan, tmp_path / "parts", regions="2:9,1:6", chunks=(4, 3))

    assert origin_of(header_of(tmp_path / "part.loc")) == AFFINE.at((2, 1))
    found = sorted(origin_of(header_of(path)) for path in (tmp_path / "parts").glob("*.loc"))
    expected = [AFFINE.at((y, x)) for y in (2, 6) for x in (1, 4)]
    assert np.allclose(found, sorted(expected), rtol=0, atol=1e-12)


def test_other_blocks_keep_it_in_their_manifest(scan: Path, tmp_path: Path) -> None:
    """Files of npy have no place for it, but their directory has; one file loses it and says so."""
    dask_io.split(scan, tmp_path / "blocks", chunks=(4, 3), format="npy")
    dask_io.merge(tmp_path / "blocks", tmp_path / "whole.loc")
    assert origin_of(header_of(tmp_path / "whole.loc")) == AFFINE.origin
    assert dask_io.info(tmp_path / "blocks").metadata["dimension_names"] == ("y", "x")

    result = dask_io.merge(tmp_path / "blocks", tmp_path / "whole.npy")
    assert result.not_kept == ("dimension_names", "space")


def test_an_interrupted_run_writes_the_same_headers(scan: Path, tmp_path: Path) -> None:
    """What a target keeps is in its journal, so a resumed run knows it."""
    target = make_target(
        tmp_path / "blocks",
        format="located",
        grid=Grid.regular((10, 6), (4, 3)),
        dtype=ARRAY.dtype,
        layout=Layout.c(2),
        metadata=open_source(scan).metadata,
    )
    described = json.loads(json.dumps(target.describe()))
    again = remake_target(
        described, at=tmp_path / "blocks", durability=Durability.NONE, reserve=True
    )
    assert again.metadata == target.metadata == open_source(scan).metadata


def test_slices_have_their_own_axes_only(scan: Path, tmp_path: Path) -> None:
    """A file of a slice has the columns of the axes that it has."""
    folder = tmp_path / "slices"
    folder.mkdir()
    dask_io.split(scan, folder / "s_{0:slice}.loc", chunks=(1, 6))
    header = header_of(folder / "s_3.loc")
    assert header.shape == (6,)
    assert header.space == Space(
        AXES[1:], Affine(((0.1,), (2.0,)), AFFINE.at((3, 0)), AFFINE.coordinates)
    )
    (folder / "dask-io.json").unlink()
    found = dask_io.info(folder / "s_{0:slice}.loc").metadata["space"]
    # Without its step, a unit would be taken for that of a step of 1.
    assert found == Space((SpaceAxis(), replace(AXES[1], unit=None)))
